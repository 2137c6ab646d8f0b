/* The lexical parts of JSON. Not the fast path: json_scan.h decodes most bytes of a text. */
#include "agent/base/json_text.h"
#include "agent/base/utf8.h"

static const char *digits(const char *p, const char *end)
{
	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

const char *json_number(const char *p, const char *end, bool *real)
{
	const char *q = p, *r;

	*real = false;
	if (q < end && *q == '-')
		q++;
	r = digits(q, end);
	if (r == q || (*q == '0' && r - q > 1))
		return NULL;
	if (r < end && *r == '.') {
		*real = true;
		q = r + 1;
		if ((r = digits(q, end)) == q)
			return NULL;
	}
	if (r < end && (*r | 0x20) == 'e') {
		*real = true;
		q = r + 1;
		q += q < end && (*q == '+' || *q == '-');
		if ((r = digits(q, end)) == q)
			return NULL;
	}
	return r;
}

/* Return the code unit of "\uXXXX" at <p>, or -1. */
static int32_t code_unit(const char *p, const char *end)
{
	int32_t v = 0;
	int i, c;

	if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
		return -1;
	for (i = 2; i < 6; i++) {
		c = p[i] | 0x20;
		if (p[i] >= '0' && p[i] <= '9')
			v = v << 4 | (p[i] - '0');
		else if (c >= 'a' && c <= 'f')
			v = v << 4 | (c - 'a' + 10);
		else
			return -1;
	}
	return v;
}

static bool is_high(int32_t v)
{
	return v >= 0xd800 && v < 0xdc00;
}

static bool is_low(int32_t v)
{
	return v >= 0xdc00 && v < 0xe000;
}

size_t json_escape(const char *p, const char *end, bool lossy, char *out, size_t *n_out)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = end - p >= 2 && p[1] != '\0' ? strchr(from, p[1]) : NULL;
	int32_t v, low;

	if (at != NULL) {
		out[0] = to[at - from];
		*n_out = 1;
		return 2;
	}
	if ((v = code_unit(p, end)) < 0)
		return 0;
	if (is_high(v) && is_low(low = code_unit(p + 6, end))) {
		*n_out = utf8_put(out, 0x10000u + ((uint32_t)(v - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
		return 12;
	}
	if (is_high(v) || is_low(v)) {
		if (!lossy)
			return 0;
		v = (int32_t)UTF8_REPLACEMENT;
	}
	*n_out = utf8_put(out, (uint32_t)v);
	return 6;
}

/* UTF-8, and the character properties of Python's strings. Text is valid UTF-8 here, because
 * templates are checked at compile time and values when they are read. The functions stay within
 * bounds for any bytes all the same, and no character takes more than UTF8_MAX. Tables are
 * searched by bisection and for characters beyond ASCII only. */
#include "agent/jinja/run_in.h"
#include "agent/jinja/unicode_table_in.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

bool jx_is_space_char(uint32_t c)
{
	if (c < 0x80)
		return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
	return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	       c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

unsigned jx_space_at(const char *p, const char *end)
{
	uint32_t c;
	unsigned n;

	if ((uint8_t)*p < 0x80)
		return jx_is_space_char((uint8_t)*p);
	n = utf8_get(p, (size_t)(end - p), &c);
	return jx_is_space_char(c) ? n : 0;
}

unsigned jx_space_before(const char *begin, const char *p)
{
	return jx_space_at(jx_char_before(begin, p), p);
}

const char *jx_chars_on(const char *p, const char *end, size_t n)
{
	const char *from;

	for (; n > 0 && p < end; n--)
		for (from = p++; p < end && p - from < UTF8_MAX && utf8_inside((uint8_t)*p); )
			p++;
	return p;
}

const char *jx_char_before(const char *begin, const char *p)
{
	return begin + utf8_before(begin, (size_t)(p - begin));
}

static bool in_ranges(uint32_t c, const struct char_range *v, size_t n)
{
	size_t lo = 0, hi = n, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (c > v[mid].last)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && c >= v[lo].first;
}

bool jx_char_prints(uint32_t c)
{
	return !in_ranges(c, not_printable, COUNT(not_printable));
}

bool jx_char_cased(uint32_t c)
{
	return in_ranges(c, cased, COUNT(cased));
}

static const struct {
	const struct case_run *runs;
	const struct case_many *many;
	size_t n_runs, n_many;
} mappings[] = {
	[TO_LOWER] = { to_lower, to_lower_many, COUNT(to_lower), COUNT(to_lower_many) },
	[TO_UPPER] = { to_upper, to_upper_many, COUNT(to_upper), COUNT(to_upper_many) },
	[TO_TITLE] = { to_title, to_title_many, COUNT(to_title), COUNT(to_title_many) },
};

static unsigned case_many(const struct case_many *m, uint32_t out[3])
{
	memcpy(out, m->to, sizeof(m->to));
	return m->to[2] != 0 ? 3 : 2;
}

unsigned jx_char_case(uint32_t c, enum letter_case to, uint32_t out[3])
{
	const struct case_run *v = mappings[to].runs;
	size_t lo = 0, hi = mappings[to].n_runs, mid, i;

	out[0] = c;
	if (c < 0x80) {
		if (to == TO_LOWER ? c >= 'A' && c <= 'Z' : c >= 'a' && c <= 'z')
			out[0] = c ^ 0x20;
		return 1;
	}
	for (i = 0; i < mappings[to].n_many; i++)
		if (mappings[to].many[i].from == c)
			return case_many(&mappings[to].many[i], out);
	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (c > v[mid].last)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < mappings[to].n_runs && c >= v[lo].first && (c - v[lo].first) % v[lo].step == 0)
		out[0] = (uint32_t)((int32_t)c + v[lo].distance);
	return 1;
}

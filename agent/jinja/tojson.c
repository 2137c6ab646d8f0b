/* json.dumps() as Hugging Face's tojson calls it: ensure_ascii=False by default, with the given
 * separators and indent. Keys that are not strings are converted as in Python; values that JSON
 * lacks raise the same error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/base/simd16.h"
#include "agent/jinja/run_in.h"

enum { LOOK_BYTES = 4 };	/* examining a byte of a string costs as much as copying four */

struct writer {
	struct run *r;
	struct text t;
	const struct json_style *style;
};

static inline bool add(struct writer *w, const char *p, size_t n)
{
	if (n > w->t.room - w->t.n)
		return jx_text_add(w->r, &w->t, p, n);
	if (n > 0)
		memcpy(w->t.p + w->t.n, p, n);
	w->t.n += n;
	return true;
}

/* ---- strings ----------------------------------------------------------------------------- */

static const char *short_escape(uint32_t c)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '\n':
		return "\\n";
	case '\r':
		return "\\r";
	case '\t':
		return "\\t";
	case '\b':
		return "\\b";
	case '\f':
		return "\\f";
	}
	return NULL;
}

/* Write \uXXXX to <out>. Returns <out>. */
static const char *put_unit(char out[6], uint32_t unit)
{
	static const char hex[] = "0123456789abcdef";

	out[0] = '\\';
	out[1] = 'u';
	for (unsigned i = 0; i < 4; i++)
		out[2 + i] = hex[unit >> (12 - 4 * i) & 15];
	return out;
}

static bool add_escape(struct writer *w, uint32_t c)
{
	const char *s = short_escape(c);
	char out[12];

	if (!step(w->r))
		return false;
	if (s != NULL)
		return add(w, s, 2);
	if (c < 0x10000)
		return add(w, put_unit(out, c), 6);
	put_unit(out, 0xd800 + ((c - 0x10000) >> 10));
	put_unit(out + 6, 0xdc00 + ((c - 0x10000) & 0x3ff));
	return add(w, out, 12);
}

static inline bool is_literal(uint8_t c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

/* Return the first byte from <p> on that is_literal() is not true of, or <end>. */
static const char *literal_end(const char *p, const char *end)
{
#if SIMD16
	for (; end - p >= 16; p += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i low = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
		__m128i sign = _mm_or_si128(
		    _mm_cmpeq_epi8(v, _mm_set1_epi8('"')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\\')));
		int hit = _mm_movemask_epi8(_mm_or_si128(low, sign));

		if (hit != 0)
			return p + __builtin_ctz((unsigned)hit);
	}
#endif
	while (p < end && is_literal((uint8_t)*p))
		p++;
	return p;
}

/* Write a string. Runs of literal characters are copied at once. */
static bool add_string(struct writer *w, struct jval s)
{
	const char *p = s.s, *end = s.s + s.n, *from = p;
	uint32_t c;

	if (!add(w, "\"", 1) || !jx_step_bytes(w->r, (size_t)s.n * LOOK_BYTES))
		return false;
	for (;;) {
		if (!w->style->ascii)
			p = literal_end(p, end);
		while (w->style->ascii && p < end && is_literal((uint8_t)*p) && (uint8_t)*p < 0x7f)
			p++;
		if (p == end)
			break;
		if (!add(w, from, (size_t)(p - from)))
			return false;
		p += utf8_get(p, (size_t)(end - p), &c);
		from = p;
		if (!add_escape(w, c))
			return false;
	}
	return add(w, from, (size_t)(end - from)) && add(w, "\"", 1);
}

/* ---- layout ------------------------------------------------------------------------------ */

static bool indented(const struct writer *w)
{
	return w->style->indent >= 0 || w->style->indent_text.kind == JV_STR;
}

static bool add_spaces(struct writer *w, size_t n)
{
	static const char spaces[] = "                                                                ";
	size_t k;

	if (!jx_step_bytes(w->r, n * 2 * LOOK_BYTES))	/* growing copies the text to new pages */
		return false;
	for (; n > 0; n -= k) {
		k = n < sizeof(spaces) - 1 ? n : sizeof(spaces) - 1;
		if (!add(w, spaces, k))
			return false;
	}
	return true;
}

static bool new_line(struct writer *w, unsigned level)
{
	size_t n = w->style->indent >= 0 ? (size_t)w->style->indent : 0;

	if (!indented(w))
		return true;
	if (!add(w, "\n", 1))
		return false;
	if (w->style->indent_text.kind != JV_STR)
		return add_spaces(w, n * level);
	if (!jx_step_bytes(w->r, (size_t)level * (STEP_BYTES + w->style->indent_text.n)))
		return false;
	for (; level > 0; level--)
		if (!add(w, w->style->indent_text.s, w->style->indent_text.n))
			return false;
	return true;
}

static bool add_value(struct writer *w, struct jval v, unsigned level);

static bool add_list(struct writer *w, struct jval v, unsigned level)
{
	uint32_t i;

	if (v.n == 0)
		return add(w, "[]", 2);
	if (!add(w, "[", 1))
		return false;
	for (i = 0; i < v.n; i++)
		if ((i > 0 && !add(w, w->style->comma.s, w->style->comma.n)) || !new_line(w, level + 1) ||
		    !add_value(w, v.v[i], level + 1))
			return false;
	return new_line(w, level) && add(w, "]", 1);
}

static bool add_number(struct writer *w, struct jval v)
{
	char out[32];
	size_t n;

	if (v.kind == JV_BIG)
		return add(w, v.s, v.n);
	if (v.kind == JV_FLOAT && (isnan(v.f) || isinf(v.f)))
		return isnan(v.f) ? add(w, "NaN", 3) : v.f < 0 ? add(w, "-Infinity", 9) : add(w, "Infinity", 8);
	n = v.kind == JV_FLOAT ? jx_float_repr(v.f, out) : (size_t)sprintf(out, "%lld", (long long)v.i);
	return add(w, out, n);
}

static bool add_key(struct writer *w, struct jval k)
{
	switch (k.kind) {
	case JV_STR:
		return add_string(w, k);
	case JV_INT: case JV_BIG: case JV_FLOAT:
		return add(w, "\"", 1) && add_number(w, k) && add(w, "\"", 1);
	case JV_NONE: case JV_BOOL:
		return add(w, "\"", 1) && add_value(w, k, 0) && add(w, "\"", 1);
	}
	return jx_raise(w->r, "TypeError: keys must be str, int, float, bool or None, not %s",
			jval_type(k.kind));
}

static int by_key(const void *a, const void *b)
{
	const struct jval *x = &((const struct jdict_entry *)a)->key,
			  *y = &((const struct jdict_entry *)b)->key;
	int c = memcmp(x->s, y->s, x->n < y->n ? x->n : y->n);

	return c != 0 ? c : (x->n > y->n) - (x->n < y->n);
}

static bool sorted(struct run *r, const struct jdict *d, const struct jdict_entry **out)
{
	struct jdict_entry *v = jx_take(r, d->n * sizeof(*v));
	uint32_t i;

	if (v == NULL)
		return false;
	for (i = 0; i < d->n; i++) {
		v[i] = d->entry[i];
		if (v[i].key.kind != JV_STR)
			return jx_unknown(r, "the order of keys that are not all strings");
	}
	qsort(v, d->n, sizeof(*v), by_key);
	*out = v;
	return jx_step_bytes(r, d->n * sizeof(*v));
}

static bool add_dict(struct writer *w, const struct jdict *d, unsigned level)
{
	const struct jdict_entry *e = d->entry;
	uint32_t i;

	if (d->n == 0)
		return add(w, "{}", 2);
	if (!add(w, "{", 1) || (w->style->sort && !sorted(w->r, d, &e)))
		return false;
	for (i = 0; i < d->n; i++)
		if ((i > 0 && !add(w, w->style->comma.s, w->style->comma.n)) ||
		    !new_line(w, level + 1) || !add_key(w, e[i].key) ||
		    !add(w, w->style->colon.s, w->style->colon.n) ||
		    !add_value(w, e[i].value, level + 1))
			return false;
	return new_line(w, level) && add(w, "}", 1);
}

static bool value_of(struct writer *w, struct jval v, unsigned level)
{
	switch (v.kind) {
	case JV_NONE:
		return add(w, "null", 4);
	case JV_BOOL:
		return v.i ? add(w, "true", 4) : add(w, "false", 5);
	case JV_INT: case JV_BIG: case JV_FLOAT:
		return add_number(w, v);
	case JV_STR:
		return add_string(w, v);
	case JV_LIST: case JV_TUPLE:
		return add_list(w, v, level);
	case JV_DICT:
		return add_dict(w, v.d, level);
	}
	return jx_raise(w->r, "TypeError: Object of type %s is not JSON serializable", jval_type(v.kind));
}

static bool add_value(struct writer *w, struct jval v, unsigned level)
{
	bool ok;

	if (!jx_deeper(w->r) || !step(w->r))
		return false;
	ok = value_of(w, v, level);
	w->r->depth--;
	return ok;
}

bool jx_to_json(struct run *r, struct jval v, const struct json_style *style, struct jval *out)
{
	struct writer w = { .r = r, .style = style };

	if (!add_value(&w, v, 0))
		return false;
	*out = jx_text_value(&w.t);
	return true;
}

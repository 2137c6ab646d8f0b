/* str() and repr(): print values other than strings as Python does.
 *
 * A float is printed with the fewest digits that parse back to it: decimals of 1, 2, ... 17
 * digits are tried in turn. At a power of two the nearest decimal may be on the side where
 * floats are denser, while the next one up parses back; that one is tried too. Floats are rare
 * in templates; one costs up to 5 us. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/jinja/run_in.h"


/* ---- floats ------------------------------------------------------------------------------ */

/* Split d.ddd * 10^exp10 into <digits> (NUL-terminated) and exponent. */
static void split_digits(const char *text, char digits[32], int *exp10)
{
	const char *e = strchr(text, 'e');
	size_t n = 0;

	for (; text < e; text++)
		if (*text >= '0' && *text <= '9')
			digits[n++] = *text;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = '\0';
	*exp10 = atoi(e + 1);
}

/* Increment the last digit of <text> (d.dddde+xx). Returns false if it is 9. */
static bool next_up(char text[40])
{
	char *e = strchr(text, 'e');

	if (e == NULL || e[-1] == '9' || e[-1] == '.')
		return false;
	e[-1]++;
	return true;
}

static void shortest(double f, char digits[32], int *exp10)
{
	char text[40];
	double m = frexp(f, &(int){ 0 });
	int p;

	for (p = 0; p <= 16; p++) {
		snprintf(text, sizeof(text), "%.*e", p, f);
		if (strtod(text, NULL) == f || (m == 0.5 && next_up(text) && strtod(text, NULL) == f))
			break;
	}
	split_digits(text, digits, exp10);
}

static char *put(char *o, const char *p, size_t n)
{
	memcpy(o, p, n);
	return o + n;
}

/* The longest is -0.00012345678901234567, or with an exponent -1.2345678901234567e-308: 24
 * bytes. */
size_t jx_float_repr(double f, char out[32])
{
	char digits[32], *o = out;
	int e, i;
	size_t n;

	if (isnan(f) || isinf(f))
		return (size_t)snprintf(out, 32, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
	if (signbit(f))
		*o++ = '-';
	if (f == 0)
		return (size_t)(put(o, "0.0", 3) - out);
	shortest(fabs(f), digits, &e);
	n = strlen(digits);
	if (e < -4 || e >= 16) {
		*o++ = digits[0];
		if (n > 1)
			*o++ = '.';
		o = put(o, digits + 1, n - 1);
		o += snprintf(o, 6, "e%c%02d", e < 0 ? '-' : '+', abs(e));
	} else if (e < 0) {
		o = put(o, "0.", 2);
		for (i = -1; i > e; i--)
			*o++ = '0';
		o = put(o, digits, n);
	} else {
		for (i = 0; i <= e; i++)
			*o++ = i < (int)n ? digits[i] : '0';
		*o++ = '.';
		o = (int)n > e + 1 ? put(o, digits + e + 1, n - (size_t)e - 1) : put(o, "0", 1);
	}
	return (size_t)(o - out);
}

enum { ESCAPE_STEPS = 3 };	/* steps of a character printed as a number */

/* ---- strings ----------------------------------------------------------------------------- */

static bool add_escaped(struct run *r, struct text *t, uint32_t c, const char *p, unsigned n)
{
	char out[16];
	int len;

	switch (c) {
	case '\n':
		return jx_text_add(r, t, "\\n", 2);
	case '\r':
		return jx_text_add(r, t, "\\r", 2);
	case '\t':
		return jx_text_add(r, t, "\\t", 2);
	}
	if (c >= 0x80 ? jx_char_prints(c) : c >= 0x20 && c != 0x7f)
		return jx_text_add(r, t, p, n);
	r->steps += ESCAPE_STEPS;
	len = sprintf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
	return jx_text_add(r, t, out, (size_t)len);
}

/* Print a string in single quotes, or in double quotes if it has single and no double ones. */
static bool add_string_repr(struct run *r, struct text *t, struct jval s)
{
	const char *p = s.s, *end = s.s + s.n;
	char quote = memchr(p, '\'', s.n) != NULL && memchr(p, '"', s.n) == NULL ? '"' : '\'';
	uint32_t c;
	unsigned n;

	if (!jx_text_char(r, t, quote) || !jx_step_chars(r, s.n))
		return false;
	for (; p < end; p += n) {
		n = utf8_get(p, (size_t)(end - p), &c);
		if ((c == (uint8_t)quote || c == '\\') && !jx_text_char(r, t, '\\'))
			return false;
		if (!add_escaped(r, t, c, p, n))
			return false;
	}
	return jx_text_char(r, t, quote);
}

/* ---- the others -------------------------------------------------------------------------- */

static bool add_items(struct run *r, struct text *t, struct jval v)
{
	uint32_t i;

	if (!jx_text_char(r, t, v.kind == JV_LIST ? '[' : '('))
		return false;
	for (i = 0; i < v.n; i++)
		if ((i > 0 && !jx_text_add(r, t, ", ", 2)) || !step(r) || !jx_add_repr(r, t, v.v[i]))
			return false;
	if (v.kind == JV_TUPLE && v.n == 1 && !jx_text_char(r, t, ','))
		return false;
	return jx_text_char(r, t, v.kind == JV_LIST ? ']' : ')');
}

static bool add_pairs(struct run *r, struct text *t, const struct jdict *d)
{
	uint32_t i;

	if (!jx_text_char(r, t, '{'))
		return false;
	for (i = 0; i < d->n; i++)
		if ((i > 0 && !jx_text_add(r, t, ", ", 2)) || !step(r) || !jx_add_repr(r, t, d->entry[i].key) ||
		    !jx_text_add(r, t, ": ", 2) || !jx_add_repr(r, t, d->entry[i].value))
			return false;
	return jx_text_char(r, t, '}');
}

static bool add_range(struct run *r, struct text *t, const struct jrange *g)
{
	char out[80];
	int n;

	n = snprintf(out, sizeof(out),
		     g->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
		     (long long)g->start, (long long)g->stop, (long long)g->step);
	return jx_text_add(r, t, out, (size_t)n);
}

static bool add_text(struct run *r, struct text *t, const char *s)
{
	return jx_text_add(r, t, s, strlen(s));
}

/* Print a view as dict_items([...]). */
static bool add_view(struct run *r, struct text *t, struct jval v)
{
	struct jval l;

	if (!jx_to_list(r, v, &l) || !add_text(r, t,
					       v.aux == 'i' ? "dict_items(" :
					       v.aux == 'k' ? "dict_keys(" :
							      "dict_values("))
		return false;
	return jx_add_repr(r, t, l) && jx_text_char(r, t, ')');
}

static bool add_number(struct run *r, struct text *t, struct jval v)
{
	char out[32];
	size_t n;

	if (v.kind == JV_BIG)
		return jx_text_add(r, t, v.s, v.n);
	n = v.kind == JV_FLOAT ? jx_float_repr(v.f, out) : (size_t)sprintf(out, "%lld", (long long)v.i);
	return jx_text_add(r, t, out, n);
}

static bool repr_of(struct run *r, struct text *t, struct jval v)
{
	switch (v.kind) {
	case JV_NONE:
		return add_text(r, t, "None");
	case JV_BOOL:
		return add_text(r, t, v.i ? "True" : "False");
	case JV_INT: case JV_BIG: case JV_FLOAT:
		return add_number(r, t, v);
	case JV_STR:
		if (v.flags & JV_MARKUP)
			return add_text(r, t, "Markup(") && add_string_repr(r, t, v) && jx_text_char(r, t, ')');
		return add_string_repr(r, t, v);
	case JV_LIST: case JV_TUPLE:
		return add_items(r, t, v);
	case JV_DICT:
		return add_pairs(r, t, v.d);
	case JV_NS:
		jx_whole_read(r);
		return add_text(r, t, "<Namespace ") && add_pairs(r, t, v.d) && jx_text_char(r, t, '>');
	case JV_RANGE:
		return add_range(r, t, v.p);
	case JV_VIEW:
		return add_view(r, t, v);
	case JV_MISSING: case JV_UNDEF:
		return add_text(r, t, "Undefined");
	}
	return jx_unknown(r, "a %s as text", jval_type(v.kind));
}

bool jx_add_repr(struct run *r, struct text *t, struct jval v)
{
	bool ok;

	if (!jx_deeper(r) || !step(r))
		return false;
	ok = repr_of(r, t, v);
	r->depth--;
	return ok;
}

bool jx_add_str(struct run *r, struct text *t, struct jval v)
{
	if (v.kind == JV_STR)
		return jx_text_add(r, t, v.s, v.n);
	if (is_undef(v))
		return true;
	return jx_add_repr(r, t, v);
}

bool jx_to_str(struct run *r, struct jval v, struct jval *out)
{
	struct text t = { 0 };

	if (v.kind == JV_STR) {
		*out = v;
		return true;
	}
	if (!jx_add_str(r, &t, v))
		return false;
	*out = jx_text_value(&t);
	return true;
}

/* Format and parse numbers: "%d" % x, "{}".format(x), int("12"), float("1.5").
 *
 * Supported format specifications are those in use: strings with a width and a precision, integers
 * with a width, fractions with a precision. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "agent/jinja/run_in.h"

#define WIDTH_MAX	4096

struct spec {
	char fill[UTF8_MAX];
	unsigned fill_n;
	char align;		/* '<' '>' '^' '=' or 0 */
	char sign, type;
	int64_t width, precision;	/* -1: none */
	bool zero;
};

/* ---- numbers from text ------------------------------------------------------------------- */

static struct jval stripped(struct jval s)
{
	const char *p = s.s, *end = s.s + s.n;
	unsigned n;

	while (p < end && (n = jx_space_at(p, end)) > 0)
		p += n;
	while (p < end && (n = jx_space_before(p, end)) > 0)
		end -= n;
	return jval_str(p, (size_t)(end - p));
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 36;
}

static bool is_prefix(const char *p, const char *end, int64_t base)
{
	char c = end - p > 2 && *p == '0' ? (char)(p[1] | 0x20) : '\0';

	return (c == 'x' && base == 16) || (c == 'o' && base == 8) || (c == 'b' && base == 2);
}

bool jx_parse_int(struct jval s, int64_t base, struct jval *out)
{
	const char *p, *end, *from;
	int64_t v = 0, next;
	bool minus = false, wide = false, plain = true;

	s = stripped(s);
	p = s.s;
	end = p + s.n;
	if (base < 2 || base > 36)
		return false;
	if (p < end && (*p == '-' || *p == '+')) {
		plain = *p == '-';
		minus = *p++ == '-';
	}
	if (is_prefix(p, end, base))
		p += 2;
	for (from = p; p < end; p++) {
		if (*p == '_' && p > from && p + 1 < end && p[-1] != '_') {
			plain = false;
			continue;
		}
		if (digit_of(*p) >= base)
			return false;
		if (__builtin_mul_overflow(v, base, &next) || __builtin_add_overflow(next, digit_of(*p), &next))
			wide = true;
		else
			v = next;
	}
	if (p == from)
		return false;
	if (!wide) {
		*out = jval_int(minus ? -v : v);
		return true;
	}
	if (!plain || base != 10 || *from == '0')
		return false;
	*out = s;
	out->kind = JV_BIG;
	return true;
}

/* Parse a float. Python's grammar is that of strtod() without hexadecimal digits and nan(...),
 * and with '_' between digits. */
bool jx_parse_float(struct jval s, double *out)
{
	char text[400], *end;
	size_t n = 0;
	uint32_t i;
	const char *word;

	s = stripped(s);
	for (i = 0; i < s.n && n < sizeof(text) - 1; i++) {
		if (s.s[i] == '_' && i > 0 && i + 1 < s.n && digit_of(s.s[i - 1]) < 10 &&
		    digit_of(s.s[i + 1]) < 10)
			continue;
		text[n++] = s.s[i];
	}
	text[n] = '\0';
	if (n == 0 || i < s.n || strlen(text) != n)
		return false;
	word = text[0] == '-' || text[0] == '+' ? text + 1 : text;
	if (strcasecmp(word, "inf") != 0 && strcasecmp(word, "infinity") != 0 &&
	    strcasecmp(word, "nan") != 0 && strspn(word, "0123456789.eE+-") != strlen(word))
		return false;
	*out = strtod(text, &end);
	return *end == '\0' && end != text && jx_space_at(text, text + 1) == 0;
}

/* ---- filling ----------------------------------------------------------------------------- */

static bool add_fill(struct run *r, struct text *t, const struct spec *s, int64_t n)
{
	for (; n > 0; n--)
		if (!jx_text_add(r, t, s->fill, s->fill_n))
			return false;
	return true;
}

static bool add_padded(struct run *r, struct text *t, const struct spec *s, struct jval v,
		       char align)
{
	int64_t n = s->width - (int64_t)jval_chars(v), left;

	if (s->align != 0)
		align = s->align;
	left = n <= 0 ? 0 : align == '<' ? 0 : align == '^' ? n / 2 : n;
	return add_fill(r, t, s, left) && jx_text_add(r, t, v.s, v.n) && add_fill(r, t, s, n - left);
}

static bool add_str_as(struct run *r, struct text *t, const struct spec *s, struct jval v)
{
	if (s->precision >= 0)
		v.n = (uint32_t)(jx_chars_on(v.s, v.s + v.n, (size_t)s->precision) - v.s);
	return add_padded(r, t, s, v, '<');
}

static bool add_number_as(struct run *r, struct text *t, struct spec s, struct jval v)
{
	char out[WIDTH_MAX], *digits = out + 1;
	double f = v.kind == JV_FLOAT ? v.f : (double)v.i;
	int n, zeros;

	if (s.precision > 300)
		return jx_unknown(r, "a format with so many digits");
	if (s.type == 'f')
		n = snprintf(digits, sizeof(out) - 1, "%.*f", s.precision < 0 ? 6 : (int)s.precision, fabs(f));
	else
		n = snprintf(digits, sizeof(out) - 1,
			     s.type == 'x' ? "%llx" :
			     s.type == 'X' ? "%llX" :
			     s.type == 'o' ? "%llo" :
					     "%llu",
			     v.i < 0 ? -(unsigned long long)v.i : (unsigned long long)v.i);
	out[0] = (s.type == 'f' ? signbit(f) : v.i < 0) ? '-' :
		 s.sign == '+'                          ? '+' :
		 s.sign == ' '                          ? ' ' :
							  '\0';
	zeros = s.zero && s.align == 0 ? (int)s.width - n - (out[0] != '\0') : 0;
	if (zeros <= 0)
		return add_padded(r, t, &s,
				  out[0] != '\0' ? jval_str(out, (size_t)n + 1) :
						   jval_str(digits, (size_t)n),
				  '>');
	s.fill[0] = '0';
	s.fill_n = 1;
	return (out[0] == '\0' || jx_text_char(r, t, out[0])) && add_fill(r, t, &s, zeros) &&
	       jx_text_add(r, t, digits, (size_t)n);
}

/* ---- "%s" % ... -------------------------------------------------------------------------- */

static int64_t number_at(const char **p, const char *end)
{
	int64_t n = -1;

	while (*p < end && **p >= '0' && **p <= '9') {
		n = (n < 0 ? 0 : n) * 10 + (*(*p)++ - '0');
		if (n > WIDTH_MAX)
			n = WIDTH_MAX + 1;
	}
	return n;
}

static bool read_percent(struct run *r, const char **p, const char *end, struct spec *s)
{
	*s = (struct spec){ .fill = " ", .fill_n = 1, .precision = -1 };
	for (; *p < end && memchr("-+ 0", **p, 4) != NULL; (*p)++) {
		if (**p == '-')
			s->align = '<';
		else if (**p == '0')
			s->zero = true;
		else
			s->sign = **p;
	}
	s->width = number_at(p, end);
	if (*p < end && **p == '.') {
		(*p)++;
		s->precision = number_at(p, end);
		if (s->precision < 0)
			s->precision = 0;
	}
	if (s->width > WIDTH_MAX || s->precision > WIDTH_MAX)
		return jx_unknown(r, "a format as wide as this");
	if (*p == end)
		return jx_raise(r, "ValueError: incomplete format");
	s->type = *(*p)++;
	return true;
}

static bool add_percent(struct run *r, struct text *t, struct spec s, struct jval v)
{
	struct text x = { 0 };

	switch (s.type) {
	case 's':
		return jx_to_str(r, v, &v) && add_str_as(r, t, &s, (s.align = s.align ? s.align : '>', v));
	case 'r':
		if (!jx_add_repr(r, &x, v))
			return false;
		s.align = s.align ? s.align : '>';
		return add_str_as(r, t, &s, jx_text_value(&x));
	case 'd': case 'i': case 'f': case 'x': case 'X': case 'o':
		if (is_undef(v))
			return jx_use_undefined(r, v);
		if (s.type != 'f' && v.kind == JV_FLOAT && (s.type == 'd' || s.type == 'i') && fabs(v.f) < 9e15)
			v = jval_int((int64_t)v.f);
		if (!is_integer(v) && !(s.type == 'f' && v.kind == JV_FLOAT && isfinite(v.f)))
			return v.kind == JV_BIG || v.kind == JV_FLOAT ? jx_unknown(r, "this number with %%%c", s.type) :
				jx_raise(r, "TypeError: %%%c format: a real number is required, not %s", s.type,
				     jval_type(v.kind));
		return add_number_as(r, t, s, v);
	}
	return jx_unknown(r, "the format %%%c", s.type);
}

bool jx_format_percent(struct run *r, struct jval fmt, const struct args *a, struct jval *out)
{
	const char *p = fmt.s, *end = p + fmt.n, *q;
	struct text t = { 0 };
	struct spec s;
	uint32_t used = 0;

	if (fmt.flags & JV_MARKUP)
		return jx_unknown(r, "a format that went through |safe");
	if (a->n_kw > 0 || (a->n == 1 && a->v[0].kind == JV_DICT))
		return jx_unknown(r, "a format with names");
	for (; (q = memchr(p, '%', (size_t)(end - p))) != NULL; ) {
		if (!jx_text_add(r, &t, p, (size_t)(q - p)))
			return false;
		p = q + 1;
		if (p < end && *p == '%') {
			if (!jx_text_char(r, &t, *p++))
				return false;
			continue;
		}
		if (!read_percent(r, &p, end, &s))
			return false;
		if (used == a->n)
			return jx_raise(r, "TypeError: not enough arguments for format string");
		r->steps += STEPS_FIELD;
		if (!step(r) || !add_percent(r, &t, s, a->v[used++]))
			return false;
	}
	if (used < a->n)
		return jx_raise(r, "TypeError: not all arguments converted during string formatting");
	if (!jx_text_add(r, &t, p, (size_t)(end - p)))
		return false;
	*out = jx_text_value(&t);
	return jx_step_bytes(r, t.n);
}

/* ---- "{}".format(...) -------------------------------------------------------------------- */

static bool is_align(char c)
{
	return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool read_spec(struct run *r, const char *p, const char *end, struct spec *s)
{
	unsigned n = p < end ? (unsigned)(jx_chars_on(p, end, 1) - p) : 0;

	*s = (struct spec){ .fill = " ", .fill_n = 1, .precision = -1 };
	if (n > 0 && n <= sizeof(s->fill) && p + n < end && is_align(p[n])) {
		memcpy(s->fill, p, n);
		s->fill_n = n;
		s->align = p[n];
		p += n + 1;
	} else if (p < end && is_align(*p)) {
		s->align = *p++;
	}
	if (p < end && (*p == '+' || *p == '-' || *p == ' '))
		s->sign = *p++;
	if (p < end && *p == '0') {
		s->zero = true;
		p++;
	}
	s->width = number_at(&p, end);
	if (p < end && *p == '.') {
		p++;
		s->precision = number_at(&p, end);
	}
	if (p < end)
		s->type = *p++;
	if (p < end || s->align == '=' || s->width > WIDTH_MAX || s->precision > WIDTH_MAX)
		return jx_unknown(r, "this format specification");
	return true;
}

static bool add_formatted(struct run *r, struct text *t, struct jval v, const char *p,
			  const char *end)
{
	struct spec s;

	if (p == end)
		return jx_add_str(r, t, v);
	if (!read_spec(r, p, end, &s))
		return false;
	if (v.kind == JV_STR && (s.type == 's' || s.type == 0) && !s.zero && !s.sign)
		return add_str_as(r, t, &s, v);
	if (v.kind == JV_INT && (s.type == 'd' || s.type == 0 || s.type == 'x' || s.type == 'X') &&
	    s.precision < 0)
		return add_number_as(r, t, s, v);
	if ((v.kind == JV_INT || (v.kind == JV_FLOAT && isfinite(v.f))) && s.type == 'f')
		return add_number_as(r, t, s, v);
	return jx_unknown(r, "a %s in this format", jval_type(v.kind));
}

struct braces {
	const struct args *a;
	int64_t next;		/* next argument of "{}"; -1: fields have numbers */
};

/* Return the argument that a field's name refers to. */
static bool field_value(struct run *r, struct braces *b, const char *p, const char *end,
			struct jval *out)
{
	const char *from = p;
	int64_t i;
	uint32_t k;

	if (memchr(p, '.', (size_t)(end - p)) != NULL || memchr(p, '[', (size_t)(end - p)) != NULL)
		return jx_unknown(r, "a field of a format that has members");
	i = number_at(&p, end);
	if (p < end) {
		for (k = 0; k < b->a->n_kw; k++)
			if (span_eq(b->a->kw[k].name, span_of(from, (size_t)(end - from)))) {
				*out = b->a->kw[k].v;
				return true;
			}
		return jx_raise(r, "KeyError: '%.*s'", (int)(end - from), from);
	}
	if ((i < 0 && b->next < 0) || (i >= 0 && b->next > 0))
		return jx_raise(r, "ValueError: cannot switch between manual field specification "
				   "and automatic field numbering");
	if (i < 0)
		i = b->next++;
	else
		b->next = -1;
	if (i >= b->a->n)
		return jx_raise(
			r,
			"IndexError: Replacement index %lld out of range for positional args tuple",
			(long long)i);
	*out = b->a->v[i];
	return true;
}

/* Format one field; <p>..<end> is the text between its braces. */
static bool add_field(struct run *r, struct text *t, struct braces *b, const char *p,
		      const char *end)
{
	const char *spec = memchr(p, ':', (size_t)(end - p)), *name_end = spec != NULL ? spec : end;
	const char *how = memchr(p, '!', (size_t)(name_end - p));
	struct text x = { 0 };
	struct jval v;

	if (memchr(p, '{', (size_t)(end - p)) != NULL)
		return jx_unknown(r, "a format within a format");
	if (!field_value(r, b, p, how != NULL ? how : name_end, &v))
		return false;
	if (how != NULL) {
		if (name_end - how != 2 || (how[1] != 'r' && how[1] != 's'))
			return jx_unknown(r, "the conversion of a format");
		if (!(how[1] == 'r' ? jx_add_repr(r, &x, v) : jx_add_str(r, &x, v)))
			return false;
		v = jx_text_value(&x);
	}
	return add_formatted(r, t, v, spec != NULL ? spec + 1 : end, end);
}

bool jx_format_braces(struct run *r, struct jval fmt, const struct args *a, struct jval *out)
{
	const char *p = fmt.s, *end = p + fmt.n, *q;
	struct braces b = { .a = a };
	struct text t = { 0 };

	if (!jx_step_chars(r, fmt.n))		/* byte by byte */
		return false;
	while (p < end) {
		if ((*p == '{' || *p == '}') && p + 1 < end && p[1] == *p) {
			if (!jx_text_char(r, &t, *p))
				return false;
			p += 2;
		} else if (*p == '}') {
			return jx_raise(r, "ValueError: Single '}' encountered in format string");
		} else if (*p == '{') {
			q = memchr(p, '}', (size_t)(end - p));
			if (q == NULL)
				return jx_raise(r, "ValueError: Single '{' encountered in format string");
			r->steps += STEPS_FIELD;
			if (!step(r) || !add_field(r, &t, &b, p + 1, q))
				return false;
			p = q + 1;
		} else if (!jx_text_char(r, &t, *p++)) {
			return false;
		}
	}
	*out = jx_text_value(&t);
	return jx_step_bytes(r, t.n);
}

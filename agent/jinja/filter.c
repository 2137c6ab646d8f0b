/* Filters: one table by name, with the names of their parameters, and the filters of single values.
 * filter_seq.c has those over sequences. The names of unsupported filters of Jinja2 are listed and
 * rejected. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/jinja/filter_in.h"

static bool given(struct jval v)
{
	return v.kind != JV_MISSING;
}

static struct jval or_int(struct jval v, int64_t i)
{
	return given(v) ? v : jval_int(i);
}

static bool f_default(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	*out = in;
	if (is_undef(in) || (jval_truth(v[1]) && !jval_truth(in)))
		*out = given(v[0]) ? v[0] : lit("");
	return true;
}

/* ---- strings ----------------------------------------------------------------------------- */

static bool f_string(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_str(r, in, out);
}

static bool f_safe(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	if (!jx_to_str(r, in, out))
		return false;
	out->flags |= JV_MARKUP;
	return true;
}

static bool f_trim(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_str(r, in, &in) && jx_str_strip(r, in, given(v[0]) ? v[0] : jval_none(), 3, out);
}

static bool f_lower(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_str(r, in, &in) && jx_str_case(r, in, TO_LOWER, TO_LOWER, WORDS_ONE, out);
}

static bool f_upper(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_str(r, in, &in) && jx_str_case(r, in, TO_UPPER, TO_UPPER, WORDS_ONE, out);
}

static bool f_capitalize(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_str(r, in, &in) && jx_str_case(r, in, TO_TITLE, TO_LOWER, WORDS_ONE, out);
}

static bool f_title(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	return jx_to_str(r, in, &in) && jx_str_case(r, in, TO_UPPER, TO_LOWER, WORDS_SEPARATED, out);
}

static bool f_replace(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval old, new;
	int64_t count = -1;

	if (!given(v[0]) || !given(v[1]))
		return jx_raise(r, "TypeError: do_replace() missing required arguments");
	if (given(v[2]) && v[2].kind != JV_NONE) {
		if (!is_integer(v[2]))
			return jx_raise(
				r, "TypeError: '%s' object cannot be interpreted as an integer",
				jval_type(v[2].kind));
		count = v[2].i;
	}
	return jx_to_str(r, in, &in) && jx_to_str(r, v[0], &old) && jx_to_str(r, v[1], &new) &&
	       jx_str_replace(r, in, old, new, count, out);
}

/* Return the indentation: a number of blanks, or the given text. */
static bool indention_of(struct run *r, struct jval width, struct jval *out)
{
	if (!given(width))
		width = jval_int(4);
	if (width.kind == JV_STR) {
		*out = width;
		return true;
	}
	return jx_binary_op(r, OP_MUL, lit(" "), width, out);
}

static bool f_indent(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval by, lines;
	struct text t = { 0 };
	uint32_t i;

	if (!indention_of(r, v[0], &by))
		return false;
	if (in.kind != JV_STR)		/* s += "\n" */
		return is_undef(in) ? jx_use_undefined(r, in) :
			jx_raise(r, "TypeError: unsupported operand type(s) for +=: '%s' and 'str'", jval_type(in.kind));
	if (in.flags & JV_MARKUP)
		return jx_unknown(r, "indent of a string that went through |safe");
	if (!jx_text_add(r, &t, in.s, in.n) || !jx_text_char(r, &t, '\n') ||
	    !jx_str_lines(r, jx_text_value(&t), false, &lines))
		return false;
	t = (struct text){ 0 };
	if (jval_truth(v[1]) && !jx_text_add(r, &t, by.s, by.n))
		return false;
	for (i = 0; i < lines.n; i++) {
		if (!step(r))
			return false;
		if (i > 0 && (!jx_text_char(r, &t, '\n') ||
			      ((lines.v[i].n > 0 || jval_truth(v[2])) && !jx_text_add(r, &t, by.s, by.n))))
			return false;
		if (!jx_text_add(r, &t, lines.v[i].s, lines.v[i].n))
			return false;
	}
	*out = jx_text_value(&t);
	return jx_step_bytes(r, t.n);
}

static bool f_truncate(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval length = or_int(v[0], 255), end = given(v[2]) ? v[2] : lit("..."),
		    leeway = or_int(v[3], 5), part[3];
	struct text t = { 0 };
	int64_t n;
	const char *q;

	if (in.kind != JV_STR || !is_integer(length) || end.kind != JV_STR || !is_integer(leeway))
		return jx_unknown(r, "truncate of these values");
	if (length.i < (int64_t)jval_chars(end) || leeway.i < 0)
		return jx_raise(r, "AssertionError: expected length >= %zu, got %lld",
				jval_chars(end), (long long)length.i);
	*out = in;
	if ((int64_t)jval_chars(in) <= length.i + leeway.i)
		return true;
	n = length.i - (int64_t)jval_chars(end);
	part[0] = part[2] = jval_none();
	part[1] = jval_int(n);
	if (!jx_get_slice(r, in, part, &in))
		return false;
	q = jval_truth(v[1]) ? NULL : memrchr(in.s, ' ', in.n);
	if (!jx_text_add(r, &t, in.s, q != NULL ? (size_t)(q - in.s) : in.n) ||
	    !jx_text_add(r, &t, end.s, end.n))
		return false;
	*out = jx_text_value(&t);
	return true;
}

static bool f_center(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval width = or_int(v[0], 80);
	struct text t = { 0 };
	int64_t n, left, i;

	if (!is_integer(width) || width.i > 65536)
		return jx_unknown(r, "center of this width");
	if (!jx_to_str(r, in, &in))
		return false;
	n = width.i - (int64_t)jval_chars(in);
	left = n <= 0 ? 0 : n / 2 + (n & width.i & 1);
	for (i = 0; i < left; i++)
		if (!jx_text_char(r, &t, ' '))
			return false;
	if (!jx_text_add(r, &t, in.s, in.n))
		return false;
	for (; i < n; i++)
		if (!jx_text_char(r, &t, ' '))
			return false;
	*out = jx_text_value(&t);
	return true;
}

/* ---- numbers ----------------------------------------------------------------------------- */

static bool f_abs(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	if (in.kind == JV_FLOAT) {
		*out = jval_float(fabs(in.f));
		return true;
	}
	if (is_integer(in) && in.i != INT64_MIN) {
		*out = jval_int(in.i < 0 ? -in.i : in.i);
		return true;
	}
	if (in.kind == JV_BIG || is_integer(in))
		return jx_unknown(r, "an integer beyond 64 bits");
	return jx_raise(r, "TypeError: bad operand type for abs(): '%s'", jval_type(in.kind));
}

static bool float_to_int(struct run *r, double f, struct jval *out)
{
	if (isinf(f))
		return jx_raise(r, "OverflowError: cannot convert float infinity to integer");
	if (fabs(f) >= 9.2e18)
		return jx_unknown(r, "an integer beyond 64 bits");
	*out = jval_int((int64_t)f);
	return true;
}

static bool f_int(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval other = or_int(v[0], 0), base = or_int(v[1], 10);
	double f;

	*out = other;
	if (is_undef(in))
		return jx_use_undefined(r, in);
	if (is_integer(in) || in.kind == JV_BIG) {
		*out = in.kind == JV_BIG ? in : jval_int(in.i);
		return true;
	}
	if (in.kind == JV_FLOAT)
		return isnan(in.f) || float_to_int(r, in.f, out);
	if (in.kind != JV_STR)
		return true;
	if (!is_integer(base) || base.i == 0)
		return jx_unknown(r, "int of this base");
	if (!jx_step_chars(r, 2 * (size_t)in.n))
		return false;
	if (jx_parse_int(in, base.i, out))
		return true;
	*out = other;
	if (!jx_parse_float(in, &f) || isnan(f) || isinf(f))
		return true;
	return float_to_int(r, f, out);
}

static bool f_float(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	double f;

	*out = given(v[0]) ? v[0] : jval_float(0);
	if (is_undef(in))
		return jx_use_undefined(r, in);
	if (is_integer(in))
		*out = jval_float((double)in.i);
	else if (in.kind == JV_FLOAT)
		*out = in;
	else if (in.kind == JV_BIG)
		return jx_unknown(r, "an integer beyond 64 bits");
	else if (in.kind == JV_STR && jx_parse_float(in, &f))
		*out = jval_float(f);
	return jx_step_chars(r, in.kind == JV_STR ? in.n : 0);
}

/* Round through the printed decimal, which is the nearest one with ties to even, as Python's
 * round() does. */
static bool round_common(struct run *r, struct jval in, int64_t digits, struct jval *out)
{
	char text[400];

	if (is_integer(in)) {
		*out = jval_int(in.i);
		return true;
	}
	if (isnan(in.f) || isinf(in.f) || digits > 22) {
		*out = in;
		return true;
	}
	snprintf(text, sizeof(text), "%.*f", (int)digits, in.f);
	*out = jval_float(strtod(text, NULL));
	return true;
}

static bool f_round(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct jval digits = or_int(v[0], 0), how = given(v[1]) ? v[1] : lit("common");
	double scale, f;

	if (is_undef(in))
		return jx_use_undefined(r, in);
	if (!is_integer(digits) || digits.i < 0 || how.kind != JV_STR)
		return jx_unknown(r, "round in this form");
	if (!is_integer(in) && in.kind != JV_FLOAT)
		return in.kind == JV_BIG ? jx_unknown(r, "an integer beyond 64 bits") :
			jx_raise(r, "TypeError: type %s doesn't define __round__ method", jval_type(in.kind));
	if (span_eq(jval_span(how), SPAN("common")))
		return round_common(r, in, digits.i, out);
	if (!span_eq(jval_span(how), SPAN("ceil")) && !span_eq(jval_span(how), SPAN("floor")))
		return jx_raise(r, "FilterArgumentError: method must be common, ceil or floor");
	scale = pow(10, (double)digits.i);
	f = (in.kind == JV_FLOAT ? in.f : (double)in.i) * scale;
	if (!isfinite(f) || fabs(f) > 9e15)
		return jx_unknown(r, "round of a number as large as this");
	f = how.s[0] == 'c' ? ceil(f) : floor(f);
	*out = jval_float((f == 0 ? 0 : f) / scale);
	return true;
}

/* ---- JSON -------------------------------------------------------------------------------- */

static bool f_tojson(struct run *r, struct jval in, const struct jval *v, struct jval *out)
{
	struct json_style s = { .ascii = jval_truth(v[0]), .sort = jval_truth(v[3]), .indent = -1 };
	struct jval pair;

	if (given(v[1]) && is_integer(v[1]))
		s.indent = v[1].i < 0 ? 0 : v[1].i;
	else if (given(v[1]) && v[1].kind == JV_STR)
		s.indent_text = v[1];
	else if (given(v[1]) && v[1].kind != JV_NONE)
		return jx_unknown(r, "an indent of type %s", jval_type(v[1].kind));
	s.comma = s.indent >= 0 || s.indent_text.kind == JV_STR ? lit(",") : lit(", ");
	s.colon = lit(": ");
	if (given(v[2]) && v[2].kind != JV_NONE) {
		if (!jx_to_list(r, v[2], &pair))
			return false;
		if (pair.n != 2)
			return jx_raise(r, "ValueError: two separators are expected, not %u", pair.n);
		if (pair.v[0].kind != JV_STR || pair.v[1].kind != JV_STR)
			return jx_unknown(r, "separators that are not strings");
		s.comma = pair.v[0];
		s.colon = pair.v[1];
	}
	if (s.indent > 1024)
		return jx_unknown(r, "an indent of %lld", (long long)s.indent);
	return jx_to_json(r, in, &s, out);
}

/* ---- the table --------------------------------------------------------------------------- */

enum special { BOUND, MAP, SELECT, FORMAT };

static const struct {
	const char *name;
	filter *run;
	const char *params[4];
	uint8_t special, how;
} filters[] = {
	{ "", NULL, { NULL }, BOUND, 0 },
	{ "length", jx_f_length, { NULL }, BOUND, 0 },
	{ "count", jx_f_length, { NULL }, BOUND, 0 },
	{ "tojson", f_tojson, { "ensure_ascii", "indent", "separators", "sort_keys" }, BOUND, 0 },
	{ "trim", f_trim, { "chars" }, BOUND, 0 },
	{ "string", f_string, { NULL }, BOUND, 0 },
	{ "join", jx_f_join, { "d", "attribute" }, BOUND, 0 },
	{ "default", f_default, { "default_value", "boolean" }, BOUND, 0 },
	{ "d", f_default, { "default_value", "boolean" }, BOUND, 0 },
	{ "lower", f_lower, { NULL }, BOUND, 0 },
	{ "upper", f_upper, { NULL }, BOUND, 0 },
	{ "items", jx_f_items, { NULL }, BOUND, 0 },
	{ "list", jx_f_list, { NULL }, BOUND, 0 },
	{ "safe", f_safe, { NULL }, BOUND, 0 },
	{ "dictsort", jx_f_dictsort, { "case_sensitive", "by", "reverse" }, BOUND, 0 },
	{ "replace", f_replace, { "old", "new", "count" }, BOUND, 0 },
	{ "indent", f_indent, { "width", "first", "blank" }, BOUND, 0 },
	{ "title", f_title, { NULL }, BOUND, 0 },
	{ "capitalize", f_capitalize, { NULL }, BOUND, 0 },
	{ "int", f_int, { "default", "base" }, BOUND, 0 },
	{ "float", f_float, { "default" }, BOUND, 0 },
	{ "sort", jx_f_sort, { "reverse", "case_sensitive", "attribute" }, BOUND, 0 },
	{ "first", jx_f_first, { NULL }, BOUND, 0 },
	{ "last", jx_f_last, { NULL }, BOUND, 0 },
	{ "reverse", jx_f_reverse, { NULL }, BOUND, 0 },
	{ "min", jx_f_min, { "case_sensitive", "attribute" }, BOUND, 0 },
	{ "max", jx_f_max, { "case_sensitive", "attribute" }, BOUND, 0 },
	{ "sum", jx_f_sum, { "attribute", "start" }, BOUND, 0 },
	{ "unique", jx_f_unique, { "case_sensitive", "attribute" }, BOUND, 0 },
	{ "abs", f_abs, { NULL }, BOUND, 0 },
	{ "round", f_round, { "precision", "method" }, BOUND, 0 },
	{ "truncate", f_truncate, { "length", "killwords", "end", "leeway" }, BOUND, 0 },
	{ "center", f_center, { "width" }, BOUND, 0 },
	{ "map", NULL, { NULL }, MAP, 0 },
	{ "format", NULL, { NULL }, FORMAT, 0 },
	{ "select", NULL, { NULL }, SELECT, 0 },
	{ "reject", NULL, { NULL }, SELECT, SELECT_NOT },
	{ "selectattr", NULL, { NULL }, SELECT, SELECT_ATTR },
	{ "rejectattr", NULL, { NULL }, SELECT, SELECT_ATTR | SELECT_NOT },
};

static const char *const refused[] = {
	"attr",    "batch",     "e",        "escape",  "filesizeformat", "forceescape",
	"groupby", "pprint",    "random",   "slice",   "striptags",      "urlencode",
	"urlize",  "wordcount", "wordwrap", "xmlattr",
};

uint16_t jx_filter_id(struct span name)
{
	size_t i;

	for (i = 1; i < sizeof(filters) / sizeof(filters[0]); i++)
		if (span_eq(name, span_str(filters[i].name)))
			return (uint16_t)i;
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (span_eq(name, span_str(refused[i])))
			return NAME_REFUSED;
	return NAME_UNKNOWN;
}

static bool f_format(struct run *r, struct jval in, const struct args *a, struct jval *out)
{
	return jx_to_str(r, in, &in) && jx_format_percent(r, in, a, out);
}

bool jx_filter_call(struct run *r, unsigned id, struct span name, struct jval v,
		    const struct args *a, struct jval *out)
{
	struct jval args[4];
	unsigned n = 0;

	if (id == NAME_UNKNOWN)
		return jx_raise(r, "TemplateRuntimeError: No filter named '" SPAN_FMT "' found.", SPAN_ARG(name));
	if (id == NAME_REFUSED)
		return jx_unknown(r, "the filter " SPAN_FMT, SPAN_ARG(name));
	switch (filters[id].special) {
	case MAP:
		return jx_f_map(r, v, a, out);
	case SELECT:
		return jx_f_select(r, v, a, filters[id].how, out);
	case FORMAT:
		return f_format(r, v, a, out);
	}
	while (n < 4 && filters[id].params[n] != NULL)
		n++;
	return jx_bind(r, filters[id].name, a, filters[id].params, n, args) &&
	       filters[id].run(r, v, args, out);
}

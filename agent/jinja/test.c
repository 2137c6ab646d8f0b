/* Tests: the right operand of "is". */
#include "agent/jinja/run_in.h"

typedef bool test(struct run *r, struct jval v, struct jval arg, bool *is);

static bool t_defined(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = !is_undef(v);
	return true;
}

static bool t_undefined(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = is_undef(v);
	return true;
}

static bool t_none(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_NONE;
	return true;
}

static bool t_boolean(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_BOOL;
	return true;
}

static bool t_true(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_BOOL && v.i;
	return true;
}

static bool t_false(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_BOOL && !v.i;
	return true;
}

static bool t_integer(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_INT || v.kind == JV_BIG;
	return true;
}

static bool t_float(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_FLOAT;
	return true;
}

static bool t_number(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = is_integer(v) || v.kind == JV_FLOAT || v.kind == JV_BIG;
	return true;
}

static bool t_string(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_STR;
	return true;
}

static bool t_mapping(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_DICT;
	return true;
}

/* Tell if the value has a length and can be subscripted. */
static bool t_sequence(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_STR || v.kind == JV_LIST || v.kind == JV_TUPLE || v.kind == JV_DICT ||
	      v.kind == JV_RANGE || is_undef(v);
	return true;
}

static bool t_iterable(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = jx_iterable(v);
	return true;
}

static bool t_callable(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_MACRO || v.kind == JV_FUNC || v.kind == JV_METHOD || v.kind == JV_LOOP ||
	      is_undef(v);
	return true;
}

static bool t_escaped(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = v.kind == JV_STR && (v.flags & JV_MARKUP);
	return true;
}

/* Python's "is" is supported for None, True and False only; for other values it depends on how
 * Python stores them. */
static bool t_sameas(struct run *r, struct jval v, struct jval arg, bool *is)
{
	if (v.kind != arg.kind)
		*is = false;
	else if (v.kind == JV_NONE || v.kind == JV_BOOL)
		*is = v.i == arg.i || v.kind == JV_NONE;
	else
		return jx_unknown(r, "whether two values of type %s are the same", jval_type(v.kind));
	return true;
}

static bool is_case(struct run *r, struct jval v, const char *method, bool *is)
{
	struct args none = { 0 };

	if (!jx_to_str(r, v, &v))
		return false;
	v.flags &= (uint8_t)~JV_MARKUP;
	if (!jx_call_method(r, v, jx_method_id(span_str(method)), &none, &v))
		return false;
	*is = jval_truth(v);
	return true;
}

static bool t_lower(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return is_case(r, v, "islower", is);
}

static bool t_upper(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return is_case(r, v, "isupper", is);
}

static bool remainder_of(struct run *r, struct jval v, struct jval by, struct jval *out)
{
	return jx_binary_op(r, OP_MOD, v, by, out);
}

static bool t_odd(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = remainder_of(r, v, jval_int(2), &v) && jval_eq(v, jval_int(1));
	return r->code == JINJA_OK;
}

static bool t_even(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = remainder_of(r, v, jval_int(2), &v) && jval_eq(v, jval_int(0));
	return r->code == JINJA_OK;
}

static bool t_divisibleby(struct run *r, struct jval v, struct jval arg, bool *is)
{
	*is = remainder_of(r, v, arg, &v) && jval_eq(v, jval_int(0));
	return r->code == JINJA_OK;
}

static bool t_eq(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_EQ, v, arg, is);
}

static bool t_ne(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_NE, v, arg, is);
}

static bool t_gt(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_GT, v, arg, is);
}

static bool t_ge(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_GE, v, arg, is);
}

static bool t_lt(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_LT, v, arg, is);
}

static bool t_le(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_LE, v, arg, is);
}

static bool t_in(struct run *r, struct jval v, struct jval arg, bool *is)
{
	return jx_compare_values(r, OP_IN, v, arg, is);
}

static const struct {
	const char *name;
	test *run;		/* NULL: a test of Jinja2 that is not supported */
	bool arg;
} tests[] = {
	{ "", NULL, false },
	{ "defined", t_defined, false },
	{ "string", t_string, false },
	{ "none", t_none, false },
	{ "mapping", t_mapping, false },
	{ "iterable", t_iterable, false },
	{ "undefined", t_undefined, false },
	{ "sequence", t_sequence, false },
	{ "false", t_false, false },
	{ "true", t_true, false },
	{ "boolean", t_boolean, false },
	{ "number", t_number, false },
	{ "integer", t_integer, false },
	{ "float", t_float, false },
	{ "callable", t_callable, false },
	{ "escaped", t_escaped, false },
	{ "lower", t_lower, false },
	{ "upper", t_upper, false },
	{ "odd", t_odd, false },
	{ "even", t_even, false },
	{ "divisibleby", t_divisibleby, true },
	{ "sameas", t_sameas, true },
	{ "in", t_in, true },
	{ "eq", t_eq, true },
	{ "equalto", t_eq, true },
	{ "==", t_eq, true },
	{ "ne", t_ne, true },
	{ "!=", t_ne, true },
	{ "gt", t_gt, true },
	{ "greaterthan", t_gt, true },
	{ ">", t_gt, true },
	{ "ge", t_ge, true },
	{ ">=", t_ge, true },
	{ "lt", t_lt, true },
	{ "lessthan", t_lt, true },
	{ "<", t_lt, true },
	{ "le", t_le, true },
	{ "<=", t_le, true },
	{ "filter", NULL, true },
	{ "test", NULL, true },
};

uint16_t jx_test_id(struct span name)
{
	uint16_t i;

	for (i = 1; i < sizeof(tests) / sizeof(tests[0]); i++)
		if (span_eq(name, span_str(tests[i].name)))
			return tests[i].run != NULL ? i : NAME_REFUSED;
	return NAME_UNKNOWN;
}

bool jx_test_call(struct run *r, unsigned id, struct span name, struct jval v, const struct args *a,
		  bool *out)
{
	if (id == NAME_UNKNOWN)
		return jx_raise(r, "TemplateRuntimeError: No test named '" SPAN_FMT "' found.", SPAN_ARG(name));
	if (id == NAME_REFUSED || a->n_kw > 0)
		return jx_unknown(r, "the test " SPAN_FMT " in this form", SPAN_ARG(name));
	if (a->n != tests[id].arg)
		return jx_raise(
			r, "TypeError: the test " SPAN_FMT " takes %u arguments but %u were given",
			SPAN_ARG(name), tests[id].arg, a->n);
	return tests[id].run(r, v, a->n > 0 ? a->v[0] : jval_none(), out);
}

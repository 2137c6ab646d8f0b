/* Python's operators. Results beyond 64 bits are unsupported; no known template needs them. */
#include <math.h>

#include "agent/jinja/run_in.h"

static const char *op_text(enum op op)
{
	static const char *const text[] = { "+",  "-", "*",  "/", "//", "%",  "** or pow()", "==",
					    "!=", "<", "<=", ">", ">=", "in", "not in" };

	return text[op];
}

static bool is_real(struct jval v)
{
	return v.kind == JV_INT || v.kind == JV_BOOL || v.kind == JV_FLOAT;
}

static double real(struct jval v)
{
	return v.kind == JV_FLOAT ? v.f : (double)v.i;
}

static bool no_operands(struct run *r, enum op op, struct jval a, struct jval b)
{
	if (is_undef(a))
		return jx_use_undefined(r, a);
	if (is_undef(b))
		return jx_use_undefined(r, b);
	if (op == OP_ADD && (a.kind == JV_STR || a.kind == JV_LIST || a.kind == JV_TUPLE))
		return jx_raise(r, "TypeError: can only concatenate %s (not \"%s\") to %s",
				jval_type(a.kind), jval_type(b.kind), jval_type(a.kind));
	return jx_raise(r, "TypeError: unsupported operand type(s) for %s: '%s' and '%s'",
			op_text(op), jval_type(a.kind), jval_type(b.kind));
}

/* ---- numbers ----------------------------------------------------------------------------- */

static bool too_large(struct run *r)
{
	return jx_unknown(r, "an integer beyond 64 bits");
}

static int64_t floor_div(int64_t a, int64_t b)
{
	int64_t q = a / b;

	return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static bool int_pow(struct run *r, int64_t a, int64_t b, struct jval *out)
{
	int64_t v = 1;

	if (b < 0) {
		if (a == 0)
			return jx_raise(r, "ZeroDivisionError: 0.0 cannot be raised to a negative power");
		*out = jval_float(pow((double)a, (double)b));
		return true;
	}
	if (b > 64 && (a > 1 || a < -1))
		return too_large(r);
	if (b > 64)
		b = b % 2 + 2;
	for (; b > 0; b--)
		if (__builtin_mul_overflow(v, a, &v))
			return too_large(r);
	*out = jval_int(v);
	return true;
}

static bool int_op(struct run *r, enum op op, int64_t a, int64_t b, struct jval *out)
{
	int64_t v = 0;
	bool wide = false;

	if (b == 0 && (op == OP_DIV || op == OP_FLOORDIV || op == OP_MOD))
		return jx_raise(r, "ZeroDivisionError: %s by zero",
				op == OP_DIV ? "division" :
				op == OP_MOD ? "integer modulo" :
					       "integer division or modulo");
	if (b == -1 && a == INT64_MIN && op != OP_ADD && op != OP_SUB)
		return too_large(r);
	switch (op) {
	case OP_ADD:
		wide = __builtin_add_overflow(a, b, &v);
		break;
	case OP_SUB:
		wide = __builtin_sub_overflow(a, b, &v);
		break;
	case OP_MUL:
		wide = __builtin_mul_overflow(a, b, &v);
		break;
	case OP_FLOORDIV:
		v = floor_div(a, b);
		break;
	case OP_MOD:
		v = a % b;
		if (v != 0 && (v < 0) != (b < 0))
			v += b;
		break;
	case OP_POW:
		return int_pow(r, a, b, out);
	default:
		if (a > 1ll << 53 || a < -(1ll << 53) || b > 1ll << 53 || b < -(1ll << 53))
			return jx_unknown(r, "a division of integers beyond 53 bits");
		*out = jval_float((double)a / (double)b);
		return true;
	}
	*out = jval_int(v);
	return !wide || too_large(r);
}

static bool float_op(struct run *r, enum op op, double a, double b, struct jval *out)
{
	double v;

	switch (op) {
	case OP_ADD:
		v = a + b;
		break;
	case OP_SUB:
		v = a - b;
		break;
	case OP_MUL:
		v = a * b;
		break;
	case OP_DIV:
		if (b == 0)
			return jx_raise(r, "ZeroDivisionError: float division by zero");
		v = a / b;
		break;
	case OP_MOD: case OP_FLOORDIV:
		if (b == 0)
			return jx_raise(r, "ZeroDivisionError: float %s",
					op == OP_MOD ? "modulo" : "floor division by zero");
		v = fmod(a, b);
		if (v != 0 && (v < 0) != (b < 0))
			v += b;
		if (op == OP_FLOORDIV)
			v = floor((a - v) / b + 0.5);
		else if (v == 0)
			v = copysign(0.0, b);
		break;
	default:
		if (a < 0 && b != floor(b))
			return jx_unknown(r, "a complex number");
		if (a == 0 && b < 0)
			return jx_raise(r, "ZeroDivisionError: 0.0 cannot be raised to a negative power");
		v = pow(a, b);
		if (isinf(v) && isfinite(a) && isfinite(b))
			return jx_raise(r, "OverflowError: (34, 'Numerical result out of range')");
	}
	*out = jval_float(v);
	return true;
}

/* ---- strings and lists ------------------------------------------------------------------- */

bool jx_markup_escape(struct run *r, struct jval s, struct jval *out)
{
	static const char *const with[256] = { ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;",
		['"'] = "&#34;", ['\''] = "&#39;" };
	struct text t = { 0 };
	uint32_t i;

	if (s.flags & JV_MARKUP) {
		*out = s;
		return true;
	}
	for (i = 0; i < s.n; i++) {
		const char *w = with[(uint8_t)s.s[i]];

		if (!jx_text_add(r, &t, w != NULL ? w : s.s + i, w != NULL ? strlen(w) : 1))
			return false;
	}
	*out = jx_text_value(&t);
	out->flags |= JV_MARKUP;
	return jx_step_bytes(r, t.n);
}

static bool join_strings(struct run *r, struct jval a, struct jval b, struct jval *out)
{
	struct text t = { 0 };
	unsigned markup = (a.flags | b.flags) & JV_MARKUP;

	if (markup && (!jx_markup_escape(r, a, &a) || !jx_markup_escape(r, b, &b)))
		return false;
	if (!jx_step_bytes(r, (size_t)a.n + b.n) || !jx_text_continue(r, &t, a) ||
	    !jx_text_add(r, &t, b.s, b.n))
		return false;
	*out = jx_text_finish(r, &t);
	out->flags = (uint8_t)((a.flags & b.flags & JV_ASCII) | markup);
	return true;
}

static bool join_lists(struct run *r, struct jval a, struct jval b, struct jval *out)
{
	struct jval *v = jx_take(r, ((size_t)a.n + b.n) * sizeof(*v));

	if (v == NULL || !jx_step_bytes(r, ((size_t)a.n + b.n) * sizeof(*v)))
		return false;
	if (a.n > 0)
		memcpy(v, a.v, a.n * sizeof(*v));
	if (b.n > 0)
		memcpy(v + a.n, b.v, b.n * sizeof(*v));
	*out = a;
	out->v = v;
	out->n = a.n + b.n;
	return true;
}

/* "-" * 3, [0] * 3 */
static bool repeat(struct run *r, struct jval s, int64_t times, struct jval *out)
{
	struct text t = { 0 };
	struct list l = { 0 };
	size_t bytes;
	int64_t i;
	uint32_t k;

	if (times < 0)
		times = 0;
	if (__builtin_mul_overflow((size_t)s.n, (size_t)times, &bytes) || bytes > r->limit.output)
		return jx_over(r, "output");
	if (!jx_step_bytes(r, bytes * (s.kind == JV_STR ? 1 : sizeof(s))))
		return false;
	for (i = 0; i < times && s.n > 0; i++) {
		if (s.kind == JV_STR && !jx_text_add(r, &t, s.s, s.n))
			return false;
		for (k = 0; s.kind != JV_STR && k < s.n; k++)
			if (!jx_list_add(r, &l, s.v[k]))
				return false;
	}
	*out = s;
	if (s.kind == JV_STR) {
		*out = jx_text_value(&t);
		out->flags = s.flags & (JV_ASCII | JV_MARKUP);
	} else {
		out->v = l.v;
		out->n = (uint32_t)l.n;
	}
	return true;
}

static bool is_sequence(struct jval v)
{
	return v.kind == JV_STR || v.kind == JV_LIST || v.kind == JV_TUPLE;
}

bool jx_binary_op(struct run *r, enum op op, struct jval a, struct jval b, struct jval *out)
{
	struct args one = { .v = &b, .n = 1 };

	if (op == OP_ADD && a.kind == JV_STR && b.kind == JV_STR)
		return join_strings(r, a, b, out);
	if (is_integer(a) && is_integer(b))
		return int_op(r, op, a.i, b.i, out);
	if (is_real(a) && is_real(b))
		return float_op(r, op, real(a), real(b), out);
	if (op == OP_ADD && a.kind == b.kind && (a.kind == JV_LIST || a.kind == JV_TUPLE))
		return join_lists(r, a, b, out);
	if (op == OP_MUL && is_sequence(a) && is_integer(b))
		return repeat(r, a, b.i, out);
	if (op == OP_MUL && is_sequence(b) && is_integer(a))
		return repeat(r, b, a.i, out);
	if (a.kind == JV_BIG || b.kind == JV_BIG)
		return is_undef(a) || is_undef(b) ? no_operands(r, op, a, b) : too_large(r);
	if (op == OP_MOD && a.kind == JV_STR) {
		if (b.kind == JV_TUPLE)
			one = (struct args){ .v = b.v, .n = b.n };
		return is_undef(b) ? jx_use_undefined(r, b) : jx_format_percent(r, a, &one, out);
	}
	return no_operands(r, op, a, b);
}

bool jx_negate(struct run *r, struct jval v, bool minus, struct jval *out)
{
	if (v.kind == JV_FLOAT) {
		*out = jval_float(minus ? -v.f : v.f);
		return true;
	}
	if (is_integer(v)) {
		if (minus && v.i == INT64_MIN)
			return too_large(r);
		*out = jval_int(minus ? -v.i : v.i);
		return true;
	}
	if (v.kind == JV_BIG)
		return too_large(r);
	if (is_undef(v))
		return jx_use_undefined(r, v);
	return jx_raise(r, "TypeError: bad operand type for unary %c: '%s'", minus ? '-' : '+',
			jval_type(v.kind));
}

/* ---- comparing --------------------------------------------------------------------------- */

bool jx_equal(struct run *r, struct jval a, struct jval b, bool *is)
{
	uint64_t left = r->limit.steps > r->steps ? r->limit.steps - r->steps : 0, before = left;

	*is = jval_eq_within(a, b, &left);
	r->steps += before - left;
	return left > 0 || jx_over(r, "steps");
}

/* Compare and set <order> to < 0, 0 or > 0. UTF-8 compares by bytes as by code points. */
static bool order_of(struct run *r, enum op op, struct jval a, struct jval b, int *order,
		     bool *unordered)
{
	uint32_t i, n = a.n < b.n ? a.n : b.n;
	bool same;
	int c;

	*unordered = false;
	if (is_integer(a) && is_integer(b)) {
		*order = (a.i > b.i) - (a.i < b.i);
	} else if (is_real(a) && is_real(b)) {
		*unordered = isnan(real(a)) || isnan(real(b));
		*order = (real(a) > real(b)) - (real(a) < real(b));
	} else if (a.kind == JV_STR && b.kind == JV_STR) {
		r->steps += n / STEP_BYTES;
		c = n > 0 ? memcmp(a.s, b.s, n) : 0;
		*order = c != 0 ? c : (a.n > b.n) - (a.n < b.n);
	} else if (a.kind == b.kind && (a.kind == JV_LIST || a.kind == JV_TUPLE)) {
		for (i = 0; i < n; i++) {
			if (!jx_equal(r, a.v[i], b.v[i], &same))
				return false;
			if (!same) {
				if (!jx_deeper(r) || !order_of(r, op, a.v[i], b.v[i], order, unordered))
					return false;
				r->depth--;
				return true;
			}
		}
		*order = (a.n > b.n) - (a.n < b.n);
	} else if (is_undef(a) || is_undef(b)) {
		return jx_use_undefined(r, is_undef(a) ? a : b);
	} else if (a.kind == JV_BIG || b.kind == JV_BIG) {
		return too_large(r);
	} else {
		return jx_raise(r,
				"TypeError: '%s' not supported between instances of '%s' and '%s'",
				op_text(op), jval_type(a.kind), jval_type(b.kind));
	}
	return true;
}

static bool contains(struct run *r, struct jval in, struct jval v, bool *is)
{
	struct jval item;
	struct iter it;
	int more = 0;

	*is = false;
	if (in.kind == JV_STR) {
		if (v.kind != JV_STR)
			return jx_raise(
				r,
				"TypeError: 'in <string>' requires string as left operand, not %s",
				jval_type(v.kind));
		*is = memmem(in.s, in.n, v.s, v.n) != NULL;
		return jx_step_search(r, in.n, v);
	}
	if (in.kind == JV_DICT || (in.kind == JV_VIEW && in.aux == 'k')) {
		if (!jval_hashable(v))
			return jx_raise(r, "TypeError: unhashable type: '%s'", jval_type(v.kind));
		*is = jdict_get(in.d, v) != NULL;
		return true;
	}
	if (!jx_iterable(in))
		return jx_raise(r, "TypeError: argument of type '%s' is not iterable", jval_type(in.kind));
	if (!jx_iter_start(r, in, &it))
		return false;
	while (!*is && (more = jx_iter_next(r, &it, &item)) > 0) {
		if (!step(r) || !jx_equal(r, item, v, is))
			return false;
	}
	return more >= 0;
}

/* Tell if <order> (< 0, 0, > 0) satisfies the operator. */
static bool in_order(enum op op, int order)
{
	switch (op) {
	case OP_LT:
		return order < 0;
	case OP_LE:
		return order <= 0;
	case OP_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

bool jx_compare_values(struct run *r, enum op op, struct jval a, struct jval b, bool *out)
{
	bool unordered;
	int order;

	switch (op) {
	case OP_EQ: case OP_NE:
		if (!jx_equal(r, a, b, out))
			return false;
		*out = *out == (op == OP_EQ);
		return true;
	case OP_IN: case OP_NOT_IN:
		if (!contains(r, b, a, out))
			return false;
		*out = *out == (op == OP_IN);
		return true;
	default:
		if (!order_of(r, op, a, b, &order, &unordered))
			return false;
		*out = !unordered && in_order(op, order);
		return true;
	}
}

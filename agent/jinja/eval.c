/* Expressions: one function per kind of node that does more than call another file. */
#include "agent/jinja/run_in.h"

static bool eval_name(struct run *r, const struct node *n, struct jval *out)
{
	struct record *rec = r->rec;
	unsigned up;

	for (up = n->up; up > 0; up--)
		rec = rec->up;
	*out = rec->slot[n->slot];
	if (out->kind == JV_MISSING)
		*out = undefined(UNDEF_NAME, n->name.p, n->name.n, 0);
	return !is_watched(out) || jx_touched(r, n, out);
}

static bool eval_items(struct run *r, const struct node *n, struct jval *out)
{
	const struct node *k;
	struct jval *v;
	uint32_t count = 0;

	for (k = n->kids; k != NULL; k = k->next)
		count++;
	v = jx_take(r, count * sizeof(*v));
	if (v == NULL)
		return false;
	*out = jval_list(v, count);
	if (n->type == N_TUPLE)
		out->kind = JV_TUPLE;
	for (k = n->kids; k != NULL; k = k->next)
		if (!jx_eval(r, k, v++))
			return false;
	return true;
}

static bool eval_dict(struct run *r, const struct node *n, struct jval *out)
{
	struct jval key, value, d = jval_dict(r->m, 0);
	const struct node *k;

	if (d.kind == JV_MISSING)
		return jx_no_room(r);
	for (k = n->kids; k != NULL; k = k->next->next) {
		if (!jx_eval(r, k, &key) || !jx_eval(r, k->next, &value))
			return false;
		if (!jval_hashable(key))
			return jx_raise(r, "TypeError: unhashable type: '%s'", jval_type(key.kind));
		if (!jdict_put(r->m, d.d, key, value))
			return jx_no_room(r);
	}
	*out = d;
	return true;
}

static bool eval_binary(struct run *r, const struct node *n, struct jval *out)
{
	struct jval a, b;

	if (!jx_eval(r, n->a, &a) || !jx_eval(r, n->b, &b))
		return false;
	r->line = n->line;
	return jx_binary_op(r, n->op, a, b, out);
}

static bool eval_concat(struct run *r, const struct node *n, struct jval *out)
{
	struct text *into = r->into, t = { 0 };
	const struct node *k;
	struct jval v;

	for (k = n->kids; k != NULL; k = k->next) {
		if (!jx_eval(r, k, &v))
			return false;
		if (k == n->kids && v.kind == JV_STR) {
			if (!jx_text_continue(r, &t, v))
				return false;
			continue;
		}
		r->into = &t;
		if (!jx_print_value(r, v))
			return false;
		r->into = into;
	}
	*out = jx_text_finish(r, &t);
	return jx_step_bytes(r, t.n);
}

/* a < b < c: b is evaluated once, and c not at all when a < b is false. */
static bool eval_compare(struct run *r, const struct node *n, struct jval *out)
{
	const struct node *k;
	struct jval a, b;
	bool is = true, done = false;

	if (r->track.on && (!jx_number_compared(r, n, out, &done) || done))
		return done && r->code == JINJA_OK;
	if (!jx_eval(r, n->a, &a))
		return false;
	for (k = n->kids; k != NULL && is; k = k->next) {
		if (!jx_eval(r, k->a, &b))
			return false;
		r->line = n->line;
		if (!jx_compare_values(r, k->op, a, b, &is))
			return false;
		a = b;
	}
	*out = jval_bool(is);
	return true;
}

static bool eval_cond(struct run *r, const struct node *n, struct jval *out)
{
	static const char hint[] =
		"the inline if-expression evaluated to false and no else section was defined.";

	if (!jx_eval(r, n->a, out))
		return false;
	if (jval_truth(*out))
		return jx_eval(r, n->b, out);
	if (n->c != NULL)
		return jx_eval(r, n->c, out);
	*out = undefined(UNDEF_HINT, hint, sizeof(hint) - 1, 0);
	return true;
}

/* Tell if Jinja2 may evaluate the node at compile time, where an invalid slice is undefined
 * instead of an error. */
static bool is_constant(const struct node *n)
{
	return n->type == N_CONST || n->type == N_DICT || n->type == N_LIST || n->type == N_TUPLE;
}

static bool eval_slice(struct run *r, const struct node *n, struct jval *out)
{
	struct jval of, part[3] = { jval_none(), jval_none(), jval_none() };

	if (!jx_eval(r, n->a, &of) || (n->b != NULL && !jx_eval(r, n->b, &part[0])) ||
	    (n->c != NULL && !jx_eval(r, n->c, &part[1])) ||
	    (n->alt != NULL && !jx_eval(r, n->alt, &part[2])))
		return false;
	if (of.kind != JV_STR && of.kind != JV_LIST && of.kind != JV_TUPLE && !is_undef(of) &&
	    is_constant(n->a))
		return jx_unknown(r, "a part of a constant that has none");
	return jx_get_slice(r, of, part, out);
}

/* ---- calls ------------------------------------------------------------------------------- */

static bool add_star(struct run *r, const struct node *n, struct list *l)
{
	struct jval v, item;
	struct iter it;
	int more;

	if (!jx_eval(r, n->a, &v) || !jx_iter_start(r, v, &it))
		return false;
	while ((more = jx_iter_next(r, &it, &item)) > 0)
		if (!jx_list_add(r, l, item))
			return false;
	return more == 0;
}

static bool add_starstar(struct run *r, const struct node *n, struct args *a)
{
	struct named *kw;
	struct jval v;
	uint32_t i;

	if (!jx_eval(r, n->a, &v))
		return false;
	if (v.kind != JV_DICT)
		return jx_raise(r, "TypeError: argument after ** must be a mapping, not %s", jval_type(v.kind));
	kw = jx_take(r, (a->n_kw + v.d->n) * sizeof(*kw) + 1);
	if (kw == NULL)
		return false;
	if (a->n_kw > 0)
		memcpy(kw, a->kw, a->n_kw * sizeof(*kw));
	for (i = 0; i < v.d->n; i++) {
		if (v.d->entry[i].key.kind != JV_STR)
			return jx_raise(r, "TypeError: keywords must be strings");
		kw[a->n_kw + i] = (struct named){ jval_span(v.d->entry[i].key), v.d->entry[i].value };
	}
	a->kw = kw;
	a->n_kw += v.d->n;
	return true;
}

bool jx_eval_args(struct run *r, const struct node *kids, struct args *a)
{
	const struct node *k;
	struct named *kw = NULL;
	struct list l = { 0 };
	uint32_t named = 0;

	memset(a, 0, sizeof(*a));
	if (kids == NULL)
		return true;
	for (k = kids; k != NULL; k = k->next)
		named += k->type == N_KEYWORD;
	if (named > 0 && (kw = jx_take(r, named * sizeof(*kw))) == NULL)
		return false;
	for (k = kids; k != NULL && k->type != N_STARSTAR; k = k->next) {
		if (k->type == N_KEYWORD) {
			kw[a->n_kw].name = k->name;
			if (!jx_eval(r, k->a, &kw[a->n_kw++].v))
				return false;
		} else if (k->type == N_STAR) {
			if (!add_star(r, k, &l))
				return false;
		} else {
			struct jval v;

			if (!jx_eval(r, k, &v) || !jx_list_add(r, &l, v))
				return false;
		}
	}
	a->kw = kw;
	a->v = l.v;
	a->n = (uint32_t)l.n;
	return k == NULL || add_starstar(r, k, a);
}

/* Evaluate a call. obj.name(...) creates no method value if the name is a method's. */
static bool eval_call(struct run *r, const struct node *n, struct jval *out)
{
	struct jval f, self;
	struct args a;

	if (n->a->type == N_GETATTR && n->a->id != 0) {
		if (!jx_eval(r, n->a->a, &self) || (self.kind == JV_UNREAD && !jx_read_item(r, &self)) ||
		    !jx_get_attr(r, self, n->a->value, n->a->id, &f))
			return false;
		if (f.kind == JV_METHOD)
			return jx_eval_args(r, n->kids, &a) &&
			       (r->line = n->line, jx_call_method(r, self, f.aux, &a, out));
	} else if (!jx_eval(r, n->a, &f)) {
		return false;
	}
	if (!jx_eval_args(r, n->kids, &a))
		return false;
	r->line = n->line;
	return jx_call(r, f, &a, out);
}

static bool eval_filter(struct run *r, const struct node *n, struct jval *out)
{
	struct jval v;
	struct args a;

	if (!jx_eval(r, n->a, &v) || !jx_eval_args(r, n->kids, &a))
		return false;
	r->line = n->line;
	return jx_filter_call(r, n->id, n->name, v, &a, out);
}

static bool eval_test(struct run *r, const struct node *n, struct jval *out)
{
	struct jval v;
	struct args a;
	bool is;

	if (!jx_eval(r, n->a, &v) || !jx_eval_args(r, n->kids, &a))
		return false;
	r->line = n->line;
	if (!jx_test_call(r, n->id, n->name, v, &a, &is))
		return false;
	*out = jval_bool(is);
	return true;
}

static bool eval_deep(struct run *r, const struct node *n, struct jval *out)
{
	struct jval key;

	switch (n->type) {
	case N_TUPLE: case N_LIST:
		return eval_items(r, n, out);
	case N_DICT:
		return eval_dict(r, n, out);
	case N_BINARY:
		return eval_binary(r, n, out);
	case N_CONCAT:
		return eval_concat(r, n, out);
	case N_COMPARE:
		return eval_compare(r, n, out);
	case N_AND:
		return jx_eval(r, n->a, out) && (!jval_truth(*out) || jx_eval(r, n->b, out));
	case N_OR:
		return jx_eval(r, n->a, out) && (jval_truth(*out) || jx_eval(r, n->b, out));
	case N_NOT:
		if (!jx_eval(r, n->a, out))
			return false;
		*out = jval_bool(!jval_truth(*out));
		return true;
	case N_NEG: case N_POS:
		return jx_eval(r, n->a, out) && jx_negate(r, *out, n->type == N_NEG, out);
	case N_COND:
		return eval_cond(r, n, out);
	case N_GETATTR:
		if (!jx_eval(r, n->a, out))
			return false;
		r->line = n->line;
		r->track.presence = n->presence;
		if (!jx_get_attr(r, *out, n->value, n->id, out))
			return false;
		r->track.presence = false;
		return true;
	case N_GETITEM:
		if (!jx_eval(r, n->a, out) || !jx_eval(r, n->b, &key))
			return false;
		r->line = n->line;
		if (out->kind == JV_LIST && is_watched(out))
			jx_item_read(r, *out, key);
		return jx_get_item(r, *out, key, out);
	case N_SLICE:
		return eval_slice(r, n, out);
	case N_CALL:
		return eval_call(r, n, out);
	case N_FILTER:
		return eval_filter(r, n, out);
	default:
		return eval_test(r, n, out);
	}
}

bool jx_eval(struct run *r, const struct node *n, struct jval *out)
{
	bool ok;

	if (!step(r))
		return false;
	switch (n->type) {
	case N_CONST:
		*out = n->value;
		return true;
	case N_NAME:
		return eval_name(r, n, out);
	case N_HELD:
		*out = r->held;
		return true;
	}
	if (!jx_deeper(r))
		return false;
	ok = eval_deep(r, n, out);
	r->depth--;
	return ok && (!is_watched(out) || jx_touched(r, n, out));
}

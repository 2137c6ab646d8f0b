/* Statements.
 *
 * Executes a tree and prints results as early as possible: a chain of "+" of strings, a "~", a
 * branch of a conditional expression and a macro's text go to the sink piece by piece instead of
 * being joined. Python evaluates all of it before printing, but the result is the same: no
 * evaluation can read printed text, and an exception voids all output. */
#include "agent/jinja/run_in.h"

#define SUM_SMALL	16	/* strings of a chain of "+" that fit on the stack */

static struct record *record_up(struct record *rec, unsigned up)
{
	for (; up > 0; up--)
		rec = rec->up;
	return rec;
}

static struct jval resolve(struct run *r, struct span name)
{
	const struct jval *v = jdict_get_str(r->vars, name.p, name.n);
	struct jval g;

	if (v != NULL)
		return *v;
	return jx_global_named(r, name, &g) ? g : (struct jval){ .kind = JV_MISSING };
}

void jx_enter(struct run *r, const struct scope *s)
{
	const struct scope_load *l = s->loads, *end = l + s->n;

	for (; l < end; l++) {
		if (l->load == LOAD_RESOLVE)
			r->rec->slot[l->slot] = resolve(r, l->name);
		else if (l->load == LOAD_ALIAS)
			r->rec->slot[l->slot] = record_up(r->rec, l->up)->slot[l->from];
		else
			r->rec->slot[l->slot] = (struct jval){ .kind = JV_MISSING };
	}
}

static enum flow result(bool ok)
{
	return ok ? FLOW_ON : FLOW_FAILED;
}

/* ---- printing ---------------------------------------------------------------------------- */

/* Print a + b + c; <n> is the last "+". If the first operand is a string, all others must be. */
static bool print_sum(struct run *r, const struct node *n)
{
	const struct node *spine[AST_DEPTH + 1];
	struct jval small[SUM_SMALL], *v = small, acc;
	unsigned count = 0, i;
	bool markup;

	for (; n->type == N_BINARY && n->op == OP_ADD; n = n->a)
		spine[count++] = n;
	if (count >= SUM_SMALL && (v = jx_take(r, (count + 1) * sizeof(*v))) == NULL)
		return false;
	if (!jx_eval(r, n, &v[0]))
		return false;
	acc = v[0];
	markup = acc.flags & JV_MARKUP;
	for (i = 1; i <= count; i++) {
		if (!step(r) || !jx_eval(r, spine[count - i]->b, &v[i]))
			return false;
		r->line = spine[count - i]->line;
		if ((v[0].kind != JV_STR || v[i].kind != JV_STR) && !jx_binary_op(r, OP_ADD, acc, v[i], &acc))
			return false;
		markup = markup || (v[i].flags & JV_MARKUP);
	}
	if (v[0].kind != JV_STR)
		return jx_print_value(r, acc);
	for (i = 1; i <= count && markup; i++)
		if (!jx_binary_op(r, OP_ADD, v[0], v[i], &v[0]))
			return false;
	for (i = 0; i <= (markup ? 0 : count); i++)
		if (!jx_print_value(r, v[i]))
			return false;
	return true;
}

static bool print_call(struct run *r, const struct node *n)
{
	struct jval f, v;
	struct args a;

	if (n->a->type != N_NAME)
		return jx_eval(r, n, &v) && jx_print_value(r, v);
	if (!step(r) || !jx_eval(r, n->a, &f) || !jx_eval_args(r, n->kids, &a))
		return false;
	r->line = n->line;
	if (f.kind == JV_MACRO)
		return jx_call_print(r, f, &a);
	return jx_call(r, f, &a, &v) && jx_print_value(r, v);
}

static bool print_cond(struct run *r, const struct node *n)
{
	struct jval v;

	if (!step(r) || !jx_eval(r, n->a, &v))
		return false;
	n = jval_truth(v) ? n->b : n->c;
	return n == NULL || jx_print_node(r, n);
}

bool jx_print_node(struct run *r, const struct node *n)
{
	struct jval v;
	const struct node *k;
	bool ok;

	switch (n->type) {
	case N_CONST:
		return step(r) && jx_print_value(r, n->value);
	case N_CONCAT:
		for (k = n->kids; k != NULL; k = k->next)
			if (!step(r) || !jx_eval(r, k, &v) || !jx_print_value(r, v))
				return false;
		return true;
	case N_CALL:
		return print_call(r, n);
	case N_COND:
		if (!jx_deeper(r))
			return false;
		ok = print_cond(r, n);
		r->depth--;
		return ok;
	case N_BINARY:
		if (n->op != OP_ADD)
			break;
		if (!jx_deeper(r))
			return false;
		ok = print_sum(r, n);
		r->depth--;
		return ok;
	}
	return jx_eval(r, n, &v) && jx_print_value(r, v);
}

static bool exec_output(struct run *r, const struct node *n)
{
	for (n = n->kids; n != NULL; n = n->next) {
		r->line = n->line;
		if (!jx_print_node(r, n))
			return false;
	}
	return true;
}

/* ---- assigning --------------------------------------------------------------------------- */

static bool assign(struct run *r, const struct node *target, struct jval v);

static bool unpack(struct run *r, const struct node *target, struct jval v)
{
	const struct node *k;
	struct iter it;
	struct jval item;
	unsigned want = 0, got = 0;
	int more;

	for (k = target->kids; k != NULL; k = k->next)
		want++;
	if (is_undef(v))
		return jx_raise(r, "ValueError: not enough values to unpack (expected %u, got 0)", want);
	if (!jx_iterable(v))
		return jx_raise(r, "TypeError: cannot unpack non-iterable %s object", jval_type(v.kind));
	if (!jx_iter_start(r, v, &it))
		return false;
	for (k = target->kids; k != NULL; k = k->next, got++) {
		more = jx_iter_next(r, &it, &item);
		if (more < 0)
			return false;
		if (more == 0)
			return jx_raise(r, "ValueError: not enough values to unpack (expected %u, got %u)", want, got);
		if (!assign(r, k, item))
			return false;
	}
	more = jx_iter_next(r, &it, &item);
	if (more > 0)
		return jx_raise(r, "ValueError: too many values to unpack (expected %u)", want);
	return more == 0;
}

static bool assign(struct run *r, const struct node *target, struct jval v)
{
	struct jval *slot;

	if (target->type == N_TUPLE)
		return unpack(r, target, v);
	slot = &record_up(r->rec, target->up)->slot[target->slot];
	if (target->type == N_NAME) {
		*slot = v;
		return true;
	}
	if (slot->kind != JV_NS)
		return jx_raise(r, "TemplateRuntimeError: cannot assign attribute on non-namespace object");
	/* a filter may take it from there, which does not ask if it was read */
	if (v.kind == JV_UNREAD && !jx_read_item(r, &v))
		return false;
	jx_member_set(r, slot->d, target->b->value);
	if (jdict_put(r->m, slot->d, target->b->value, v))
		return true;
	return jx_no_room(r);
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* Execute <body> and collect its output. */
static enum flow gather(struct run *r, const struct node *body, struct jval *out)
{
	struct text *outer = r->into, t = { 0 };
	enum flow f;

	r->into = &t;
	f = jx_exec_all(r, body);
	r->into = outer;
	*out = jx_text_value(&t);
	return f;
}

static enum flow exec_block(struct run *r, const struct node *n)
{
	struct jval v, held = r->held;
	enum flow f;
	bool ok;

	jx_enter(r, n->scope);
	f = gather(r, n->kids, &v);
	if (f != FLOW_ON)
		return f;
	if (n->b != NULL) {
		r->held = v;
		ok = jx_eval(r, n->b, &v);
		r->held = held;
		if (!ok)
			return FLOW_FAILED;
	}
	return result(n->type == N_SETBLOCK ? assign(r, n->a, v) : jx_print_value(r, v));
}

static enum flow exec_with(struct run *r, const struct node *n)
{
	const struct node *t, *e;
	struct jval v;

	jx_enter(r, n->scope);
	for (t = n->alt, e = n->b; t != NULL; t = t->next, e = e->next)
		if (!jx_eval(r, e, &v) || !assign(r, t, v))
			return FLOW_FAILED;
	return jx_exec_all(r, n->kids);
}

static bool make_macro(struct run *r, const struct function *fn, struct jval *out)
{
	struct macro *m = jx_take(r, sizeof(*m));

	if (m == NULL)
		return false;
	m->fn = fn;
	m->up = r->rec;
	*out = (struct jval){ .kind = JV_MACRO, .p = m };
	return true;
}

/* Execute {% call(x) m(y) %} as m(y, caller=body). */
static bool exec_call_block(struct run *r, const struct node *n)
{
	struct jval f, caller, v;
	struct named *kw;
	struct args a;

	if (!make_macro(r, n->fn, &caller) || !jx_eval(r, n->a->a, &f) || !jx_eval_args(r, n->a->kids, &a))
		return false;
	kw = jx_take(r, (a.n_kw + 1) * sizeof(*kw));
	if (kw == NULL)
		return false;
	if (a.n_kw > 0)
		memcpy(kw, a.kw, a.n_kw * sizeof(*kw));
	kw[a.n_kw++] = (struct named){ SPAN("caller"), caller };
	a.kw = kw;
	r->line = n->line;
	if (f.kind == JV_MACRO)
		return jx_call_print(r, f, &a);
	return jx_call(r, f, &a, &v) && jx_print_value(r, v);
}

static bool exec_generation(struct run *r, const struct node *n)
{
	struct args none = { 0 };
	struct jval f;

	return make_macro(r, n->fn, &f) && jx_call_print(r, f, &none);
}

/* ---- if and for -------------------------------------------------------------------------- */

static enum flow exec_if(struct run *r, const struct node *n)
{
	const struct node *e;
	struct jval v;

	if (!jx_eval(r, n->a, &v))
		return FLOW_FAILED;
	if (jval_truth(v))
		return jx_exec_all(r, n->kids);
	for (e = n->b; e != NULL; e = e->next) {
		if (!jx_eval(r, e->a, &v))
			return FLOW_FAILED;
		if (jval_truth(v))
			return jx_exec_all(r, e->kids);
	}
	return jx_exec_all(r, n->alt);
}

/* The loop's filter as an iterator. In Python it is a generator, evaluated as the loop proceeds. */
struct filtered {
	struct run *r;
	const struct node *n;
	struct record *rec;
};

static int filtered_next(struct run *r, struct gen *g, struct jval *out)
{
	const struct filtered *f = (const void *)g->args.v;
	struct record *rec = r->rec;
	struct jval v;
	int more;

	r->rec = f->rec;
	while ((more = jx_iter_next(r, &g->it, out)) > 0) {
		jx_enter(r, &f->n->scope[2]);
		if (!assign(r, f->n->c->b, *out) || !jx_eval(r, f->n->c->a, &v)) {
			more = -1;
			break;
		}
		if (jval_truth(v))
			break;
	}
	r->rec = rec;
	return more;
}

static bool filter_source(struct run *r, const struct node *n, struct jval *source)
{
	struct filtered *f;
	struct args a = { 0 };

	if (n->c == NULL)
		return true;
	f = jx_take(r, sizeof(*f));
	if (f == NULL)
		return false;
	*f = (struct filtered){ r, n, r->rec };
	a.v = (const void *)f;
	return jx_gen_new(r, filtered_next, *source, &a, 0, source);
}

static enum flow loop_body(struct run *r, const struct node *n, struct jval item, bool *completed)
{
	enum flow f;

	if (!step(r) || !assign(r, n->a, item))
		return FLOW_FAILED;
	jx_enter(r, &n->scope[0]);
	f = jx_exec_all(r, n->kids);
	if (f == FLOW_ON)
		*completed = true;
	return f;
}

/* Execute a loop whose body uses <loop>, which needs to look one item ahead. */
static enum flow loop_known(struct run *r, const struct node *n, struct jval source,
			    uint64_t skip, bool *completed)
{
	struct loop *l = jx_take(r, sizeof(*l));
	bool tracked = n->top && r->track.on;
	enum flow f = FLOW_ON;
	int more;

	if (l == NULL || !jx_loop_start(r, l, source))
		return FLOW_FAILED;
	if (skip > 0)
		jx_loop_skip(l, skip);
	while ((more = jx_loop_next(r, l)) > 0) {
		if (tracked)
			jx_loop_item(r, l, l->index, *completed);
		r->rec->slot[n->slot] = (struct jval){ .kind = JV_LOOP, .p = l };
		f = loop_body(r, n, l->now, completed);
		if (f == FLOW_BREAK || f == FLOW_FAILED)
			return f;
	}
	return result(more == 0);
}

static enum flow loop_plain(struct run *r, const struct node *n, struct jval source,
			    uint64_t skip, bool *completed)
{
	bool tracked = n->top && r->track.on;
	struct iter it;
	struct jval item;
	enum flow f;
	int more;

	if (!jx_iter_start(r, source, &it))
		return FLOW_FAILED;
	it.at = skip;
	it.any = true;
	while ((more = jx_iter_next(r, &it, &item)) > 0) {
		if (tracked)
			jx_loop_item(r, NULL, it.at - 1, *completed);
		f = loop_body(r, n, item, completed);
		if (f == FLOW_BREAK || f == FLOW_FAILED)
			return f;
	}
	return result(more == 0);
}

/* Execute a loop. As in Jinja2, else runs if no turn reached its end, even because of break or
 * continue. */
static enum flow exec_for(struct run *r, const struct node *n)
{
	struct jval source;
	bool completed = false, inside = r->track.on;
	uint64_t skip = 0;
	enum flow f;

	if (!jx_eval(r, n->b, &source) || !filter_source(r, n, &source) ||
	    (n->top && !jx_loop_begin(r, n, source, &skip, &completed)))
		return FLOW_FAILED;
	f = n->loop_var ? loop_known(r, n, source, skip, &completed) :
			  loop_plain(r, n, source, skip, &completed);
	if (f == FLOW_ON && r->track.on && !inside)
		jx_loop_end(r, completed);
	r->track.on = inside;
	if (f == FLOW_FAILED || n->alt == NULL || completed)
		return f == FLOW_FAILED ? f : FLOW_ON;
	jx_enter(r, &n->scope[1]);
	return jx_exec_all(r, n->alt);
}

/* A loop over a variable whose text depends on nothing else: it may be that of tools. */
static enum flow exec_prints(struct run *r, const struct node *n)
{
	struct tools_gap g;
	enum flow f;
	bool over;

	if (!jx_gap_begin(r, n, &over, &g))
		return FLOW_FAILED;
	if (over)
		return FLOW_ON;
	f = exec_for(r, n);
	if (f == FLOW_ON)
		jx_gap_end(r, &g);
	return f;
}

static enum flow exec(struct run *r, const struct node *n)
{
	struct jval v;

	r->line = n->line;
	switch (n->type) {
	case N_OUTPUT:
		return result(exec_output(r, n));
	case N_IF:
		return exec_if(r, n);
	case N_FOR:
		return n->prints ? exec_prints(r, n) : exec_for(r, n);
	case N_SET:
		return result(jx_eval(r, n->b, &v) && assign(r, n->a, v));
	case N_SETBLOCK: case N_FILTERBLOCK:
		return exec_block(r, n);
	case N_WITH:
		return exec_with(r, n);
	case N_MACRO:
		return result(make_macro(r, n->fn, &v) && assign(r, &(struct node){ .type = N_NAME, .up = n->up,
		     .slot = n->slot }, v));
	case N_CALLBLOCK:
		return result(exec_call_block(r, n));
	case N_GENERATION:
		return result(exec_generation(r, n));
	case N_BREAK:
		return FLOW_BREAK;
	default:
		return FLOW_CONTINUE;
	}
}

enum flow jx_exec_all(struct run *r, const struct node *n)
{
	enum flow f = FLOW_ON;

	if (!jx_deeper(r))
		return FLOW_FAILED;
	for (; n != NULL && f == FLOW_ON; n = n->next)
		f = step(r) ? exec(r, n) : FLOW_FAILED;
	r->depth--;
	return f;
}

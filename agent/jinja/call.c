/* Calls: macros, global functions, methods. */
#include "agent/jinja/run_in.h"

enum function_id { FN_RANGE = 1, FN_NAMESPACE, FN_DICT, FN_RAISE, FN_STRFTIME, FN_UNKNOWN };

static const struct {
	const char *name;
	uint8_t id;
} globals[] = {
	{ "range", FN_RANGE },           { "namespace", FN_NAMESPACE },   { "dict", FN_DICT },
	{ "raise_exception", FN_RAISE }, { "strftime_now", FN_STRFTIME }, { "lipsum", FN_UNKNOWN },
	{ "cycler", FN_UNKNOWN },        { "joiner", FN_UNKNOWN },
};

bool jx_global_named(struct run *r, struct span name, struct jval *out)
{
	size_t i;

	for (i = 0; i < sizeof(globals) / sizeof(globals[0]); i++) {
		if (!span_eq(name, span_str(globals[i].name)))
			continue;
		*out = (struct jval){ .kind = JV_FUNC, .aux = globals[i].id };
		return true;
	}
	return false;
}

bool jx_bind(struct run *r, const char *what, const struct args *a, const char *const *names,
	     unsigned n, struct jval *v)
{
	uint32_t i;
	unsigned k;

	if (a->n > n)
		return jx_raise(r, "TypeError: %s takes %u arguments but %u were given", what, n, a->n);
	for (k = 0; k < n; k++)
		v[k] = k < a->n ? a->v[k] : (struct jval){ .kind = JV_MISSING };
	for (k = 0; k < a->n; k++)
		if (v[k].kind == JV_MISSING)
			v[k].kind = JV_UNDEF;
	for (i = 0; i < a->n_kw; i++) {
		for (k = 0; k < n; k++)
			if (span_eq(a->kw[i].name, span_str(names[k])))
				break;
		if (k == n)
			return jx_raise(r, "TypeError: %s got an unexpected keyword argument '" SPAN_FMT "'", what,
			     SPAN_ARG(a->kw[i].name));
		if (v[k].kind != JV_MISSING)
			return jx_raise(r, "TypeError: %s got multiple values for argument '%s'", what, names[k]);
		v[k] = a->kw[i].v;
	}
	return true;
}

/* ---- macros ------------------------------------------------------------------------------ */

struct keywords {
	struct named *v;
	uint32_t n;
};

static bool pop_keyword(struct keywords *kw, struct span name, struct jval *out)
{
	uint32_t i;

	for (i = 0; i < kw->n; i++) {
		if (!span_eq(kw->v[i].name, name))
			continue;
		*out = kw->v[i].v;
		memmove(&kw->v[i], &kw->v[i + 1], (kw->n - i - 1) * sizeof(*kw->v));
		kw->n--;
		return true;
	}
	return false;
}

static bool give_kwargs(struct run *r, struct keywords *kw, struct jval *slot)
{
	uint32_t i;

	*slot = jval_dict(r->m, kw->n);
	if (slot->kind == JV_MISSING)
		return jx_no_room(r);
	for (i = 0; i < kw->n; i++)
		if (!jdict_put(r->m, slot->d, jval_str(kw->v[i].name.p, kw->v[i].name.n), kw->v[i].v))
			return jx_no_room(r);
	return true;
}

/* Set an absent parameter to its default, evaluated in the macro's scope, or to undefined. */
static bool default_of(struct run *r, const struct node *param, const struct node *def,
		       struct jval *slot)
{
	struct text t = { 0 };

	if (def != NULL)
		return jx_eval(r, def, slot);
	if (!jx_text_add(r, &t, "parameter '", 11) || !jx_text_add(r, &t, param->name.p, param->name.n) ||
	    !jx_text_add(r, &t, "' was not provided", 18))
		return false;
	*slot = undefined(UNDEF_HINT, t.p, t.n, 0);
	return true;
}

/* Bind arguments as Macro.__call__ does: by position, by name, then the special parameters. */
static bool give_arguments(struct run *r, const struct function *fn, const struct args *a,
			   struct keywords *kw, struct record *rec)
{
	static const char no_caller[] = "No caller defined";
	const struct node *p;
	uint32_t i = 0;
	struct jval *slot;

	for (p = fn->params; p != NULL; p = p->next, i++) {
		slot = &rec->slot[p->slot];
		if (i < a->n)
			*slot = a->v[i];
		else
			pop_keyword(kw, p->name, slot);
	}
	if (fn->caller >= 0 && (!pop_keyword(kw, SPAN("caller"), &rec->slot[fn->caller]) ||
				rec->slot[fn->caller].kind == JV_NONE))
		rec->slot[fn->caller] = undefined(UNDEF_HINT, no_caller, sizeof(no_caller) - 1, 0);
	if (fn->kwargs >= 0 && !give_kwargs(r, kw, &rec->slot[fn->kwargs]))
		return false;
	if (fn->kwargs < 0 && kw->n > 0)
		return jx_raise(r,
				"TypeError: macro '" SPAN_FMT
				"' takes no keyword argument '" SPAN_FMT "'",
				SPAN_ARG(fn->name), SPAN_ARG(kw->v[0].name));
	if (fn->varargs >= 0)
		rec->slot[fn->varargs] =
			(struct jval){ .kind = JV_TUPLE,
				       .n = a->n > fn->n_params ? a->n - fn->n_params : 0,
				       .v = a->n > fn->n_params ? a->v + fn->n_params : NULL };
	else if (a->n > fn->n_params)
		return jx_raise(
			r, "TypeError: macro '" SPAN_FMT "' takes not more than %u argument(s)",
			SPAN_ARG(fn->name), fn->n_params);
	return true;
}

static bool run_body(struct run *r, const struct function *fn)
{
	const struct node *p, *def = fn->defaults;
	uint32_t i = 0;

	jx_enter(r, &fn->scope);
	for (p = fn->params; p != NULL; p = p->next, i++) {
		const struct node *d = i + fn->n_defaults >= fn->n_params ? def : NULL;

		if (d != NULL)
			def = def->next;
		if (r->rec->slot[p->slot].kind == JV_MISSING && !default_of(r, p, d, &r->rec->slot[p->slot]))
			return false;
	}
	return jx_exec_all(r, fn->body) == FLOW_ON;
}

bool jx_call_print(struct run *r, struct jval f, const struct args *a)
{
	const struct macro *m = f.p;
	struct record *rec = jx_take(r, sizeof(*rec) + m->fn->n_slots * sizeof(rec->slot[0])),
		      *outer = r->rec;
	struct keywords kw = { NULL, a->n_kw };
	bool ok;

	if (rec == NULL || !jx_deeper(r))
		return false;
	memset(rec, 0, sizeof(*rec) + m->fn->n_slots * sizeof(rec->slot[0]));
	rec->up = m->up;
	if (a->n_kw > 0) {
		kw.v = jx_take(r, a->n_kw * sizeof(*kw.v));
		if (kw.v == NULL)
			return false;
		memcpy(kw.v, a->kw, a->n_kw * sizeof(*kw.v));
	}
	if (!give_arguments(r, m->fn, a, &kw, rec))
		return false;
	r->rec = rec;
	ok = run_body(r, m->fn);
	r->rec = outer;
	r->depth--;
	return ok;
}

static bool call_macro(struct run *r, struct jval f, const struct args *a, struct jval *out)
{
	struct text *outer = r->into, t = { 0 };
	bool ok;

	r->into = &t;
	ok = jx_call_print(r, f, a);
	r->into = outer;
	*out = jx_text_value(&t);
	return ok;
}

/* ---- functions --------------------------------------------------------------------------- */

static bool call_range(struct run *r, const struct args *a, struct jval *out)
{
	struct jrange *g = jx_take(r, sizeof(*g));
	unsigned i;

	if (g == NULL)
		return false;
	if (a->n_kw > 0 || a->n == 0 || a->n > 3)
		return jx_raise(r, "TypeError: range expected 1 to 3 arguments, got %u", a->n + a->n_kw);
	for (i = 0; i < a->n; i++) {
		if (is_undef(a->v[i]))
			return jx_raise(r, "TypeError: 'Undefined' object cannot be interpreted as an integer");
		if (!is_integer(a->v[i]))
			return jx_raise(
				r, "TypeError: '%s' object cannot be interpreted as an integer",
				jval_type(a->v[i].kind));
	}
	*g = (struct jrange){
		.start = a->n > 1 ? a->v[0].i : 0,
		.stop = a->v[a->n > 1].i,
		.step = a->n > 2 ? a->v[2].i : 1,
	};
	if (g->step == 0)
		return jx_raise(r, "ValueError: range() arg 3 must not be zero");
	if (g->step == INT64_MIN)
		return jx_unknown(r, "a range with this step");
	if (g->step > 0 && g->stop > g->start)
		g->n = ((uint64_t)g->stop - (uint64_t)g->start - 1) / (uint64_t)g->step + 1;
	else if (g->step < 0 && g->stop < g->start)
		g->n = ((uint64_t)g->start - (uint64_t)g->stop - 1) / (uint64_t)-g->step + 1;
	if (g->n > 100000)
		return jx_raise(r, "OverflowError: Range too big. The sandbox blocks ranges larger "
				   "than MAX_RANGE (100000).");
	*out = (struct jval){ .kind = JV_RANGE, .p = g };
	return true;
}

static bool put(struct run *r, struct jdict *d, struct jval key, struct jval v)
{
	if (!jval_hashable(key))
		return jx_raise(r, "TypeError: unhashable type: '%s'", jval_type(key.kind));
	return jdict_put(r->m, d, key, v) || jx_no_room(r);
}

/* Add the members of a mapping, or of a sequence of pairs. */
static bool put_all(struct run *r, struct jdict *d, struct jval from)
{
	struct jval pair, kv;
	struct iter it;
	uint32_t i;
	int more;

	if (from.kind == JV_DICT) {
		if (!jx_step_bytes(r, (size_t)from.d->n * 4 * STEP_BYTES))
			return false;
		for (i = 0; i < from.d->n; i++)
			if (!put(r, d, from.d->entry[i].key, from.d->entry[i].value))
				return false;
		return true;
	}
	if (!jx_iter_start(r, from, &it))
		return false;
	while ((more = jx_iter_next(r, &it, &pair)) > 0) {
		if (!jx_to_list(r, pair, &kv))
			return false;
		if (kv.n != 2)
			return jx_raise(r,
					"ValueError: dictionary update sequence element has length "
					"%u; 2 is required",
					kv.n);
		if (!step(r) || !put(r, d, kv.v[0], kv.v[1]))
			return false;
	}
	return more == 0;
}

static bool call_dict(struct run *r, const struct args *a, bool ns, struct jval *out)
{
	uint32_t i;

	*out = jval_dict(r->m, a->n_kw);
	if (out->kind == JV_MISSING)
		return jx_no_room(r);
	if (ns)
		out->kind = JV_NS;
	if (a->n > 1)
		return jx_raise(r, "TypeError: dict expected at most 1 argument, got %u", a->n);
	if (a->n == 1 && !put_all(r, out->d, a->v[0]))
		return false;
	for (i = 0; i < a->n_kw; i++)
		if (!put(r, out->d, jval_str(a->kw[i].name.p, a->kw[i].name.n), a->kw[i].v))
			return false;
	return true;
}

static bool call_raise(struct run *r, const struct args *a)
{
	static const char *const names[] = { "message" };
	struct jval message;

	if (!jx_bind(r, "raise_exception()", a, names, 1, &message))
		return false;
	if (message.kind == JV_MISSING)
		return jx_raise(r, "TypeError: raise_exception() missing 1 required positional "
				   "argument: 'message'");
	if (!jx_to_str(r, message, &message))
		return false;
	return jx_raise(r, "TemplateError: " SPAN_FMT, message.n < 200 ? (int)message.n : 200, message.s);
}

static bool call_function(struct run *r, unsigned id, const struct args *a, struct jval *out)
{
	static const char *const names[] = { "format" };
	struct jval format;

	switch (id) {
	case FN_RANGE:
		return call_range(r, a, out);
	case FN_NAMESPACE:
		return call_dict(r, a, true, out);
	case FN_DICT:
		return call_dict(r, a, false, out);
	case FN_RAISE:
		return call_raise(r, a);
	case FN_STRFTIME:
		jx_whole_read(r);	/* another time, another text */
		return jx_bind(r, "strftime_now()", a, names, 1, &format) && jx_strftime_now(r, format, out);
	}
	return jx_unknown(r, "a function of Jinja2 that is not known here");
}

bool jx_call(struct run *r, struct jval f, const struct args *a, struct jval *out)
{
	switch (f.kind) {
	case JV_MACRO:
		return call_macro(r, f, a, out);
	case JV_FUNC:
		return call_function(r, f.aux, a, out);
	case JV_METHOD:
		return jx_call_method(r, *f.v, f.aux, a, out);
	case JV_UNDEF: case JV_MISSING:
		return jx_use_undefined(r, f);
	case JV_LOOP:
		return jx_raise(r, "TypeError: The loop must have the 'recursive' marker to be "
				   "called recursively.");
	}
	return jx_raise(r, "TypeError: '%s' object is not callable", jval_type(f.kind));
}

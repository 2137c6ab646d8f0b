/* Iteration over everything Python can iterate, with a look-ahead for loops that need one.
 *
 * map, select and similar filters return generators in Jinja2, with visible effects: they have
 * no length, are iterated once, and an error in the fifth item is not raised if only the first
 * is used. They are therefore generators here too. */
#include "agent/jinja/run_in.h"

bool jx_list_add(struct run *r, struct list *l, struct jval v)
{
	size_t room = l->room ? l->room * 2 : 4;
	struct jval *p;

	if (l->n == l->room) {
		p = jinja_mem_grow(r->m, l->v, l->n * sizeof(*p), room * sizeof(*p));
		if (p == NULL)
			return jx_no_room(r);
		l->v = p;
		l->room = room;
	}
	l->v[l->n++] = v;
	return true;
}

bool jx_gen_new(struct run *r, int (*next)(struct run *, struct gen *, struct jval *),
		struct jval source, const struct args *a, unsigned flags, struct jval *out)
{
	struct gen *g = jx_take(r, sizeof(*g));

	if (g == NULL)
		return false;
	memset(g, 0, sizeof(*g));
	g->next = next;
	g->source = source;
	g->args = *a;
	g->flags = flags;
	*out = (struct jval){ .kind = JV_GEN, .p = g };
	return true;
}

bool jx_iterable(struct jval v)
{
	switch (v.kind) {
	case JV_MISSING:
	case JV_UNDEF:
	case JV_STR:
	case JV_LIST:
	case JV_TUPLE:
	case JV_DICT:
	case JV_RANGE:
	case JV_VIEW:
	case JV_GEN: case JV_LOOP:
		return true;
	}
	return false;
}

bool jx_iter_start(struct run *r, struct jval v, struct iter *it)
{
	if (!jx_iterable(v))
		return jx_raise(r, "TypeError: '%s' object is not iterable", jval_type(v.kind));
	it->of = v;
	it->at = 0;
	it->any = false;
	return true;
}

static int generated(struct run *r, struct gen *g, struct jval *out)
{
	int more;

	if (g->done)
		return 0;
	if (!jx_deeper(r))
		return -1;
	if (!g->started) {
		g->started = true;
		if (!jx_iter_start(r, g->source, &g->it))
			return -1;
	}
	more = step(r) ? g->next(r, g, out) : -1;
	r->depth--;
	g->done = more <= 0;
	return more;
}

static int next_pair(struct run *r, const struct jdict_entry *e, struct jval *out)
{
	struct jval *pair = jx_take(r, 2 * sizeof(*pair));

	if (pair == NULL)
		return -1;
	pair[0] = e->key;
	pair[1] = e->value;
	*out = (struct jval){ .kind = JV_TUPLE, .n = 2, .v = pair };
	return 1;
}

static int next_char(struct iter *it, struct jval *out)
{
	const char *p = it->of.s + it->at, *end = it->of.s + it->of.n;

	if (p == end)
		return 0;
	*out = jval_str(p, (size_t)(jx_chars_on(p, end, 1) - p));
	out->flags = it->of.flags & JV_ASCII;
	it->at += out->n;
	return 1;
}

int jx_iter_next(struct run *r, struct iter *it, struct jval *out)
{
	const struct jrange *g;

	switch (it->of.kind) {
	case JV_LIST: case JV_TUPLE:
		if (it->at == it->of.n)
			return 0;
		*out = it->of.v[it->at++];
		return out->kind != JV_UNREAD || it->any || jx_read_item(r, out) ? 1 : -1;
	case JV_STR:
		return next_char(it, out);
	case JV_DICT:
		if (it->at == it->of.d->n)
			return 0;
		*out = it->of.d->entry[it->at++].key;
		return 1;
	case JV_VIEW:
		if (it->at == it->of.d->n)
			return 0;
		if (it->of.aux == 'i')
			return next_pair(r, &it->of.d->entry[it->at++], out);
		*out = it->of.aux == 'k' ? it->of.d->entry[it->at].key : it->of.d->entry[it->at].value;
		it->at++;
		return 1;
	case JV_RANGE:
		g = it->of.p;
		if (it->at == g->n)
			return 0;
		*out = jval_int((int64_t)((uint64_t)g->start + it->at++ * (uint64_t)g->step));
		return 1;
	case JV_GEN:
		return generated(r, it->of.p, out);
	case JV_LOOP:
		jx_unknown(r, "a loop that is walked over");
		return -1;
	}
	return 0;
}

bool jx_to_list(struct run *r, struct jval v, struct jval *out)
{
	struct list l = { 0 };
	struct jval item;
	struct iter it;
	int more;

	if (v.kind == JV_LIST || v.kind == JV_TUPLE) {
		*out = v;
		out->kind = JV_LIST;
		return true;
	}
	if (!jx_iter_start(r, v, &it))
		return false;
	while ((more = jx_iter_next(r, &it, &item)) > 0)
		if (!step(r) || !jx_list_add(r, &l, item))
			return false;
	*out = jval_list(l.v, l.n);
	return more == 0;
}

bool jx_length_of(struct run *r, struct jval v, uint64_t *n)
{
	switch (v.kind) {
	case JV_MISSING: case JV_UNDEF:
		*n = 0;
		return true;
	case JV_STR:
		*n = jval_chars(v);
		return jx_step_bytes(r, v.flags & JV_ASCII ? 0 : v.n);
	case JV_LIST: case JV_TUPLE:
		*n = v.n;
		return true;
	case JV_DICT: case JV_VIEW:
		*n = v.d->n;
		return true;
	case JV_RANGE:
		*n = range_length(v);
		return true;
	case JV_LOOP:
		return jx_unknown(r, "the length of a loop that is taken by a filter");
	}
	return jx_raise(r, "TypeError: object of type '%s' has no len()", jval_type(v.kind));
}

/* ---- the loop variable ------------------------------------------------------------------- */

bool jx_loop_start(struct run *r, struct loop *l, struct jval source)
{
	memset(l, 0, sizeof(*l));
	l->source = source;
	l->index = UINT64_MAX;
	if (!jx_iter_start(r, source, &l->it))
		return false;
	l->it.any = true;
	return true;
}

static int take_next(struct run *r, struct loop *l, struct jval *out)
{
	if (l->rest_at < l->rest.n) {
		*out = l->rest.v[l->rest_at++];
		return 1;
	}
	return jx_iter_next(r, &l->it, out);
}

void jx_loop_skip(struct loop *l, uint64_t n)
{
	l->it.at = n;
	l->index = n - 1;
	l->now = l->source.v[n - 1];
}

int jx_loop_next(struct run *r, struct loop *l)
{
	int more = 1;

	l->before = l->now;
	if (l->has_after)
		l->now = l->after;
	else
		more = take_next(r, l, &l->now);
	l->has_after = false;
	if (more > 0)
		l->index++;
	return more;
}

/* Fetch the next item into l->after. Returns 1, or 0 at the end, or -1. */
static int look_ahead(struct run *r, struct loop *l)
{
	int more;

	if (l->has_after)
		return 1;
	more = take_next(r, l, &l->after);
	l->has_after = more > 0;
	return more;
}

static bool loop_length(struct run *r, struct loop *l, uint64_t *n)
{
	struct jval item;
	int more;

	if (l->source.kind != JV_GEN)
		return jx_length_of(r, l->source, n);
	while ((more = jx_iter_next(r, &l->it, &item)) > 0)
		if (!jx_list_add(r, &l->rest, item))
			return false;
	*n = l->index + 1 + l->has_after + (l->rest.n - l->rest_at);
	return more == 0;
}

static bool loop_side(struct run *r, struct loop *l, bool next, struct jval *out)
{
	static const char after[] = "there is no next item", before[] = "there is no previous item";
	int more;

	if (!next) {
		*out = l->index > 0 ? l->before : undefined(UNDEF_HINT, before, sizeof(before) - 1, 0);
		return true;
	}
	more = look_ahead(r, l);
	jx_end_read(r, l, more == 0);
	jx_next_read(r, l);
	*out = more > 0 ? l->after : undefined(UNDEF_HINT, after, sizeof(after) - 1, 0);
	return more >= 0;
}

bool jx_loop_attr(struct run *r, struct loop *l, struct span name, struct jval *out, bool *found)
{
	uint64_t n;
	int more;

	*found = true;
	if (span_eq(name, SPAN("index0")) || span_eq(name, SPAN("index"))) {
		*out = jval_int((int64_t)l->index + (name.n == 5));
	} else if (span_eq(name, SPAN("first"))) {
		*out = jval_bool(l->index == 0);
	} else if (span_eq(name, SPAN("last"))) {
		more = look_ahead(r, l);
		jx_end_read(r, l, more == 0);
		*out = jval_bool(more == 0);
		return more >= 0;
	} else if (span_eq(name, SPAN("previtem")) || span_eq(name, SPAN("nextitem"))) {
		return loop_side(r, l, name.p[0] == 'n', out);
	} else if (span_eq(name, SPAN("length")) || span_eq(name, SPAN("revindex")) ||
		   span_eq(name, SPAN("revindex0"))) {
		if (!loop_length(r, l, &n))
			return false;
		if (l == r->track.loop)
			jx_whole_read(r);
		*out = jval_int((int64_t)(name.p[0] == 'l' ? n : n - l->index - (name.n == 9)));
	} else if (span_eq(name, SPAN("depth")) || span_eq(name, SPAN("depth0"))) {
		*out = jval_int(name.n == 5);
	} else {
		*found = false;
	}
	return true;
}

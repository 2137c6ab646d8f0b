/* watch.c - note what is read of a list of messages, and of whole numbers in namespaces, while a
 * loop over it runs (resume.h). */
#include "agent/jinja/run_in.h"

/* Roles that an item which is not read may have, and that a state may name. */
static const char *const roles[] = {
	NULL, "system", "user", "assistant", "tool", "developer", "ipython", "function", "model",
};

/* ---- reads ------------------------------------------------------------------------------- */

bool jx_missed(struct run *r)
{
	if (r->code == JINJA_OK)
		r->code = JINJA_MISSED;
	return false;
}

void jx_whole_read(struct run *r)
{
	r->track.whole |= r->track.on;
}

bool jx_touched(struct run *r, const struct node *n, struct jval *v)
{
	if (v->kind == JV_UNREAD && v->aux == UNREAD_TEXT)
		return n->presence || jx_missed(r);
	if (v->kind == JV_UNREAD && v->aux == UNREAD_TOOLS && n->presence)
		return true;
	if (v->kind == JV_UNREAD)
		return n->member || jx_read_item(r, v);
	if ((v->flags & JV_HAS_UNREAD) != 0 && !n->carried)
		return jx_missed(r);
	if (!n->indexed)
		jx_whole_read(r);
	return true;
}

unsigned jinja_role(struct span name)
{
	for (unsigned i = 1; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (span_eq(name, span_str(roles[i])))
			return i;
	return 0;
}

bool jx_unread_role(struct jval v, struct jval name, struct jval *out)
{
	if (v.aux == 0 || v.aux >= sizeof(roles) / sizeof(roles[0]) || name.kind != JV_STR ||
	    !span_eq(jval_span(name), SPAN("role")))
		return false;
	*out = lit(roles[v.aux]);
	return true;
}

/* Count item <at> unless it was read before. Returns false if it would be one too many. */
static bool may_read(struct track *t, uint32_t at)
{
	for (unsigned i = 0; i < t->n_read; i++)
		if (t->read[i] == at)
			return true;
	if (t->n_read == READ_MOST)
		return false;
	t->read[t->n_read++] = at;
	return true;
}

bool jx_read_item(struct run *r, struct jval *v)
{
	struct jinja_resume *as = r->track.as;

	if (v->aux == UNREAD_TEXT || as == NULL || as->read == NULL || !may_read(&r->track, v->n))
		return jx_missed(r);
	return as->read(as->arg, v->n, v) || jx_missed(r);
}

void jx_item_read(struct run *r, struct jval v, struct jval key)
{
	const struct jinja_resume *as = r->track.as;
	uint64_t at;

	if (!r->track.on)
		return;
	if (!is_integer(key) || key.i < 0 || (uint64_t)key.i >= v.n || v.v < as->list ||
	    v.v + v.n > as->list + as->n) {
		r->track.whole = true;
		return;
	}
	at = (uint64_t)(v.v - as->list) + (uint64_t)key.i + 1;
	if (at > r->track.furthest)
		r->track.furthest = at;
}

void jx_end_read(struct run *r, const struct loop *l, bool last)
{
	r->track.tail |= r->track.on && l == r->track.loop && last;
}

void jx_next_read(struct run *r, const struct loop *l)
{
	uint64_t at = r->track.first + l->index + 2;

	if (r->track.on && l == r->track.loop && at > r->track.furthest)
		r->track.furthest = at;
}

/* ---- numbers ----------------------------------------------------------------------------- */

/* It must be the same next time. */
static void pin(struct tracked_number *w)
{
	if (w != NULL)
		w->least = w->most = w->value;
}

/* Return the number that member <v> of <d> still is, or NULL. */
static struct tracked_number *number_of(
    struct track *t, const struct jdict *d, const struct jval *v)
{
	for (uint32_t i = 0; i < t->n_numbers; i++) {
		struct tracked_number *w = &t->number[i];

		if (t->space[w->space].d == d && w->member < d->n && &d->entry[w->member].value == v)
			return v->kind == JV_INT && v->i == w->value ? w : NULL;
	}
	return NULL;
}

void jx_member_read(struct run *r, const struct jdict *d, const struct jval *v)
{
	struct tracked_number *w = r->track.on ? number_of(&r->track, d, v) : NULL;

	pin(w);
	if (v->kind == JV_UNREAD && v->aux == UNREAD_TEXT) {
		if (!r->track.presence)
			jx_missed(r);
		return;
	}
	if (!is_watched(v))
		return;
	jx_whole_read(r);	/* a filter may have asked, which notes no more */
	if ((v->flags & JV_HAS_UNREAD) != 0)
		jx_missed(r);
}

/* A number that is set, if to the same, is not as it was any more: it must start as it did. */
void jx_member_set(struct run *r, const struct jdict *d, struct jval name)
{
	const struct jval *v = r->track.on ? jdict_get(d, name) : NULL;
	struct track *t = &r->track;

	for (uint32_t i = 0; v != NULL && i < t->n_numbers; i++) {
		struct tracked_number *w = &t->number[i];

		if (t->space[w->space].d == d && &d->entry[w->member].value == v)
			pin(w);
	}
}

/* Return the number that the expression <n> names: a member of a namespace in a variable. */
static struct tracked_number *number_named(struct run *r, const struct node *n)
{
	const struct record *rec = r->rec;
	const struct jval *v;
	struct jval of;

	if (n->type != N_GETATTR || n->a->type != N_NAME || n->id != 0)
		return NULL;
	for (unsigned up = n->a->up; up > 0; up--)
		rec = rec->up;
	of = rec->slot[n->a->slot];
	v = of.kind == JV_NS ? jdict_get(of.d, n->value) : NULL;
	return v != NULL ? number_of(&r->track, of.d, v) : NULL;
}

/* Note that <w> <op> <c> is <is>; the other operators are these with their result reversed. */
static void narrow(struct tracked_number *w, enum op op, int64_t c, bool is)
{
	int64_t least = INT64_MIN, most = INT64_MAX;

	if (op == OP_GE || op == OP_GT) {
		op = op == OP_GE ? OP_LT : OP_LE;
		is = !is;
	}
	if ((op == OP_LT && c == INT64_MIN) || (op == OP_LE && c == INT64_MAX))
		return;		/* so it is for any number */
	if (op == OP_LT || op == OP_LE) {
		most = op == OP_LT ? c - 1 : c;
		if (!is) {
			least = most + 1;
			most = INT64_MAX;
		}
	} else {
		pin(w);
		return;
	}
	if (least > w->least)
		w->least = least;
	if (most < w->most)
		w->most = most;
}

static enum op turned(enum op op)
{
	return op == OP_LT ? OP_GT : op == OP_LE ? OP_GE : op == OP_GT ? OP_LT : op == OP_GE ? OP_LE : op;
}

/* Set <*v> to the value of <n>, and <*w> to the tracked number that it is, or NULL. */
static bool number_side(
    struct run *r, const struct node *n, struct jval *v, struct tracked_number **w)
{
	*w = number_named(r, n);
	if (*w == NULL)
		return jx_eval(r, n, v);
	*v = jval_int((*w)->value);
	return step(r) && step(r);		/* as jx_eval() */
}

bool jx_number_compared(struct run *r, const struct node *n, struct jval *out, bool *done)
{
	const struct node *b = n->kids;
	struct tracked_number *wa, *wb;
	struct jval va, vb;
	bool is;

	*done = false;
	if (b->next != NULL || (number_named(r, n->a) == NULL) == (number_named(r, b->a) == NULL))
		return true;
	/* evaluating one side may set the number of the other */
	if (!number_side(r, n->a, &va, &wa) || !number_side(r, b->a, &vb, &wb))
		return false;
	r->line = n->line;
	if (!jx_compare_values(r, b->op, va, vb, &is))
		return false;
	if (wa != NULL && wb == NULL && vb.kind == JV_INT) {
		narrow(wa, b->op, vb.i, is);
	} else if (wb != NULL && wa == NULL && va.kind == JV_INT) {
		narrow(wb, turned(b->op), va.i, is);
	} else {
		pin(wa);
		pin(wb);
	}
	*out = jval_bool(is);
	*done = true;
	return true;
}

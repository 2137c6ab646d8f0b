/* resume.c - reads of a list of messages are noted, states are written and restored (resume.h).
 *
 * A state has the hash of what the loop started with, the counts of steps and bytes since then (so
 * that limits are met where they would be), and the members of each namespace: as it was, or a
 * number, a truth value, nothing, or a text of the template or one of a few roles. Any other text
 * may be of a message: then there is no state. Its bytes are the caller's, who knows that they are
 * its own; even so each length is checked. */
#include "agent/jinja/run_in.h"

#define HASHED_BYTES	(1u << 20)	/* of texts among the variables, and their number */
#define HASHED_VALUES	(1u << 16)
#define HASHED_DEPTH	64u
#define NEAR_END	3u	/* items at the end before which a state is written */
#define CONST_MOST	64u	/* bytes of a text in a state */

struct state_head {
	uint64_t start, steps, printed;
	uint32_t id, first, messages, n_spaces, n_numbers;
	bool completed, more;
};

enum { SAVED_SAME, SAVED_NONE, SAVED_BOOL, SAVED_INT, SAVED_FLOAT, SAVED_TEXT };

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

bool jx_touched(struct run *r, const struct node *n, struct jval v)
{
	if (v.kind == JV_UNREAD || ((v.flags & JV_HAS_UNREAD) != 0 && !n->carried))
		return jx_missed(r);
	if (!n->indexed)
		jx_whole_read(r);
	return true;
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
static bool number_side(struct run *r, const struct node *n, struct jval *v, struct tracked_number **w)
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

/* ---- the hash of what a loop starts with ------------------------------------------------- */

struct state_hash {
	struct run *r;
	uint64_t h;
	size_t bytes, values;		/* left */
	unsigned depth, inside;		/* values around this one; lists and dicts of these */
	bool failed;
};

static void add_word(struct state_hash *s, uint64_t w)
{
	s->h = hash_mix(s->r->track.as->key, s->h, w);
}

static void add_text(struct state_hash *s, struct span t)
{
	if (t.n > s->bytes) {
		s->failed = true;
		return;
	}
	s->bytes -= t.n;
	s->h = hash_mix_span(s->r->track.as->key, s->h, t);
}

static void add_value(struct state_hash *s, struct jval v);

static void add_members(struct state_hash *s, const struct jdict *d)
{
	add_word(s, d->n);
	for (uint32_t i = 0; i < d->n && !s->failed; i++) {
		add_value(s, d->entry[i].key);
		add_value(s, d->entry[i].value);
	}
}

/* Track a number instead of adding it. Returns false if it is none, or there are too many. */
static bool add_number(struct state_hash *s, struct jval v, uint32_t space, uint32_t member)
{
	struct track *t = &s->r->track;

	if (v.kind != JV_INT || t->n_numbers == TRACK_NUMBERS)
		return false;
	add_word(s, JV_UNREAD);
	t->number[t->n_numbers++] =
		(struct tracked_number){ space, member, v.i, INT64_MIN, INT64_MAX };
	return true;
}

/* Add a namespace, and note its members as they are now. */
static void add_space(struct state_hash *s, struct jval v)
{
	struct track *t = &s->r->track;
	uint32_t space = t->n_spaces;
	struct jdict_entry *was;

	for (uint32_t i = 0; i < t->n_spaces; i++) {
		if (t->space[i].d == v.d) {
			add_word(s, i);
			return;
		}
	}
	was = t->n_spaces < TRACK_SPACES ? jinja_mem_take(s->r->m, v.d->n * sizeof(*was) + 1) : NULL;
	if (was == NULL) {
		s->failed = true;
		return;
	}
	if (v.d->n > 0)
		memcpy(was, v.d->entry, v.d->n * sizeof(*was));
	t->space[t->n_spaces++] = (struct tracked_space){ v.d, was, v.d->n };
	add_word(s, v.d->n);
	for (uint32_t i = 0; i < v.d->n && !s->failed; i++) {
		add_value(s, v.d->entry[i].key);
		if (!add_number(s, v.d->entry[i].value, space, i))
			add_value(s, v.d->entry[i].value);
	}
}

/* Add the list of messages, or the rest of it from some item on, as such. Inside of another value
 * its reads would not be noted. */
static bool add_messages(struct state_hash *s, struct jval v)
{
	const struct jinja_resume *as = s->r->track.as;

	if (v.kind != JV_LIST || (v.flags & JV_WATCHED) == 0 || v.v < as->list ||
	    v.v + v.n != as->list + as->n)
		return false;
	s->failed |= s->inside > 0;
	add_word(s, JV_UNREAD);		/* no value of a list */
	add_word(s, (uint64_t)(v.v - as->list));
	return true;
}

static void add_macro(struct state_hash *s, struct jval v)
{
	const struct macro *m = v.p;

	s->failed |= m->up != s->r->rec;
	add_word(s, m->fn->number);
}

static void add_items(struct state_hash *s, struct jval v)
{
	add_word(s, v.n);
	s->inside++;
	for (uint32_t i = 0; i < v.n && !s->failed; i++)
		add_value(s, v.v[i]);
	s->inside--;
}

static void add_range(struct state_hash *s, const struct jrange *g)
{
	add_word(s, (uint64_t)g->start);
	add_word(s, (uint64_t)g->stop);
	add_word(s, (uint64_t)g->step);
}

static void add_undefined(struct state_hash *s, struct jval v)
{
	add_word(s, (uint64_t)v.flags << 32 | v.aux);
	if (v.flags == UNDEF_ELEMENT)
		add_value(s, *v.v);
	else
		add_text(s, jval_span(v));
}

static void add_value_of_kind(struct state_hash *s, struct jval v)
{
	switch (v.kind) {
	case JV_MISSING: case JV_NONE:
		return;
	case JV_UNDEF:
		add_undefined(s, v);
		return;
	case JV_BOOL: case JV_INT: case JV_FLOAT:
		add_word(s, (uint64_t)v.i);
		return;
	case JV_STR: case JV_BIG:
		add_word(s, v.kind == JV_STR ? v.flags & JV_MARKUP : 0);
		add_text(s, jval_span(v));
		return;
	case JV_LIST: case JV_TUPLE:
		add_items(s, v);
		return;
	case JV_DICT:
		s->inside++;
		add_members(s, v.d);
		s->inside--;
		return;
	case JV_NS:
		add_space(s, v);
		return;
	case JV_RANGE:
		add_range(s, v.p);
		return;
	case JV_FUNC:
		add_word(s, v.aux);
		return;
	case JV_MACRO:
		add_macro(s, v);
		return;
	}
	s->failed = true;	/* a generator changes when it is used; an unread item is unknown */
}

static void add_value(struct state_hash *s, struct jval v)
{
	if (s->values == 0 || s->depth == HASHED_DEPTH)
		s->failed = true;
	if (s->failed)
		return;
	s->values--;
	s->depth++;
	add_word(s, v.kind);
	if (!add_messages(s, v))
		add_value_of_kind(s, v);
	s->depth--;
}

/* Return which of the caller's variables <v> is, or their number: tools are hashed once. */
static uint32_t variable_of(const struct jdict *vars, struct jval v)
{
	uint32_t i = 0;

	while (i < vars->n && memcmp(&vars->entry[i].value, &v, sizeof(v)) != 0)
		i++;
	return i;
}

/* Hash the text so far, the caller's variables, and the variables that the loop and what follows
 * it can see. Returns false if that cannot be told. */
static bool hash_start(struct run *r, uint64_t *out)
{
	const struct buf *text = r->track.as->text;
	struct state_hash s = { .r = r, .bytes = HASHED_BYTES, .values = HASHED_VALUES };

	r->track.n_spaces = r->track.n_numbers = 0;
	add_text(&s, span_of(text->p, text->n));
	add_members(&s, r->vars);
	for (uint32_t i = 0; i < r->t->n_root && !s.failed; i++) {
		struct jval v = r->rec->slot[r->t->root[i]];
		uint32_t k = v.kind >= JV_LIST ? variable_of(r->vars, v) : r->vars->n;

		add_word(&s, k);
		if (k == r->vars->n)
			add_value(&s, v);
	}
	*out = s.h;
	return !s.failed;
}

/* ---- states ------------------------------------------------------------------------------ */

static bool is_role(struct span s)
{
	static const char *const roles[] = {
		"", "system", "user", "assistant", "tool", "developer", "ipython", "function", "model",
	};

	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (span_eq(s, span_str(roles[i])))
			return true;
	return false;
}

static void save_text(struct buf *b, struct span s)
{
	uint8_t n = (uint8_t)s.n;

	buf_add(b, &n, 1);
	buf_span(b, s);
}

/* Write a member's value. Returns false if it may be of a message. */
static bool save_value(struct buf *b, const struct jdict_entry *was, struct jval v)
{
	uint8_t tag = v.kind == JV_NONE ? SAVED_NONE : v.kind == JV_BOOL ? SAVED_BOOL :
	    v.kind == JV_INT ? SAVED_INT : v.kind == JV_FLOAT ? SAVED_FLOAT : SAVED_TEXT;

	if (was != NULL && memcmp(&was->value, &v, sizeof(v)) == 0)
		tag = SAVED_SAME;
	if (tag == SAVED_TEXT && (v.kind != JV_STR || v.n > CONST_MOST || (v.flags & JV_MARKUP) != 0 ||
				     ((v.flags & JV_CONST) == 0 && !is_role(jval_span(v)))))
		return false;
	buf_add(b, &tag, 1);
	if (tag == SAVED_TEXT)
		save_text(b, jval_span(v));
	else if (tag == SAVED_BOOL || tag == SAVED_INT || tag == SAVED_FLOAT)
		buf_add(b, &v.i, sizeof(v.i));
	return true;
}

/* Members that came since the loop started have their names, which are the template's. */
static bool save_space(struct buf *b, const struct tracked_space *s)
{
	buf_add(b, &s->d->n, sizeof(s->d->n));
	for (uint32_t i = 0; i < s->d->n; i++) {
		struct jdict_entry *e = &s->d->entry[i];

		if (i >= s->n) {
			if (e->key.kind != JV_STR || e->key.n > CONST_MOST)
				return false;
			save_text(b, jval_span(e->key));
		}
		if (!save_value(b, i < s->n ? &s->was[i] : NULL, e->value))
			return false;
	}
	return true;
}

/* Write the state that follows from the first <messages>, if it does. */
static void note(struct run *r, uint32_t messages, bool completed, bool more)
{
	struct track *t = &r->track;
	struct jinja_resume *as = t->as;
	struct state_head h;
	bool fits = true;

	if (t->whole || t->furthest > messages || r->code != JINJA_OK)
		return;
	memset(&h, 0, sizeof(h));		/* padding, too */
	h.start = t->start;
	h.steps = r->steps - t->steps;
	h.printed = r->printed - t->printed;
	h.id = t->id;
	h.first = t->first;
	h.messages = messages;
	h.n_spaces = t->n_spaces;
	h.n_numbers = t->n_numbers;
	h.completed = completed;
	h.more = more;
	as->good = false;
	buf_start(&as->state, 0);
	buf_add(&as->state, &h, sizeof(h));
	for (uint32_t i = 0; i < t->n_numbers; i++) {
		buf_add(&as->state, &t->number[i].least, sizeof(int64_t));
		buf_add(&as->state, &t->number[i].most, sizeof(int64_t));
	}
	for (uint32_t i = 0; i < t->n_spaces && fits; i++)
		fits = save_space(&as->state, &t->space[i]);
	as->good = fits && !as->state.failed;
	as->more = more;
	as->messages = messages;
	as->text_at = as->text->n;
}

/* ---- restoring --------------------------------------------------------------------------- */

static bool take(struct span *s, void *to, size_t n)
{
	if (n > s->n)
		return false;
	memcpy(to, s->p, n);
	s->p += n;
	s->n -= n;
	return true;
}

static bool take_text(struct run *r, struct span *s, struct jval *out)
{
	uint8_t n;
	char *p;

	if (!take(s, &n, 1) || n > s->n || (p = jinja_mem_take(r->m, n + 1u)) == NULL)
		return false;
	*out = jval_str(p, n);
	out->flags = JV_CONST;		/* or a role: it may be saved again */
	return take(s, p, n);
}

static bool take_value(struct run *r, struct span *s, const struct jdict_entry *was, struct jval *v)
{
	uint8_t tag;

	if (!take(s, &tag, 1))
		return false;
	switch (tag) {
	case SAVED_SAME:
		if (was != NULL)
			*v = was->value;
		return was != NULL;
	case SAVED_NONE:
		*v = jval_none();
		return true;
	case SAVED_BOOL: case SAVED_INT: case SAVED_FLOAT:
		*v = (struct jval){ .kind = tag == SAVED_BOOL ? JV_BOOL : tag == SAVED_INT ? JV_INT : JV_FLOAT };
		return take(s, &v->i, sizeof(v->i));
	default:
		return take_text(r, s, v);
	}
}

static bool take_space(struct run *r, struct span *s, const struct tracked_space *to)
{
	struct jval key, v;
	uint32_t n;

	if (!take(s, &n, sizeof(n)))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (i < to->n)
			key = to->was[i].key;
		else if (!take_text(r, s, &key))
			return false;
		if (!take_value(r, s, i < to->n ? &to->was[i] : NULL, &v) ||
		    !jdict_put(r->m, to->d, key, v))
			return false;
	}
	return true;
}

/* Set all that the messages of the state have changed. Returns false if the state does not fit. */
static bool restore(struct run *r, const struct state_head *h, struct span rest)
{
	struct track *t = &r->track;
	struct jinja_resume *as = t->as;

	if (h->start != t->start || h->first != t->first || h->messages < h->first ||
	    h->messages + (h->more ? 1u : 0u) > as->n || h->n_spaces != t->n_spaces ||
	    h->n_numbers != t->n_numbers)
		return false;
	for (uint32_t i = 0; i < t->n_numbers; i++) {
		struct tracked_number *w = &t->number[i];

		if (!take(&rest, &w->least, sizeof(w->least)) || !take(&rest, &w->most, sizeof(w->most)) ||
		    w->value < w->least || w->value > w->most)
			return false;
	}
	for (uint32_t i = 0; i < t->n_spaces; i++)
		if (!take_space(r, &rest, &t->space[i]))
			return false;
	t->saved_steps = h->steps;
	t->furthest = h->messages;
	r->steps += h->steps;
	r->printed += h->printed;
	r->limit.steps += h->steps;
	if (r->limit.steps > as->most_steps)
		r->limit.steps = as->most_steps;
	as->text->n = 0;
	buf_span(as->text, as->lead);
	as->resumed = true;
	return r->steps <= r->limit.steps && r->printed <= r->limit.output && !as->text->failed;
}

/* ---- the loop ---------------------------------------------------------------------------- */

bool jx_loop_begin(
    struct run *r, const struct node *n, struct jval source, uint64_t *skip, bool *completed)
{
	struct track *t = &r->track;
	struct jinja_resume *as = t->as;
	struct span from;
	struct state_head h;

	*skip = 0;
	if (as == NULL || !n->top || n->c != NULL || r->into != NULL || source.n == 0 ||
	    source.kind != JV_LIST || (source.flags & JV_WATCHED) == 0 || source.v < as->list ||
	    source.v + source.n != as->list + as->n)
		return true;
	from = as->from;
	if (from.n > 0 && (as->resumed || !take(&from, &h, sizeof(h)) || h.id != n->number))
		return as->resumed ? jx_missed(r) : true;
	as->good = false;
	t->whole = t->tail = false;
	t->loop = NULL;
	t->id = n->number;
	t->first = (uint32_t)(source.v - as->list);
	t->furthest = 0;
	t->steps = r->steps;
	t->printed = r->printed;
	if (!hash_start(r, &t->start))
		return as->from.n > 0 ? jx_missed(r) : true;
	t->on = true;
	if (as->from.n == 0)
		return true;
	if (!restore(r, &h, from))
		return jx_missed(r);
	*skip = h.messages - h.first;
	*completed = h.completed;
	return true;
}

void jx_loop_item(struct run *r, const struct loop *l, uint64_t i, bool completed)
{
	struct track *t = &r->track;
	uint64_t m = t->first + i;

	t->loop = l;
	if (t->on && i > 0 && m + NEAR_END >= t->as->n)
		note(r, (uint32_t)m, completed, true);
}

void jx_loop_end(struct run *r, bool completed)
{
	struct track *t = &r->track;

	if (t->on && !t->tail)
		note(r, t->as->n, completed, false);
	t->on = false;
}

/* ---- rendering --------------------------------------------------------------------------- */

enum jinja_result jinja_render_on(const struct jinja *t, struct jinja_mem *m,
    const struct jdict *vars, const struct jinja_time *now, const struct jinja_limits *limits,
    struct jinja_resume *as, struct jinja_error *why)
{
	struct run r = {
		.t = t, .m = m, .vars = vars, .now = now, .limit = *limits, .sink = jinja_buf_sink,
		.arg = as->text, .track = { .as = as },
	};
	enum jinja_result result;

	as->good = as->resumed = false;
	result = jx_render(&r, why);
	if (limits->took != NULL)
		*limits->took -= r.track.saved_steps;
	if (result == JINJA_OK && as->from.n > 0 && !as->resumed)
		result = JINJA_MISSED;
	as->good &= result == JINJA_OK;
	return result;
}

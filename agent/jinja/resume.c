/* resume.c - states of a loop over messages are written and restored (resume.h).
 *
 * A state has the hash of what the loop started with, the counts of steps and bytes since then (so
 * that limits are met where they would be), and the members of each namespace: as it was, or a
 * number, a truth value, nothing, or a text of the template or one of a few roles. Any other text
 * may be of a message: only that it is one is kept, which is enough if the template just asks
 * whether there is one. For other values there is no state. Its bytes are the caller's, who knows
 * that they are its own; even so each length is checked. */
#include "agent/jinja/run_in.h"

#define NEAR_END	3u	/* items at the end before which a state is written */
#define CONST_MOST	64u	/* bytes of a text in a state */

struct state_head {
	uint64_t start, light, steps, printed;
	uint32_t id, first, messages, n_spaces, n_numbers, n_gaps;
	bool completed, more, has_light;
};

enum { SAVED_SAME, SAVED_NONE, SAVED_BOOL, SAVED_INT, SAVED_FLOAT, SAVED_TEXT, SAVED_UNREAD };

/* Of each gap that a state has; its place is that of the next rendering. */
struct saved_gap {
	uint64_t steps, printed, id;
};

/* ---- states ------------------------------------------------------------------------------ */

static bool is_role(struct span s)
{
	return s.n == 0 || jinja_role(s) > 0;
}

static void save_text(struct buf *b, struct span s)
{
	uint8_t n = (uint8_t)s.n;

	buf_add(b, &n, 1);
	buf_span(b, s);
}

/* Write a member's value; not that of a message. */
static bool save_value(struct buf *b, const struct jdict_entry *was, struct jval v)
{
	uint8_t tag = v.kind == JV_NONE ? SAVED_NONE : v.kind == JV_BOOL ? SAVED_BOOL :
	    v.kind == JV_INT ? SAVED_INT : v.kind == JV_FLOAT ? SAVED_FLOAT : SAVED_TEXT;

	if (was != NULL && memcmp(&was->value, &v, sizeof(v)) == 0)
		tag = SAVED_SAME;
	if (tag == SAVED_TEXT && (v.kind != JV_STR || v.n > CONST_MOST || (v.flags & JV_MARKUP) != 0 ||
				     ((v.flags & JV_CONST) == 0 && !is_role(jval_span(v)))))
		tag = SAVED_UNREAD;
	if (tag == SAVED_UNREAD && v.kind != JV_STR && !(v.kind == JV_UNREAD && v.aux == UNREAD_TEXT))
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

static void save_gaps(struct buf *b, const struct track *t)
{
	for (uint32_t i = 0; t->has_light && i < t->n_gaps; i++) {
		struct saved_gap g = { t->gap[i].steps, t->gap[i].printed, t->gap[i].id };

		buf_add(b, &g, sizeof(g));
	}
}

/* Write the state that follows from the first <messages>, if it does. */
static void note(struct run *r, uint32_t messages, bool completed, bool more)
{
	struct track *t = &r->track;
	struct jinja_resume *as = t->as;
	struct state_head h;
	bool fits = true;

	if (t->whole || t->furthest > messages || messages > as->sure || r->code != JINJA_OK)
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
	h.light = t->light;
	h.has_light = t->has_light;
	h.n_gaps = t->has_light ? t->n_gaps : 0;
	as->good = false;
	buf_start(&as->state, 0);
	buf_add(&as->state, &h, sizeof(h));
	save_gaps(&as->state, t);
	for (uint32_t i = 0; i < t->n_numbers; i++) {
		buf_add(&as->state, &t->number[i].least, sizeof(int64_t));
		buf_add(&as->state, &t->number[i].most, sizeof(int64_t));
	}
	for (uint32_t i = 0; i < t->n_spaces && fits; i++)
		fits = save_space(&as->state, &t->space[i]);
	as->good = fits && !as->state.failed;
	as->light = t->has_light;
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
	case SAVED_UNREAD:
		*v = (struct jval){ .kind = JV_UNREAD, .aux = UNREAD_TEXT };
		return true;
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

/* Tell if the loop starts as it did. What is known of its start without tools stays known. */
static bool starts_alike(struct track *t, const struct state_head *h)
{
	bool alike = t->as->tools.kind == JV_UNREAD ?
	    h->has_light && h->light == t->light && h->n_gaps == t->n_gaps : h->start == t->start;

	t->start = h->start;
	t->light = h->light;
	t->has_light = h->has_light;
	t->n_gaps = h->n_gaps;
	return alike;
}

/* Read the gaps of the state as->from. Returns false if it has no more than its head. */
static bool take_gaps(struct track *t, struct span *from)
{
	struct state_head h;
	struct saved_gap g;

	if (!take(from, &h, sizeof(h)) || h.n_gaps > TRACK_GAPS)
		return false;
	for (uint32_t i = 0; i < h.n_gaps; i++) {
		if (!take(from, &g, sizeof(g)))
			return false;
		t->gap[i] = (struct tools_gap){ .steps = g.steps, .printed = g.printed, .id = g.id };
	}
	t->n_known = h.n_gaps;
	return true;
}

/* Set all that the messages of the state have changed. Returns false if the state does not fit. */
static bool restore(struct run *r, const struct state_head *h, struct span rest)
{
	struct track *t = &r->track;
	struct jinja_resume *as = t->as;

	if (!starts_alike(t, h) || h->first != t->first || h->messages < h->first ||
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
	t->saved_steps += h->steps;
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
	bool unread;

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
	unread = as->tools.kind == JV_UNREAD;
	if (!jx_start_hash(r, unread, unread ? &t->light : &t->start))
		return as->from.n > 0 ? jx_missed(r) : true;
	t->has_light = as->from.n == 0 && t->n_gaps > 0 && jx_start_hash(r, true, &t->light);
	t->on = true;
	if (as->from.n == 0)
		return true;
	from.p += t->n_known * sizeof(struct saved_gap);
	from.n -= t->n_known * sizeof(struct saved_gap);
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
	if (t->on && i > 0 && m + NEAR_END >= t->as->sure)
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
	struct span from = as->from;
	enum jinja_result result;

	as->good = as->resumed = as->light = false;
	if (as->from.n > 0 && !take_gaps(&r.track, &from))
		return JINJA_MISSED;
	result = jx_render(&r, why);
	if (limits->took != NULL)
		*limits->took -= r.track.saved_steps;
	if (result == JINJA_OK && as->from.n > 0 && !as->resumed)
		result = JINJA_MISSED;
	as->good &= result == JINJA_OK;
	return result;
}

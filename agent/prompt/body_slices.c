/* body_slices.c - a body that comes in slices, and struct turns: the walk over its chunks waits
 * between two slices, so that no slice hashes or reads the bytes of the slices before.
 *
 *   slices    |----- 1 -----|----- 2 -----|----- 3 ...
 *   chunks    |-- 1 --|-- 2 --|-- 3 --|--
 *   borders       ^      ^  ^                     the last one that is known, or was read
 *   kept                 |================|       bytes that the walk may need again
 *
 * While all chunks are known, the scanner lags behind: it is set to the last border, and reads on
 * from there, only when somebody wants to see the prompt. If more chunks turn out to be known after
 * that, with a border that it has not reached, it is set again. So no byte is read twice.
 *
 * Tools after the messages are read, because not all of their bytes are there at their start. */
#include "agent/base/mem.h"
#include "agent/prompt/body_turns_in.h"

static const struct mark *last_mark(const struct trail *tr)
{
	return tr->marks.n > 0 ? &tr->marks.p[tr->marks.n - 1] : NULL;
}

void body_slices_start(struct body *b, struct turns *t, uint64_t tenant)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;

	if (t == NULL || !trail_root(b, t, tenant))
		return;
	w->keys.n = 0;
	if (vec_push(&w->keys, tr->key) < 0)
		return;
	w->turns = t;
	w->known = tr->rooted;
	if (tr->rooted)
		memcpy(w->tails, tr->copy.tails, sizeof(w->tails));
	tr->on = true;
	tr->tools_met = true;
}

/* Set the scanner, which may be anywhere after it, to the border <m>. */
static void rewind_to(struct body *b, const struct mark *m)
{
	struct prompt *p = &b->prompt;
	struct trail trail = b->trail;

	body_reset(b, p->api);
	b->trail = trail;
	p->system.n = m->n_system;
	p->tools.n = m->n_tools;
	p->messages.n = m->n_messages;
	name_copy(&p->model, &trail.model);
	name_copy(&p->lora, &trail.lora);
	memcpy(p->named, trail.named, sizeof(p->named));
	p->previous = trail.named[PROMPT_NAMED];
	trail_restore(b, m);
	body_feed(b, "", 0);
}

/* Prepare for the pages and the border of a point. Returns false if there is no memory. */
static bool make_room(struct body *b, const struct point *pt)
{
	struct prompt *p = &b->prompt;

	return vec_reserve(&b->trail.marks, 1) == 0 && vec_reserve(&p->messages, pt->n_messages) == 0 &&
	       (!pt->first || (vec_reserve(&p->system, pt->mark.n_system) == 0 &&
				  vec_reserve(&p->tools, pt->mark.n_tools) == 0));
}

/* Drop the borders that a later one of the same chunk, at <at>, replaces. */
static void drop_marks(struct trail *tr, uint64_t at)
{
	while (tr->marks.n > 0 && (last_mark(tr)->at >= at ||
		grid_before(tr->chunk, last_mark(tr)->at) == grid_before(tr->chunk, at)))
		tr->marks.n--;
}

/* Take the point in the trail's copy, unless the scanner has read its border. The pages that it
 * follows are there: they were read, or taken. Returns false, and changes nothing, if it cannot be
 * used. */
static bool take_walked(struct body *b)
{
	struct trail *tr = &b->trail;
	struct prompt *p = &b->prompt;
	const uint8_t *data = tr->copy.data.p;
	const page_key *pages = (const page_key *)(const void *)(data + sizeof(struct point));
	struct point pt;

	if (!tr->on)
		return false;
	if (tr->copy.data.n == 0)
		return true;
	memcpy(&pt, data, sizeof(pt));
	if (pt.mark.at <= tr->walk.read)
		return true;
	if (pt.mark.n_messages - pt.n_messages > p->messages.n || !make_room(b, &pt))
		return false;
	if (pt.first) {
		p->system.n = p->tools.n = 0;
		trail_take_front(b, &pt, pages);
	}
	p->messages.n = pt.mark.n_messages - pt.n_messages;
	page_vec_append(&p->messages, pages + pt.n_front, pt.n_messages);
	drop_marks(tr, pt.mark.at);
	(void)vec_push(&tr->marks, pt.mark);
	tr->walk.moved = true;
	return true;
}

/* Look for bytes of the first chunk that count for nothing. The scanner has read none. */
static void find_hole(struct body *b, const char *p)
{
	struct trail trail = b->trail;

	b->trail.on = false;	/* a border would need room, which is lost with the copy */
	trail.hole = billing_hole(b, span_of(p, grid_bytes(trail.chunk, 0)));
	b->trail = trail;
}

static void walk_chunk(struct body *b, const char *p)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;
	struct hash128 key;

	if (w->hashed == 0 && w->read == 0)
		find_hole(b, p);
	key = trail_chunk_key(tr, w->turns, w->keys.p[w->keys.n - 1], p, w->keys.n - 1);
	if (vec_push(&w->keys, key) < 0) {
		w->failed = true;
		return;
	}
	if (!w->known)
		return;
	w->known = turns_get(w->turns, key, &tr->copy) && take_walked(b) && vec_push(&tr->keys, key) == 0;
	if (!w->known)
		return;
	memcpy(w->tails, tr->copy.tails, sizeof(w->tails));
	tr->key = key;
	tr->known++;
}

void body_slice(struct body *b, struct span held, uint64_t from)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;

	w->end = from + held.n;
	while (w->turns != NULL && !w->failed) {
		size_t n = grid_bytes(tr->chunk, w->keys.n - 1);

		if (w->end - w->hashed < n)
			return;
		walk_chunk(b, held.p + (w->hashed - from));
		w->hashed += n;
	}
}

bool body_slice_known(const struct body *b)
{
	const struct walk *w = &b->trail.walk;

	return w->known && !w->failed;
}

/* Take the longest tip of the bytes after the last known chunk. */
static void take_walked_tip(struct body *b, struct span held, uint64_t from)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;
	uint64_t at = grid_at(tr->chunk, tr->known);

	if (w->tipped || at < from)
		return;
	w->tipped = !w->known;
	if (trail_find_tip(b, w->turns, w->tails, held.p + (at - from), (size_t)(w->end - at)) &&
	    !take_walked(b))
		w->known = false;
}

uint64_t body_slice_ready(struct body *b, struct span held, uint64_t from)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;
	const struct mark *m;

	if (w->turns == NULL)
		return w->read;
	if (!w->failed)
		take_walked_tip(b, held, from);
	m = last_mark(tr);
	if (w->moved && m != NULL) {
		w->saved += m->at - w->read;
		tr->recalled = (size_t)m->at;
		rewind_to(b, m);
		w->read = m->at;
	}
	w->moved = false;
	return w->read;
}

void body_slice_read(struct body *b, const char *p, size_t n)
{
	b->trail.walk.read += n;
	body_feed(b, p, n);
}

/* Note the hashes of the tip at the last border, while the bytes before it are there. */
static void note_tip(struct body *b, struct span held, uint64_t from)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;
	const struct mark *m = last_mark(tr);
	size_t chunk, n;
	uint64_t at;

	if (m == NULL || m->at == tr->recalled || m->at == w->tip_at || m->at > w->end)
		return;
	chunk = grid_before(tr->chunk, m->at);
	at = grid_at(tr->chunk, chunk);
	if (at < from || chunk >= w->keys.n)
		return;
	n = (size_t)(m->at - at);
	w->tip_at = m->at;
	w->tip_key = turns_next_key(w->turns, w->keys.p[chunk], held.p + (at - from), n);
	w->tip = turns_tail_of(w->turns, held.p + (at - from), n);
}

uint64_t body_slice_needs(struct body *b, struct span held, uint64_t from)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;
	const struct mark *m = last_mark(tr);
	uint64_t at = w->read;

	if (w->turns == NULL || w->failed)
		return w->read;
	note_tip(b, held, from);
	if (m != NULL && m->at > at)
		at = m->at;
	return grid_at(tr->chunk, grid_of(tr->chunk, at));
}

void body_slices_remember(struct body *b, bool keep)
{
	struct trail *tr = &b->trail;
	struct walk *w = &tr->walk;
	const struct mark *last = last_mark(tr), *before;
	size_t end, k;

	if (w->turns == NULL)
		return;
	turns_count(w->turns, (size_t)w->saved);
	if (keep && !w->failed && b->prompt.json != JSON_BAD && !b->prompt.salt.seen &&
	    last != NULL && last->at != tr->recalled && last->at == w->tip_at) {
		end = grid_before(tr->chunk, last->at);
		tr->turns = w->turns;
		before = trail_put_start(b);
		for (k = tr->known; k < end; k++)
			before = trail_put_chunk(b, w->keys.p[k + 1], k, before);
		if (k == end)
			trail_put_tip(b, w->keys.p[end], w->tip_key, w->tip, before);
		tr->turns = NULL;
	}
	w->turns = NULL;
}

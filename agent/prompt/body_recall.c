/* body_recall.c - the scanner is brought to the state after the bytes of a body that struct turns
 * remembers: the points of whole chunks from the first one on, then a tip.
 *
 * A point is looked for by a key that is made of the chunk and of the key before, so the walk is a
 * chain, but its keys do not wait for the points: they are made a few chunks ahead. Those of chunks
 * that were not found serve to store their points. */
#include "agent/prompt/body_turns_in.h"

enum { ROOT = 0x5455524e };

static struct hash128 root_key(const struct turns *t, uint64_t tenant, enum prompt_api api)
{
	uint64_t word[3] = { ROOT, tenant, api };

	return hash128(turns_key(t), word, sizeof(word));
}

struct hash128 trail_chunk_key(
    const struct trail *tr, const struct turns *t, struct hash128 from, const char *p, size_t k)
{
	size_t end = (size_t)tr->hole.from + tr->hole.n, n = grid_bytes(tr->chunk, k);

	if (k > 0 || tr->hole.n == 0)
		return turns_next_key(t, from, p, n);
	from = turns_next_key(t, from, p, tr->hole.from);
	return turns_next_key(t, from, p + end, n - end);
}

bool trail_take_front(struct body *b, const struct point *pt, const page_key *pages)
{
	const char *names = (const char *)(pages + pt->n_front + pt->n_messages);
	struct prompt *p = &b->prompt;

	if (page_vec_append(&p->system, pages, pt->mark.n_system) < 0 ||
	    page_vec_append(&p->tools, pages + pt->mark.n_system, pt->mark.n_tools) < 0)
		return false;
	name_set(&p->model, names, pt->n_model);
	name_set(&p->lora, names + pt->n_model, pt->n_lora);
	name_copy(&b->trail.model, &p->model);
	name_copy(&b->trail.lora, &p->lora);
	memcpy(b->trail.named, names + pt->n_model + pt->n_lora, sizeof(b->trail.named));
	memcpy(p->named, b->trail.named, sizeof(p->named));
	p->previous = b->trail.named[PROMPT_NAMED];
	return true;
}

/* Add what the copied item has to the pages, and its mark to the trail. Returns false if there is
 * no memory. */
static bool take_point(struct body *b)
{
	const struct trail *t = &b->trail;
	const uint8_t *data = t->copy.data.p;
	const page_key *pages;
	struct point pt;

	if (t->copy.data.n == 0)
		return true;
	memcpy(&pt, data, sizeof(pt));
	pages = (const page_key *)(const void *)(data + sizeof(pt));
	if (pt.mark.n_messages - pt.n_messages != b->prompt.messages.n)
		return false;
	if (pt.first && !trail_take_front(b, &pt, pages))
		return false;
	if (page_vec_append(&b->prompt.messages, pages + pt.n_front, pt.n_messages) < 0)
		return false;
	b->trail.marks.n = t->marks.n > 0 && pt.n_messages == 0 ? t->marks.n - 1 : t->marks.n;
	return vec_push(&b->trail.marks, pt.mark) == 0;
}

void trail_restore(struct body *b, const struct mark *m)
{
	struct request *r = &b->r;
	struct prompt *p = &b->prompt;

	json_resume_list(&r->json, m->at);
	r->level[1] = IN_TOP;
	r->level[2] = IN_MESSAGES;
	r->system_units = m->system_units;
	r->message_units = m->message_units;
	memcpy(r->tools_units, m->tools_units, sizeof(r->tools_units));
	r->prompt_rule = m->prompt_rule;
	b->env.used = m->used;
	p->n_events = m->n_events;
	r->n_leading = m->n_leading;
	r->n_history = m->n_history;
	r->n_answer = m->n_answer;
	r->n_first = m->n_first;
	r->shape = m->shape;
	p->priority = m->priority;
	r->lora_slot = m->lora_slot;
	r->user_slot = m->user_slot;
	r->leading = m->leading;
	r->options = m->options;
	p->priority_hinted = m->priority_hinted;
	memcpy(r->output_limit, m->output_limit, sizeof(r->output_limit));
	p->output_limit = m->output_limit[m->output_limit[1] > 0];
	p->output_hint = m->output_hint;
	r->found = true;
	p->developer = m->developer;
	p->truncates = m->truncates;
	p->streams = m->streams;
	p->system_seen = m->system_seen;
	p->tools_seen = m->tools_seen;
	p->model.seen = m->model_seen;
	p->lora.seen = m->lora_seen;
	p->known.bytes = m->at;
	p->known.events = m->n_events;
	p->known.units = m->system_units + m->message_units;
	for (unsigned i = 0; i < TOOLS_SLOTS; i++)
		p->known.units += m->tools_units[i];
}

static bool start_trail(struct body *b, const struct turns *t, uint64_t tenant)
{
	struct trail *tr = &b->trail;

	tr->chunk = turns_options(t)->chunk_bytes;
	tr->tenant = tenant;
	tr->key = root_key(t, tenant, b->prompt.api);
	tr->known = 0;
	tr->keys.n = 0;
	return vec_push(&tr->keys, tr->key) == 0;
}

bool trail_root(struct body *b, struct turns *t, uint64_t tenant)
{
	struct trail *tr = &b->trail;

	if (!start_trail(b, t, tenant))
		return false;
	tr->rooted = turns_get(t, tr->key, &tr->copy);
	return true;
}

/* Make the keys of chunks up to <upto> of the body <p>, ahead of the chunk that is looked for: its
 * bucket comes while the next chunk is hashed, and then its item while the one before is copied.
 * Items of a long conversation are in no cache, and each would be waited for twice. */
static void make_keys(struct trail *tr, const struct turns *t, const char *p, size_t upto)
{
	struct keys_ahead *a = &tr->ahead;

	for (; a->made < upto; a->made++) {
		a->last = trail_chunk_key(tr, t, a->last, p + grid_at(tr->chunk, a->made), a->made);
		a->key[a->made % TRAIL_KEYS] = a->last;
		turns_prefetch(t, a->last);
	}
}

struct hash128 trail_next_key(
    const struct trail *tr, const struct turns *t, struct hash128 from, const char *p, size_t k)
{
	const struct keys_ahead *a = &tr->ahead;

	if (k < a->made && a->made - k <= TRAIL_KEYS)
		return a->key[k % TRAIL_KEYS];
	return trail_chunk_key(tr, t, from, p + grid_at(tr->chunk, k), k);
}

/* Copy the item of <key>, and prefetch that of chunk <next>, if its key is made. */
static bool get_item(struct trail *tr, struct turns *t, struct hash128 key, size_t next)
{
	const struct keys_ahead *a = &tr->ahead;

	return turns_get_and_prefetch(
	    t, key, next < a->made ? &a->key[next % TRAIL_KEYS] : NULL, &tr->copy);
}

/* Find the points of whole chunks, and add up what they have. <tails>: of the last one. */
static bool walk_chunks(struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n,
    struct turns_tail *tails)
{
	struct trail *tr = &b->trail;
	size_t chunks = grid_of(turns_options(t)->chunk_bytes, n);

	if (!start_trail(b, t, tenant))
		return false;
	tr->ahead.last = tr->key;
	tr->ahead.made = 0;
	make_keys(tr, t, p, chunks < 2 ? chunks : 2);
	tr->rooted = get_item(tr, t, tr->key, 0);
	if (!tr->rooted)
		return true;
	memcpy(tails, tr->copy.tails, sizeof(tr->copy.tails));
	while (tr->known < chunks) {
		size_t k = tr->known;
		struct hash128 key;

		make_keys(tr, t, p, k + TRAIL_KEYS < chunks ? k + TRAIL_KEYS : chunks);
		key = tr->ahead.key[k % TRAIL_KEYS];
		if (!get_item(tr, t, key, k + 1))
			return true;
		if (!take_point(b) || vec_push(&tr->keys, key) < 0)
			return false;
		memcpy(tails, tr->copy.tails, sizeof(tr->copy.tails));
		tr->key = key;
		tr->known++;
	}
	return true;
}

bool trail_find_tip(
    struct body *b, struct turns *t, const struct turns_tail *of, const char *p, size_t n)
{
	struct hash128 key;

	return turns_find_tip(t, b->trail.key, of, span_of(p, n), &b->trail.copy, &key) > 0;
}

/* The same, whether the first chunk has a hole or not. Bodies of Claude Code have one, so it is
 * searched first in their API. In others few do, and a first chunk that is known as it is has none,
 * or needs none: the search would cost as much as the rest of a short turn. */
static bool walk_all(struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n,
    struct turns_tail *tails)
{
	struct trail *tr = &b->trail;
	size_t chunk = grid_bytes(turns_options(t)->chunk_bytes, 0);
	bool first = b->prompt.api == API_MESSAGES;

	if (n >= chunk && first)
		tr->hole = billing_hole(b, span_of(p, chunk));
	if (!walk_chunks(b, t, tenant, p, n, tails))
		return false;
	if (n < chunk || first || tr->known > 0)
		return true;
	tr->hole = billing_hole(b, span_of(p, chunk));
	return tr->keys.n > 0 || walk_chunks(b, t, tenant, p, n, tails);	/* 0: <b> was reset */
}

/* Take the longest tip after the last known chunk, if there is one. Returns false if there is no
 * memory. */
static bool take_tip(
    struct body *b, struct turns *t, const struct turns_tail *tails, const char *p, size_t n)
{
	size_t at = grid_at(b->trail.chunk, b->trail.known);

	return !trail_find_tip(b, t, tails, p + at, n - at) || take_point(b);
}

size_t body_recall(
    struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n)
{
	struct turns_tail tails[TURNS_TAILS] = { { 0, 0 } };
	struct trail *tr = &b->trail;

	if (t == NULL || n < turns_options(t)->least_bytes)
		return 0;
	if (!walk_all(b, t, tenant, p, n, tails) || !take_tip(b, t, tails, p, n)) {
		body_reset(b, b->prompt.api);
		return 0;
	}
	tr->on = true;
	tr->turns = t;
	tr->raw = span_of(p, n);
	if (tr->marks.n > 0) {
		tr->recalled = (size_t)tr->marks.p[tr->marks.n - 1].at;
		trail_restore(b, &tr->marks.p[tr->marks.n - 1]);
		body_feed(b, p, 0);	/* the caller may have no more to feed */
	}
	turns_count(t, tr->recalled);
	return tr->recalled;
}

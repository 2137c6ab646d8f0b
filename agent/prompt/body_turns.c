/* body_turns.c - the scanner and struct turns: the state at a border is taken, stored and restored.
 *
 * While a body is read, the last border in each chunk of the grid is noted. Then the points of
 * chunks that are new are stored, and a tip at the last border. The next body of the conversation
 * has another byte after that border: "]" has become ",".
 *
 *   item of a point or tip    mark | counts | pages of system and tools | pages of messages | names
 *                                             of the first border only    since the border before
 *
 * Every item needs those before it, which the walk has found already. The state is complete,
 * because at a border nothing is open but the body and its list: no string, value, message or page.
 * All that the scanner keeps besides is started before it is used. */
#include "agent/base/mem.h"
#include "agent/prompt/body_in.h"

enum { ROOT = 0x5455524e };

struct point {
	struct mark mark;
	uint32_t n_messages;		/* pages that follow, of messages */
	uint32_t n_front;		/* pages of system and tools before those */
	uint16_t n_model, n_lora;	/* bytes of the names after the pages */
	bool first;
};

/* ---- borders ------------------------------------------------------------------------------- */

static size_t chunk_of(const struct trail *t, uint64_t at)
{
	return (size_t)((at + t->chunk - 1) / t->chunk);
}

static bool may_note(const struct body *b)
{
	const struct request *r = &b->r;

	return r->json.depth == 2 && r->level[1] == IN_TOP && !b->env.full && !b->prompt.user.seen &&
	       !b->prompt.salt.seen && b->slot[TOOLS_FUNCTIONS].n == 0 &&
	       b->slot[TOOLS_DOCUMENTS].n == 0 && b->prompt.n_events < PROMPT_EVENTS_MOST;
}

static struct mark mark_of(const struct body *b)
{
	const struct request *r = &b->r;
	const struct prompt *p = &b->prompt;
	struct mark m;

	memset(&m, 0, sizeof(m));	/* padding, too */
	m.at = r->json.edge;
	m.system_units = r->system_units;
	m.message_units = r->message_units;
	memcpy(m.tools_units, r->tools_units, sizeof(m.tools_units));
	m.prompt_rule = r->prompt_rule;
	m.used = b->env.used;
	m.n_events = p->n_events;
	m.n_system = (uint32_t)p->system.n;
	m.n_tools = (uint32_t)p->tools.n;
	m.n_messages = (uint32_t)p->messages.n;
	m.n_leading = r->n_leading;
	m.n_history = r->n_history;
	m.n_answer = r->n_answer;
	m.n_first = r->n_first;
	m.shape = (uint16_t)r->shape;
	m.priority = p->priority;
	m.lora_slot = (uint8_t)r->lora_slot;
	m.user_slot = (uint8_t)r->user_slot;
	m.leading = r->leading;
	m.options = r->options;
	m.priority_hinted = p->priority_hinted;
	memcpy(m.output_limit, r->output_limit, sizeof(m.output_limit));
	m.output_hint = p->output_hint;
	m.developer = p->developer;
	m.truncates = p->truncates;
	m.streams = p->streams;
	m.system_seen = p->system_seen;
	m.tools_seen = p->tools_seen;
	m.model_seen = p->model.seen;
	m.lora_seen = p->lora.seen;
	return m;
}

void body_border(struct body *b)
{
	struct trail *t = &b->trail;
	struct mark m;

	if (!may_note(b)) {
		t->on = false;
		return;
	}
	m = mark_of(b);
	if (t->marks.n == 0) {
		t->model = b->prompt.model;
		t->lora = b->prompt.lora;
		memcpy(t->named, b->prompt.named, sizeof(b->prompt.named));
		t->named[PROMPT_NAMED] = b->prompt.previous;
	}
	if (t->marks.n > 0 && chunk_of(t, t->marks.p[t->marks.n - 1].at) == chunk_of(t, m.at))
		t->marks.p[t->marks.n - 1] = m;
	else if (vec_push(&t->marks, m) < 0)
		t->on = false;
}

void body_trail_void(struct body *b, const struct page_vec *pages)
{
	if (b->trail.marks.n == 0 || pages->n == 0)
		return;
	b->trail.on = false;
	b->trail.marks.n = 0;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static struct hash128 root_key(const struct turns *t, uint64_t tenant, enum prompt_api api)
{
	uint64_t word[3] = { ROOT, tenant, api };

	return hash128(turns_key(t), word, sizeof(word));
}

/* ---- recall -------------------------------------------------------------------------------- */

static bool take_front(struct body *b, const struct point *pt, const page_key *pages)
{
	const char *names = (const char *)(pages + pt->n_front + pt->n_messages);
	struct prompt *p = &b->prompt;

	if (page_vec_append(&p->system, pages, pt->mark.n_system) < 0 ||
	    page_vec_append(&p->tools, pages + pt->mark.n_system, pt->mark.n_tools) < 0)
		return false;
	memcpy(p->model.s, names, pt->n_model);
	memcpy(p->lora.s, names + pt->n_model, pt->n_lora);
	p->model.n = pt->n_model;
	p->lora.n = pt->n_lora;
	b->trail.model = p->model;
	b->trail.lora = p->lora;
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
	if (pt.first && !take_front(b, &pt, pages))
		return false;
	if (page_vec_append(&b->prompt.messages, pages + pt.n_front, pt.n_messages) < 0)
		return false;
	b->trail.marks.n = t->marks.n > 0 && pt.n_messages == 0 ? t->marks.n - 1 : t->marks.n;
	return vec_push(&b->trail.marks, pt.mark) == 0;
}

static void restore(struct body *b, const struct mark *m)
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

/* Find the points of whole chunks, and add up what they have. <tails>: of the last one. */
static bool walk_chunks(struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n,
    struct turns_tail *tails)
{
	struct trail *tr = &b->trail;
	struct hash128 key = root_key(t, tenant, b->prompt.api);
	size_t at = 0;

	tr->chunk = turns_options(t)->chunk_bytes;
	tr->key = key;
	tr->known = 0;
	tr->keys.n = 0;
	if (vec_push(&tr->keys, key) < 0)
		return false;
	tr->rooted = turns_get(t, key, &tr->copy);
	if (!tr->rooted)
		return true;
	memcpy(tails, tr->copy.tails, sizeof(tr->copy.tails));
	for (; n - at >= tr->chunk; at += tr->chunk) {
		key = turns_next_key(t, key, p + at, tr->chunk);
		if (!turns_get(t, key, &tr->copy))
			return true;
		if (!take_point(b) || vec_push(&tr->keys, key) < 0)
			return false;
		memcpy(tails, tr->copy.tails, sizeof(tr->copy.tails));
		tr->key = key;
		tr->known++;
	}
	return true;
}

/* Take the longest tip that agrees with the <n> bytes at <p>. */
static bool take_tip(
    struct body *b, struct turns *t, struct turns_tail *tails, const char *p, size_t n)
{
	for (;;) {
		struct turns_tail *best = NULL;

		for (unsigned i = 0; i < TURNS_TAILS; i++) {
			if (tails[i].n > n)
				tails[i].n = 0;
			if (tails[i].n > 0 && (best == NULL || tails[i].n > best->n))
				best = &tails[i];
		}
		if (best == NULL)
			return true;
		if (turns_tail_of(t, p, best->n).quick == best->quick &&
		    turns_get(t, turns_next_key(t, b->trail.key, p, best->n), &b->trail.copy))
			return take_point(b);
		best->n = 0;
	}
}

size_t body_recall(
    struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n)
{
	struct turns_tail tails[TURNS_TAILS] = { { 0, 0 } };
	struct trail *tr = &b->trail;

	if (t == NULL || n < turns_options(t)->least_bytes)
		return 0;
	if (!walk_chunks(b, t, tenant, p, n, tails) ||
	    !take_tip(b, t, tails, p + tr->known * tr->chunk, n - tr->known * tr->chunk)) {
		body_reset(b, b->prompt.api);
		return 0;
	}
	tr->on = true;
	tr->turns = t;
	tr->tenant = tenant;
	tr->raw = span_of(p, n);
	if (tr->marks.n > 0) {
		tr->recalled = (size_t)tr->marks.p[tr->marks.n - 1].at;
		restore(b, &tr->marks.p[tr->marks.n - 1]);
		body_feed(b, p, 0);	/* the caller may have no more to feed */
	}
	turns_count(t, tr->recalled);
	return tr->recalled;
}

/* ---- remember ------------------------------------------------------------------------------ */

/* Store the border <m>, which follows the border <before>; NULL: none. */
static void put_point(
    struct body *b, struct hash128 key, const struct mark *m, const struct mark *before)
{
	struct trail *tr = &b->trail;
	uint32_t from = before != NULL ? before->n_messages : 0;
	struct point pt;
	size_t n;

	memset(&pt, 0, sizeof(pt));
	pt.mark = *m;
	pt.first = before == NULL;
	pt.n_messages = m->n_messages - from;
	pt.n_front = pt.first ? m->n_system + m->n_tools : 0;
	pt.n_model = pt.first ? tr->model.n : 0;
	pt.n_lora = pt.first ? tr->lora.n : 0;
	n = sizeof(pt) + ((size_t)pt.n_front + pt.n_messages) * sizeof(page_key) + pt.n_model + pt.n_lora +
	    (pt.first ? sizeof(tr->named) : 0);
	tr->copy.data.n = 0;
	if (vec_reserve(&tr->copy.data, n) < 0)
		return;
	turns_copy_put(&tr->copy, &pt, sizeof(pt));
	turns_copy_put(&tr->copy, b->prompt.system.p, pt.first ? m->n_system * sizeof(page_key) : 0);
	turns_copy_put(&tr->copy, b->prompt.tools.p, pt.first ? m->n_tools * sizeof(page_key) : 0);
	turns_copy_put(&tr->copy, b->prompt.messages.p + from, pt.n_messages * sizeof(page_key));
	turns_copy_put(&tr->copy, tr->model.s, pt.n_model);
	turns_copy_put(&tr->copy, tr->lora.s, pt.n_lora);
	turns_copy_put(&tr->copy, tr->named, pt.first ? sizeof(tr->named) : 0);
	turns_put(tr->turns, tr->tenant, key, tr->copy.data.p, n);
}

/* Return the last mark at or before byte <at>, or NULL. */
static const struct mark *mark_before(const struct trail *tr, uint64_t at)
{
	size_t i = tr->marks.n;

	while (i > 0 && tr->marks.p[i - 1].at > at)
		i--;
	return i > 0 ? &tr->marks.p[i - 1] : NULL;
}

static void remember_messages(struct body *b, size_t n)
{
	struct trail *tr = &b->trail;
	const struct mark *last = mark_before(tr, n), *before = NULL;
	struct turns *t = tr->turns;
	struct hash128 key = tr->key;
	const char *p = tr->raw.p;
	size_t k = tr->known, end, tail;

	if (last == NULL || last->at == tr->recalled)
		return;
	end = chunk_of(tr, last->at) - 1;	/* whole chunks before the chunk with the last border */
	if (!tr->rooted)
		turns_put(t, tr->tenant, key, NULL, 0);
	before = mark_before(tr, (uint64_t)k * tr->chunk);
	for (; k < end; k++) {
		const struct mark *m = mark_before(tr, (uint64_t)(k + 1) * tr->chunk);

		key = turns_next_key(t, key, p + k * tr->chunk, tr->chunk);
		if (m == NULL)
			turns_put(t, tr->tenant, key, NULL, 0);
		else
			put_point(b, key, m, before);
		before = m;
	}
	if (k != end)
		return;
	tail = (size_t)last->at - k * tr->chunk;
	put_point(b, turns_next_key(t, key, p + k * tr->chunk, tail), last, before);
	turns_add_tail(t, key, turns_tail_of(t, p + k * tr->chunk, tail));
}

void body_remember(struct body *b, size_t n, bool keep)
{
	struct trail *tr = &b->trail;

	if (tr->turns != NULL && keep && b->prompt.json != JSON_BAD && !b->prompt.salt.seen) {
		remember_messages(b, n);
		body_tools_remember(b);
	}
	tr->turns = NULL;
	tr->raw = (struct span){ .n = 0 };
	tr->on = false;
}

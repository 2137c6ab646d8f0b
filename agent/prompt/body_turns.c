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

#define CHUNK		8192u
#define BODY_LEAST	4096u		/* shorter bodies are read: 2 us */
#define QUICK		32u		/* bytes of a tail's quick hash */

enum { ROOT = 0x5455524e };

struct point {
	struct mark mark;
	uint32_t n_messages;		/* pages that follow, of messages */
	uint32_t n_front;		/* pages of system and tools before those */
	uint16_t n_model, n_lora;	/* bytes of the names after the pages */
	bool first;
};

/* ---- borders ------------------------------------------------------------------------------- */

static size_t chunk_of(uint64_t at)
{
	return (size_t)((at + CHUNK - 1) / CHUNK);
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
	m.at = r->json.end;
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
	}
	if (t->marks.n > 0 && chunk_of(t->marks.p[t->marks.n - 1].at) == chunk_of(m.at))
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

/* Return the key of what follows <from> by <n> bytes. */
static struct hash128 next_key(const struct turns *t, struct hash128 from, const char *p, size_t n)
{
	struct hash128 h = turns_hash(t)(turns_key(t), p, n);
	uint64_t word[5] = { from.lo, from.hi, h.lo, h.hi, n };

	return hash128(turns_key(t), word, sizeof(word));
}

static struct turns_tail tail_of(const struct turns *t, const char *p, size_t n)
{
	size_t last = n < QUICK ? n : QUICK;

	return (struct turns_tail){ (uint32_t)n, (uint32_t)hash64(turns_key(t), p + n - last, last) };
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
}

/* Find the points of whole chunks, and add up what they have. <tails>: of the last one. */
static bool walk_chunks(struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n,
    struct turns_tail *tails)
{
	struct trail *tr = &b->trail;
	struct hash128 key = root_key(t, tenant, b->prompt.api);
	size_t at = 0;

	tr->key = key;
	tr->known = 0;
	tr->rooted = turns_get(t, key, &tr->copy);
	if (!tr->rooted)
		return true;
	memcpy(tails, tr->copy.tails, sizeof(tr->copy.tails));
	for (; n - at >= CHUNK; at += CHUNK) {
		key = next_key(t, key, p + at, CHUNK);
		if (!turns_get(t, key, &tr->copy))
			return true;
		if (!take_point(b))
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
		if (tail_of(t, p, best->n).quick == best->quick &&
		    turns_get(t, next_key(t, b->trail.key, p, best->n), &b->trail.copy))
			return take_point(b);
		best->n = 0;
	}
}

size_t body_recall(
    struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n)
{
	struct turns_tail tails[TURNS_TAILS] = { { 0, 0 } };
	struct trail *tr = &b->trail;

	if (t == NULL || n < BODY_LEAST)
		return 0;
	if (!walk_chunks(b, t, tenant, p, n, tails) ||
	    !take_tip(b, t, tails, p + tr->known * CHUNK, n - tr->known * CHUNK)) {
		body_reset(b, b->prompt.api);
		return 0;
	}
	tr->on = true;
	if (tr->marks.n > 0) {
		tr->recalled = (size_t)tr->marks.p[tr->marks.n - 1].at;
		restore(b, &tr->marks.p[tr->marks.n - 1]);
	}
	turns_count(t, tr->recalled);
	return tr->recalled;
}

/* ---- remember ------------------------------------------------------------------------------ */

static void put(struct trail *tr, const void *p, size_t n)
{
	if (n > 0)
		memcpy(tr->copy.data.p + tr->copy.data.n, p, n);
	tr->copy.data.n += n;
}

/* Store the border <m>, which follows the border <before>; NULL: none. */
static void put_point(struct body *b, struct turns *t, uint64_t tenant, struct hash128 key,
    const struct mark *m, const struct mark *before)
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
	n = sizeof(pt) + ((size_t)pt.n_front + pt.n_messages) * sizeof(page_key) + pt.n_model + pt.n_lora;
	tr->copy.data.n = 0;
	if (vec_reserve(&tr->copy.data, n) < 0)
		return;
	put(tr, &pt, sizeof(pt));
	put(tr, b->prompt.system.p, pt.first ? m->n_system * sizeof(page_key) : 0);
	put(tr, b->prompt.tools.p, pt.first ? m->n_tools * sizeof(page_key) : 0);
	put(tr, b->prompt.messages.p + from, pt.n_messages * sizeof(page_key));
	put(tr, tr->model.s, pt.n_model);
	put(tr, tr->lora.s, pt.n_lora);
	turns_put(t, tenant, key, tr->copy.data.p, n);
}

/* Return the last mark at or before byte <at>, or NULL. */
static const struct mark *mark_before(const struct trail *tr, uint64_t at)
{
	size_t i = tr->marks.n;

	while (i > 0 && tr->marks.p[i - 1].at > at)
		i--;
	return i > 0 ? &tr->marks.p[i - 1] : NULL;
}

void body_remember(struct body *b, struct turns *t, uint64_t tenant, const char *p, size_t n)
{
	struct trail *tr = &b->trail;
	const struct mark *last = mark_before(tr, n), *before = NULL;
	struct hash128 key = tr->key;
	size_t k = tr->known, end, tail;

	if (t == NULL || last == NULL || last->at == tr->recalled || b->prompt.json == JSON_BAD ||
	    b->prompt.salt.seen)
		return;
	end = chunk_of(last->at) - 1;	/* whole chunks before the chunk with the last border */
	if (!tr->rooted)
		turns_put(t, tenant, key, NULL, 0);
	before = mark_before(tr, (uint64_t)k * CHUNK);
	for (; k < end; k++) {
		const struct mark *m = mark_before(tr, (uint64_t)(k + 1) * CHUNK);

		key = next_key(t, key, p + k * CHUNK, CHUNK);
		if (m == NULL)
			turns_put(t, tenant, key, NULL, 0);
		else
			put_point(b, t, tenant, key, m, before);
		before = m;
	}
	if (k != end)
		return;
	tail = (size_t)last->at - k * CHUNK;
	put_point(b, t, tenant, next_key(t, key, p + k * CHUNK, tail), last, before);
	turns_add_tail(t, key, tail_of(t, p + k * CHUNK, tail));
}

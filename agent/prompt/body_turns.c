/* body_turns.c - the scanner and struct turns: the state at a border is taken and stored;
 * body_recall.c restores it.
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
#include "agent/prompt/body_turns_in.h"

/* ---- borders ------------------------------------------------------------------------------- */

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
		name_copy(&t->model, &b->prompt.model);
		name_copy(&t->lora, &b->prompt.lora);
		memcpy(t->named, b->prompt.named, sizeof(b->prompt.named));
		t->named[PROMPT_NAMED] = b->prompt.previous;
	}
	if (t->marks.n > 0 &&
	    grid_before(t->chunk, t->marks.p[t->marks.n - 1].at) == grid_before(t->chunk, m.at))
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

/* ---- remember ------------------------------------------------------------------------------ */

/* Write the item of <key> to the trail's copy: the border <m>, which follows the border <before>;
 * NULL: none. Returns false if there is no memory. */
static bool make_point(
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
		return false;
	turns_prefetch(tr->turns, key);
	turns_copy_put(&tr->copy, &pt, sizeof(pt));
	turns_copy_put(&tr->copy, b->prompt.system.p, pt.first ? m->n_system * sizeof(page_key) : 0);
	turns_copy_put(&tr->copy, b->prompt.tools.p, pt.first ? m->n_tools * sizeof(page_key) : 0);
	turns_copy_put(&tr->copy, b->prompt.messages.p + from, pt.n_messages * sizeof(page_key));
	turns_copy_put(&tr->copy, tr->model.s, pt.n_model);
	turns_copy_put(&tr->copy, tr->lora.s, pt.n_lora);
	turns_copy_put(&tr->copy, tr->named, pt.first ? sizeof(tr->named) : 0);
	return true;
}

/* Return the last mark at or before byte <at>, or NULL. */
static const struct mark *mark_before(const struct trail *tr, uint64_t at)
{
	size_t i = tr->marks.n;

	while (i > 0 && tr->marks.p[i - 1].at > at)
		i--;
	return i > 0 ? &tr->marks.p[i - 1] : NULL;
}

const struct mark *trail_put_chunk(
    struct body *b, struct hash128 key, size_t k, const struct mark *before)
{
	struct trail *tr = &b->trail;
	const struct mark *m = mark_before(tr, grid_at(tr->chunk, k + 1));

	if (m == NULL)
		turns_put(tr->turns, tr->tenant, key, NULL, 0);
	else if (make_point(b, key, m, before))
		turns_put(tr->turns, tr->tenant, key, tr->copy.data.p, tr->copy.data.n);
	return m;
}

const struct mark *trail_put_start(struct body *b)
{
	struct trail *tr = &b->trail;

	if (!tr->rooted)
		turns_put(tr->turns, tr->tenant, tr->key, NULL, 0);
	return mark_before(tr, grid_at(tr->chunk, tr->known));
}

void trail_put_tip(struct body *b, struct hash128 chunk, struct hash128 key, struct turns_tail tail,
    const struct mark *before)
{
	struct trail *tr = &b->trail;

	if (make_point(b, key, &tr->marks.p[tr->marks.n - 1], before))
		turns_put_tip(tr->turns, tr->tenant, chunk, tail, key, tr->copy.data.p, tr->copy.data.n);
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
	end = grid_before(tr->chunk, last->at);	/* whole chunks before the chunk with the last border */
	before = trail_put_start(b);
	for (; k < end; k++) {
		key = trail_next_key(tr, t, key, p, k);
		before = trail_put_chunk(b, key, k, before);
	}
	if (k != end)
		return;
	p += grid_at(tr->chunk, k);
	tail = (size_t)last->at - grid_at(tr->chunk, k);
	trail_put_tip(b, key, turns_next_key(t, key, p, tail), turns_tail_of(t, p, tail), before);
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

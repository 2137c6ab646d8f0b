/* body_tools.c - the scanner and struct turns: the value of "tools", which many clients send after
 * the messages, is found by its first bytes and left out if all of its bytes are known. */
#include "agent/prompt/body_in.h"

#define TOOLS_PART	8u		/* the first bytes of tools, which find the others: of a chunk */

enum { TOOLS = 0x544f4f4c };

struct tools_point {
	uint64_t units;
	uint32_t n_pages, n_events;
};

/* Return the key of tools that begin with the bytes at <p>. */
static struct hash128 tools_key(const struct body *b, const char *p)
{
	const struct trail *tr = &b->trail;
	uint64_t word[3] = { TOOLS, tr->tenant, b->prompt.api };
	struct hash128 root = hash128(turns_key(tr->turns), word, sizeof(word));

	return turns_next_key(tr->turns, root, p, tr->chunk / TOOLS_PART);
}

/* Set the state after the tools of the copied item, of <n> bytes. */
static bool take_tools(struct body *b, size_t n)
{
	const struct turns_copy *c = &b->trail.copy;
	struct prompt *p = &b->prompt;
	struct tools_point pt;

	if (c->data.n < sizeof(pt))
		return false;
	memcpy(&pt, c->data.p, sizeof(pt));
	if (p->n_events + pt.n_events >= PROMPT_EVENTS_MOST || b->env.full ||
	    pt.n_pages > b->env.max - b->env.used ||
	    page_vec_append(&p->tools, (const page_key *)(const void *)(c->data.p + sizeof(pt)),
		pt.n_pages) < 0)
		return false;
	b->env.used += pt.n_pages;
	b->r.tools_units[TOOLS_TOOLS] = pt.units;
	p->tools_seen = true;
	p->n_events += pt.n_events;
	p->known.bytes += n;
	p->known.units += pt.units;
	p->known.events += pt.n_events;
	return true;
}

bool body_tools_recall(struct body *b)
{
	struct trail *tr = &b->trail;
	uint64_t at = b->r.json.edge;
	struct turns_tail tails[TURNS_TAILS];
	struct hash128 key;
	const char *p;
	bool again = tr->tools_met;

	tr->tools_met = true;
	tr->tools = (struct tools_value){ .at = at, .n_events = b->prompt.n_events };
	if (tr->turns == NULL || again || tr->raw.n - at < tr->chunk / TOOLS_PART)
		return false;
	p = tr->raw.p + at;
	key = tools_key(b, p);
	if (!turns_get(tr->turns, key, &tr->copy))
		return false;
	memcpy(tails, tr->copy.tails, sizeof(tails));
	for (unsigned i = 0; i < TURNS_TAILS; i++) {
		size_t n = tails[i].n;

		if (n == 0 || n > tr->raw.n - at || turns_tail_of(tr->turns, p, n).quick != tails[i].quick ||
		    !turns_get(tr->turns, turns_next_key(tr->turns, key, p, n), &tr->copy) || !take_tools(b, n))
			continue;
		json_skip(&b->r.json, at + n);
		return true;
	}
	return false;
}

void body_tools_void(struct body *b)
{
	b->trail.tools.n = 0;
}

void body_tools_note(struct body *b)
{
	struct tools_value *v = &b->trail.tools;

	if (b->trail.turns == NULL || b->env.full ||
	    b->r.json.edge - v->at < b->trail.chunk / TOOLS_PART)
		return;
	v->n = b->r.json.edge - v->at;
	v->n_events = b->prompt.n_events - v->n_events;
	v->n_pages = (uint32_t)b->prompt.tools.n;
	v->units = b->r.tools_units[TOOLS_TOOLS];
}

void body_tools_remember(struct body *b)
{
	struct trail *tr = &b->trail;
	const struct tools_value *v = &tr->tools;
	struct tools_point pt = { .units = v->units, .n_pages = v->n_pages, .n_events = v->n_events };
	const char *p = tr->raw.p + v->at;
	struct hash128 key;

	tr->copy.data.n = 0;
	if (v->n == 0 || v->n > UINT32_MAX ||
	    vec_reserve(&tr->copy.data, sizeof(pt) + v->n_pages * sizeof(page_key)) < 0)
		return;
	turns_copy_put(&tr->copy, &pt, sizeof(pt));
	turns_copy_put(&tr->copy, b->prompt.tools.p, v->n_pages * sizeof(page_key));
	key = tools_key(b, p);
	turns_put(tr->turns, tr->tenant, key, NULL, 0);
	turns_put_tip(tr->turns, tr->tenant, key, turns_tail_of(tr->turns, p, v->n),
	    turns_next_key(tr->turns, key, p, v->n), tr->copy.data.p, tr->copy.data.n);
}

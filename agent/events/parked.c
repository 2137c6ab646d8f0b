/* parked.c - blocks with an unknown parent: found by their own handle, so that they can be stored
 * again or removed, and by their parent's, so that they can be joined.
 *
 * A run whose first block has an unknown parent becomes a chain of such blocks, each waiting for
 * the one before. The pages of a block are kept as its key, so each takes the same few bytes
 * whatever its size. All of them are in one list; without room the oldest is dropped and the others
 * keep waiting. */
#include "agent/events/events_in.h"

static struct parked *parked_at(const struct events *ev, uint32_t ref)
{
	return &ev->parked[ref - 1];
}

static uint32_t ref_of(const struct events *ev, const struct parked *p)
{
	return (uint32_t)(p - ev->parked) + 1;
}

static uint32_t *bucket_head(const struct events *ev, uint32_t *heads, uint64_t hash)
{
	return &heads[hash & (ev->parked_heads - 1)];
}

struct parked *park_find(const struct events *ev, uint32_t holder, uint64_t own)
{
	uint32_t i;

	for (i = *bucket_head(ev, ev->by_own, own); i != 0; i = parked_at(ev, i)->next_own)
		if (parked_at(ev, i)->own == own && parked_at(ev, i)->holder == holder)
			return parked_at(ev, i);
	return NULL;
}

/* Unlink it from both tables and the list, but do not free it. */
static void unlink_it(struct events *ev, struct parked *p)
{
	uint32_t ref = ref_of(ev, p), *i;

	for (i = bucket_head(ev, ev->by_own, p->own); *i != ref; i = &parked_at(ev, *i)->next_own)
		;
	*i = p->next_own;
	for (i = bucket_head(ev, ev->by_parent, p->parent); *i != ref; i = &parked_at(ev, *i)->next_parent)
		;
	*i = p->next_parent;
	if (p->older != 0)
		parked_at(ev, p->older)->newer = p->newer;
	else
		ev->oldest_parked = p->newer;
	if (p->newer != 0)
		parked_at(ev, p->newer)->older = p->older;
	else
		ev->newest_parked = p->older;
	ev->holders[p->holder].n_parked--;
	COUNT(ev, parked, -1);
}

void park_remove(struct events *ev, struct parked *p)
{
	unlink_it(ev, p);
	p->older = ev->free_parked;
	ev->free_parked = ref_of(ev, p);
}

bool park_add(struct events *ev, uint32_t holder, uint64_t own, uint64_t parent, uint64_t key,
    uint32_t copies)
{
	struct parked *p;
	uint32_t ref, *h;

	if (ev->free_parked == 0 && ev->cut_parked == ev->max_parked && ev->oldest_parked != 0) {
		p = parked_at(ev, ev->oldest_parked);
		server_lose(ev, ev->holders[p->holder].server, 1);
		park_remove(ev, p);
		COUNT(ev, parked_dropped, 1);
	}
	ref = ev->free_parked;
	if (ref != 0)
		ev->free_parked = parked_at(ev, ref)->older;
	else if (ev->cut_parked < ev->max_parked)
		ref = ++ev->cut_parked;
	else
		return false;
	p = parked_at(ev, ref);
	*p = (struct parked){ .own = own, .parent = parent, .key = key, .holder = (uint16_t)holder,
			      .copies = (uint16_t)copies, .older = ev->newest_parked };
	h = bucket_head(ev, ev->by_own, own);
	p->next_own = *h;
	*h = ref;
	h = bucket_head(ev, ev->by_parent, parent);
	p->next_parent = *h;
	*h = ref;
	if (p->older != 0)
		parked_at(ev, p->older)->newer = ref;
	else
		ev->oldest_parked = ref;
	ev->newest_parked = ref;
	ev->holders[holder].n_parked++;
	COUNT(ev, parked, 1);
	return true;
}

uint32_t park_take(struct events *ev, uint32_t holder, uint64_t parent, uint32_t ready)
{
	uint32_t i, next;
	struct parked *p;

	for (i = *bucket_head(ev, ev->by_parent, parent); i != 0; i = next) {
		p = parked_at(ev, i);
		next = p->next_parent;
		if (p->parent != parent || p->holder != holder)
			continue;
		unlink_it(ev, p);
		p->older = ready;
		ready = i;
	}
	return ready;
}

uint32_t park_give(struct events *ev, uint32_t ready)
{
	struct parked *p = parked_at(ev, ready);
	uint32_t next = p->older;

	p->older = ev->free_parked;
	ev->free_parked = ready;
	return next;
}

void park_forget(struct events *ev, uint32_t holder)
{
	uint32_t i, next;

	for (i = ev->oldest_parked; i != 0 && ev->holders[holder].n_parked > 0; i = next) {
		next = parked_at(ev, i)->newer;
		if (parked_at(ev, i)->holder == holder)
			park_remove(ev, parked_at(ev, i));
	}
}

/* ---- for tests ---- */

static bool known(const struct events *ev, uint32_t holder, uint64_t hash)
{
	return handles_find(ev, &ev->holders[holder].map, hash).line != NULL;
}

const char *park_check(const struct events *ev)
{
	uint32_t i, n = 0, free = 0;

	for (i = ev->oldest_parked; i != 0; i = parked_at(ev, i)->newer, n++) {
		const struct parked *p = parked_at(ev, i);

		if (park_find(ev, p->holder, p->own) != p)
			return "a parked block is not found, or twice there";
		if (known(ev, p->holder, p->own))
			return "a block is known and parked";
		if (known(ev, p->holder, p->parent))
			return "a block is parked below a parent that is known";
		if (p->copies == 0)
			return "a parked block without a copy";
	}
	for (i = ev->free_parked; i != 0; i = parked_at(ev, i)->older)
		free++;
	if (n != atomic_load(&ev->st.parked) || n + free != ev->cut_parked)
		return "parked blocks are lost";
	return NULL;
}

/* holder.c - holders, one for each rank that has stored something, and the removal of their
 * records.
 *
 * Clearing a holder removes it from the live bits, which every reader checks; the rank gets another
 * holder when it stores again. The old holder waits in a queue, and its records are removed one by
 * one. Its number is reused only when no record is left, the longest free one first. A reader that
 * started before sees that the number was given out after its start, and skips it. */
#include "agent/events/events_in.h"

#define ROOM	16u		/* records that are removed when there is no room for one */

static void queue_push(struct events *ev, struct queue *q, uint32_t holder)
{
	ev->holders[holder].next = NO_HOLDER;
	if (q->first == NO_HOLDER)
		q->first = (uint16_t)holder;
	else
		ev->holders[q->last].next = (uint16_t)holder;
	q->last = (uint16_t)holder;
}

static uint32_t queue_pop(struct events *ev, struct queue *q)
{
	uint32_t s = q->first;

	if (s != NO_HOLDER)
		q->first = ev->holders[s].next;
	return s;
}

uint32_t holder_find(const struct events *ev, server_id server, uint16_t rank)
{
	uint32_t s;

	if (server >= SERVERS_MAX)
		return NO_HOLDER;
	for (s = ev->of_server[server]; s != NO_HOLDER; s = ev->holders[s].next)
		if (ev->holders[s].rank == rank)
			break;
	return s;
}

uint32_t holder_get(struct events *ev, server_id server, uint16_t rank)
{
	uint32_t s = holder_find(ev, server, rank), given;

	if (s != NO_HOLDER || server >= SERVERS_MAX)
		return s;
	while (ev->free_holders.first == NO_HOLDER && holder_reap(ev, ROOM))
		;
	s = queue_pop(ev, &ev->free_holders);
	if (s == NO_HOLDER)
		return s;
	ev->holders[s] = (struct holder){
		.server = server, .rank = rank, .next = ev->of_server[server], .used = true
	};
	ev->of_server[server] = (uint16_t)s;
	if (server >= ev->servers_end)
		ev->servers_end = server + 1u;
	given = atomic_load_explicit(&ev->given, memory_order_relaxed) + 1;
	atomic_store_explicit(&ev->born[s], given, memory_order_release);
	atomic_store_explicit(&ev->given, given, memory_order_release);
	atomic_store_explicit(&ev->who_is[s], (uint32_t)server << 16 | rank, memory_order_release);
	COUNT(ev, holders, 1);
	return s;
}

/* ---- block sizes ---- */

static void set_live(struct events *ev, uint32_t holder, bool on)
{
	_Atomic uint64_t *w = &ev->live[(ev->holders[holder].size - 1u) * ev->words + holder / 64];
	uint64_t v = atomic_load_explicit(w, memory_order_relaxed), bit = 1ull << holder % 64;

	atomic_store_explicit(w, on ? v | bit : v & ~bit, memory_order_release);
}

static void size_leave(struct events *ev, struct holder *src)
{
	if (src->size == 0)
		return;
	set_live(ev, (uint32_t)(src - ev->holders), false);
	if (--ev->size_users[src->size - 1] == 0)
		atomic_store_explicit(&ev->sizes[src->size - 1], 0, memory_order_release);
	src->size = 0;
}

bool holder_size(struct events *ev, uint32_t holder, uint32_t block_pages)
{
	struct holder *src = &ev->holders[holder];
	unsigned i, free = EVENTS_SIZES_MAX;

	if (src->size != 0 &&
	    atomic_load_explicit(&ev->sizes[src->size - 1], memory_order_relaxed) == block_pages)
		return true;
	if (src->n > 0 || src->n_parked > 0)
		return false;
	size_leave(ev, src);
	for (i = 0; i < EVENTS_SIZES_MAX; i++) {
		if (ev->size_users[i] != 0 &&
		    atomic_load_explicit(&ev->sizes[i], memory_order_relaxed) == block_pages)
			break;
		if (ev->size_users[i] == 0 && free == EVENTS_SIZES_MAX)
			free = i;
	}
	if (i == EVENTS_SIZES_MAX && (i = free) == EVENTS_SIZES_MAX)
		return false;
	atomic_store_explicit(&ev->sizes[i], block_pages, memory_order_release);
	ev->size_users[i]++;
	src->size = (uint8_t)(i + 1);
	set_live(ev, holder, true);
	return true;
}

/* ---- going ---- */

void holder_clear(struct events *ev, uint32_t holder)
{
	struct holder *src = &ev->holders[holder];
	uint16_t *p;

	size_leave(ev, src);
	for (p = &ev->of_server[src->server]; *p != holder; p = &ev->holders[*p].next)
		;
	*p = src->next;
	ev->server_recs[src->server] -= src->n;
	src->used = false;
	park_forget(ev, holder);
	queue_push(ev, &ev->dying, holder);
	COUNT(ev, holders, -1);
}

void rec_drop(struct events *ev, rec_ref ref)
{
	held_update(ev, ref, 0);
	map_remove(ev, ref);
}

bool holder_reap(struct events *ev, uint32_t work)
{
	while (ev->dying.first != NO_HOLDER) {
		struct holder *src = &ev->holders[ev->dying.first];

		for (; src->n > 0; work--) {
			if (work == 0)
				return true;
			rec_drop(ev, src->oldest);
		}
		queue_push(ev, &ev->free_holders, queue_pop(ev, &ev->dying));
	}
	return false;
}

static uint32_t largest_holder(const struct events *ev)
{
	uint32_t i, s, best = 0, found = NO_HOLDER;
	server_id server = 0;

	for (i = 0; i < ev->servers_end; i++) {
		if (ev->server_recs[i] > best) {
			best = ev->server_recs[i];
			server = (server_id)i;
		}
	}
	for (s = best > 0 ? ev->of_server[server] : NO_HOLDER; s != NO_HOLDER; s = ev->holders[s].next)
		if (found == NO_HOLDER || ev->holders[s].n > ev->holders[found].n ||
		    (ev->holders[s].n == ev->holders[found].n && ev->holders[s].rank < ev->holders[found].rank))
			found = s;
	return found;
}

void room_for_one(struct events *ev)
{
	uint32_t s, i;

	if (ev->n_recs < ev->max_recs)
		return;
	holder_reap(ev, ROOM);
	if (ev->n_recs < ev->max_recs)
		return;
	s = largest_holder(ev);
	for (i = 0; i < ROOM && ev->holders[s].n > 0; i++) {
		rec_drop(ev, ev->holders[s].oldest);
		COUNT(ev, evicted, 1);
	}
}

void keep_to_capacity(struct events *ev, uint32_t holder, uint32_t work)
{
	struct holder *src = &ev->holders[holder];
	uint32_t most = ev->capacity[src->server];

	for (work += ROOM; most != 0 && src->n > most && work > 0; work--) {
		rec_drop(ev, src->oldest);
		COUNT(ev, evicted, 1);
	}
}

/* ---- for tests ---- */

const char *holder_check(const struct events *ev)
{
	uint32_t s, r, before, n, all = 0, of[SERVERS_MAX] = { 0 };

	for (s = 0; s < ev->max_holders; s++) {
		const struct holder *src = &ev->holders[s];

		for (r = src->oldest, before = 0, n = 0; r != 0;
		     before = r, r = rec_at(ev, r)->newer & REF_MASK, n++) {
			if (who_holder(rec_who(rec_at(ev, r))) != s)
				return "a record in the list of another holder";
			if ((rec_at(ev, r)->older & REF_MASK) != before)
				return "a list that is not the same from both ends";
		}
		if (n != src->n || before != src->newest)
			return "a holder counts records that are not in its list";
		all += n;
		if (src->used)
			of[src->server] += n;
	}
	if (all != ev->n_recs || all != atomic_load(&ev->st.records))
		return "a record is in no list";
	return memcmp(of, ev->server_recs, sizeof(of)) == 0
	    ? NULL
	    : "a server counts records it does not have";
}

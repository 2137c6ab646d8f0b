/* holder.c - holders, one for each rank that has stored something, and the removal of their
 * records.
 *
 * Clearing a holder removes it from the live bits, which every reader checks; the rank gets another
 * holder when it stores again. The old holder waits in a queue, and its records are removed one by
 * one. Its number is reused only when no record is left, the longest free one first. A reader that
 * started before sees that the number was given out after its start, and skips it. */
#include "agent/events/events_in.h"

#define REAP	1024u		/* records that are removed at a time when there is no free holder */

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
	while (ev->free_holders.first == NO_HOLDER && holder_reap(ev, REAP))
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
	if (src->map.n > 0 || src->n_parked > 0)
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
	holder_expires(ev, holder, 0);
	for (p = &ev->of_server[src->server]; *p != holder; p = &ev->holders[*p].next)
		;
	*p = src->next;
	ev->server_recs[src->server] -= src->map.n;
	src->used = false;
	src->reaped = 0;
	park_forget(ev, holder);
	queue_push(ev, &ev->dying, holder);
	COUNT(ev, holders, -1);
}

/* Remove the record of a cleared holder. The first one of a run removes all its blocks there, so
 * for later ones the run may be gone, or be used for other blocks: neither has this holder. */
static void reap_slot(struct events *ev, uint32_t holder, struct slot s)
{
	uint64_t word = OWN(&s.line->word[s.i]);

	if (WORD_TIERS(word) == 0)
		extras_put(ev, &ev->copies, extra_key(ev, word & WORD_HASH, holder), 0);
	pen_drop_all(ev, holder, OWN(&s.line->run[s.i]));
	handles_remove(ev, &ev->holders[holder].map, s);
	holder_count(ev, holder, -1);
}

static void ask_runs(const struct events *ev, const struct handles *map, uint32_t line)
{
	const struct slots *l;
	unsigned i;

	if (line >= map->n_lines)
		return;
	l = handles_line(ev, map, line);
	for (i = 0; i < LINE_SLOTS; i++)
		if (OWN(&l->run[i]) != 0)
			__builtin_prefetch(run_at(ev, OWN(&l->run[i])), 1);
}

bool holder_reap(struct events *ev, uint32_t work)
{
	struct slot s;

	while (ev->dying.first != NO_HOLDER) {
		uint32_t holder = ev->dying.first;
		struct holder *src = &ev->holders[holder];

		for (; src->map.n > 0; src->reaped++) {
			ask_runs(ev, &src->map, src->reaped + 4);
			s.line = handles_line(ev, &src->map, src->reaped);
			for (s.i = 0; s.i < LINE_SLOTS; s.i++) {
				if (OWN(&s.line->run[s.i]) == 0)
					continue;
				if (work-- == 0)
					return true;
				reap_slot(ev, holder, s);
			}
		}
		handles_free(ev, &src->map);
		queue_push(ev, &ev->free_holders, queue_pop(ev, &ev->dying));
	}
	return false;
}

/* ---- for tests ---- */

const char *holder_check(const struct events *ev)
{
	uint32_t s, all = 0, of[SERVERS_MAX] = { 0 };
	const char *why;

	for (s = 0; s < ev->max_holders; s++) {
		const struct holder *src = &ev->holders[s];

		if ((why = handles_check(ev, &src->map)) != NULL)
			return why;
		all += src->map.n;
		if (src->used)
			of[src->server] += src->map.n;
	}
	if (all != ev->n_recs || all != atomic_load(&ev->st.records))
		return "records are counted wrong";
	return memcmp(of, ev->server_recs, sizeof(of)) == 0
	    ? NULL
	    : "a server counts records it does not have";
}

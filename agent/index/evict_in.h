/* evict_in.h - make room: evict records and claims (evict.c), those of one server (evict_server.c),
 * and generated tokens (output.c).
 *
 * The caller holds no lock. <*work>: records that may still be worked on in this call. */
#ifndef KVROUTE_INDEX_EVICT_IN_H
#define KVROUTE_INDEX_EVICT_IN_H

#include "agent/index/claim_in.h"

/* Make room in <shard>. With <first> nothing is evicted if collecting retired objects is enough.
 * Returns true if the caller should try again. */
bool make_room(struct index *ix, uint32_t shard, bool first, uint32_t *work);

/* Make room for one more space of <tenant>: evict what it used longest ago. */
bool make_space(struct index *ix, uint32_t tenant, uint32_t *work);

/* Bring <s>, which exceeds it, within its capacity; expire claims until they fit the reserve. */
void capacity_exceeded(struct index *ix, server_id s, uint32_t *work);
void keep_reserve(struct index *ix, uint32_t *work);

/* Cut a record in the lists. The caller has locked its shard and no other; nothing is locked on
 * return. Another thread may be faster; that counts as work too, and the result is false. */
bool evict_cut(struct index *ix, struct record *r, struct cut c, uint32_t *work);

static inline uint64_t evict_room_held(const struct index *ix, server_id s)
{
	int64_t n = atomic_load_explicit(&ix->servers[s].room, memory_order_relaxed);

	return n > 0 ? (uint64_t)n : 0;
}

/* Return the room that <s> takes: pages, output, and parts of claims. */
static inline uint64_t evict_room_used(const struct index *ix, server_id s)
{
	int64_t parts = atomic_load_explicit(&ix->servers[s].parts, memory_order_relaxed);

	return evict_room_held(ix, s) +
	    atomic_load_explicit(&ix->servers[s].output, memory_order_relaxed) +
	    (parts > 0 ? (uint64_t)parts : 0);
}

/* Bring <s> within its capacity. A tick calls it for all servers. */
static inline void keep_capacity(struct index *ix, server_id s, uint32_t *work)
{
	uint64_t capacity = atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed);

	if (capacity > 0 && evict_room_used(ix, s) > capacity)
		capacity_exceeded(ix, s, work);
}

/* The horizon of a server: pages used until that tick are evicted, or will be. A capacity moves it
 * on, of servers that evict by time; another agent may tell a later one. */
void horizon_raise(struct index *ix, server_id s, uint32_t tick);

static inline bool is_evicted(const struct index *ix, server_id s, uint32_t used)
{
	uint64_t h = atomic_load_explicit(&ix->servers[s].evicted, memory_order_relaxed);

	return h != 0 && !tick_before((uint32_t)h, used);
}

/* Return whether <room> more, last used at <tick>, would be evicted at once. */
bool evicted_at_once(struct index *ix, server_id s, uint64_t room, uint32_t tick);

/* Set <tick> to that of the oldest output. Returns false if there is none. */
bool output_oldest(struct index *ix, server_id s, uint32_t *tick);

/* Take up to <most> room from the output of <s>, if it is evicted before the record of tick <used>
 * (<is_record>: there is one). Returns false if it is not, and takes nothing. */
bool output_cut(struct index *ix, server_id s, bool is_record, uint32_t used, uint64_t most);
void output_drop(struct index *ix, server_id s);

#endif

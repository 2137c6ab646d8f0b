/* evict_server.c - evict the records of one server: what exceeds its capacity, what was not used
 * since its horizon, and all if it is gone.
 *
 * Its records go in its own order over all shards; each shard publishes the tick of the first, so
 * no lock is needed to choose the shard. */
#include "agent/index/evict_in.h"
#include "agent/index/held.h"

#define BRANCHES_AHEAD	16u	/* evicted between two looks ahead */

/* ---- a server's capacity ---- */

/* Return whether <a> goes before <b>, of two values of first_used[] of one server; NOT_ONE goes
 * last. <last>: see last_goes(). */
static bool first_before(bool last, uint64_t a, uint64_t b)
{
	if (a >> 32 != b >> 32)
		return a < b;
	return last ? tick_before((uint32_t)b, (uint32_t)a) : tick_before((uint32_t)a, (uint32_t)b);
}

/* Find the shard of the record of <s> that is evicted first. Returns its value in first_used[], or
 * NOT_ONE. */
static uint64_t first_shard(struct index *ix, server_id s, uint32_t *shard)
{
	_Atomic uint64_t *of = &ix->first_used[(size_t)s * ix->n_shards];
	bool last = last_goes(order_of(ix, s));
	uint64_t h, best = NOT_ONE;

	for (uint32_t i = 0; i < ix->n_shards; i++) {
		h = atomic_load_explicit(&of[i], memory_order_relaxed);
		if (first_before(last, h, best)) {
			best = h;
			*shard = i;
		}
	}
	return best;
}

/* Return the record of <s> in the shard that is evicted first, with the shard locked; NULL, with
 * nothing locked, if there is none. */
static struct record *lock_first_of(struct index *ix, uint32_t shard, server_id s)
{
	struct record *r;

	shards_lock(ix, 1ull << shard);
	if ((r = order_first(ix, &ix->shards[shard], s)) == NULL)
		shards_unlock(ix, 1ull << shard);
	return r;
}

/* Return the record of <s> that is evicted first, with its shard locked; NULL, with nothing locked,
 * if none may be evicted. */
static struct record *lock_first(struct index *ix, server_id s, uint32_t *shard)
{
	return first_shard(ix, s, shard) == NOT_ONE ? NULL : lock_first_of(ix, *shard, s);
}

void horizon_raise(struct index *ix, server_id s, uint32_t tick)
{
	_Atomic uint64_t *at = &ix->servers[s].evicted;
	uint64_t was = atomic_load_explicit(at, memory_order_relaxed);

	while ((was == 0 || tick_before((uint32_t)was, tick)) &&
	    !atomic_compare_exchange_weak(at, &was, EVICTED_ANY | tick))
		;
}

/* Records used at <used> and before were cut. The lists are not quite in order: what is first now
 * may be older. */
static void note_evicted(struct index *ix, server_id s, uint32_t used)
{
	uint32_t shard;
	uint64_t first;

	if (!by_time(order_of(ix, s)))
		return;
	first = first_shard(ix, s, &shard);
	if (first != NOT_ONE && tick_before((uint32_t)first, used))
		used = (uint32_t)first - 1;
	horizon_raise(ix, s, used);
}

bool evicted_at_once(struct index *ix, server_id s, uint64_t room, uint32_t tick)
{
	uint64_t capacity = atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed), first;
	uint32_t shard, oldest;

	if (capacity > 0 && !by_time(order_of(ix, s)))
		return evict_room_used(ix, s) + room > capacity;
	if (capacity == 0 || is_evicted(ix, s, tick))
		return capacity > 0;
	if (evict_room_used(ix, s) + room <= capacity)
		return false;
	if (output_oldest(ix, s, &oldest) && tick_before(oldest, tick))
		return false;
	first = first_shard(ix, s, &shard);
	return first == NOT_ONE || !tick_before((uint32_t)first, tick);
}

/* The next records are worth a prefetch after the first branch of a call, because a commit often
 * evicts no more, and again when most of those prefetched are gone. */
static bool time_to_look_ahead(uint32_t branches)
{
	return branches % BRANCHES_AHEAD == 1;
}

/* Evict until <s> takes <to> room at most. */
static void evict_server(struct index *ix, server_id s, uint64_t to, uint32_t *work)
{
	uint32_t shard = 0, used = 0, latest = 0, n;
	struct record *r;
	uint64_t now;
	bool any = false;

	for (n = 0; *work > 0 && (now = evict_room_used(ix, s)) > to; n++) {
		if (time_to_look_ahead(n))
			server_ahead(ix, s, used);
		if ((r = lock_first(ix, s, &shard)) != NULL)
			used = r->used;
		if (output_cut(ix, s, r != NULL, used, now - to)) {
			if (r != NULL)
				shards_unlock(ix, 1ull << shard);
			--*work;
			continue;
		}
		if (r == NULL)
			break;
		if (evict_cut(ix, r, (struct cut){ *work, EDGE_MAX, now - to, true, false }, work)) {
			latest = any && tick_before(used, latest) ? latest : used;
			any = true;
		}
	}
	if (any)
		note_evicted(ix, s, latest);
}

/* An engine serves requests in the order in which they were sent. When the next prompt is served,
 * the open ones have taken their room from the held pages, the oldest first; so claims may take the
 * whole capacity. Claims do not evict each other: a busy engine may have far more prompts waiting
 * than its cache has room for, and a router that forgets them sends their conversations elsewhere.
 * At 90 % load the mean time to first token was 32 times the oracle's with eviction of claims, and
 * is twice without. keep_reserve() bounds their bytes. */
void capacity_exceeded(struct index *ix, server_id s, uint32_t *work)
{
	uint64_t capacity = atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed);
	int64_t claimed = atomic_load_explicit(&ix->servers[s].speculative, memory_order_relaxed) +
			  atomic_load_explicit(&ix->servers[s].parts, memory_order_relaxed);

	evict_server(ix, s, claimed > (int64_t)capacity ? (uint64_t)claimed : capacity, work);
}

/* Evict what <s> used until its horizon. Returns true if there may be more. */
static bool keep_horizon(struct index *ix, server_id s, uint32_t *work)
{
	struct record *r;
	uint32_t shard, used = 0, n;

	for (n = 0; *work > 0; n++) {
		if (time_to_look_ahead(n))
			server_ahead(ix, s, used);
		if ((r = lock_first(ix, s, &shard)) == NULL)
			return false;
		used = r->used;
		if (!is_evicted(ix, s, used)) {
			shards_unlock(ix, 1ull << shard);
			return false;
		}
		evict_cut(ix, r, (struct cut){ *work, EDGE_MAX, UINT64_MAX, true, true }, work);
	}
	return true;
}

bool index_evict_unused(
    struct index *ix, server_id s, msec unused_ms, msec now, uint32_t work)
{
	if (s >= SERVERS_MAX || !server_ready(ix, s) || !by_time(order_of(ix, s)) ||
	    atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed) == 0)
		return false;
	if (unused_ms >= 0)
		horizon_raise(ix, s, tick_ago(now, unused_ms));
	return atomic_load_explicit(&ix->servers[s].evicted, memory_order_relaxed) != 0 &&
	    keep_horizon(ix, s, &work);
}

void index_evict_at(struct index *ix, server_id s, struct index_place at)
{
	record_cut(ix, at.node, s, (struct cut){ 1, EDGE_MAX, UINT64_MAX, true, true });
}

msec index_evicted_ago(struct index *ix, server_id s, msec now)
{
	uint64_t h = s < SERVERS_MAX ? atomic_load(&ix->servers[s].evicted) : 0;
	int32_t ticks = (int32_t)(tick_of(now) - (uint32_t)h);

	return h == 0 ? -1 : ticks > 0 ? (msec)ticks * 16 : 0;
}

/* ---- leaving ---- */

/* Cut the records of <s> that may be evicted, <work> at most. Returns false if there was none. */
static bool drop_some(struct index *ix, server_id s, uint32_t *work)
{
	struct record *r;
	bool any = false;
	uint32_t i;

	for (i = 0; i < ix->n_shards; i++)
		while (*work > 0 && (r = lock_first_of(ix, i, s)) != NULL) {
			order_ahead(ix, r, BY_ORDER);
			evict_cut(ix, r, (struct cut){ *work, EDGE_MAX, UINT64_MAX, false, false }, work);
			any = true;
		}
	return any;
}

bool index_drop_step(struct index *ix, server_id s, uint32_t work)
{
	if (s >= SERVERS_MAX)
		return true;
	if (atomic_exchange(&ix->servers[s].leaving, 1) == 0) {
		atomic_fetch_add(&ix->n_leaving, 1);
		atomic_fetch_add(&ix->servers[s].drops, 1);
	}
	while (work > 0 && claim_expire_of(ix, s))
		work--;
	while (work > 0 && drop_some(ix, s, &work))
		;
	if (work == 0 || evict_room_held(ix, s) > 0)	/* another thread pins what it works on */
		return false;
	output_drop(ix, s);
	atomic_store_explicit(&ix->servers[s].evicted, 0, memory_order_relaxed);
	if (atomic_exchange(&ix->servers[s].leaving, 0) == 1)
		atomic_fetch_sub(&ix->n_leaving, 1);
	return true;
}

/* evict.c - evict records and expire claims when bytes, a capacity or the reserve run out.
 *
 * If a shard runs out of bytes, its oldest records go, whatever their server, except those of
 * tenants below their floor. If a server exceeds its capacity, its own records go in its order over
 * all shards; each shard publishes the tick of the first, so no lock is needed to choose the shard.
 * Claims have a share of the bytes (reserve_percent); when it is used up, the oldest claim expires.
 *
 * One call does EVICT_MAX of work at most, counted in records; copied nodes count more.
 * index_tick() does the rest.
 *
 * Evicted memory is free only when no reader can see it. While a reader does not proceed, memory is
 * late, not short: evicting more would not free it sooner. */
#include <sched.h>

#include "agent/index/evict_in.h"
#include "agent/index/held.h"

#define YIELDS		8u
#define FREE_MOST	15u		/* of FREE_PART: half of a shard */

static bool under_floor(const struct index *ix, uint32_t tenant)
{
	uint64_t floor = atomic_load_explicit(&ix->tenants[tenant].floor, memory_order_relaxed);
	int64_t bytes = 0;
	uint32_t i;

	if (floor == 0)
		return false;
	for (i = 0; i < ix->n_shards; i++)
		bytes += atomic_load_explicit(&ix->shards[i].tenant_bytes[tenant], memory_order_relaxed);
	return bytes <= (int64_t)floor;
}

/* Return the oldest record of all tenants above their floor, or NULL. The shard is locked. */
static const struct record *oldest_record(struct index *ix, const struct shard *sh)
{
	uint32_t t, n = atomic_load_explicit(&ix->tenants_used, memory_order_relaxed);
	const struct record *r, *best = NULL;

	for (t = 0; t < n; t++) {
		if (sh->by_age[t].first == 0 || under_floor(ix, t))
			continue;
		r = at(ix, sh->by_age[t].first);
		if (best == NULL || tick_before(r->used, best->used))
			best = r;
	}
	return best;
}

/* Cut a record that was seen before. Another thread may have been faster; that counts as work too,
 * and the result is false. */
static bool cut_one(struct index *ix, node_id id, server_id s, const struct cut *c, uint32_t *work)
{
	uint32_t n = record_cut(ix, id, s, c);

	*work -= n == 0 ? 1 : n < *work ? n : *work;
	return n > 0;
}

/* Returns false if no record may be evicted. */
static bool evict_oldest(struct index *ix, uint32_t shard, uint32_t *work)
{
	struct shard *sh = &ix->shards[shard];
	const struct record *r;
	server_id s = 0;
	node_id id = 0;

	shards_lock(ix, 1ull << shard);
	if ((r = oldest_record(ix, sh)) != NULL) {
		id = r->node;
		s = r->server;
	}
	shards_unlock(ix, 1ull << shard);
	if (id != 0)
		cut_one(ix, id, s, &(struct cut){ TRIM_PAGES, UINT64_MAX, true, false }, work);
	return id != 0;
}

static bool evict_of_tenant(struct index *ix, uint32_t tenant, uint32_t *work)
{
	const struct record *r;
	uint32_t i, used = 0;
	node_id id = 0;
	server_id s = 0;

	for (i = 0; i < ix->n_shards; i++) {
		shards_lock(ix, 1ull << i);
		if (ix->shards[i].by_age[tenant].first != 0) {
			r = at(ix, ix->shards[i].by_age[tenant].first);
			if (id == 0 || tick_before(r->used, used)) {
				id = r->node;
				s = r->server;
				used = r->used;
			}
		}
		shards_unlock(ix, 1ull << i);
	}
	if (id != 0)
		cut_one(ix, id, s, &(struct cut){ EDGE_MAX, UINT64_MAX, true, false }, work);
	return id != 0;
}

bool make_space(struct index *ix, uint32_t tenant, uint32_t *work)
{
	const struct tenant *t = &ix->tenants[tenant];

	while (atomic_load_explicit(&t->spaces, memory_order_relaxed) >= ix->opts.max_spaces) {
		if (*work == 0 || !evict_of_tenant(ix, tenant, work))
			return false;
	}
	return true;
}

/* Free retired objects until <need> bytes fit. Yields a few times, because a reader that lost its
 * CPU may still hold them. */
static bool collect_old(struct index *ix, uint32_t shard, size_t need)
{
	struct shard *sh = &ix->shards[shard];
	bool fits, waits;
	unsigned i;

	for (i = 0; i < YIELDS; i++) {
		shards_lock(ix, 1ull << shard);
		grace_collect(ix, sh, true);
		fits = arena_largest(&sh->arena) >= need;
		waits = sh->closed != 0;
		shards_unlock(ix, 1ull << shard);
		if (fits || !waits)
			return fits;
		sched_yield();
	}
	return false;
}

/* Return whether a reader delays as much memory as a tick keeps free. */
static bool is_late(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];
	bool late;

	shards_lock(ix, 1ull << shard);
	late = sh->closed != 0 && sh->late > arena_room(&sh->arena) / FREE_PART;
	shards_unlock(ix, 1ull << shard);
	return late;
}

bool make_room(struct index *ix, uint32_t shard, bool first, uint32_t *work)
{
	bool fits = collect_old(ix, shard, ROOM_LEAST);
	uint32_t before = *work, n = 0;

	slack_settle(ix, shard);
	if (fits && first)
		return true;
	while (*work > 0 && !is_late(ix, shard)) {
		if (claims_too_many(ix) && claim_expire(ix, false)) {
			atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
			--*work;
		} else if (!evict_oldest(ix, shard, work)) {
			break;
		}
		if (++n % 4 == 0 && collect_old(ix, shard, ROOM_LEAST))
			return true;
	}
	collect_old(ix, shard, ROOM_LEAST);		/* frees what the last eviction retired */
	return *work < before;
}

/* ---- a server's capacity ---- */

/* Find the shard of the record of <s> that is evicted first. Returns its value in first_used[], or
 * NOT_ONE. */
static uint64_t first_shard(struct index *ix, server_id s, uint32_t *shard)
{
	enum index_order o = order_of(ix, s);
	uint64_t h, best = NOT_ONE;

	for (uint32_t i = 0; i < ix->n_shards; i++) {
		h = atomic_load_explicit(&ix->first_used[(size_t)s * ix->n_shards + i], memory_order_relaxed);
		if (h != NOT_ONE && (best == NOT_ONE || first_before(o, h, best))) {
			best = h;
			*shard = i;
		}
	}
	return best;
}

/* Return the record of <s> that is evicted first, with its shard locked; NULL, with nothing locked,
 * if none may be evicted. */
static struct record *lock_first(struct index *ix, server_id s, uint32_t *shard)
{
	struct record *r;

	if (first_shard(ix, s, shard) == NOT_ONE)
		return NULL;
	shards_lock(ix, 1ull << *shard);
	if ((r = order_first(ix, &ix->shards[*shard], s)) == NULL)
		shards_unlock(ix, 1ull << *shard);
	else
		order_ahead(ix, &ix->shards[*shard], r, BY_ORDER);
	return r;
}

static uint64_t room_held(const struct index *ix, server_id s)
{
	int64_t n = atomic_load_explicit(&ix->servers[s].room, memory_order_relaxed);

	return n > 0 ? (uint64_t)n : 0;
}

static uint64_t room_used(struct index *ix, server_id s)
{
	int64_t parts = atomic_load_explicit(&ix->servers[s].parts, memory_order_relaxed);

	return room_held(ix, s) + index_server_output(ix, s) + (parts > 0 ? (uint64_t)parts : 0);
}

void horizon_raise(struct index *ix, server_id s, uint32_t tick)
{
	_Atomic uint64_t *at = &ix->servers[s].evicted;
	uint64_t was = atomic_load_explicit(at, memory_order_relaxed);

	while ((was == 0 || tick_before((uint32_t)was, tick)) &&
	    !atomic_compare_exchange_weak(at, &was, EVICTED_ANY | tick))
		;
}

/* A record used at <used> was cut. The lists are not quite in order: what is first now may be
 * older. */
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
		return room_used(ix, s) + room > capacity;
	if (capacity == 0 || is_evicted(ix, s, tick))
		return capacity > 0;
	if (room_used(ix, s) + room <= capacity)
		return false;
	if (output_oldest(ix, s, &oldest) && tick_before(oldest, tick))
		return false;
	first = first_shard(ix, s, &shard);
	return first == NOT_ONE || !tick_before((uint32_t)first, tick);
}

/* Evict until <s> takes <to> room at most. */
static void evict_server(struct index *ix, server_id s, uint64_t to, uint32_t *work)
{
	uint32_t shard = 0, used = 0;
	struct record *r;
	node_id id = 0;
	uint64_t now;

	while (*work > 0 && (now = room_used(ix, s)) > to) {
		if ((r = lock_first(ix, s, &shard)) != NULL) {
			id = r->node;
			used = r->used;
			shards_unlock(ix, 1ull << shard);
		}
		if (output_cut(ix, s, r != NULL, used, now - to)) {
			--*work;
			continue;
		}
		if (r == NULL)
			break;
		if (cut_one(ix, id, s, &(struct cut){ EDGE_MAX, now - to, true, false }, work))
			note_evicted(ix, s, used);
	}
}

/* An engine serves requests in the order in which they were sent. When the next prompt is served,
 * the open ones have taken their room from the held pages, the oldest first; so claims may take the
 * whole capacity. Claims do not evict each other: a busy engine may have far more prompts waiting
 * than its cache has room for, and a router that forgets them sends their conversations elsewhere.
 * At 90 % load the mean time to first token was 32 times the oracle's with eviction of claims, and
 * is twice without. keep_reserve() bounds their bytes. */
void keep_capacity(struct index *ix, server_id s, uint32_t *work)
{
	uint64_t capacity = atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed);
	int64_t claimed = atomic_load_explicit(&ix->servers[s].speculative, memory_order_relaxed) +
			  atomic_load_explicit(&ix->servers[s].parts, memory_order_relaxed);

	if (capacity == 0)
		return;
	evict_server(ix, s, claimed > (int64_t)capacity ? (uint64_t)claimed : capacity, work);
}

/* Evict what <s> used until its horizon. Returns true if there may be more. */
static bool keep_horizon(struct index *ix, server_id s, uint32_t *work)
{
	struct record *r;
	uint32_t shard;
	node_id id;

	while (*work > 0) {
		if ((r = lock_first(ix, s, &shard)) == NULL)
			return false;
		id = is_evicted(ix, s, r->used) ? r->node : 0;
		shards_unlock(ix, 1ull << shard);
		if (id == 0)
			return false;
		cut_one(ix, id, s, &(struct cut){ EDGE_MAX, UINT64_MAX, true, true }, work);
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
	record_cut(ix, at.node, s, &(struct cut){ EDGE_MAX, UINT64_MAX, true, true });
}

msec index_evicted_ago(struct index *ix, server_id s, msec now)
{
	uint64_t h = s < SERVERS_MAX ? atomic_load(&ix->servers[s].evicted) : 0;
	int32_t ticks = (int32_t)(tick_of(now) - (uint32_t)h);

	return h == 0 ? -1 : ticks > 0 ? (msec)ticks * 16 : 0;
}

void keep_reserve(struct index *ix, uint32_t *work)
{
	while (*work > 0 && claims_too_many(ix) && claim_expire(ix, true)) {
		atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
		--*work;
	}
}

/* ---- ticks ---- */

/* An operation that lacked memory to make a node smaller may need one larger piece. With each tick
 * in a row that finds it so, one part more of the shard is kept free. */
static void look_at_slack(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];

	shards_lock(ix, 1ull << shard);
	grace_collect(ix, sh, true);
	if (!sh->lacked)
		sh->short_ticks = 0;
	else if (sh->short_ticks < FREE_MOST && sh->closed == 0)	/* otherwise memory may only be late */
		sh->short_ticks++;
	sh->lacked = false;
	shards_unlock(ix, 1ull << shard);
}

static bool shard_crowded(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];
	size_t room, keep;
	bool is;

	shards_lock(ix, 1ull << shard);
	grace_collect(ix, sh, true);
	room = arena_room(&sh->arena);
	keep = room / FREE_PART * (1 + sh->short_ticks);
	is = arena_used(&sh->arena) - sh->late > room - keep;
	shards_unlock(ix, 1ull << shard);
	return is;
}

bool index_tick(struct index *ix)
{
	uint32_t work = EVICT_MAX, i;

	for (i = 0; i < SERVERS_MAX && work > 0; i++)
		if (room_used(ix, (server_id)i) > 0)
			keep_capacity(ix, (server_id)i, &work);
	for (i = 0; i < ix->n_shards && work > 0; i++)
		for (look_at_slack(ix, i); work > 0 && shard_crowded(ix, i) && evict_oldest(ix, i, &work); )
			;
	for (i = 0; i < ix->n_shards; i++)
		slack_settle(ix, i);
	return work == 0;
}

/* ---- leaving ---- */

static bool first_of(struct index *ix, uint32_t shard, server_id s, node_id *id)
{
	struct record *r;

	shards_lock(ix, 1ull << shard);
	r = order_first(ix, &ix->shards[shard], s);
	*id = r ? r->node : 0;
	if (r != NULL)
		order_ahead(ix, &ix->shards[shard], r, BY_ORDER);
	shards_unlock(ix, 1ull << shard);
	return r != NULL;
}

/* Cut the records of <s> that may be evicted, <work> at most. Returns false if there was none. */
static bool drop_some(struct index *ix, server_id s, uint32_t *work)
{
	bool any = false;
	uint32_t i;
	node_id id;

	for (i = 0; i < ix->n_shards; i++)
		while (*work > 0 && first_of(ix, i, s, &id)) {
			cut_one(ix, id, s, &(struct cut){ EDGE_MAX, UINT64_MAX, false, false }, work);
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
	if (work == 0 || room_held(ix, s) > 0)	/* another thread pins what it works on */
		return false;
	output_drop(ix, s);
	atomic_store_explicit(&ix->servers[s].evicted, 0, memory_order_relaxed);
	if (atomic_exchange(&ix->servers[s].leaving, 0) == 1)
		atomic_fetch_sub(&ix->n_leaving, 1);
	return true;
}

/* evict.c - evict records and expire claims when bytes or the reserve run out; the ticks.
 *
 * If a shard runs out of bytes, its oldest records go, whatever their server, except those of
 * tenants below their floor. What one server has too much is evicted by evict_server.c. Claims have
 * a share of the bytes (reserve_percent); when it is used up, the oldest claim expires.
 *
 * One call does EVICT_MAX of work at most, counted in records; copied nodes count more.
 * index_tick() does the rest.
 *
 * Evicted memory is free only when no reader can see it. While a reader does not proceed, memory is
 * late, not short: evicting more would not free it sooner. */
#include <sched.h>

#include "agent/index/evict_in.h"

#define YIELDS		8u
#define FREED_A_WORK	8u	/* retired objects that cost as much to free as a record to remove */
#define FREE_MOST	15u		/* of FREE_PART: half of a shard */

static bool under_floor(const struct index *ix, uint32_t tenant)
{
	uint64_t floor = atomic_load_explicit(&ix->tenants[tenant].floor, memory_order_relaxed);
	int64_t bytes = 0;
	uint32_t i;

	if (floor == 0)
		return false;
	for (i = 0; i < ix->n_shards; i++)
		bytes += atomic_load_explicit(&ix->shards[i].tenants[tenant].bytes, memory_order_relaxed);
	return bytes <= (int64_t)floor;
}

/* Return the oldest record of all tenants above their floor, or NULL. The shard is locked. */
static struct record *oldest_record(struct index *ix, const struct shard *sh)
{
	uint32_t t, n = atomic_load_explicit(&ix->tenants_used, memory_order_relaxed);
	struct record *r, *best = NULL;

	for (t = 0; t < n; t++) {
		if (sh->tenants[t].by_age.first == 0 || under_floor(ix, t))
			continue;
		r = at(ix, sh->tenants[t].by_age.first);
		if (best == NULL || tick_before(r->used, best->used))
			best = r;
	}
	return best;
}

static bool count_cut(uint32_t n, uint32_t *work)
{
	*work -= n == 0 ? 1 : n < *work ? n : *work;
	return n > 0;
}

bool evict_cut(struct index *ix, struct record *r, struct cut c, uint32_t *work)
{
	return count_cut(record_cut_locked(ix, r, c), work);
}

/* Returns false if no record may be evicted. */
static bool evict_oldest(struct index *ix, uint32_t shard, uint32_t *work)
{
	struct record *r;

	shards_lock(ix, 1ull << shard);
	if ((r = oldest_record(ix, &ix->shards[shard])) == NULL) {
		shards_unlock(ix, 1ull << shard);
		return false;
	}
	order_ahead(ix, r, BY_AGE);
	evict_cut(ix, r, (struct cut){ 1, TRIM_PAGES, UINT64_MAX, true, false }, work);
	return true;
}

static bool evict_of_tenant(struct index *ix, uint32_t tenant, uint32_t *work)
{
	const struct record *r;
	uint32_t i, used = 0;
	node_id id = 0;
	server_id s = 0;

	for (i = 0; i < ix->n_shards; i++) {
		shards_lock(ix, 1ull << i);
		if (ix->shards[i].tenants[tenant].by_age.first != 0) {
			r = at(ix, ix->shards[i].tenants[tenant].by_age.first);
			if (id == 0 || tick_before(r->used, used)) {
				id = r->node;
				s = r->server;
				used = r->used;
			}
		}
		shards_unlock(ix, 1ull << i);
	}
	if (id != 0)
		count_cut(
		    record_cut(ix, id, s, (struct cut){ 1, EDGE_MAX, UINT64_MAX, true, false }), work);
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
static void look_at_slack(struct index *ix, uint32_t shard, uint32_t *work)
{
	struct shard *sh = &ix->shards[shard];
	uint32_t freed;

	shards_lock(ix, 1ull << shard);
	freed = grace_collect(ix, sh, true) / FREED_A_WORK;
	*work -= freed < *work ? freed : *work;
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

static void evict_crowded(struct index *ix, uint32_t shard, uint32_t *work)
{
	look_at_slack(ix, shard, work);
	while (*work > 0 && shard_crowded(ix, shard) && evict_oldest(ix, shard, work))
		;
}

bool index_tick(struct index *ix)
{
	uint32_t n = atomic_load_explicit(&ix->server_words, memory_order_relaxed) * 64;
	uint32_t work = EVICT_MAX, i;

	for (i = 0; i < n && work > 0; i++)
		keep_capacity(ix, (server_id)i, &work);
	for (i = 0; i < ix->n_shards && work > 0; i++)
		evict_crowded(ix, i, &work);
	for (i = 0; i < ix->n_shards; i++)
		if (slack_nodes(ix, i) > 0)
			slack_settle(ix, i);
	return work == 0;
}

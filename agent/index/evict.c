/* evict.c - what goes when bytes, a server's capacity or the room for claims run out.
 *
 * Bytes run out in a shard: its oldest records go, of whatever server, but none of a tenant that has
 * no more than it was promised. A server's pages run out: its own go, in the order of the options, over
 * all shards: each shows the tick of its first, so the one to ask is known without a lock. Claims have
 * a part of both budgets, and the oldest claim goes when it is used up.
 *
 * One call does work on EVICT_MAX records at most; index_tick() does the rest. */
#include <sched.h>

#include "agent/index/internal.h"

#define YIELDS		8u
#define FREE_PART	32u		/* a tick keeps one part of so many free */

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

/* Of all tenants that have more than their floor. The shard is locked. */
static const struct record *oldest(struct index *ix, const struct shard *sh)
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

static bool evict_oldest(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];
	const struct record *r;
	server_id s = 0;
	node_id id = 0;

	shards_lock(ix, 1ull << shard);
	if ((r = oldest(ix, sh)) != NULL) {
		id = r->node;
		s = r->server;
	}
	shards_unlock(ix, 1ull << shard);
	if (id != 0)
		record_cut(ix, id, s, TRIM_PAGES, true);
	return id != 0;
}

static bool evict_of_tenant(struct index *ix, uint32_t tenant)
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
		record_cut(ix, id, s, EDGE_MAX, true);
	return id != 0;
}

bool make_space(struct index *ix, uint32_t tenant, uint32_t *work)
{
	const struct tenant *t = &ix->tenants[tenant];

	while (atomic_load_explicit(&t->spaces, memory_order_relaxed) >= ix->opts.max_spaces) {
		if (*work == 0 || !evict_of_tenant(ix, tenant))
			return false;
		--*work;
	}
	return true;
}

/* Old objects may wait for a reader that has lost its CPU, so it is given one a few times. */
static bool collect(struct index *ix, uint32_t shard, size_t need)
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

static bool too_many_claims(struct index *ix)
{
	bool too_many;

	claims_lock(ix);
	too_many = ix->speculative > (int64_t)ix->reserve_pages;
	claims_unlock(ix);
	return too_many;
}

bool make_room(struct index *ix, uint32_t shard, bool first, uint32_t *work)
{
	uint32_t before = *work;

	if (collect(ix, shard, ROOM_LEAST) && first)
		return true;
	while (*work > 0) {
		if (too_many_claims(ix) && claim_expire(ix, false, 0))
			atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
		else if (!evict_oldest(ix, shard))
			break;
		--*work;
		if ((before - *work) % 4 == 0 && collect(ix, shard, ROOM_LEAST))
			return true;
	}
	collect(ix, shard, ROOM_LEAST);		/* what the last of them gave back */
	return *work < before;
}

/* ---- a server's capacity ------------------------------------------------------------------------------- */

static struct record *lock_first(struct index *ix, server_id s, uint32_t *shard)
{
	uint32_t i, h, best = NOT_ONE;
	struct record *r;

	for (i = 0; i < ix->n_shards; i++) {
		h = atomic_load_explicit(&ix->first_used[(size_t)s * ix->n_shards + i], memory_order_relaxed);
		if (h < best) {
			best = h;
			*shard = i;
		}
	}
	if (best == NOT_ONE)
		return NULL;
	shards_lock(ix, 1ull << *shard);
	if ((r = order_first(ix, &ix->shards[*shard], s)) == NULL)
		shards_unlock(ix, 1ull << *shard);
	return r;
}

static uint64_t pages_of(const struct index *ix, server_id s)
{
	int64_t n = atomic_load_explicit(&ix->servers[s].pages, memory_order_relaxed);

	return n > 0 ? (uint64_t)n : 0;
}

static uint64_t filled(struct index *ix, server_id s)
{
	return pages_of(ix, s) + index_server_output(ix, s);
}

/* Until <s> has <to> pages at most. */
static void evict_server(struct index *ix, server_id s, uint64_t to, uint32_t *work)
{
	uint32_t shard = 0, cut, used = 0;
	struct record *r;
	node_id id = 0;
	uint64_t now;

	for (; *work > 0 && (now = filled(ix, s)) > to; --*work) {
		if ((r = lock_first(ix, s, &shard)) != NULL) {
			id = r->node;
			used = r->used;
			shards_unlock(ix, 1ull << shard);
		}
		if (output_cut(ix, s, r != NULL, used, now - to))
			continue;
		if (r == NULL)
			break;
		cut = now - to < EDGE_MAX ? (uint32_t)(now - to) : EDGE_MAX;
		record_cut(ix, id, s, cut, true);
	}
}

void keep_capacity(struct index *ix, server_id s, uint32_t *work)
{
	uint64_t capacity = atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed);
	int64_t most = (int64_t)(capacity * ix->opts.reserve_percent / 100), beyond;

	if (capacity == 0)
		return;
	while (*work > 0 && atomic_load_explicit(&ix->servers[s].speculative, memory_order_relaxed) > most &&
	       filled(ix, s) > capacity && claim_expire_but_last(ix, true, s)) {
		atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
		--*work;
	}
	/* what the last claim needs beyond the reserve is not taken from what is held */
	beyond = atomic_load_explicit(&ix->servers[s].speculative, memory_order_relaxed) - most;
	evict_server(ix, s, capacity + (beyond > 0 ? (uint64_t)beyond : 0), work);
}

void keep_reserve(struct index *ix, uint32_t *work)
{
	while (*work > 0 && too_many_claims(ix) && claim_expire_but_last(ix, false, 0)) {
		atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
		--*work;
	}
}

/* ---- ticks ------------------------------------------------------------------------------------------------- */

static bool crowded(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];
	size_t room;
	bool is;

	shards_lock(ix, 1ull << shard);
	grace_collect(ix, sh, true);
	room = arena_room(&sh->arena);
	is = arena_used(&sh->arena) > room - room / FREE_PART;
	shards_unlock(ix, 1ull << shard);
	return is;
}

bool index_tick(struct index *ix)
{
	uint32_t work = EVICT_MAX, i;

	for (i = 0; i < SERVERS_MAX && work > 0; i++)
		if (filled(ix, (server_id)i) > 0)
			keep_capacity(ix, (server_id)i, &work);
	for (i = 0; i < ix->n_shards && work > 0; i++)
		while (work > 0 && crowded(ix, i) && evict_oldest(ix, i))
			work--;
	return work == 0;
}

/* ---- leaving --------------------------------------------------------------------------------------------------- */

static bool first_of(struct index *ix, uint32_t shard, server_id s, node_id *id)
{
	struct record *r;

	shards_lock(ix, 1ull << shard);
	r = order_first(ix, &ix->shards[shard], s);
	*id = r ? r->node : 0;
	shards_unlock(ix, 1ull << shard);
	return r != NULL;
}

/* All records of <s> in the shards that may go, <work> at most; false: there was none. */
static bool drop_some(struct index *ix, server_id s, uint32_t *work)
{
	bool any = false;
	uint32_t i;
	node_id id;

	for (i = 0; i < ix->n_shards; i++)
		while (*work > 0 && first_of(ix, i, s, &id)) {
			record_cut(ix, id, s, EDGE_MAX, false);
			any = true;
			--*work;
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
	while (work > 0 && claim_expire(ix, true, s))
		work--;
	while (work > 0 && drop_some(ix, s, &work))
		;
	if (work == 0 || pages_of(ix, s) > 0)	/* a call of another thread pins what it works on */
		return false;
	output_drop(ix, s);
	if (atomic_exchange(&ix->servers[s].leaving, 0) == 1)
		atomic_fetch_sub(&ix->n_leaving, 1);
	return true;
}

void index_drop_server(struct index *ix, server_id s)
{
	while (!index_drop_step(ix, s, EVICT_MAX))
		sched_yield();
}

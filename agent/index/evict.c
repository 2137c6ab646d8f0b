/* evict.c - what goes when bytes, a server's capacity or the room for claims run out.
 *
 * Bytes run out in a shard: its oldest records go, of whatever server, but none of a tenant that has
 * no more than it was promised. A server's pages run out: its own go, in the order of the options, over
 * all shards: each shows the tick of its first, so the one to ask is known without a lock. Claims have
 * a part of both budgets, and the oldest claim goes when it is used up.
 *
 * One call does EVICT_MAX of work at most: of records, fewer of them where nodes are copied. index_tick() does the
 * rest.
 *
 * What was evicted is free only when no reader can be looking at it. While one does not go on, memory is
 * late and not short: to evict more would not bring it sooner. */
#include <sched.h>

#include "agent/index/internal.h"

#define YIELDS		8u
#define FREE_MOST	15u		/* of FREE_PART; half of a shard */

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

/* The record was seen a moment ago; another may have been quicker, which is work as well. */
static void cut_one(struct index *ix, node_id id, server_id s, const struct cut *c, uint32_t *work)
{
	uint32_t n = record_cut(ix, id, s, c);

	*work -= n == 0 ? 1 : n < *work ? n : *work;
}

/* False: none may go. */
static bool evict_oldest(struct index *ix, uint32_t shard, uint32_t *work)
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
		cut_one(ix, id, s, &(struct cut){ TRIM_PAGES, UINT64_MAX, true }, work);
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
		cut_one(ix, id, s, &(struct cut){ EDGE_MAX, UINT64_MAX, true }, work);
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

/* As much is on its way as a tick keeps free, and a reader is in its way. */
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
	bool fits = collect(ix, shard, ROOM_LEAST);
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
		if (++n % 4 == 0 && collect(ix, shard, ROOM_LEAST))
			return true;
	}
	collect(ix, shard, ROOM_LEAST);		/* what the last of them gave back */
	return *work < before;
}

/* ---- a server's capacity ------------------------------------------------------------------------------- */

/* The record of <s> that goes first, with its shard locked; NULL: none may go, and nothing is
 * locked. */
static struct record *lock_first(struct index *ix, server_id s, uint32_t *shard)
{
	enum index_order o = order_of(ix, s);
	uint64_t h, best = NOT_ONE;
	uint32_t i;
	struct record *r;

	for (i = 0; i < ix->n_shards; i++) {
		h = atomic_load_explicit(&ix->first_used[(size_t)s * ix->n_shards + i], memory_order_relaxed);
		if (h != NOT_ONE && (best == NOT_ONE || first_before(o, h, best))) {
			best = h;
			*shard = i;
		}
	}
	if (best == NOT_ONE)
		return NULL;
	shards_lock(ix, 1ull << *shard);
	if ((r = order_first(ix, &ix->shards[*shard], s)) == NULL)
		shards_unlock(ix, 1ull << *shard);
	else
		order_ahead(ix, &ix->shards[*shard], r, BY_ORDER);
	return r;
}

static uint64_t held_by(const struct index *ix, server_id s)
{
	int64_t n = atomic_load_explicit(&ix->servers[s].room, memory_order_relaxed);

	return n > 0 ? (uint64_t)n : 0;
}

static uint64_t filled(struct index *ix, server_id s)
{
	int64_t parts = atomic_load_explicit(&ix->servers[s].parts, memory_order_relaxed);

	return held_by(ix, s) + index_server_output(ix, s) + (parts > 0 ? (uint64_t)parts : 0);
}

/* Until what <s> has takes <to> room at most. */
static void evict_server(struct index *ix, server_id s, uint64_t to, uint32_t *work)
{
	uint32_t shard = 0, used = 0;
	struct record *r;
	node_id id = 0;
	uint64_t now;

	while (*work > 0 && (now = filled(ix, s)) > to) {
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
		cut_one(ix, id, s, &(struct cut){ EDGE_MAX, now - to, true }, work);
	}
}

/* An engine serves in the order in which it was sent: by the turn of the next prompt, those that
 * are open have taken their room from what is held, the oldest first. So claims take all of it.
 * They do not make each other go: in front of a busy engine far more prompts may wait than its
 * cache has room for, and a router that forgets them sends their conversations elsewhere (at 90
 * % load the mean time to first token was 32 times the oracle's then, and is twice it now).
 * Bytes bound them: keep_reserve(). */
void keep_capacity(struct index *ix, server_id s, uint32_t *work)
{
	uint64_t capacity = atomic_load_explicit(&ix->servers[s].capacity, memory_order_relaxed);
	int64_t claimed = atomic_load_explicit(&ix->servers[s].speculative, memory_order_relaxed) +
			  atomic_load_explicit(&ix->servers[s].parts, memory_order_relaxed);

	if (capacity == 0)
		return;
	evict_server(ix, s, claimed > (int64_t)capacity ? (uint64_t)claimed : capacity, work);
}

void keep_reserve(struct index *ix, uint32_t *work)
{
	while (*work > 0 && claims_too_many(ix) && claim_expire(ix, true)) {
		atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
		--*work;
	}
}

/* ---- ticks ------------------------------------------------------------------------------------------------- */

/* Where something found no room to become smaller, it may need more in one piece than there is: with each tick that
 * finds it so, one part more is kept free. */
static void look_at_slack(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];

	shards_lock(ix, 1ull << shard);
	grace_collect(ix, sh, true);
	if (!sh->lacked)
		sh->short_ticks = 0;
	else if (sh->short_ticks < FREE_MOST && sh->closed == 0)	/* else it may only be late */
		sh->short_ticks++;
	sh->lacked = false;
	shards_unlock(ix, 1ull << shard);
}

static bool crowded(struct index *ix, uint32_t shard)
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
		if (filled(ix, (server_id)i) > 0)
			keep_capacity(ix, (server_id)i, &work);
	for (i = 0; i < ix->n_shards && work > 0; i++)
		for (look_at_slack(ix, i); work > 0 && crowded(ix, i) && evict_oldest(ix, i, &work); )
			;
	for (i = 0; i < ix->n_shards; i++)
		slack_settle(ix, i);
	return work == 0;
}

/* ---- leaving --------------------------------------------------------------------------------------------------- */

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

/* All records of <s> in the shards that may go, <work> at most; false: there was none. */
static bool drop_some(struct index *ix, server_id s, uint32_t *work)
{
	bool any = false;
	uint32_t i;
	node_id id;

	for (i = 0; i < ix->n_shards; i++)
		while (*work > 0 && first_of(ix, i, s, &id)) {
			cut_one(ix, id, s, &(struct cut){ EDGE_MAX, UINT64_MAX, false }, work);
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
	if (work == 0 || held_by(ix, s) > 0)	/* a call of another thread pins what it works on */
		return false;
	output_drop(ix, s);
	if (atomic_exchange(&ix->servers[s].leaving, 0) == 1)
		atomic_fetch_sub(&ix->n_leaving, 1);
	return true;
}

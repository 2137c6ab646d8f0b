/* record.c - records (one server on one node) and the orders in which they are evicted.
 *
 * Only records that may be evicted are in the lists: those without children and claims. So a
 * repeated prompt touches no record above its end, and the end of a list is always the end of a
 * branch. A record whose last child is removed takes the tick of that child if it is later, which
 * puts it where the child was.
 *
 * Each list is ordered by <used>. For its capacity a server evicts
 *   lru, fifo   the first (fifo does not change <used> when a record is used again)
 *   mru, filo   the last
 *   lfu         the first of those with the fewest hits      priority  the first of the lowest */
#include "agent/index/tree_in.h"

#define LOOKS	64u	/* records passed from each end to find the place of one */
#define LOOKS_AGE	8u	/* the same in the order of age, which need not be as exact */
/* The same, if its tick is an old one that a sibling told: these belong anywhere, and a record at a
 * wrong place lets agents evict different pages of a full server. Reads 2048 at most. */
#define LOOKS_RECALLED	1024u

arena_ref record_ref(const struct index *ix, const struct record *r)
{
	return region_ref(&ix->region, r);
}

struct shard *record_shard(struct index *ix, const struct record *r)
{
	return &ix->shards[shard_of(ix, r->node)];
}

/* ---- where they lie ---- */

static void slab_list(struct index *ix, struct shard *sh, struct slab *sl)
{
	arena_ref me = region_ref(&ix->region, sl);

	sl->prev = 0;
	sl->next = sh->slabs;
	if (sl->next != 0)
		((struct slab *)at(ix, sl->next))->prev = me;
	sh->slabs = me;
}

static void slab_unlist(struct index *ix, struct shard *sh, struct slab *sl)
{
	if (sl->prev != 0)
		((struct slab *)at(ix, sl->prev))->next = sl->next;
	else
		sh->slabs = sl->next;
	if (sl->next != 0)
		((struct slab *)at(ix, sl->next))->prev = sl->prev;
}

static struct slab *slab_new(struct index *ix, struct shard *sh)
{
	const uint32_t units = RECORD_BYTES / ARENA_UNIT;
	arena_ref ref = arena_alloc(&sh->arena, sizeof(struct slab) + SLAB_RECORDS * RECORD_BYTES);
	struct slab *sl;
	uint32_t i;

	if (ref == 0)
		return NULL;
	sl = at(ix, ref);
	*sl = (struct slab){ .free = ref + 1 };
	for (i = 0; i < SLAB_RECORDS; i++)
		*(arena_ref *)at(ix, sl->free + i * units) =
		    i + 1 < SLAB_RECORDS ? sl->free + (i + 1) * units : 0;
	slab_list(ix, sh, sl);
	return sl;
}

struct record *record_new(struct index *ix, struct node *nd, server_id s)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];
	struct slab *sl = sh->slabs != 0 ? at(ix, sh->slabs) : slab_new(ix, sh);
	struct record *r;
	uint32_t number;

	if (sl == NULL)
		return NULL;
	r = at(ix, sl->free);
	sl->free = *(arena_ref *)at(ix, sl->free);
	sl->n_used++;
	if (sl->free == 0)
		slab_unlist(ix, sh, sl);
	number = (record_ref(ix, r) - region_ref(&ix->region, sl)) / (RECORD_BYTES / ARENA_UNIT);
	*r = (struct record){ .node = nd->id, .server = s, .in_slab = (uint8_t)number };
	sh->st.records++;
	return r;
}

void record_free(struct index *ix, struct record *r)
{
	struct shard *sh = record_shard(ix, r);
	struct slab *sl = record_slab(ix, r);

	sh->st.records--;
	if (sl->free == 0)
		slab_list(ix, sh, sl);
	*(arena_ref *)(void *)r = sl->free;
	sl->free = record_ref(ix, r);
	if (--sl->n_used > 0)
		return;
	slab_unlist(ix, sh, sl);
	arena_free(&sh->arena, region_ref(&ix->region, sl));
}

/* ---- the order of (shard, server) ---- */

static bool by_bucket(const struct index *ix, enum index_order o)
{
	return ix->orders_each > 1 && (o == INDEX_LFU || o == INDEX_PRIORITY);
}

static uint32_t bucket_of(const struct index *ix, const struct record *r)
{
	switch (order_of(ix, r->server)) {
	case INDEX_LFU:
		return r->hits < ix->orders_each ? r->hits : ix->orders_each - 1;
	case INDEX_PRIORITY:
		return r->priority < ix->orders_each ? r->priority : ix->orders_each - 1;
	default:
		return 0;
	}
}

struct record *order_first(struct index *ix, struct shard *sh, server_id s)
{
	struct ends *e = &sh->orders[(size_t)s * ix->orders_each];
	enum index_order o = order_of(ix, s);
	uint32_t b, n = by_bucket(ix, o) ? ix->orders_each : 1;

	for (b = 0; b < n; b++)
		if (e[b].first != 0)
			return at(ix, last_goes(o) ? e[b].last : e[b].first);
	return NULL;
}

/* Store the first record of <s> in the shard for threads without the lock: bucket << 32 | tick. */
static void publish_first(struct index *ix, struct shard *sh, server_id s)
{
	const struct record *r = order_first(ix, sh, s);
	uint64_t h = r ? (uint64_t)bucket_of(ix, r) << 32 | r->used : NOT_ONE;

	atomic_store_explicit(&ix->first_used[(size_t)s * ix->n_shards + (uint32_t)(sh - ix->shards)], h,
			      memory_order_relaxed);
}

/* Go one step from <*near> towards the place of <r>. Returns true if <r> belongs after <*near>. */
static bool step_near(struct index *ix, const struct record *r, unsigned list, arena_ref *near)
{
	const struct record *x = at(ix, *near);
	bool before = tick_before(r->used, x->used);
	arena_ref next = before ? x->in[list].prev : x->in[list].next;

	if (!before && (next == 0 || tick_before(r->used, ((struct record *)at(ix, next))->used)))
		return true;
	*near = next;
	return before && next != 0 && !tick_before(r->used, ((struct record *)at(ix, next))->used);
}

static uint32_t ticks_between(uint32_t a, uint32_t b)
{
	return tick_before(a, b) ? b - a : a - b;
}

/* Return the record after which <r> belongs; 0: the first place. Searches from both ends: most
 * records belong to the end; those whose child was removed near the start; those whose claim was
 * cancelled near the end. And from <near>, if it is not 0, the last place that was not the end:
 * in the order of age an eviction of one server lists a run of records somewhere between. */
static arena_ref find_place(
    struct index *ix, const struct ends *e, const struct record *r, unsigned list, arena_ref near)
{
	arena_ref lo = e->first, hi = e->last, after = 0;
	unsigned looks = list == BY_AGE ? LOOKS_AGE : r->recalled ? LOOKS_RECALLED : LOOKS, i;
	const struct record *x, *y;
	uint32_t z;

	if (hi == 0 || !tick_before(r->used, ((struct record *)at(ix, hi))->used))
		return hi;
	for (i = 0; i < looks; i++) {
		if (near != 0 && step_near(ix, r, list, &near))
			return near;
		x = at(ix, lo);
		if (tick_before(r->used, x->used))
			return after;
		after = lo;
		lo = x->in[list].next;
		y = at(ix, hi);
		if (!tick_before(r->used, y->used))
			return hi;
		hi = y->in[list].prev;
	}
	/* not found: as far as the search went, where the tick is nearest */
	if (near != 0) {
		z = ticks_between(((struct record *)at(ix, near))->used, r->used);
		if (z < r->used - x->used && z < y->used - r->used)
			return near;
	}
	return r->used - x->used < y->used - r->used ? after : hi;
}

/* <near>: see find_place(); NULL if the list has none. */
static void list_add(struct index *ix, struct ends *e, struct record *r, unsigned list, bool first,
    arena_ref *near)
{
	arena_ref me = record_ref(ix, r);
	arena_ref prev = first ? 0 : find_place(ix, e, r, list, near != NULL ? *near : 0);
	arena_ref *from = prev ? &((struct record *)at(ix, prev))->in[list].next : &e->first;

	r->in[list].prev = prev;
	r->in[list].next = *from;
	*from = me;
	if (r->in[list].next != 0)
		((struct record *)at(ix, r->in[list].next))->in[list].prev = me;
	else
		e->last = me;
	if (near != NULL && !first && e->last != me)
		*near = me;
}

static void list_remove(
    struct index *ix, struct ends *e, struct record *r, unsigned list, arena_ref *near)
{
	struct links *l = &r->in[list];

	if (near != NULL && *near == record_ref(ix, r))
		*near = l->prev != 0 ? l->prev : l->next;
	if (l->prev != 0)
		((struct record *)at(ix, l->prev))->in[list].next = l->next;
	else
		e->first = l->next;
	if (l->next != 0)
		((struct record *)at(ix, l->next))->in[list].prev = l->prev;
	else
		e->last = l->prev;
}

static struct ends *order_list(struct index *ix, struct shard *sh, const struct record *r)
{
	return &sh->orders[(size_t)r->server * ix->orders_each + bucket_of(ix, r)];
}

/* One list a tenant, so that an eviction need not pass the records of others. */
static uint32_t age_tenant(struct index *ix, const struct record *r)
{
	bool others = atomic_load_explicit(&ix->tenants_used, memory_order_relaxed) > 1;

	return others ? node_at(ix, r->node)->tenant : 0;
}

static void not_after(struct index *ix, struct record *r, const struct ends *e)
{
	const struct record *first = e->first ? at(ix, e->first) : r;

	if (tick_before(first->used, r->used))
		r->used = first->used;
}

void record_list(struct index *ix, struct record *r)
{
	struct shard *sh = record_shard(ix, r);
	struct shard_tenant *of;
	struct ends *by_order;
	bool first;

	if (r->listed || !record_may_go(r))
		return;
	r->listed = 1;
	by_order = order_list(ix, sh, r);
	of = &sh->tenants[age_tenant(ix, r)];
	/* a dropped server loses the record next, so its place does not matter */
	if ((first = !server_ready(ix, r->server))) {
		not_after(ix, r, by_order);
		not_after(ix, r, &of->by_age);
	}
	list_add(ix, by_order, r, BY_ORDER, first, NULL);
	r->recalled = 0;
	list_add(ix, &of->by_age, r, BY_AGE, first, &of->near_age);
	publish_first(ix, sh, r->server);
}

void record_unlist(struct index *ix, struct record *r)
{
	struct shard *sh = record_shard(ix, r);
	struct shard_tenant *of;

	if (!r->listed)
		return;
	r->listed = 0;
	of = &sh->tenants[age_tenant(ix, r)];
	list_remove(ix, order_list(ix, sh, r), r, BY_ORDER, NULL);
	list_remove(ix, &of->by_age, r, BY_AGE, &of->near_age);
	publish_first(ix, sh, r->server);
}

/* The record is on the path to an end with <hits> in a snapshot, or of another agent. Each hit of
 * an end was a hit of every record above it. */
void record_recall(
    struct index *ix, struct record *r, uint32_t tick, uint8_t hits, uint8_t priority)
{
	enum index_order o = order_of(ix, r->server);

	record_unlist(ix, r);		/* the claim that grows onto it lists it */
	r->priority = priority > r->priority ? priority : r->priority;
	r->recalled = 1;
	if (r->hits == 0 || by_entry(o) || tick_before(r->used, tick))
		r->used = tick;
	r->hits = r->hits < UINT8_MAX - hits ? (uint8_t)(r->hits + hits) : UINT8_MAX;
}

/* Count a use while the record is in no list: hits, priority and tick. */
void record_touch(struct index *ix, struct record *r, uint32_t tick, uint8_t priority)
{
	enum index_order o = order_of(ix, r->server);
	bool was_listed = r->listed;

	record_unlist(ix, r);
	if (r->hits < UINT8_MAX)
		r->hits++;
	r->priority = priority > r->priority ? priority : r->priority;
	if (r->hits == 1 || !by_entry(o))
		r->used = tick;
	if (was_listed)
		record_list(ix, r);
}

/* index.c - the public functions of the index: options, sizes, commits, counters.
 *
 * All sizes follow from the budget and are fixed by index_new(). A commit takes a claim, grows it
 * to the end of the prompt (grow.c), opens it and then brings the server and the reserve within
 * their budgets (evict.c). */
#include "agent/index/evict_in.h"
#include "agent/index/place.h"

#define MIN_BYTES	65536u		/* the fixed part alone takes almost as much */
#define MIN_SHARD	(256u << 10)
/* Budget for each entry of the child table. A node and its record take 128 bytes or more, so the
 * table is never more than 0.8 full and never the limit. */
#define BYTES_AN_ENTRY	112u
#define BYTES_A_CLAIM	2048u
#define CLAIMS_LEAST	64u
#define CLAIMS_MOST	(1u << 20)
#define PAGE_COST	9u		/* bytes of a page, to bound what claims may add */

void index_defaults(struct index_opts *o)
{
	*o = (struct index_opts){
		.max_bytes = 256u << 20, .max_pages = 65536, .shards = 16, .max_spaces = 65536,
		.reserve_percent = 10, .order = INDEX_LRU,
	};
}

/* ---- sizes: they follow the budget, so that they never change while the index lives ---- */

static uint32_t shards_for(const struct index_opts *o)
{
	uint32_t want = o->shards ? o->shards : 16, n = 1;

	while (n * 2 <= want && n < SHARDS_MAX && o->max_bytes / (n * 2) >= MIN_SHARD)
		n *= 2;
	return n;
}

static uint32_t claims_for(size_t max_bytes)
{
	size_t n = max_bytes / BYTES_A_CLAIM;

	return n < CLAIMS_LEAST ? CLAIMS_LEAST : n > CLAIMS_MOST ? CLAIMS_MOST : (uint32_t)n;
}

static uint32_t spare_for(size_t bytes)
{
	size_t n = bytes / FREE_PART;

	return n < ROOM_LEAST ? ROOM_LEAST : n > NODE_MOST ? NODE_MOST : (uint32_t)n;
}

static size_t up64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

/* Lay out the region: table, claims, ids of each shard, and arenas in the rest. */
static void lay_out(struct index *ix)
{
	size_t entries = ix->opts.max_bytes / BYTES_AN_ENTRY, pos = 0, each;
	uint8_t *base = ix->region.base;
	uint32_t i;

	ix->buckets = (struct bucket *)(void *)base;
	ix->n_table = entries / 7 + 8;
	pos = up64(table_bytes(ix->n_table));
	ix->claims = (struct claim *)(void *)(base + pos);
	ix->n_claims = claims_for(ix->opts.max_bytes) + 1;
	pos += up64(ix->n_claims * sizeof(struct claim));
	ix->stops = (struct stop *)(void *)(base + pos);
	pos += up64(ix->n_claims * sizeof(struct stop));
	for (i = 0; i < ix->n_shards; i++) {
		ix->shards[i].max_ids = (uint32_t)(entries / ix->n_shards * 5 / 4 + 64);
		ix->shards[i].refs = (_Atomic uint32_t *)(void *)(base + pos);
		pos += up64(ix->shards[i].max_ids * sizeof(uint32_t));
	}
	ix->fixed_bytes = pos;
	each = (ix->opts.max_bytes - pos) / ix->n_shards;
	for (i = 0; i < ix->n_shards; i++) {
		arena_init(&ix->shards[i].arena, &ix->region, pos + i * each, each);
		ix->shards[i].first = ix->shards[i].arena.first;
		ix->shards[i].spare_bytes = spare_for(each);
		ix->shards[i].spare = arena_alloc(&ix->shards[i].arena, ix->shards[i].spare_bytes);
	}
	/* Many servers may claim the same pages, so "everything is reserved" is not a number of pages. */
	ix->reserve_pages = ix->opts.reserve_percent < 100 ?
		ix->opts.max_bytes / 100 * ix->opts.reserve_percent / PAGE_COST : INT64_MAX;
	ix->reserve_step = (int64_t)(ix->reserve_pages / (4 * CLAIM_GROUPS));
}

static bool take_orders(struct index *ix)
{
	struct shard *sh;
	uint32_t i;
	size_t k;

	ix->first_used =
	    mem_alloc_line((size_t)SERVERS_MAX * ix->n_shards * sizeof(*ix->first_used));
	if (ix->first_used == NULL)
		return false;
	for (i = 0; i < ix->n_shards; i++) {
		sh = &ix->shards[i];
		sh->orders = mem_calloc((size_t)SERVERS_MAX * ix->orders_each, sizeof(*sh->orders));
		if (sh->orders == NULL)
			return false;
	}
	for (k = 0; k < (size_t)SERVERS_MAX * ix->n_shards; k++)
		atomic_store_explicit(&ix->first_used[k], NOT_ONE, memory_order_relaxed);
	return true;
}

struct index *index_new(const struct index_opts *o)
{
	struct index *ix = mem_alloc_line(sizeof(*ix));
	uint32_t i;

	if (ix == NULL)
		return NULL;
	ix->opts = *o;
	if (ix->opts.max_bytes < MIN_BYTES)
		ix->opts.max_bytes = MIN_BYTES;
	if (ix->opts.reserve_percent == 0)
		ix->opts.reserve_percent = 10;
	if (ix->opts.max_spaces == 0)
		ix->opts.max_spaces = UINT32_MAX;
	ix->n_shards = shards_for(&ix->opts);
	ix->orders_each = o->mixed || o->order == INDEX_LFU || o->order == INDEX_PRIORITY ? ORDERS_MAX : 1;
	for (i = 0; i < SERVERS_MAX; i++)
		atomic_store_explicit(&ix->servers[i].order, (uint8_t)o->order, memory_order_relaxed);
	ix->epoch = 1;
	if ((ix->readers = readers_new()) == NULL ||
	    region_take(&ix->region, ix->opts.max_bytes, o->prefault) < 0 || !take_orders(ix)) {
		index_free(ix);
		return NULL;
	}
	lay_out(ix);
	claims_init(ix);
	return ix;
}

void index_free(struct index *ix)
{
	uint32_t i;

	if (ix == NULL)
		return;
	for (i = 0; i < ix->n_shards; i++)
		mem_free(ix->shards[i].orders);
	mem_free_line(ix->first_used);
	readers_unref(ix->readers);
	region_give(&ix->region);
	mem_free_line(ix);
}

/* ---- committing ---- */

/* Matches read sets of servers only up to the highest number that was ever committed. */
void know_server(struct index *ix, server_id s)
{
	uint32_t words = s / 64 + 1u, had = atomic_load_explicit(&ix->server_words, memory_order_relaxed);

	while (had < words && !atomic_compare_exchange_weak(&ix->server_words, &had, words))
		;
}

static void know_tenant(struct index *ix, uint32_t tenant)
{
	uint32_t had = atomic_load_explicit(&ix->tenants_used, memory_order_relaxed);

	while (had <= tenant && !atomic_compare_exchange_weak(&ix->tenants_used, &had, tenant + 1))
		;
}

/* Grow the claim to its end from where <is> has left it. A path may have as many nodes as pages, so
 * their number is not bounded. Instead the commit is refused if other threads change the tree
 * STILL_MAX times in a row before the claim gains a page. */
static inline bool grow_on_to_end(struct growth *g, enum grown is, uint32_t *work)
{
	uint32_t still = 0, n_full = 0, depth;

	while (is != GROW_DONE && still < STILL_MAX) {
		if (is == GROW_NO_ROOM && !(g->crowded ? make_space(g->ix, g->space->tenant, work) :
					    make_room(g->ix, g->full, n_full++ == 0, work)))
			return false;
		g->crowded = false;
		depth = claim_depth(g->ix, g->c);
		is = grow(g);
		still = claim_depth(g->ix, g->c) > depth ? 0 : still + 1;
	}
	return is == GROW_DONE;
}

static bool grow_to_end(struct growth *g, uint32_t *work)
{
	return grow_on_to_end(
	    g, g->m != NULL && g->m->cursor.node != 0 ? grow_from_cursor(g) : GROW_ON, work);
}

struct commit {
	server_id server;
	unsigned priority;
	uint32_t drops;		/* of the server, before the claim was taken */
	uint32_t work;
};

/* Take a claim. Returns false if the commit is refused. */
static inline bool commit_begin(struct growth *g, struct commit *c)
{
	struct index *ix = g->ix;

	if (g->pages.n == 0 || c->server >= SERVERS_MAX)
		return false;
	c->drops = atomic_load(&ix->servers[c->server].drops);	/* read before <leaving>: see below */
	if (!server_ready(ix, c->server) || g->space->tenant >= TENANTS_MAX)
		return false;
	if ((size_t)g->pages.n * PAGE_COST > (ix->opts.max_bytes - ix->fixed_bytes) / 2 ||
	    (g->c = claim_take(ix, c->server,
		 (uint8_t)(c->priority < INDEX_PRIORITIES ? c->priority : INDEX_PRIORITIES - 1), g->space,
		 true)) == 0) {
		atomic_fetch_add_explicit(&ix->refused, 1, memory_order_relaxed);
		return false;
	}
	know_server(ix, c->server);
	know_tenant(ix, g->space->tenant);
	return true;
}

/* Open the claim. <grown>: it is at its end. */
static inline index_claim commit_end(
    struct growth *g, struct commit *c, bool grown, struct index_place *end)
{
	struct index *ix = g->ix;
	index_claim id;

	if (!grown) {
		claim_drop(ix, g->c);
		atomic_fetch_add_explicit(&ix->refused, 1, memory_order_relaxed);
		return 0;
	}
	*end = (struct index_place){ g->end, g->pages.n, g->era };
	if (claim_open(ix, g->c, g->tick, &id))
		keep_reserve(ix, &c->work);
	if (atomic_load(&ix->servers[c->server].drops) != c->drops) {		/* dropped meanwhile */
		index_cancel(ix, id);
		*end = (struct index_place){ 0 };
		return 0;
	}
	keep_capacity(ix, c->server, &c->work);
	return id;
}

index_claim index_commit_at(struct index *ix, const struct space_key *space, const page_key *pages,
    size_t n, const struct index_match *m, server_id server, msec now, unsigned priority,
    struct index_place *end)
{
	struct growth g = { .ix = ix,
		.pages = page_run(ix, pages, n),
		.space = space,
		.m = m != NULL && m->readers == ix->readers ? m : NULL,
		.tick = tick_of(now) };
	struct commit c = { .server = server, .priority = priority, .work = EVICT_MAX };

	*end = (struct index_place){ 0 };
	return commit_begin(&g, &c) ? commit_end(&g, &c, grow_to_end(&g, &c.work), end) : 0;
}

bool index_commit_from(struct index *ix, const struct space_key *space, struct index_place at,
    const page_key *pages, size_t n, server_id server, msec now, unsigned priority,
    index_claim *claim, struct index_place *end)
{
	struct growth g = {
		.ix = ix, .pages = page_run(ix, pages, n), .space = space, .tick = tick_of(now)
	};
	struct commit c = { .server = server, .priority = priority, .work = EVICT_MAX };
	enum grown is;

	*end = (struct index_place){ 0 };
	*claim = 0;
	if (at.depth > g.pages.n || !index_place_same(ix, at))
		return false;
	if (!commit_begin(&g, &c))
		return true;
	if (!grow_from_place(&g, &at, &is)) {
		claim_drop(ix, g.c);
		return false;
	}
	*claim = commit_end(&g, &c, grow_on_to_end(&g, is, &c.work), end);
	return true;
}

index_claim index_commit(struct index *ix, const struct space_key *space, const page_key *pages,
			 size_t n, const struct index_match *m, server_id server, msec now, unsigned priority)
{
	struct index_place end;

	return index_commit_at(ix, space, pages, n, m, server, now, priority, &end);
}

bool commit_held(struct index *ix, const page_key *pages, size_t n, const struct held_end *h,
    struct index_place *end)
{
	struct growth g = { .ix = ix, .pages = page_run(ix, pages, n), .space = &h->space, .tick = h->tick,
			    .recalled = h->hits ? h->hits : 1 };
	uint32_t work = 0;		/* evict nothing */
	uint32_t drops = atomic_load(&ix->servers[h->server].drops);	/* see index_commit() */

	*end = (struct index_place){ 0 };
	if (g.pages.n == 0 || !server_ready(ix, h->server) ||
	    (g.c = claim_take(ix, h->server, h->priority, &h->space, false)) == 0)
		return false;
	know_server(ix, h->server);
	know_tenant(ix, h->space.tenant);
	if (!grow_to_end(&g, &work) || atomic_load(&ix->servers[h->server].drops) != drops) {
		claim_drop(ix, g.c);
		return false;
	}
	*end = (struct index_place){ g.end, g.pages.n, g.era };
	claim_hold(ix, g.c, h->tick);
	return true;
}

/* ---- budgets ---- */

void index_set_capacity(struct index *ix, server_id server, uint64_t room)
{
	uint64_t was;

	if (server >= SERVERS_MAX)
		return;
	was = atomic_exchange(&ix->servers[server].capacity, room);
	if (room == 0 || (room > was && room - was > was / 16))
		atomic_store(&ix->servers[server].evicted, 0);
}

uint64_t index_server_capacity(struct index *ix, server_id server)
{
	return server < SERVERS_MAX ? atomic_load(&ix->servers[server].capacity) : 0;
}

/* The records in the lists are in the old order, so a server with records cannot change it. */
void index_set_order(struct index *ix, server_id server, enum index_order order)
{
	if (server < SERVERS_MAX && index_server_room(ix, server) == 0)
		atomic_store_explicit(&ix->servers[server].order, (uint8_t)order, memory_order_relaxed);
}

void index_set_floor(struct index *ix, uint32_t tenant, uint64_t bytes)
{
	if (tenant < TENANTS_MAX)
		atomic_store(&ix->tenants[tenant].floor, bytes);
}

/* ---- counters ---- */

uint64_t index_server_room(struct index *ix, server_id server)
{
	int64_t n = server < SERVERS_MAX ? atomic_load(&ix->servers[server].room) : 0;

	return n > 0 ? (uint64_t)n : 0;
}

static void add_shard(struct index *ix, uint32_t i, struct index_stats *s)
{
	struct shard *sh = &ix->shards[i];

	shards_lock(ix, 1ull << i);
	grace_collect(ix, sh, true);
	s->bytes += arena_used(&sh->arena);
	s->nodes += sh->st.nodes;
	s->spaces += sh->st.spaces;
	s->records += sh->st.records;
	s->pages += sh->st.pages;
	s->commits += sh->st.commits;
	s->evicted_records += sh->st.evicted_records;
	s->evicted_pages += sh->st.evicted_pages;
	s->slack += atomic_load_explicit(&sh->n_slack, memory_order_relaxed);
	shards_unlock(ix, 1ull << i);
}

static void add_claims(struct index *ix, uint32_t i, struct index_stats *s)
{
	claims_lock(ix, (server_id)i);
	s->claims += atomic_load_explicit(&ix->groups[i].n_open, memory_order_relaxed);
	s->confirmed += ix->groups[i].confirmed;
	s->cancelled += ix->groups[i].cancelled;
	claims_unlock(ix, (server_id)i);
}

void index_stats(struct index *ix, struct index_stats *s)
{
	uint32_t i;

	*s = (struct index_stats){
		.bytes = ix->fixed_bytes, .fixed_bytes = ix->fixed_bytes, .max_bytes = ix->opts.max_bytes,
		.shards = ix->n_shards, .expired = atomic_load(&ix->expired),
		.refused = atomic_load(&ix->refused),
	};
	for (i = 0; i < ix->n_shards; i++)
		add_shard(ix, i, s);
	for (i = 0; i < READERS_MAX; i++)
		s->matches += atomic_load_explicit(&ix->readers->slots[i].matches, memory_order_relaxed);
	for (i = 0; i < CLAIM_GROUPS; i++)
		add_claims(ix, i, s);
}

uint32_t index_shards(const struct index *ix)
{
	return ix->n_shards;
}

void index_shard_stats(struct index *ix, uint32_t i, struct index_shard_stats *s)
{
	struct shard *sh = &ix->shards[i];

	shards_lock(ix, 1ull << i);
	*s = (struct index_shard_stats){
		.bytes = arena_used(&sh->arena), .max_bytes = arena_room(&sh->arena),
		.nodes = sh->st.nodes, .records = sh->st.records, .commits = sh->st.commits,
	};
	shards_unlock(ix, 1ull << i);
}

/* held.c - visit all nodes in the order of their numbers, with the hash of the pages above each.
 *
 * The hash of a node's end is remembered with its number and serial, because its children need it:
 * an object never changes its pages and place, and as long as the serial is the same, so is the
 * path above (snapshot_write.c). The memory is fixed; the hash of a node that is forgotten is
 * computed again. */
#include "agent/base/chain.h"
#include "agent/index/evict_in.h"
#include "agent/index/held.h"
#include "agent/index/nodes_in.h"

#define WAY_MAX		64u	/* nodes noted at once; of a longer path the lower part is noted again */
#define TRIES		16u	/* of a node that keeps changing; then it is left out */
#define KNOWN		16384u	/* nodes whose hashes are remembered; a power of two */

_Static_assert(HELD_PAGES_MAX == EDGE_MAX, "the longest node");

struct known {
	node_id id;		/* 0: free */
	uint32_t serial;
	struct chain end;	/* of all pages to its end */
	uint64_t first;		/* hash of the first page */
};

struct way {
	node_id id;
	uint32_t serial;
};

struct held_walk {
	struct index *ix;
	const struct hash_key *key;
	struct nodes at;
	msec now;			/* of the call under way */
	struct known known[KNOWN];
	uint64_t hashes[EDGE_MAX];
	struct holder holders[SERVERS_MAX];
};

struct held_walk *held_walk_new(struct index *ix, const struct hash_key *key)
{
	struct held_walk *w = mem_alloc(sizeof(*w));

	if (w == NULL)
		return NULL;
	w->ix = ix;
	w->key = key;
	return w;
}

void held_walk_free(struct held_walk *w)
{
	mem_free(w);
}

size_t held_walk_bytes(void)
{
	return sizeof(struct held_walk);
}

/* ---- hashes ---- */

static struct known *known_at(struct held_walk *w, node_id id)
{
	return &w->known[(id * 0x9e3779b1u >> 8) & (KNOWN - 1)];
}

static bool is_known(const struct known *k, const struct node *nd)
{
	return k->id == nd->id && k->serial == nd->serial;
}

/* Note the path from <id> up to a known node or the root, and write its hashes to <above>. Returns
 * the number of nodes, of which the highest WAY_MAX are in <way>; -1 if the path has changed. */
static int note_way(struct held_walk *w, node_id id, struct way *way, struct known *above)
{
	bool end = false;
	int n = 0;

	while (!end) {
		uint64_t locked = shard_bit(w->ix, id);
		const struct node *nd;

		shards_lock(w->ix, locked);
		nd = node_at(w->ix, id);
		if (nd == NULL) {
			shards_unlock(w->ix, locked);
			return -1;
		}
		if (nd->kind == NODE_ROOT) {
			*above = (struct known){ .id = id, .end.base = chain_start(w->key, node_pages(nd)) };
			end = true;
		} else if (n > 0 && is_known(known_at(w, id), nd)) {
			*above = *known_at(w, id);
			end = true;
		} else {
			way[(unsigned)n++ % WAY_MAX] = (struct way){ id, nd->serial };
			id = nd->parent;
		}
		shards_unlock(w->ix, locked);
	}
	return n;
}

/* Hash the pages of <nd>, of which <above> are those before it. Remembers the result. */
static void hash_node(struct held_walk *w, const struct node *nd, const struct known *above)
{
	struct chain c = above->end;

	for (uint32_t i = 0; i < nd->n_pages; i++) {
		chain_add(&c, node_pages(nd)[i]);
		w->hashes[i] = chain_hash(&c);
	}
	*known_at(w, nd->id) = (struct known){
		nd->id, nd->serial, c, nd->start == 0 ? w->hashes[0] : above->first };
}

/* ---- a node ---- */

static uint32_t holders_of(struct held_walk *w, const struct node *nd, msec now, uint32_t *most)
{
	uint32_t n = atomic_load_explicit(&nd->n_slots, memory_order_relaxed), k = 0, tick = tick_of(now);
	const struct record *r;

	*most = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed) == 0)
			continue;
		r = at(w->ix, node_records(nd)[i]);
		if (r->held == 0 || !server_ready(w->ix, r->server))
			continue;
		*most = r->held > *most ? r->held : *most;
		w->holders[k++] = (struct holder){
			.server = r->server, .pages = r->held, .hits = r->hits, .priority = r->priority,
			.end = r->n_children == 0,
			.unused_ms = tick_before(r->used, tick) ? (msec)(tick - r->used) * 16 : 0,
		};
	}
	return k;
}

/* Set <run> to what is held of <nd>, whose pages are hashed. */
static void see_node(struct held_walk *w, const struct node *nd, const struct known *above,
    msec now, struct held_run *run)
{
	uint32_t most, n = holders_of(w, nd, now, &most);

	*run = (struct held_run){
		.end = { nd->id, nd->start + most, node_era(nd) },
		.start = nd->start,
		.first = nd->start == 0 ? w->hashes[0] : above->first,
		.before = chain_hash(&above->end),
		.n_pages = most,
		.n_holders = n,
		.hashes = w->hashes,
		.holders = w->holders,
	};
}

/* Go down the path to <id>. Returns true if nothing is left to do for it. <*tries>: tries left;
 * a path that is too long for <way> has more, because each makes it shorter. */
static bool down_way(
    struct held_walk *w, node_id id, msec now, struct held_run *run, uint32_t *tries)
{
	struct way way[WAY_MAX];
	struct known above = { 0 };	/* set if the way begins below the root */
	int n = note_way(w, id, way, &above), i;

	run->n_holders = 0;
	if (n > (int)WAY_MAX && *tries == TRIES)
		*tries += w->ix->opts.max_pages / WAY_MAX;
	--*tries;
	for (i = n - 1; i >= 0 && n - i <= (int)WAY_MAX; i--) {
		const struct way *at = &way[(unsigned)i % WAY_MAX];
		uint64_t locked = shard_bit(w->ix, at->id);
		const struct node *nd;
		bool same;

		shards_lock(w->ix, locked);
		nd = node_at(w->ix, at->id);
		same = nd != NULL && nd->serial == at->serial;
		if (same)
			hash_node(w, nd, &above);
		if (same && i == 0)
			see_node(w, nd, &above, now, run);
		shards_unlock(w->ix, locked);
		if (!same)
			return false;
		above = *known_at(w, at->id);
	}
	return n >= 0 && i < 0;
}

/* A node that is gone needs no visit: its pages are gone, or on another node. */
static void visit(struct held_walk *w, node_id id, msec now,
    void (*fn)(void *arg, const struct held_run *run), void *arg)
{
	struct held_run run;
	uint32_t tries = TRIES;

	while (tries > 0 && !down_way(w, id, now, &run, &tries))
		;
	if (run.n_holders > 0)
		fn(arg, &run);
}

static bool is_held(void *arg, const struct node *nd)
{
	struct held_walk *w = arg;
	uint32_t most;

	return holders_of(w, nd, w->now, &most) > 0;
}

bool held_walk(struct held_walk *w, uint32_t nodes, msec now,
    void (*fn)(void *arg, const struct held_run *run), void *arg)
{
	node_id id;

	w->now = now;
	for (; nodes > 0 && !nodes_end(w->ix, &w->at); nodes--)
		if ((id = nodes_next(w->ix, &w->at, is_held, w)) != 0)
			visit(w, id, now, fn, arg);
	if (!nodes_end(w->ix, &w->at))
		return true;
	w->at = (struct nodes){ 0 };
	return false;
}

/* ---- hold more ---- */

enum index_held index_hold(struct index *ix, const struct space_key *space, const page_key *pages,
    size_t n, uint32_t had, server_id server, const struct held_use *use, msec now,
    struct index_place *end)
{
	uint32_t work = EVICT_MAX;
	uint64_t room = (uint64_t)(n > had ? n - had : 0) * space_page_room(space);
	const struct held_end h = {
		.space = *space,
		.server = server,
		.hits = use->hits,
		.priority = use->priority < INDEX_PRIORITIES ? use->priority : INDEX_PRIORITIES - 1,
		.tick = tick_ago(now, use->unused_ms),
	};

	*end = (struct index_place){ 0 };
	if (server >= SERVERS_MAX || space->tenant >= TENANTS_MAX)
		return HELD_NO_ROOM;
	if (evicted_at_once(ix, server, room, h.tick))
		return by_time(order_of(ix, server)) ? HELD_TOO_OLD : HELD_NO_ROOM;
	if (!commit_held(ix, pages, n, &h, end))
		return HELD_NO_ROOM;
	keep_capacity(ix, server, &work);
	if (!is_evicted(ix, server, h.tick))
		return HELD_DONE;
	*end = (struct index_place){ 0 };
	return HELD_TOO_OLD;
}

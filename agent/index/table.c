/* table.c - find a node by its parent and its first page: one hash table for all shards.
 *
 * A bucket is a cache line: seven entries, and the number of entries that passed it because it was
 * full. An entry never moves, so a reader without a lock cannot miss it. It holds the ref of the
 * object, the shard of the node and 26 bits of the hash; the object is compared before it counts as
 * found. The thread that has locked the node's shard changes its entry. A free entry is taken by
 * compare-and-swap, because two shards may want it. */
#include "agent/index/tree_in.h"

#define ENTRIES		7u
#define HOPS		32u	/* more than any load within the budget needs: index.c */
#define TAG_SHIFT	(32 + SHARD_BITS)

struct bucket {
	_Alignas(64) _Atomic uint64_t e[ENTRIES];
	_Atomic uint64_t passed;
};

size_t table_bytes(size_t n_buckets)
{
	return n_buckets * sizeof(struct bucket);
}

static uint64_t tag_of(uint64_t hash)
{
	return hash << TAG_SHIFT >> TAG_SHIFT;
}

static struct bucket *bucket_of(const struct index *ix, uint64_t hash, unsigned hop)
{
	size_t i = (size_t)((hash >> 32) * ix->n_table >> 32) + hop;

	return &ix->buckets[i < ix->n_table ? i : i - ix->n_table];
}

static bool is_child(const struct node *nd, uint64_t parent, uint64_t first)
{
	return nd->kind == NODE_EDGE && nd->parent == parent && node_pages(nd)[0] == first;
}

static bool is_root(const struct node *nd, uint64_t h0, uint64_t h1)
{
	return nd->kind == NODE_ROOT && node_pages(nd)[0] == h0 && node_pages(nd)[1] == h1;
}

typedef bool is_it(const struct node *nd, uint64_t a, uint64_t b);

static inline const struct node *look(
    const struct index *ix, uint64_t hash, is_it *is, uint64_t a, uint64_t b)
{
	uint64_t tag = tag_of(hash), e;
	const struct node *nd;
	unsigned hop, i;

	for (hop = 0; hop < HOPS; hop++) {
		const struct bucket *bk = bucket_of(ix, hash, hop);

		for (i = 0; i < ENTRIES; i++) {
			e = atomic_load_explicit(&bk->e[i], memory_order_acquire);
			if (e >> TAG_SHIFT != tag || e == 0)
				continue;
			nd = at(ix, (arena_ref)e);
			__builtin_prefetch((const char *)nd + 64);
			__builtin_prefetch((const char *)nd + 128);
			__builtin_prefetch((const char *)nd + 192);
			if (is(nd, a, b))
				return nd;
		}
		if (atomic_load_explicit(&bk->passed, memory_order_acquire) == 0)
			return NULL;
	}
	return NULL;
}

const struct node *table_child(
    const struct index *ix, uint64_t hash, node_id parent, page_key first)
{
	return look(ix, hash, is_child, parent, first);
}

void table_prefetch(const struct index *ix, uint64_t hash)
{
	__builtin_prefetch(bucket_of(ix, hash, 0));
}

const struct node *table_root(const struct index *ix, const struct space_key *space)
{
	return look(ix, table_hash(space->h[0], ~space->h[1]), is_root, space->h[0], space->h[1]);
}

static struct node *find(struct index *ix, uint64_t hash, is_it *is, uint64_t a, uint64_t b,
			 uint64_t locked, uint64_t *wanted)
{
	uint64_t tag = tag_of(hash), e, bit;
	unsigned hop, i;

	for (hop = 0; hop < HOPS; hop++) {
		struct bucket *bk = bucket_of(ix, hash, hop);

		for (i = 0; i < ENTRIES; i++) {
			e = atomic_load_explicit(&bk->e[i], memory_order_acquire);
			if (e >> TAG_SHIFT != tag || e == 0)
				continue;
			bit = 1ull << (e >> 32 & (SHARDS_MAX - 1));
			if ((locked & bit) == 0)
				*wanted |= bit;
			else if (is(at(ix, (arena_ref)e), a, b))
				return at(ix, (arena_ref)e);
		}
		if (atomic_load_explicit(&bk->passed, memory_order_acquire) == 0)
			break;
	}
	return NULL;
}

struct node *table_find(
    struct index *ix, node_id parent, page_key first, uint64_t locked, uint64_t *wanted)
{
	return find(ix, table_hash(parent, first), is_child, parent, first, locked, wanted);
}

struct node *table_find_root(
    struct index *ix, const struct space_key *space, uint64_t locked, uint64_t *wanted)
{
	return find(ix, table_hash(space->h[0], ~space->h[1]), is_root, space->h[0], space->h[1],
		    locked, wanted);
}

static uint64_t entry_of(const struct index *ix, const struct node *nd, uint64_t hash)
{
	return tag_of(hash) << TAG_SHIFT | (uint64_t)shard_of(ix, nd->id) << 32 | node_ref(ix, nd);
}

static bool put(struct bucket *bk, uint64_t entry)
{
	uint64_t none;
	unsigned i;

	for (i = 0; i < ENTRIES; i++) {
		none = 0;
		if (atomic_load_explicit(&bk->e[i], memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&bk->e[i], &none, entry, memory_order_acq_rel,
							    memory_order_relaxed))
			return true;
	}
	return false;
}

static void unpass(const struct index *ix, uint64_t hash, unsigned hops)
{
	while (hops-- > 0)
		atomic_fetch_sub_explicit(&bucket_of(ix, hash, hops)->passed, 1, memory_order_acq_rel);
}

bool table_add(struct index *ix, const struct node *nd)
{
	uint64_t hash = node_hash(nd), entry = entry_of(ix, nd, hash);
	unsigned hop;

	for (hop = 0; hop < HOPS; hop++) {
		if (put(bucket_of(ix, hash, hop), entry))
			return true;
		atomic_fetch_add_explicit(&bucket_of(ix, hash, hop)->passed, 1, memory_order_acq_rel);
	}
	unpass(ix, hash, HOPS);
	return false;
}

/* Return the entry of <nd>, which exists, and the number of buckets that it passed. */
static _Atomic uint64_t *entry(
    struct index *ix, const struct node *nd, uint64_t hash, unsigned *hop)
{
	uint64_t e = entry_of(ix, nd, hash);
	struct bucket *bk;
	unsigned i;

	for (*hop = 0; *hop < HOPS; ++*hop) {
		bk = bucket_of(ix, hash, *hop);
		for (i = 0; i < ENTRIES; i++)
			if (atomic_load_explicit(&bk->e[i], memory_order_relaxed) == e)
				return &bk->e[i];
	}
	return NULL;
}

void table_move(struct index *ix, const struct node *from, const struct node *to)
{
	uint64_t hash = node_hash(from);
	unsigned hop;
	_Atomic uint64_t *e = entry(ix, from, hash, &hop);

	atomic_store_explicit(e, entry_of(ix, to, hash), memory_order_release);
}

void table_remove(struct index *ix, const struct node *nd)
{
	uint64_t hash = node_hash(nd);
	unsigned hop;
	_Atomic uint64_t *e = entry(ix, nd, hash, &hop);

	atomic_store_explicit(e, 0, memory_order_release);
	unpass(ix, hash, hop);
}

/* Each entry must point to the object of its node's id, in one of the buckets of its hash. <passed>
 * must count the entries that went on. All locks are held. */
const char *table_check(struct index *ix, uint64_t n_nodes)
{
	uint64_t *passed = mem_calloc(ix->n_table, sizeof(*passed)), n = 0, hash, e;
	const char *bad = passed ? NULL : "no memory for the check";
	const struct node *nd;
	unsigned k, hop;
	size_t i;

	for (i = 0; bad == NULL && i < ix->n_table * ENTRIES; i++) {
		e = atomic_load(&ix->buckets[i / ENTRIES].e[i % ENTRIES]);
		if (e == 0)
			continue;
		n++;
		nd = at(ix, (arena_ref)e);
		hash = node_hash(nd);
		if (e != entry_of(ix, nd, hash) || node_at(ix, nd->id) != nd)
			bad = "an entry of the table is of no node";
		for (hop = 0; hop < HOPS && bucket_of(ix, hash, hop) != &ix->buckets[i / ENTRIES]; hop++)
			;
		if (hop == HOPS)
			bad = "an entry is in none of the buckets of its hash";
		for (k = 0; k < hop && hop < HOPS; k++)
			passed[bucket_of(ix, hash, k) - ix->buckets]++;
	}
	for (i = 0; bad == NULL && i < ix->n_table; i++)
		if (atomic_load(&ix->buckets[i].passed) != passed[i])
			bad = "a bucket counts wrong what has passed it";
	mem_free(passed);
	return bad ? bad : n == n_nodes ? NULL : "the table has not one entry for each node";
}

/* node.c - node objects: allocated, published under an id, replaced, owned.
 *
 * An object is built completely and then published: node_publish() sets it as the object of its id,
 * and the child table points to it. Readers may see it from then on, so only its owner words change
 * in place. node_remake() replaces it by a copy of another size. */
#include "agent/base/prefetch.h"
#include "agent/index/tree_in.h"

static size_t node_bytes(enum node_kind kind, uint32_t start, uint32_t n_pages, uint32_t cap)
{
	uint32_t keys = kind == NODE_ROOT ? 2 : n_pages;

	return sizeof(struct node) + cap * (sizeof(uint32_t) + sizeof(arena_ref)) +
	       (keys + digests_of(start, n_pages)) * sizeof(page_key);
}

arena_ref node_ref(const struct index *ix, const struct node *nd)
{
	return region_ref(&ix->region, nd);
}

/* ---- ids ---- */

/* Return the ref of an object counted from the arena's first: below 2^28, so it leaves room for
 * ID_FREE. */
static uint32_t ref_kept(const struct shard *sh, arena_ref ref)
{
	return ref - sh->first + 1;
}

static uint32_t ref_get(const struct shard *sh, uint32_t i)
{
	return atomic_load_explicit(&sh->refs[i], memory_order_relaxed);
}

static void ref_set(struct shard *sh, uint32_t i, uint32_t kept)
{
	atomic_store_explicit(&sh->refs[i], kept, memory_order_relaxed);
}

node_id id_take(struct index *ix, uint32_t shard)
{
	struct shard *sh = &ix->shards[shard];
	uint32_t i = sh->free_id;

	if (i != 0) {
		sh->free_id = ref_get(sh, i) & ~ID_FREE;
	} else {
		if (sh->n_ids + 1 >= sh->max_ids)
			return 0;
		i = ++sh->n_ids;
	}
	ref_set(sh, i, 0);
	return i << SHARD_BITS | shard;
}

void id_give(struct index *ix, node_id id)
{
	struct shard *sh = &ix->shards[shard_of(ix, id)];

	ref_set(sh, id >> SHARD_BITS, sh->free_id | ID_FREE);
	sh->free_id = id >> SHARD_BITS;
}

void node_prefetch(const struct index *ix, node_id id, unsigned lines)
{
	const struct shard *sh = &ix->shards[shard_of(ix, id)];
	uint32_t kept = ref_get(sh, id >> SHARD_BITS);
	const char *nd;

	if (kept == 0 || (kept & ID_FREE) != 0)
		return;
	nd = at(ix, kept - 1 + sh->first);
	prefetch_bytes(nd, (size_t)lines * MEM_LINE);
}

/* ---- objects ---- */

struct node *node_alloc(struct index *ix, uint32_t shard, enum node_kind kind, uint32_t start,
			uint32_t n_pages, uint32_t cap)
{
	struct shard *sh = &ix->shards[shard];
	arena_ref ref = arena_alloc(&sh->arena, node_bytes(kind, start, n_pages, cap));
	struct node *nd;

	if (ref == 0)
		return NULL;
	nd = at(ix, ref);
	memset(nd, 0, sizeof(*nd));
	nd->start = start;
	nd->n_pages = (uint16_t)n_pages;
	nd->cap = (uint16_t)cap;
	nd->kind = (uint8_t)kind;
	nd->serial = nd->era = ++sh->serial;
	return nd;
}

struct node *node_alloc_spare(struct index *ix, uint32_t shard, enum node_kind kind, uint32_t start,
			      uint32_t n_pages, uint32_t cap)
{
	struct shard *sh = &ix->shards[shard];
	struct node *nd = node_alloc(ix, shard, kind, start, n_pages, cap);
	size_t need = node_bytes(kind, start, n_pages, cap), had;

	if (nd != NULL)
		return nd;
	sh->lacked = true;
	if (sh->spare == 0 || (had = arena_size(&sh->arena, sh->spare)) < need)
		return NULL;
	arena_free(&sh->arena, sh->spare);
	nd = node_alloc(ix, shard, kind, start, n_pages, cap);
	sh->spare = had > 2 * arena_cost(need)
	    ? arena_alloc(&sh->arena, had - arena_cost(need) - ARENA_UNIT)
	    : 0;
	return nd;
}

void node_spare(struct shard *sh)
{
	arena_ref whole;

	if (sh->spare != 0 && arena_size(&sh->arena, sh->spare) >= sh->spare_bytes)
		return;
	if ((whole = arena_alloc(&sh->arena, sh->spare_bytes)) == 0)
		return;
	arena_free(&sh->arena, sh->spare);
	sh->spare = whole;
}

void node_free(struct index *ix, uint32_t shard, struct node *nd)
{
	arena_free(&ix->shards[shard].arena, node_ref(ix, nd));
}

void node_publish(struct index *ix, struct node *nd)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];

	ref_set(sh, nd->id >> SHARD_BITS, ref_kept(sh, node_ref(ix, nd)));
	tenant_add_bytes(sh, nd->tenant, (int64_t)arena_size(&sh->arena, node_ref(ix, nd)));
}

/* ---- owners ---- */

static uint32_t n_slots(const struct node *nd)
{
	return atomic_load_explicit(&nd->n_slots, memory_order_relaxed);
}

static uint32_t word(const struct node *nd, uint32_t i)
{
	return atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed);
}

/* Compares four words at a time, because a node that all servers hold has many. After the last word
 * come the records' refs, as many as slots, so reading up to four words further stays on the node.
 * Only the thread that has locked the shard changes or searches them. */
typedef uint32_t words4 __attribute__((vector_size(16), aligned(16), may_alias));

int node_slot(const struct node *nd, server_id s)
{
	const words4 *v = (const words4 *)(uintptr_t)node_words(nd);
	uint32_t i, k, n = n_slots(nd), w;
	words4 hit;

	for (i = 0; i < n; i += 4, v++) {
		hit = (words4)((*v >> 16) == s);
		if ((((uint64_t *)&hit)[0] | ((uint64_t *)&hit)[1]) == 0)
			continue;
		for (k = i; k < n && k < i + 4; k++) {
			w = word(nd, k);
			if (w != 0 && word_server(w) == s)
				return (int)k;
		}
	}
	return -1;
}

uint32_t node_owned(const struct node *nd, server_id s)
{
	int i = node_slot(nd, s);

	return i < 0 ? 0 : word_extent(word(nd, (uint32_t)i));
}

struct record *node_record(const struct index *ix, const struct node *nd, server_id s)
{
	int i = node_slot(nd, s);

	return i < 0 ? NULL : at(ix, node_records(nd)[i]);
}

bool node_full(const struct node *nd)
{
	return nd->n_owners == nd->cap;
}

uint32_t node_cap(const struct node *nd)
{
	uint32_t cap = 2;

	while (cap < nd->n_owners)
		cap *= 2;
	return cap;
}

void node_put(struct index *ix, struct node *nd, struct record *r)
{
	uint32_t n = n_slots(nd), i = nd->n_owners == n ? n : 0;

	while (i < n && word(nd, i) != 0)
		i++;
	node_records(nd)[i] = record_ref(ix, r);
	atomic_store_explicit(&node_words(nd)[i], word_of(r->server, r->extent), memory_order_release);
	if (i == n)
		atomic_store_explicit(&nd->n_slots, (uint16_t)(n + 1), memory_order_release);
	nd->n_owners++;
}

void node_own(struct index *ix, struct node *nd, struct record *r)
{
	atomic_fetch_add_explicit(
	    &ix->servers[r->server].room, room_of(nd, r->extent), memory_order_relaxed);
	node_put(ix, nd, r);
}

void node_extent(struct index *ix, struct node *nd, struct record *r, uint32_t extent)
{
	int i = node_slot(nd, r->server);

	atomic_fetch_add_explicit(&ix->servers[r->server].room,
	    room_of(nd, extent) - room_of(nd, r->extent), memory_order_relaxed);
	r->extent = (uint16_t)extent;
	atomic_store_explicit(&node_words(nd)[i], word_of(r->server, extent), memory_order_release);
}

void node_disown(struct index *ix, struct node *nd, struct record *r)
{
	int i = n_slots(nd) > 0 && node_records(nd)[0] == record_ref(ix, r) ? 0 :
	    node_slot(nd, r->server);

	atomic_fetch_sub_explicit(
	    &ix->servers[r->server].room, room_of(nd, r->extent), memory_order_relaxed);
	atomic_store_explicit(&node_words(nd)[i], 0, memory_order_release);
	nd->n_owners--;
}

uint32_t node_reach(const struct node *nd)
{
	uint32_t i, n = n_slots(nd), e, reach = 0;

	for (i = 0; i < n; i++) {
		e = word_extent(word(nd, i));
		reach = e > reach ? e : reach;
	}
	return reach;
}

void node_copy_owners(const struct index *ix, const struct node *from, struct node *to)
{
	uint32_t i, n = n_slots(from), k = 0;

	for (i = 0; i < n; i++) {
		if (word(from, i) == 0)
			continue;
		node_records(to)[k] = node_records(from)[i];
		atomic_store_explicit(&node_words(to)[k++], word(from, i), memory_order_relaxed);
	}
	atomic_store_explicit(&to->n_slots, (uint16_t)k, memory_order_relaxed);
	to->n_owners = (uint16_t)k;
}

struct node *node_remake(struct index *ix, struct node *nd, uint32_t n_pages, uint32_t cap,
			 const struct page_run *run)
{
	uint32_t shard = shard_of(ix, nd->id);
	struct node *to = n_pages < nd->n_pages ?
		node_alloc_spare(ix, shard, nd->kind, nd->start, n_pages, cap) :
		node_alloc(ix, shard, nd->kind, nd->start, n_pages, cap);

	if (to == NULL)
		return NULL;
	to->id = nd->id;
	to->parent = nd->parent;
	to->tenant = nd->tenant;
	to->page_room = nd->page_room;
	to->n_children = nd->n_children;
	to->child_xor = nd->child_xor;
	slack_move(nd, to);
	if (n_pages < nd->n_pages && !to->slack)	/* others may take the place of those cut */
		to->era = to->serial;
	node_copy_owners(ix, nd, to);
	node_fill(to, nd, run);
	ix->shards[shard].st.pages += (uint64_t)n_pages - nd->n_pages;
	node_publish(ix, to);
	table_move(ix, nd, to);
	atomic_store_explicit(&nd->superseded, 1, memory_order_release);
	node_retire(ix, nd);
	return to;
}

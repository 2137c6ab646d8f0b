/* anchors.c - a fixed table of places, four in a cache line, read and written without a lock. */
#include <stdatomic.h>

#include "agent/base/lines.h"
#include "agent/route/anchors_in.h"

#define WAYS	4u

/* 0, 0: free. */
struct anchor {
	_Atomic uint64_t check, value;	/* sought() ^ value; node << 32 | era */
};

struct anchor_group {
	_Alignas(64) struct anchor way[WAYS];	/* newest first */
};

struct anchors {
	struct lines groups;		/* struct anchor_group */
	/* written while the table fills up; each lookup reads the above */
	_Alignas(MEM_LINE) _Atomic uint64_t n;	/* places in use */
};

uint64_t chain_of(uint64_t h, const page_key *pages, uint32_t n, uint64_t *at)
{
	struct chain c = { .base = h };
	uint32_t i;

	for (i = 0; i + ANCHOR_EVERY <= n; i += ANCHOR_EVERY)
		*at++ = c.base = chain_group(c.base, pages + i);
	for (; i < n; i++)
		chain_add(&c, pages[i]);
	return chain_hash(&c);
}

struct anchors *anchors_new(size_t bytes)
{
	struct anchors *t = mem_alloc_line(sizeof(*t));

	if (t == NULL || lines_alloc(&t->groups, bytes, sizeof(struct anchor_group)))
		return t;
	mem_free_line(t);
	return NULL;
}

void anchors_free(struct anchors *t)
{
	if (t == NULL)
		return;
	lines_free(&t->groups);
	mem_free_line(t);
}

static uint64_t load(const _Atomic uint64_t *v)
{
	return atomic_load_explicit(v, memory_order_relaxed);
}

static void store(struct anchor *a, uint64_t check, uint64_t value)
{
	atomic_store_explicit(&a->check, check, memory_order_relaxed);
	atomic_store_explicit(&a->value, value, memory_order_relaxed);
}

/* Mix in the depth, which then needs no room. */
static uint64_t sought(uint64_t hash, uint32_t depth)
{
	return hash ^ depth * 0x9e3779b97f4a7c15ull;
}

static struct anchor_group *group_of(const struct anchors *t, uint64_t hash)
{
	return &((struct anchor_group *)t->groups.at)[(hash ^ hash >> 32) & t->groups.mask];
}

/* Return the way of <key>, or WAYS. */
static unsigned way_of(const struct anchor_group *g, uint64_t key)
{
	unsigned i = 0;

	while (i < WAYS && (load(&g->way[i].check) ^ load(&g->way[i].value)) != key)
		i++;
	return i;
}

/* Returns true if the place was free. */
static bool enter(struct anchors *t, uint64_t hash, const struct index_place *at)
{
	struct anchor_group *g = group_of(t, hash);
	uint64_t value = (uint64_t)at->node << 32 | at->era, key = sought(hash, at->depth);
	unsigned i = way_of(g, key);
	bool was_free = i == WAYS && load(&g->way[WAYS - 1].value) == 0;

	if (i == WAYS)
		i--;
	for (; i > 0; i--)
		store(&g->way[i], load(&g->way[i - 1].check), load(&g->way[i - 1].value));
	store(&g->way[0], key ^ value, value);
	return was_free;
}

void anchors_prefetch(const struct anchors *t, const uint64_t *chain, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		__builtin_prefetch(group_of(t, chain[i]), 1);
}

uint64_t anchors_count(const struct anchors *t)
{
	return atomic_load_explicit(&t->n, memory_order_relaxed);
}

bool anchors_get(
    const struct anchors *t, uint64_t hash, uint32_t depth, struct index_place *at)
{
	const struct anchor_group *g = group_of(t, hash);
	uint64_t key = sought(hash, depth);
	unsigned i = way_of(g, key);
	uint64_t value = i < WAYS ? load(&g->way[i].value) : 0;

	if (i == WAYS || (load(&g->way[i].check) ^ value) != key || value == 0)
		return false;
	*at = (struct index_place){ (uint32_t)(value >> 32), depth, (uint32_t)value };
	return true;
}

void anchors_enter(
    struct anchors *t, const uint64_t *chain, uint32_t from, struct index_place end)
{
	uint32_t most = end.depth;
	uint64_t n = 0;

	if (end.node == 0)
		return;
	end.depth = from > 0 ? from : ANCHOR_EVERY;
	for (; end.depth <= most; end.depth += ANCHOR_EVERY)
		n += enter(t, chain[end.depth / ANCHOR_EVERY - 1], &end);
	if (n > 0)
		atomic_fetch_add_explicit(&t->n, n, memory_order_relaxed);
}

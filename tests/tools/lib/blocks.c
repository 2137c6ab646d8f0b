/* blocks.c - reference counts, one list of free blocks, one hash table.
 *
 * The free list is in the order of eviction: blocks are taken at its head, empty ones are put
 * there, and cached ones join at the tail when their last reference is released. A sequence
 * releases its last block first, so a conversation is evicted from its end and the rest is still a
 * prefix. All operations are O(1); a match is O(blocks matched). */
#include "tests/tools/lib/blocks.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/base/list.h"
#include "tests/tools/lib/buf.h"

#define NONE	UINT32_MAX

struct block {
	struct list free;	/* in blocks.free while ref = 0 */
	uint64_t hash;
	uint32_t next;		/* in its bucket */
	uint32_t ref;
	bool cached;
};

struct blocks {
	struct block *all;
	uint32_t *buckets;
	uint32_t n, mask, n_free, n_cached;
	uint64_t n_evicted;
	struct list free;
};

uint64_t blocks_hash(uint64_t before, const uint32_t *t, size_t n)
{
	return XXH64(t, n * sizeof(*t), before);
}

struct blocks *blocks_new(uint32_t n_blocks)
{
	struct blocks *b = tool_resize(NULL, 1, sizeof(*b));
	uint32_t size = 16;

	while (size < n_blocks)
		size *= 2;
	*b = (struct blocks){ .n = n_blocks, .mask = size - 1, .n_free = n_blocks };
	b->all = tool_resize(NULL, n_blocks, sizeof(*b->all));
	b->buckets = tool_resize(NULL, size, sizeof(*b->buckets));
	memset(b->buckets, 0xff, size * sizeof(*b->buckets));
	list_init(&b->free);
	for (uint32_t i = 0; i < n_blocks; i++) {
		b->all[i] = (struct block){ .next = NONE };
		list_append(&b->free, &b->all[i].free);
	}
	return b;
}

void blocks_free(struct blocks *b)
{
	if (b == NULL)
		return;
	free(b->all);
	free(b->buckets);
	free(b);
}

static uint32_t find(const struct blocks *b, uint64_t hash)
{
	uint32_t i = b->buckets[hash & b->mask];

	while (i != NONE && b->all[i].hash != hash)
		i = b->all[i].next;
	return i;
}

static void forget(struct blocks *b, uint32_t id)
{
	uint32_t *at = &b->buckets[b->all[id].hash & b->mask];

	while (*at != id)
		at = &b->all[*at].next;
	*at = b->all[id].next;
	b->all[id].cached = false;
	b->n_cached--;
}

static void ref(struct blocks *b, uint32_t id)
{
	if (b->all[id].ref++ == 0) {
		list_remove(&b->all[id].free);
		b->n_free--;
	}
}

uint32_t blocks_match(struct blocks *b, const uint64_t *hashes, uint32_t n, uint32_t *ids)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		uint32_t id = find(b, hashes[i]);

		if (id == NONE)
			break;
		ref(b, id);
		ids[i] = id;
	}
	return i;
}

uint32_t blocks_n_total(const struct blocks *b)
{
	return b->n;
}

uint32_t blocks_n_free(const struct blocks *b)
{
	return b->n_free;
}

uint32_t blocks_n_cached(const struct blocks *b)
{
	return b->n_cached;
}

uint64_t blocks_n_evicted(const struct blocks *b)
{
	return b->n_evicted;
}

uint32_t blocks_take(struct blocks *b)
{
	struct block *blk = list_entry(b->free.next, struct block, free);
	uint32_t id = (uint32_t)(blk - b->all);

	if (blk->cached) {
		forget(b, id);
		b->n_evicted++;
	}
	ref(b, id);
	return id;
}

void blocks_store(struct blocks *b, uint32_t id, uint64_t hash)
{
	if (b->all[id].cached || find(b, hash) != NONE)
		return;
	b->all[id].hash = hash;
	b->all[id].cached = true;
	b->all[id].next = b->buckets[hash & b->mask];
	b->buckets[hash & b->mask] = id;
	b->n_cached++;
}

void blocks_unref(struct blocks *b, uint32_t id)
{
	if (--b->all[id].ref)
		return;
	b->n_free++;
	/* before the tail is the end of the list; before the first entry is its head */
	list_append(b->all[id].cached ? &b->free : b->free.next, &b->all[id].free);
}

void blocks_forget_all(struct blocks *b)
{
	for (uint32_t i = 0; i < b->n; i++)
		if (b->all[i].cached)
			forget(b, i);
}

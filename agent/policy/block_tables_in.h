/* block_tables_in.h - the tables of blocks.c, for blocks.c and block_match.c.
 *
 * blocks.c describes them. Places are indices into arrays; 0 is none. */
#ifndef KVROUTE_POLICY_BLOCK_TABLES_IN_H
#define KVROUTE_POLICY_BLOCK_TABLES_IN_H

#include "agent/policy/blocks_in.h"

#define BATCH		32u

struct block {
	uint64_t key;
	uint32_t next;
	uint32_t n_owners;
	uint64_t owners[];		/* <words> of them */
};

struct held {
	uint32_t block, next;
	uint32_t older, newer;
	uint32_t stamp;
	uint16_t owner;
};

struct owner {
	uint32_t oldest, newest, n;
	server_id server;		/* SERVER_NONE: gone, or never used */
	uint16_t scope;
};

struct tables {
	unsigned words;			/* of a set of owners */
	size_t block_bytes;
	uint32_t cap, buckets;		/* records of each kind; number of buckets, a power of two */
	uint32_t *by_key, *by_owner;
	uint8_t *block;			/* cap + 1 of them, <block_bytes> each */
	struct held *held;		/* cap + 1 */
};

struct blocks {
	size_t max_bytes;
	struct tables t;
	uint32_t used_blocks, used_held;	/* records ever taken from the arrays, */
	uint32_t free_block, free_held;		/* and freed ones */
	uint32_t n_blocks, n_held;
	uint32_t stamp;				/* the newest */
	uint64_t live[OWNERS_MAX / 64];
	uint64_t in_scope[SCOPES_MAX][OWNERS_MAX / 64];
	struct owner owner[OWNERS_MAX];
	uint16_t of[SCOPES_MAX][SERVERS_MAX];
};

/* ---- places in the tables ---- */

static inline struct block *block_at(const struct tables *t, uint32_t i)
{
	return (struct block *)(void *)(t->block + (size_t)i * t->block_bytes);
}

static inline uint32_t *bucket_of_key(const struct tables *t, uint64_t key)
{
	return &t->by_key[key & (t->buckets - 1)];
}

static inline uint32_t *bucket_of_held(const struct tables *t, uint32_t block, uint16_t owner)
{
	uint32_t h = (block + (uint32_t)owner * 0x9e3779b1u) * 0x85ebca6bu;

	return &t->by_owner[(h ^ h >> 15) & (t->buckets - 1)];
}

static inline uint32_t block_find(const struct tables *t, uint64_t key)
{
	uint32_t i = *bucket_of_key(t, key);

	while (i != 0 && block_at(t, i)->key != key)
		i = block_at(t, i)->next;
	return i;
}

static inline uint32_t held_find(const struct tables *t, uint32_t block, uint16_t owner)
{
	uint32_t i = *bucket_of_held(t, block, owner);

	while (i != 0 && (t->held[i].block != block || t->held[i].owner != owner))
		i = t->held[i].next;
	return i;
}

/* Find the blocks of a batch; their cache misses overlap. */
static inline void blocks_find(
    const struct tables *t, const uint64_t *keys, size_t n, uint32_t *found)
{
	for (size_t i = 0; i < n; i++)
		__builtin_prefetch(bucket_of_key(t, keys[i]));
	for (size_t i = 0; i < n; i++)
		__builtin_prefetch(block_at(t, *bucket_of_key(t, keys[i])));
	for (size_t i = 0; i < n; i++)
		found[i] = block_find(t, keys[i]);
}

static inline bool bit(const uint64_t *w, unsigned i)
{
	return w[i / 64] >> i % 64 & 1;
}

static inline void bit_set(uint64_t *w, unsigned i, bool on)
{
	if (on)
		w[i / 64] |= 1ull << i % 64;
	else
		w[i / 64] &= ~(1ull << i % 64);
}

static inline uint32_t walk_length(const struct block_walk *w)
{
	uint32_t left = w->end - w->at, per = w->per > 0 ? w->per : 1;

	return left / per + (left % per != 0);
}

#endif

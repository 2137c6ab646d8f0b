/* bpe_cache_in.h - a cache of pieces and their ids, which covers most of a text in Latin script.
 *
 *   | 15 bytes of the piece, zero padded, its length | up to 3 ids, their number |
 *   32 bytes, two per cache line
 *
 * A piece is two words in registers. A hit is a multiplication, a load and three comparisons; three
 * ids are always copied and the count advances. Of the two entries in a line the latest is first.
 * 16,384 entries take half a megabyte, which fits a second-level cache. Texts repeat their pieces:
 * nineteen in twenty of the first megabyte of English are hits; with one way per line, 1.4 % fewer.
 * Longer pieces, and those of more ids, are not cached. */
#ifndef KVROUTE_TOK_BPE_BPE_CACHE_IN_H
#define KVROUTE_TOK_BPE_BPE_CACHE_IN_H

#include "agent/tok/bpe/bpe_in.h"

#define CACHE_LINES	8192u
#define CACHE_WAYS	2u
#define CACHE_ENTRIES	(CACHE_LINES * CACHE_WAYS)
#define CACHE_PIECE	15u		/* bytes of the longest cached piece */
#define CACHE_IDS	3u

struct cached {
	uint64_t lo, hi;		/* hi == 0: empty, because no piece has length 0 */
	uint32_t id[CACHE_IDS], n;
};

struct piece {
	uint64_t lo, hi;
};

/* Load the <n> bytes at <p>, where 16 are readable. A piece above CACHE_PIECE equals no cached one.
 */
static inline struct piece piece_load(const uint8_t *p, uint32_t n)
{
	uint32_t len = n <= CACHE_PIECE ? n : CACHE_PIECE + 1;
	struct piece k;

	memcpy(&k, p, sizeof(k));
	k.lo &= byte_masks[len];
	k.hi = (k.hi & byte_masks[16 + len]) | (uint64_t)len << 56;
	return k;
}

static inline size_t cache_place(struct piece k)
{
	uint64_t h = (k.lo ^ k.hi * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;

	return (h >> 51) * CACHE_WAYS;	/* CACHE_LINES */
}

static inline bool cache_is(const struct cached *e, struct piece k)
{
	return ((e->lo ^ k.lo) | (e->hi ^ k.hi)) == 0;
}

/* Return the entry of a piece, or some other entry. */
static inline const struct cached *cache_find(const struct cached *cache, struct piece k)
{
	const struct cached *e = &cache[cache_place(k)];

	return e + !cache_is(e, k);
}

static inline void cache_put(struct cached *cache, struct piece k, const token_id *id, size_t n)
{
	struct cached *e = &cache[cache_place(k)];
	size_t i;

	e[1] = e[0];
	e->lo = k.lo;
	e->hi = k.hi;
	e->n = (uint32_t)n;
	for (i = 0; i < n; i++)
		e->id[i] = id[i];
}

#endif

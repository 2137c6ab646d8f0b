/* bpe_cache_in.h - pieces that came before and their ids: what most of a text in Latin script is.
 *
 *   | 15 bytes of the piece, zeros behind them, its length | up to 3 ids, how many |     32 bytes, two to a cache line
 *
 * A piece is two words in registers; a hit is a multiplication, a load and three comparisons, and always three ids are written, of which
 * those that count stay. Of the two in a line the one that came last is first. 16,384 entries are half a megabyte, what a second-level cache
 * holds. A text meets the same pieces again and again: nineteen in twenty of the first megabyte of English were there before, with one
 * place for each hash 1.4 % fewer. Longer pieces, and those of more ids, are not kept. */
#ifndef KVROUTE_TOK_BPE_BPE_CACHE_IN_H
#define KVROUTE_TOK_BPE_BPE_CACHE_IN_H

#include "agent/tok/bpe/bpe_in.h"

#define CACHE_LINES	8192u
#define CACHE_WAYS	2u
#define CACHE_ENTRIES	(CACHE_LINES * CACHE_WAYS)
#define CACHE_PIECE	15u		/* bytes of the longest piece that is kept */
#define CACHE_IDS	3u

struct cached {
	uint64_t lo, hi;		/* hi == 0: nothing, as no piece has length 0 */
	uint32_t id[CACHE_IDS], n;
};

struct piece {
	uint64_t lo, hi;
};

/* The <n> bytes at <p>, where 16 may be read. Longer than CACHE_PIECE: like none that is kept. */
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

/* The entry of a piece, or another one. */
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

/* bpe_cache_in.h - caches of pieces and their ids, which cover most of a text.
 *
 *   short:  | 15 bytes of the piece, zero padded, its length, owner | up to 3 ids, their number |
 *           32 bytes; four of them, latest first, are a set of two cache lines
 *   long:   | up to 60 bytes, length, number of ids, owner | up to 16 ids |
 *           128 bytes; two of them are a set
 *
 * A short piece is two words in registers. A hit is a multiplication, a load and few comparisons;
 * three ids are always copied and the count advances. 32,768 short entries take a megabyte, of
 * which a text touches only what it needs. Texts repeat their pieces: of 400 KB of English, one in
 * 46 missed a cache of half the size with two entries in a set, and these misses took a third of
 * the time.
 *
 * Long entries are for words of many tokens, runs of signs, and Chinese and Japanese, whose pieces
 * are clauses. They are looked up only after a miss among the short ones. Longer pieces, and those
 * of more ids, are not cached.
 *
 * The owner is a small number for the vocabulary in use, so that a change of vocabulary clears
 * nothing: bpe_cache.c. */
#ifndef KVROUTE_TOK_BPE_BPE_CACHE_IN_H
#define KVROUTE_TOK_BPE_BPE_CACHE_IN_H

#include "agent/tok/bpe/bpe_in.h"

#define CACHE_SETS	8192u
#define CACHE_WAYS	4u
#define CACHE_PIECE	15u		/* bytes of the longest short piece */
#define CACHE_IDS	3u
#define LONG_SETS	8192u
#define LONG_WAYS	2u
#define LONG_PIECE	60u
#define LONG_IDS	16u
#define OWNERS		16u		/* 0 is no vocabulary */

struct cached {
	uint64_t lo, hi;		/* hi == 0: empty, because no owner is 0 */
	uint32_t id[CACHE_IDS], n;
};

struct cached_long {
	uint8_t bytes[LONG_PIECE];	/* zero padded */
	uint8_t len, n, owner, spare;	/* owner == 0: empty */
	uint32_t id[LONG_IDS];
};

_Static_assert(sizeof(struct cached_long) == 128, "two cache lines");

struct piece_cache {
	_Alignas(64) struct cached few[CACHE_SETS * CACHE_WAYS];
	struct cached_long many[LONG_SETS * LONG_WAYS];
	uint64_t print[OWNERS];		/* of the vocabulary of each owner; 0: none */
	uint32_t owner;			/* whose pieces count now */
	void *block;			/* the memory that this is in */
};

struct piece {
	uint64_t lo, hi;
};

/* ---- bpe_cache.c ---- */

struct piece_cache *piece_cache_new(void);		/* NULL: no memory */
void piece_cache_wipe(struct piece_cache *c);		/* empties it */
void piece_cache_free(struct piece_cache *c);		/* wipes it */

/* Let the pieces of the vocabulary <print> count from now on. */
void piece_cache_own(struct piece_cache *c, uint64_t print);

/* Return the entry of the <n> bytes at <p>, or NULL. */
const struct cached_long *long_find(const struct piece_cache *c, const uint8_t *p, uint32_t n);
void long_put(
    struct piece_cache *c, const uint8_t *p, uint32_t n, const token_id *id, size_t n_ids);

/* ---- short pieces ---- */

/* Load the <n> bytes at <p>, where 16 are readable. A piece above CACHE_PIECE equals no cached one.
 */
static inline struct piece piece_load(const uint8_t *p, uint32_t n, uint32_t owner)
{
	uint32_t len = n <= CACHE_PIECE ? n : 0;
	struct piece k;

	memcpy(&k, p, sizeof(k));
	k.lo &= byte_masks[len];
	k.hi = (k.hi & byte_masks[16 + len]) | (uint64_t)(owner << 4 | len) << 56;
	return k;
}

static inline size_t cache_place(struct piece k)
{
	uint64_t h = (k.lo ^ k.hi * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;

	return (h >> 51) * CACHE_WAYS;
}

_Static_assert(CACHE_SETS == 1u << (64 - 51), "cache_place()");

static inline bool cache_is(const struct cached *e, struct piece k)
{
	return ((e->lo ^ k.lo) | (e->hi ^ k.hi)) == 0;
}

/* Return the entry of a piece, or some other entry. */
static inline const struct cached *cache_find(const struct piece_cache *c, struct piece k)
{
	const struct cached *set = &c->few[cache_place(k)], *e = set + !cache_is(set, k);

	if (__builtin_expect(cache_is(e, k), 1))
		return e;
	return set + 2 + !cache_is(set + 2, k);
}

static inline void cache_put(struct piece_cache *c, struct piece k, const token_id *id, size_t n)
{
	struct cached *e = &c->few[cache_place(k)];
	size_t i;

	for (i = CACHE_WAYS - 1; i > 0; i--)
		e[i] = e[i - 1];
	e->lo = k.lo;
	e->hi = k.hi;
	e->n = (uint32_t)n;
	for (i = 0; i < n; i++)
		e->id[i] = id[i];
}

#endif

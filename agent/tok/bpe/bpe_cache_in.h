/* bpe_cache_in.h - caches of pieces and their ids, which cover most of a text.
 *
 *   short:  | 15 bytes of the piece, zero padded, its length, owner | up to 4 ids, their number |
 *           32 bytes; four of them, latest first, are a set of two cache lines
 *   long:   | bytes of the piece ...   ... ids | length, number of ids, owner |
 *           128 bytes, of which bytes and ids share 124; eight of them are a set, found by tags
 *
 * A short piece is two words in registers. A hit is a multiplication, a load and few comparisons;
 * four ids are always copied and the count advances. 32,768 short entries take a megabyte, of
 * which a text touches only what it needs. Texts repeat their pieces: of 400 KB of English, one in
 * 46 missed a cache of half the size with two entries in a set, and these misses took a third of
 * the time.
 *
 * Long entries are for words of many tokens, runs of signs, and Chinese and Japanese, whose pieces
 * are clauses: half the bytes of a text. With two entries in a set, one in six of these missed.
 * Longer pieces, and those of more ids, are not cached.
 *
 * The owner is a small number for the vocabulary in use, so that a change of vocabulary clears
 * nothing: bpe_cache.c. */
#ifndef KVROUTE_TOK_BPE_BPE_CACHE_IN_H
#define KVROUTE_TOK_BPE_BPE_CACHE_IN_H

#include "agent/tok/bpe/bpe_in.h"

#define CACHE_SETS	8192u
#define CACHE_WAYS	4u
#define CACHE_PIECE	15u		/* bytes of the longest short piece */
#define CACHE_IDS	4u
#define LONG_SETS	2048u
#define LONG_WAYS	8u
#define LONG_ROOM	124u		/* for bytes and ids of a long piece */
#define LONG_IDS	28u
#define OWNERS		16u		/* 0 is no vocabulary */

#define CACHED_ID	0xffffffu	/* ids are below 2^24 */

struct cached {
	uint64_t lo, hi;		/* hi == 0: empty, because no owner is 0 */
	uint32_t id[CACHE_IDS];		/* the last one also has their number << 24 */
};

struct cached_long {
	uint8_t data[LONG_ROOM];	/* the bytes; the ids end at its end */
	uint8_t len, n, owner, spare;	/* owner == 0: empty */
};

_Static_assert(sizeof(struct cached_long) == 128, "two cache lines");

struct piece_cache {
	_Alignas(64) struct cached few[CACHE_SETS * CACHE_WAYS];
	struct cached_long many[LONG_SETS * LONG_WAYS];
	uint64_t tags[LONG_SETS];	/* a byte for each entry of a set; 0: empty */
	uint8_t turn[LONG_SETS];	/* the entry that is replaced next */
	uint64_t print[OWNERS];		/* of the vocabulary of each owner; 0: none */
	uint32_t owner;			/* whose pieces count now */
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
	k.hi = (k.hi & byte_masks[16 + len]) | (uint64_t)owner << 60 | (uint64_t)len << 56;
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

/* Return the entry of a piece, or some other entry. Most sets of a new text need one cache line: an
 * empty entry is followed by empty ones. */
static inline const struct cached *cache_find(const struct piece_cache *c, struct piece k)
{
	const struct cached *set = &c->few[cache_place(k)], *e = set + !cache_is(set, k);

	if (__builtin_expect(cache_is(e, k) || e->hi == 0, 1))
		return e;
	return set + 2 + !cache_is(set + 2, k);
}

/* Copy the ids of an entry to <out>, with room for CACHE_IDS. Returns their end. */
static inline token_id *cache_copy(const struct cached *e, token_id *out)
{
	uint32_t n = e->id[CACHE_IDS - 1] >> 24;

	memcpy(out, e->id, sizeof(e->id));
	if (__builtin_expect(n == CACHE_IDS, 0))
		out[CACHE_IDS - 1] &= CACHED_ID;
	return out + n;
}

static inline void cache_put(struct piece_cache *c, struct piece k, const token_id *id, size_t n)
{
	struct cached *e = &c->few[cache_place(k)];
	size_t i;

	if (e[1].hi != 0) {
		e[3] = e[2];
		e[2] = e[1];
	}
	e[1] = e[0];
	e->lo = k.lo;
	e->hi = k.hi;
	for (i = 0; i < CACHE_IDS; i++)
		e->id[i] = i < n ? id[i] : 0;
	e->id[CACHE_IDS - 1] |= (uint32_t)n << 24;
}

/* Copy the ids of a long entry to <out>, with room for LONG_IDS. Returns their end. */
static inline token_id *long_copy(const struct cached_long *e, token_id *out)
{
	const uint8_t *from = e->data + LONG_ROOM - sizeof(*out) * e->n;
	token_id *end = out + e->n;

	for (; out < end; out += 2, from += 2 * sizeof(*out))	/* the rest is room behind them */
		memcpy(out, from, 2 * sizeof(*out));
	return end;
}

#endif

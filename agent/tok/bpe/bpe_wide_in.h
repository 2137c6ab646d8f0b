/* bpe_wide_in.h - the longest token at a character of three bytes: Chinese, Japanese, Hangul, Thai,
 * Devanagari, ...
 *
 * Its tokens are mostly one or two characters. Here one load by the character, and one by it and
 * the next, tell which; the tables of bpe_find_in.h would try a length after the other, each by a
 * hash of its bytes, with a jump that the text decides. Where a token of another length may start
 * with the same characters, those tables answer. */
#ifndef KVROUTE_TOK_BPE_BPE_WIDE_IN_H
#define KVROUTE_TOK_BPE_BPE_WIDE_IN_H

#include "agent/tok/bpe/bpe_in.h"

/* Values: a token, and: */
#define WIDE_TOKEN	(1u << 24)	/* there is one */
/* Of a character: tokens that these tables do not have start with it. Of a pair: longer tokens
 * start with it, which matters only if more than six bytes are left. The other tables tell. */
#define WIDE_MORE	(1u << 25)

/* Tell if the three bytes, or six, in the low bits of <w> have the form of such characters. */
#define WIDE_IS(w)	(((w) & 0xc0c0f0) == 0x8080e0)
#define WIDE_BOTH(w)	(((w) & 0xc0c0f0c0c0f0) == 0x8080e08080e0)

/* Return the character of three bytes: no two have the same number. */
static inline uint32_t wide_char(uint64_t w)
{
	return (uint32_t)((w & 0x0f) << 12 | (w >> 8 & 0x3f) << 6 | (w >> 16 & 0x3f));
}

static inline uint32_t wide_set(const struct bpe *b, uint32_t both)
{
	return (both * 0x9e3779b1u >> 8) & (b->head->n_wide - 1);
}

typedef uint32_t wide_ways __attribute__((vector_size(4 * WIDE_WAYS), may_alias));
typedef uint64_t wide_halves __attribute__((vector_size(4 * WIDE_WAYS)));
_Static_assert(WIDE_WAYS == 4, "wide_pair() joins two halves of two");

/* Return the value of two characters, or 0. Without jumps: the text decides them. */
static inline uint32_t wide_pair(const struct bpe *b, uint32_t both)
{
	const struct wide *s = &b->wide_by_pair[wide_set(b, both)];
	wide_ways is = (wide_ways)(*(const wide_ways *)(const void *)s->both == both);
	wide_halves hit = (wide_halves)(is & *(const wide_ways *)(const void *)s->value);
	uint64_t value = hit[0] | hit[1];

	return (uint32_t)(value | value >> 32);
}

/* Find as longest_find() if these tables can tell: set *f and return true. Otherwise return false
 * and leave *f unset. <n>: bytes of the text at <p>; <room>: bytes that may be read there. */
static inline bool wide_find(const struct bpe *b, const uint8_t *p, size_t n, size_t room,
    struct found *f)
{
	uint32_t first, value, pair, pair_mask;
	uint64_t w;

	if (n < 3 || room < sizeof(w))
		return false;
	memcpy(&w, p, sizeof(w));
	if (!WIDE_IS(w))
		return false;
	first = wide_char(w);
	value = b->wide_by_char[first];
	pair = wide_pair(b, first << 16 | wide_char(w >> 24));
	pair &= -(uint32_t)((n >= 6) & WIDE_BOTH(w));
	pair_mask = -(pair / WIDE_TOKEN & 1);
	if ((value & (WIDE_TOKEN | WIDE_MORE)) != WIDE_TOKEN || (pair & WIDE_MORE && n > 6))
		return false;
	f->n = 3 + (pair_mask & 3);
	f->sym = (value ^ ((value ^ pair) & pair_mask)) & SYM_NONE;
	return true;
}

/* ---- building: bpe_wide.c -------------------------------------------------------------------- */

/* Return how many sets the pairs of these tokens need: a power of two, at most 2^20. */
uint32_t wide_sets(const struct bpe_spec *spec);
/* Fill the tables, which must be zero. The other tables must know which tokens are SYM_ALONE. */
void wide_fill(const struct bpe *b, uint32_t *by_char, struct wide *by_pair);
/* Tell if no value leads outside of the tokens, or to one of another length. */
bool wide_holds(const struct bpe *b);

#endif

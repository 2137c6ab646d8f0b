/* chain.h - one hash for a space and all pages of a prefix: two agents with the same key have the
 * same one for the same pages.
 *
 *   H(0)  of the space
 *   H(d)  of H(g), where g is the last multiple of 16 before d, and pages g + 1 ... d
 *
 * The pages of a group are hashed each for itself, so that the processor works on several at once:
 * 1 ns a page in place of 3. Pages are keyed hashes already, so one multiplication each is
 * enough. */
#ifndef KVROUTE_BASE_CHAIN_H
#define KVROUTE_BASE_CHAIN_H

#include "agent/base/hash.h"

#define CHAIN_GROUP	16u

struct chain {
	uint64_t base;		/* H(g) */
	uint64_t sum;		/* of the pages after it */
	uint32_t n;		/* their number, below CHAIN_GROUP */
};

/* Return H(0). <space>: its two hashes. */
static inline uint64_t chain_start(const struct hash_key *k, const uint64_t space[2])
{
	return hash_mix(k, hash_mix(k, 41, space[0]), space[1]);
}

/* Return what page <i> of a group adds to its sum. */
static inline uint64_t chain_term(uint32_t i, page_key page)
{
	return hash_folded(page ^ 0xd6e8feb86659fd93ull, 0x9e3779b97f4a7c15ull * (2 * i + 1));
}

static inline uint64_t chain_end(uint64_t base, uint64_t sum)
{
	return hash_folded((base ^ sum) + 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull ^ base >> 1);
}

/* Return the hash after a whole group of <pages>. */
static inline uint64_t chain_group(uint64_t base, const page_key *pages)
{
	uint64_t sum = 0;

#pragma GCC unroll 16
	for (uint32_t i = 0; i < CHAIN_GROUP; i++)
		sum += chain_term(i, pages[i]);
	return chain_end(base, sum);
}

static inline void chain_add(struct chain *c, page_key page)
{
	c->sum += chain_term(c->n++, page);
	if (c->n == CHAIN_GROUP)
		*c = (struct chain){ .base = chain_end(c->base, c->sum) };
}

static inline uint64_t chain_hash(const struct chain *c)
{
	return c->n > 0 ? chain_end(c->base, c->sum) : c->base;
}

/* Return H(n) of <pages>. <groups>: the hashes after each whole group of them. */
static inline uint64_t chain_upto(
    uint64_t start, const uint64_t *groups, const page_key *pages, uint32_t n)
{
	uint32_t whole = n / CHAIN_GROUP;
	struct chain c = { .base = whole > 0 ? groups[whole - 1] : start };

	for (uint32_t i = whole * CHAIN_GROUP; i < n; i++)
		chain_add(&c, pages[i]);
	return chain_hash(&c);
}

#endif

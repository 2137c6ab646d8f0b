/* rng.h - pseudo-random numbers: xorshift64*, seeded by the caller. Not for secrets. */
#ifndef KVROUTE_BASE_RNG_H
#define KVROUTE_BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s;
};

static inline void rng_init(struct rng *r, uint64_t seed)
{
	r->s = seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull;
	if (r->s == 0)
		r->s = 1;
}

static inline uint64_t rng_next(struct rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dull;
}

/* Return a number from 0 to below 1. */
static inline double rng_unit(struct rng *r)
{
	return (double)(rng_next(r) >> 11) * 0x1p-53;
}

/* Return a number below <n>, or 0 if <n> is 0. The bias is below 2^-32 for the small <n> used
 * here. */
static inline uint32_t rng_below(struct rng *r, uint32_t n)
{
	return n ? (uint32_t)(((rng_next(r) >> 32) * n) >> 32) : 0;
}

#endif

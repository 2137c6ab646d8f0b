/* flood.h - messages crafted to have one hash: what somebody sends who wants tables to become
 * lists.
 *
 * Built from the published weaknesses of xxHash; each set is checked by flood_check() to do what it
 * says against the hash it is made for, or a test with it would show nothing.
 *
 *   seeded XXH64   a difference of 2^63 in one 8-byte lane is, after the multiplication and the
 *                  rotation by 31, one of +-2^30 * PRIME1, which the same lane of the next 32 bytes
 *                  can take back: right for half of all seeds, whatever they are. With 12 such
 *                  places, 4096 messages fall into few hashes under any seed (half of the places
 *                  right: 64 messages a hash).
 *   XXH3, page     of 64 bytes, each 16 are (8 bytes ^ constant) * (8 bytes ^ constant): where one
 *                  factor is 0 the other 8 bytes count for nothing.
 *   XXH3, long     behind any salt as data: lanes add (value) and (low half * high half of value ^
 *                  constant). With the low half 0, high halves can be moved between two stripes at
 *                  will.
 *
 * For unit tests and benches only. */
#ifndef TESTS_FLOOD_H
#define TESTS_FLOOD_H

#include <stdio.h>
#include <stdlib.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"

#define FLOOD_N		4096	/* messages of each set */
#define FLOOD_PLACES	12
#define FLOOD_MAX	512	/* bytes of one message */

enum flood_set { FLOOD_XXH64, FLOOD_PAGE, FLOOD_LONG, FLOOD_SETS, FLOOD_RANDOM = FLOOD_SETS };

static const char *const flood_names[] = { "xxh64", "xxh3_page", "xxh3_long", "random" };

/* What <p>, odd, must be multiplied with to give 1 modulo 2^64. */
static inline uint64_t flood_inverse(uint64_t p)
{
	uint64_t x = p;

	for (int i = 0; i < 6; i++)	/* Newton: bits double */
		x *= 2 - p * x;
	return x;
}

static inline uint64_t flood_get(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void flood_add(uint8_t *p, uint64_t d)
{
	uint64_t v = flood_get(p) + d;

	memcpy(p, &v, sizeof(v));
}

/* 6 stripes of 4 lanes: 3 pairs of stripes, so 12 places. Bit k of <i>: place k is changed. */
static inline size_t flood_xxh64(uint8_t *m, unsigned i)
{
	uint64_t back = (UINT64_C(1) << 30) * XXH_PRIME64_1 * flood_inverse(XXH_PRIME64_2);

	memset(m, 'x', 192);
	for (unsigned k = 0; k < FLOOD_PLACES; k++) {
		uint8_t *first = m + k / 4 * 64 + k % 4 * 8;

		if (i >> k & 1) {
			flood_add(first, UINT64_C(1) << 63);
			flood_add(first + 32, back);
		}
	}
	return 192;
}

/* Bytes that a JSON string carries as they are. Which constant meets which 16 bytes:
 * XXH3_len_17to128. */
static inline size_t flood_page(uint8_t *m, unsigned i)
{
	static const struct { uint8_t at, secret; } zero[4] = {
		{ 0, 0 }, { 16, 32 }, { 40, 56 }, { 48, 16 }
	};

	for (int k = 0; k < 64; k++)
		m[k] = (uint8_t)('a' + (i >> k % 3 * 4 & 15));
	for (int k = 0; k < 4; k++)
		memcpy(m + zero[k].at, XXH3_kSecret + zero[k].secret, 8);
	return 64;
}

/* 64 bytes of salt, then 5 stripes; stripes 1 and 2 trade high halves in lane 3. */
static inline size_t flood_long(uint8_t *m, unsigned i)
{
	uint32_t high = 0x5eed0000u + i * 2654435761u;
	uint64_t one, two;

	memset(m, 's', 64);
	memset(m + 64, 'x', 448);
	one = flood_get(XXH3_kSecret + 8 * (1 + 3)) & UINT32_MAX;
	two = flood_get(XXH3_kSecret + 8 * (2 + 3)) & UINT32_MAX;
	one |= (uint64_t)high << 32;
	two |= (uint64_t)(0u - high) << 32;
	memcpy(m + 64 + 24, &one, 8);
	memcpy(m + 128 + 24, &two, 8);
	return 512;
}

/* Message <i> of <set>, at most FLOOD_MAX bytes; returns how many. */
static inline size_t flood_message(enum flood_set set, unsigned i, uint8_t *m)
{
	struct rng rng;

	switch (set) {
	case FLOOD_XXH64:
		return flood_xxh64(m, i);
	case FLOOD_PAGE:
		return flood_page(m, i);
	case FLOOD_LONG:
		return flood_long(m, i);
	default:
		rng_init(&rng, i + 1);
		for (int k = 0; k < 64; k++)
			m[k] = (uint8_t)('a' + rng_below(&rng, 26));
		return 64;
	}
}

static inline int flood_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Of <n> hashes: how many have the commonest one; <*distinct>: how many there are. Sorts <h>. */
static inline unsigned flood_commonest(uint64_t *h, unsigned n, unsigned *distinct)
{
	unsigned most = 0, run = 0;

	qsort(h, n, sizeof(*h), flood_order);
	*distinct = 0;
	for (unsigned i = 0; i < n; i++) {
		run = i > 0 && h[i] == h[i - 1] ? run + 1 : 1;
		*distinct += run == 1;
		most = run > most ? run : most;
	}
	return most;
}

static inline uint64_t flood_weak(enum flood_set set, const uint8_t *m, size_t n, uint64_t seed)
{
	if (set == FLOOD_XXH64)
		return XXH64(m, n, seed);
	return XXH3_64bits(m, n);
}

/* How many hashes <set> has under the weak form it is made for. The salt of the long one is <seed>.
 */
static inline unsigned flood_check(enum flood_set set, uint64_t seed, unsigned *most)
{
	static uint64_t h[FLOOD_N];
	uint8_t m[FLOOD_MAX];
	unsigned distinct;

	for (unsigned i = 0; i < FLOOD_N; i++) {
		size_t n = flood_message(set, i, m);

		if (set == FLOOD_LONG)
			flood_add(m + 8, seed);
		h[i] = flood_weak(set, m, n, seed);
	}
	*most = flood_commonest(h, FLOOD_N, &distinct);
	return distinct;
}

#endif

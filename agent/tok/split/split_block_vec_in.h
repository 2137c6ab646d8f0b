/* split_block_vec_in.h - 64 bytes as registers, and comparisons of them that give a mask with a bit
 * for each byte. For split_block_in.h, with registers of 16 or 32 bytes as the compiler is told. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_BLOCK_VEC_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_BLOCK_VEC_IN_H

#include "agent/base/simd16.h"
#include "agent/tok/split/split_scan.h"

#ifdef __AVX2__
#include <immintrin.h>

struct block {
	__m256i v[2];
};

SCAN_INLINE struct block block_load(const uint8_t *p)
{
	const __m256i *q = (const void *)p;

	return (struct block){ { _mm256_loadu_si256(q), _mm256_loadu_si256(q + 1) } };
}

SCAN_INLINE uint64_t block_mask(__m256i a, __m256i b)
{
	return (uint32_t)_mm256_movemask_epi8(a) | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

SCAN_INLINE uint64_t block_high(const struct block *b)
{
	return block_mask(b->v[0], b->v[1]);
}

SCAN_INLINE uint64_t block_is(const struct block *b, uint8_t c)
{
	__m256i x = _mm256_set1_epi8((char)c);

	return block_mask(_mm256_cmpeq_epi8(b->v[0], x), _mm256_cmpeq_epi8(b->v[1], x));
}

/* Those in <first> .. <first> + <n> - 1 after <with> is set in them. */
SCAN_INLINE uint64_t block_in(const struct block *b, uint8_t with, uint8_t first, uint8_t n)
{
	__m256i set = _mm256_set1_epi8((char)with), add = _mm256_set1_epi8((char)(128 - first)),
		most = _mm256_set1_epi8((char)(n - 128));

	return block_mask(
	    _mm256_cmpgt_epi8(most, _mm256_add_epi8(_mm256_or_si256(b->v[0], set), add)),
	    _mm256_cmpgt_epi8(most, _mm256_add_epi8(_mm256_or_si256(b->v[1], set), add)));
}

#else

struct block {
	__m128i v[4];
};

SCAN_INLINE struct block block_load(const uint8_t *p)
{
	const __m128i *q = (const void *)p;

	return (struct block){ { _mm_loadu_si128(q), _mm_loadu_si128(q + 1), _mm_loadu_si128(q + 2),
	    _mm_loadu_si128(q + 3) } };
}

SCAN_INLINE uint64_t block_high(const struct block *b)
{
	return simd16_mask4(b->v[0], b->v[1], b->v[2], b->v[3]);
}

SCAN_INLINE uint64_t block_is(const struct block *b, uint8_t c)
{
	__m128i x = _mm_set1_epi8((char)c);

	return simd16_mask4(_mm_cmpeq_epi8(b->v[0], x), _mm_cmpeq_epi8(b->v[1], x),
	    _mm_cmpeq_epi8(b->v[2], x), _mm_cmpeq_epi8(b->v[3], x));
}

SCAN_INLINE __m128i block_in16(__m128i v, uint8_t with, uint8_t first, uint8_t n)
{
	v = _mm_add_epi8(_mm_or_si128(v, _mm_set1_epi8((char)with)), _mm_set1_epi8((char)(128 - first)));
	return _mm_cmplt_epi8(v, _mm_set1_epi8((char)(n - 128)));
}

SCAN_INLINE uint64_t block_in(const struct block *b, uint8_t with, uint8_t first, uint8_t n)
{
	return simd16_mask4(block_in16(b->v[0], with, first, n), block_in16(b->v[1], with, first, n),
	    block_in16(b->v[2], with, first, n), block_in16(b->v[3], with, first, n));
}
#endif

/* Write the places of the bits, plus <at>. There is room for 64. Returns their number. */
SCAN_INLINE uint32_t block_places(uint64_t bits, uint32_t at, uint32_t *to)
{
	uint32_t n = 0;

#ifdef __BMI__		/* more than there are, and count: fewer jumps that depend on the text */
	uint32_t all = (uint32_t)__builtin_popcountll(bits), i;

	do {
		for (i = 0; i < 8; i++, bits &= bits - 1)
			to[n + i] = at + (uint32_t)_tzcnt_u64(bits);
	} while ((n += 8) < all);
	return all;
#else
	for (; bits != 0; bits &= bits - 1)
		to[n++] = at + (uint32_t)__builtin_ctzll(bits);
	return n;
#endif
}

#endif

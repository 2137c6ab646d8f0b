/* simd16.h - 16 bytes at a time, on x86-64 and arm64.
 *
 * Sources are written with the names of SSE2, which every x86-64 has. On arm64 this header gives
 * the few that are used the same meaning with NEON, which every arm64 has. SIMD16 is 1 where they
 * exist; elsewhere it is 0, and sources have a loop by the byte or word.
 *
 * NEON has no instruction that collects the highest bits of all bytes, so _mm_movemask_epi8() takes
 * about four: loops should ask for a mask once a block. */
#ifndef KVROUTE_BASE_SIMD16_H
#define KVROUTE_BASE_SIMD16_H

#include <stdint.h>

#if defined(__SSE2__)
#define SIMD16	1
#include <emmintrin.h>

#elif defined(__aarch64__) && defined(__ARM_NEON)
#define SIMD16	1
#include <arm_neon.h>

typedef uint8x16_t __m128i;

#define SIMD16_AS(v)	vreinterpretq_s8_u8(v)

static inline __m128i _mm_setzero_si128(void)
{
	return vdupq_n_u8(0);
}

static inline __m128i _mm_set1_epi8(char c)
{
	return vdupq_n_u8((uint8_t)c);
}

static inline __m128i _mm_loadu_si128(const __m128i *p)
{
	return vld1q_u8((const uint8_t *)p);
}

static inline void _mm_storeu_si128(__m128i *p, __m128i v)
{
	vst1q_u8((uint8_t *)p, v);
}

static inline __m128i _mm_or_si128(__m128i a, __m128i b)
{
	return vorrq_u8(a, b);
}

static inline __m128i _mm_and_si128(__m128i a, __m128i b)
{
	return vandq_u8(a, b);
}

static inline __m128i _mm_andnot_si128(__m128i a, __m128i b)
{
	return vbicq_u8(b, a);
}

static inline __m128i _mm_add_epi8(__m128i a, __m128i b)
{
	return vaddq_u8(a, b);
}

static inline __m128i _mm_sub_epi8(__m128i a, __m128i b)
{
	return vsubq_u8(a, b);
}

static inline __m128i _mm_subs_epu8(__m128i a, __m128i b)
{
	return vqsubq_u8(a, b);
}

static inline __m128i _mm_min_epu8(__m128i a, __m128i b)
{
	return vminq_u8(a, b);
}

static inline __m128i _mm_cmpeq_epi8(__m128i a, __m128i b)
{
	return vceqq_u8(a, b);
}

static inline __m128i _mm_cmplt_epi8(__m128i a, __m128i b)
{
	return vcltq_s8(SIMD16_AS(a), SIMD16_AS(b));
}

static inline __m128i _mm_cmpgt_epi8(__m128i a, __m128i b)
{
	return vcgtq_s8(SIMD16_AS(a), SIMD16_AS(b));
}

/* <n> is a constant. */
#define _mm_slli_si128(v, n)	vextq_u8(vdupq_n_u8(0), v, 16 - (n))
#define _mm_srli_si128(v, n)	vextq_u8(v, vdupq_n_u8(0), n)

/* Give each byte the bit of its place, and add up each half. */
static inline int _mm_movemask_epi8(__m128i v)
{
	static const uint8_t place[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
	uint8x16_t high = vcltq_s8(SIMD16_AS(v), vdupq_n_s8(0)), bit = vandq_u8(high, vld1q_u8(place));

	return vaddv_u8(vget_low_u8(bit)) | vaddv_u8(vget_high_u8(bit)) << 8;
}

/* As below. */
static inline uint64_t simd16_mask4(__m128i a, __m128i b, __m128i c, __m128i d)
{
	static const uint8_t place[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
	uint8x16_t bit = vld1q_u8(place), ab, cd;

	ab = vpaddq_u8(vandq_u8(vcltq_s8(SIMD16_AS(a), vdupq_n_s8(0)), bit),
	    vandq_u8(vcltq_s8(SIMD16_AS(b), vdupq_n_s8(0)), bit));
	cd = vpaddq_u8(vandq_u8(vcltq_s8(SIMD16_AS(c), vdupq_n_s8(0)), bit),
	    vandq_u8(vcltq_s8(SIMD16_AS(d), vdupq_n_s8(0)), bit));
	ab = vpaddq_u8(ab, cd);
	return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(ab, ab)), 0);
}

#else
#define SIMD16	0
#endif

#ifdef __SSE2__
/* Return the highest bits of 64 bytes. */
static inline uint64_t simd16_mask4(__m128i a, __m128i b, __m128i c, __m128i d)
{
	return (uint32_t)_mm_movemask_epi8(a) | (uint32_t)_mm_movemask_epi8(b) << 16 |
	    (uint64_t)((uint32_t)_mm_movemask_epi8(c) | (uint32_t)_mm_movemask_epi8(d) << 16) << 32;
}
#endif

#endif

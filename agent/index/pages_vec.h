/* pages_vec.h - the widest vectors of 64-bit lanes that the compiler's flags allow, and the few things that
 * hashing does with them. VEC_N of them are 64 bytes; without VEC_N there are none. */
#ifndef KVROUTE_INDEX_PAGES_VEC_H
#define KVROUTE_INDEX_PAGES_VEC_H

#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define VEC_N		1
#define VEC(name)	_mm512_##name
#define VEC_BITS(name)	_mm512_##name##_si512
typedef __m512i vec;
#elif defined(__AVX2__)
#include <immintrin.h>
#define VEC_N		2
#define VEC(name)	_mm256_##name
#define VEC_BITS(name)	_mm256_##name##_si256
typedef __m256i vec;
#elif defined(__SSE2__) && defined(__x86_64__)
#include <emmintrin.h>
#define VEC_N		4
#define VEC(name)	_mm_##name
#define VEC_BITS(name)	_mm_##name##_si128
typedef __m128i vec;
#endif

#ifdef VEC_N
static inline vec vec_load(const void *p)
{
	return VEC_BITS(loadu)((const void *)p);
}

static inline void vec_store(void *p, vec a)
{
	VEC_BITS(storeu)((void *)p, a);
}

static inline vec vec_all(uint64_t x)
{
#if VEC_N == 1
	return _mm512_set1_epi64((int64_t)x);
#else
	return VEC(set1_epi64x)((int64_t)x);
#endif
}

static inline vec vec_add(vec a, vec b)
{
	return VEC(add_epi64)(a, b);
}

static inline vec vec_xor(vec a, vec b)
{
	return VEC_BITS(xor)(a, b);
}

static inline vec vec_right(vec a, unsigned bits)
{
	return VEC(srli_epi64)(a, bits);
}

static inline vec vec_left(vec a, unsigned bits)
{
	return VEC(slli_epi64)(a, bits);
}

/* Of each lane the lower half: their products. */
static inline vec vec_mul(vec a, vec b)
{
	return VEC(mul_epu32)(a, b);
}

/* Lanes 0 and 1, 2 and 3, ... change places. */
static inline vec vec_swap(vec a)
{
	return VEC(shuffle_epi32)(a, 0x4e);
}

/* <a> is wanted in a register now: gcc else makes trees of long sums, and keeps their leaves on the stack. */
static inline void vec_keep(vec *a)
{
#if VEC_N == 1
	__asm__("" : "+v"(*a));
#else
	__asm__("" : "+x"(*a));
#endif
}
#endif

#endif

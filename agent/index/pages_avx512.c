/* pages_avx512.c - with AVX-512 F and DQ: 64 bytes of a chunk a step, and eight pages of 64 bytes a step.
 * Elsewhere than on x86-64 a table that pages.c never gives out. */
#define PAGES_OPS	pages_ops_avx512
#define PAGES_ISA	"avx512"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>

#include "agent/base/hash.h"

#define PAGES_LANES	8

struct lanes {
	__m512i secret;		/* as the four times 16 bytes of a page meet it */
};

static inline void lanes_init(struct lanes *l, const struct hash_key *k)
{
	__m512i s = _mm512_loadu_si512(k->secret);

	l->secret = _mm512_shuffle_i64x2(s, s, _MM_SHUFFLE(1, 3, 2, 0));
}

/* Each a * b to 128 bits, the upper half ^ the lower half: there is no such instruction, so four products of
 * 32 bits and what they carry. */
static inline __m512i lanes_fold(__m512i a, __m512i b)
{
	const __m512i low = _mm512_set1_epi64(0xffffffff);
	__m512i ah = _mm512_srli_epi64(a, 32), bh = _mm512_srli_epi64(b, 32);
	__m512i ll = _mm512_mul_epu32(a, b), lh = _mm512_mul_epu32(a, bh);
	__m512i hl = _mm512_mul_epu32(ah, b), hh = _mm512_mul_epu32(ah, bh);
	__m512i mid = _mm512_add_epi64(hl, _mm512_srli_epi64(ll, 32));	/* at most 2^64 - 2^32: no carry */
	__m512i cross = _mm512_add_epi64(lh, _mm512_and_si512(mid, low));
	__m512i upper = _mm512_add_epi64(_mm512_add_epi64(hh, _mm512_srli_epi64(mid, 32)),
					 _mm512_srli_epi64(cross, 32));
	__m512i lower = _mm512_mask_shuffle_epi32(ll, 0xaaaa, cross, _MM_PERM_CCAA);

	return _mm512_xor_si512(upper, lower);
}

/* Two pages: four times 128 bits, each with one product of the first page and one of the second. */
static inline __m512i lanes_two(const struct lanes *l, const uint8_t *p)
{
	__m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), l->secret);
	__m512i b = _mm512_xor_si512(_mm512_loadu_si512(p + 64), l->secret);

	return lanes_fold(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Sums of neighbours of 128 bits: x0+x1 x2+x3 y0+y1 y2+y3. */
static inline __m512i lanes_add(__m512i x, __m512i y)
{
	return _mm512_add_epi64(_mm512_shuffle_i64x2(x, y, _MM_SHUFFLE(2, 0, 2, 0)),
				_mm512_shuffle_i64x2(x, y, _MM_SHUFFLE(3, 1, 3, 1)));
}

static inline __m512i lanes_eight(const struct lanes *l, const uint8_t *p)
{
	__m512i x = lanes_add(lanes_two(l, p), lanes_two(l, p + 128));
	__m512i y = lanes_add(lanes_two(l, p + 256), lanes_two(l, p + 384));
	__m512i h = _mm512_add_epi64(lanes_add(x, y), _mm512_set1_epi64((int64_t)(64 * XXH_PRIME64_1)));

	h = _mm512_xor_si512(h, _mm512_srli_epi64(h, 37));
	h = _mm512_mullo_epi64(h, _mm512_set1_epi64((int64_t)0x165667919E3779F9));
	return _mm512_xor_si512(h, _mm512_srli_epi64(h, 32));
}

static inline void lanes_keys(const struct lanes *l, const uint8_t *p, page_key *out)
{
	_mm512_storeu_si512(out, lanes_eight(l, p));
}

static inline unsigned lanes_other(const struct lanes *l, const uint8_t *p, const page_key *keys)
{
	return _mm512_cmpneq_epi64_mask(lanes_eight(l, p), _mm512_loadu_si512(keys));
}
#endif

#include "agent/index/pages_isa.h"

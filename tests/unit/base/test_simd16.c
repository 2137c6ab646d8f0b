/* test_simd16.c - each operation on 16 bytes against the same by the byte: on arm64 it is NEON
 * under the names of SSE2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "agent/base/rng.h"
#include "agent/base/simd16.h"

#if SIMD16
#define ROUNDS	20000

static __m128i load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static void assert_bytes(__m128i v, const uint8_t *want)
{
	uint8_t got[16];

	_mm_storeu_si128((__m128i *)(void *)got, v);
	assert_memory_equal(got, want, 16);
}

/* Fill with bytes of which many are equal, or at a limit of signed or unsigned numbers. */
static void fill(struct rng *r, uint8_t *p)
{
	static const uint8_t edge[] = { 0, 1, 0x7e, 0x7f, 0x80, 0x81, 0xbf, 0xc0, 0xfe, 0xff };

	for (unsigned i = 0; i < 16; i++)
		p[i] = rng_below(r, 2) ? edge[rng_below(r, sizeof(edge))] : (uint8_t)rng_below(r, 256);
}

#define EACH(expr) do { \
	for (unsigned i = 0; i < 16; i++) \
		want[i] = (uint8_t)(expr); \
} while (0)

static void check_pair(const uint8_t *a, const uint8_t *b)
{
	__m128i x = load(a), y = load(b);
	uint8_t want[16];
	int mask = 0;

	EACH(a[i] | b[i]);
	assert_bytes(_mm_or_si128(x, y), want);
	EACH(a[i] & b[i]);
	assert_bytes(_mm_and_si128(x, y), want);
	EACH(~a[i] & b[i]);
	assert_bytes(_mm_andnot_si128(x, y), want);
	EACH(a[i] + b[i]);
	assert_bytes(_mm_add_epi8(x, y), want);
	EACH(a[i] - b[i]);
	assert_bytes(_mm_sub_epi8(x, y), want);
	EACH(a[i] > b[i] ? a[i] - b[i] : 0);
	assert_bytes(_mm_subs_epu8(x, y), want);
	EACH(a[i] < b[i] ? a[i] : b[i]);
	assert_bytes(_mm_min_epu8(x, y), want);
	EACH(a[i] == b[i] ? 0xff : 0);
	assert_bytes(_mm_cmpeq_epi8(x, y), want);
	EACH((int8_t)a[i] < (int8_t)b[i] ? 0xff : 0);
	assert_bytes(_mm_cmplt_epi8(x, y), want);
	EACH((int8_t)a[i] > (int8_t)b[i] ? 0xff : 0);
	assert_bytes(_mm_cmpgt_epi8(x, y), want);
	for (unsigned i = 0; i < 16; i++)
		mask |= (a[i] >> 7) << i;
	assert_int_equal(_mm_movemask_epi8(x), mask);
}

static void pairs(void **state)
{
	struct rng r;
	uint8_t a[16], b[16];

	rng_init(&r, 1);
	for (unsigned n = 0; n < ROUNDS; n++) {
		fill(&r, a);
		fill(&r, b);
		check_pair(a, b);
	}
}

static void shifts(void **state)
{
	uint8_t a[16], want[16];

	for (unsigned i = 0; i < 16; i++)
		a[i] = (uint8_t)(i + 1);
	EACH(i < 1 ? 0 : a[i - 1]);
	assert_bytes(_mm_slli_si128(load(a), 1), want);
	EACH(i < 3 ? 0 : a[i - 3]);
	assert_bytes(_mm_slli_si128(load(a), 3), want);
	EACH(i > 0 ? 0 : a[15]);
	assert_bytes(_mm_srli_si128(load(a), 15), want);
	EACH(i > 2 ? 0 : a[i + 13]);
	assert_bytes(_mm_srli_si128(load(a), 13), want);
	EACH(0);
	assert_bytes(_mm_setzero_si128(), want);
	EACH(0xe2);
	assert_bytes(_mm_set1_epi8((char)0xe2), want);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pairs), cmocka_unit_test(shifts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	puts("skipped: simd16.h has nothing for this CPU");
	return 0;
}
#endif

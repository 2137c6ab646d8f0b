/* test_histogram.c - each value is in its bucket, with the last request that gave one there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/base/histogram.h"

static const uint32_t bounds[HISTOGRAM_BUCKETS - 1] = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 100,
};

static void a_bound_is_in_its_own_bucket(void **state)
{
	static const struct { uint64_t v; unsigned bucket; } cases[] = {
		{ 0, 0 }, { 1, 0 }, { 2, 1 }, { 14, 13 }, { 15, 14 }, { 100, 14 }, { 101, 15 },
		{ UINT64_MAX, 15 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct histogram h = { .sum = 0 };

		histogram_add(&h, bounds, cases[i].v, 7);
		for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
			assert_int_equal(h.bucket[b], b == cases[i].bucket);
			assert_int_equal(h.who[b], b == cases[i].bucket ? 7 : 0);
		}
		assert_true(h.sum == cases[i].v && h.value[cases[i].bucket] == cases[i].v);
	}
}

static void sums_of_threads_have_the_latest_request(void **state)
{
	struct histogram a = { .sum = 0 }, b = { .sum = 0 }, all = { .sum = 0 };

	(void)state;
	histogram_add(&a, bounds, 2, 41);
	histogram_add(&a, bounds, 50, 10);
	histogram_add(&b, bounds, 2, 17);
	histogram_add(&b, bounds, 60, 22);
	histogram_add(&b, bounds, 61, 0);	/* counts, and names no one */
	histogram_merge(&all, &a);
	histogram_merge(&all, &b);
	assert_int_equal(all.sum, 2 + 50 + 2 + 60 + 61);
	assert_int_equal(all.bucket[1], 2);
	assert_int_equal(all.who[1], 41);
	assert_int_equal(all.bucket[14], 3);
	assert_int_equal(all.who[14], 22);
	assert_int_equal(all.value[14], 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bound_is_in_its_own_bucket),
		cmocka_unit_test(sums_of_threads_have_the_latest_request),
	};

	return cmocka_run_group_tests_name("base/histogram", tests, NULL, NULL);
}

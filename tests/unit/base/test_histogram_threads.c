/* test_histogram_threads.c - one thread writes while another reads: a request always has its own
 * value. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/base/histogram.h"

#define ROUNDS	200000u

static const uint32_t bounds[HISTOGRAM_BUCKETS - 1] = { 0 };
static struct histogram shared;
static uint32_t stop;

/* All values are in the last bucket, and each is the same as its request. */
static void *reader(void *arg)
{
	uint64_t wrong = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		struct histogram h = { .sum = 0 };

		histogram_merge(&h, &shared);
		wrong += h.who[HISTOGRAM_BUCKETS - 1] != h.value[HISTOGRAM_BUCKETS - 1];
	}
	*(uint64_t *)arg = wrong;
	return NULL;
}

static void a_request_has_its_own_value(void **state)
{
	uint64_t wrong = 1;
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, reader, &wrong), 0);
	for (uint64_t i = 1; i <= ROUNDS; i++)
		histogram_add(&shared, bounds, i, i);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(shared.bucket[HISTOGRAM_BUCKETS - 1], ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_request_has_its_own_value) };

	return cmocka_run_group_tests_name("base/histogram_threads", tests, NULL, NULL);
}

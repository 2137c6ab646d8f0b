/* test_arena_threads.c - readers without a lock over payloads that come and go: for
 * ThreadSanitizer, and for the promise that a stale ref never faults. An owner writes its payload
 * with atomics, as nodes do; the arena's own writes there must be no race either. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/arena_in.h"

#define PLACES	256u
#define READERS	2
#define ROUNDS	100000u
#define BYTES	((size_t)65536)

struct shared {
	struct region r;
	arena_ref place[PLACES];	/* refs of blocks, which may be freed by the time a reader follows them */
	unsigned ready;			/* readers that have seen enough */
	uint64_t sum;
	int stop;
};

static void *read_on(void *arg)
{
	struct shared *s = arg;
	unsigned seen = 0;
	uint64_t sum = 0;
	struct rng rng;

	rng_init(&rng, (uintptr_t)&rng);
	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		arena_ref ref = __atomic_load_n(&s->place[rng_below(&rng, PLACES)], __ATOMIC_ACQUIRE);
		const uint64_t *p = region_at(&s->r, ref);

		if (ref != 0 && ++seen == ROUNDS)
			__atomic_fetch_add(&s->ready, 1, __ATOMIC_RELAXED);
		for (unsigned i = 0; ref != 0 && i < 8; i++)
			if ((const uint8_t *)(p + i) < s->r.base + s->r.bytes)
				sum += __atomic_load_n(&p[i], __ATOMIC_RELAXED);
	}
	__atomic_store_n(&s->sum, sum, __ATOMIC_RELAXED);	/* so that the reads are not optimized away */
	return NULL;
}

static void stale_readers(void **state)
{
	pthread_t thread[READERS];
	struct shared s = { 0 };
	struct arena a;
	struct rng rng;

	rng_init(&rng, 1);
	assert_int_equal(region_take(&s.r, BYTES, true), 0);
	arena_init(&a, &s.r, 0, BYTES);
	for (unsigned i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_on, &s), 0);
	for (unsigned k = 0; k < ROUNDS || __atomic_load_n(&s.ready, __ATOMIC_RELAXED) < READERS; k++) {
		arena_ref *place = &s.place[rng_below(&rng, PLACES)], ref;

		arena_free(&a, *place);		/* readers may still have it */
		if ((ref = arena_alloc(&a, 1 + rng_below(&rng, 600))) != 0)
			for (uint64_t *p = region_at(&s.r, ref); p < (uint64_t *)region_at(&s.r, ref) + 3; p++)
				__atomic_store_n(p, k, __ATOMIC_RELAXED);
		__atomic_store_n(place, ref, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&s.stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < READERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_null(arena_check(&a));
	region_give(&s.r);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stale_readers) };

	return cmocka_run_group_tests_name("arena threads", tests, NULL, NULL);
}

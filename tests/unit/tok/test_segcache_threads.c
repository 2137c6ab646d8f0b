/* test_segcache_threads.c - several threads share one cache: every hit gives the right ids, and the
 * counters add up. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/tok/segcache.h"
#include "tests/unit/tok/secret.h"

#define THREADS	4
#define ROUNDS	15000u
#define MOST	200u

struct work {
	struct segcache *c;
	uint64_t seed;
	uint64_t lookups, wrong, hits;
};

static token_id id_of(uint64_t number, size_t i)
{
	return (token_id)(number * 1000003 + i);
}

static void one(struct work *w, struct ids *out, uint64_t number)
{
	struct segcache_key k = segcache_key(w->c, (struct segcache_scope){ 1, number % 3 },
	    span_of(&number, 8), false);
	size_t n = number % MOST;
	token_id ids[MOST];

	out->n = 0;
	w->lookups++;
	if (segcache_get(w->c, &k, out) == 1) {
		w->hits++;
		w->wrong += out->n != n;
		for (size_t i = 0; i < out->n; i++)
			w->wrong += out->p[i] != id_of(number, i);
		return;
	}
	for (size_t i = 0; i < n; i++)
		ids[i] = id_of(number, i);
	segcache_put(w->c, &k, ids, n);
}

static void *run(void *arg)
{
	struct work *w = arg;
	struct segcache_stats st;
	struct ids out = { 0 };
	struct rng r;

	rng_init(&r, w->seed);
	for (unsigned i = 0; i < ROUNDS; i++) {
		one(w, &out, rng_below(&r, 1 + rng_below(&r, 1000)));
		if (i % 1000 == 0)
			segcache_stats(w->c, &st);
	}
	ids_free(&out);
	return NULL;
}

static void mix(size_t bytes)
{
	struct segcache_opts o = { .max_bytes = bytes, .threads = THREADS };
	struct hash_key key = secret_key();
	struct segcache *c = segcache_new(&o, &key);
	struct work w[THREADS];
	pthread_t t[THREADS];
	struct segcache_stats st;
	uint64_t lookups = 0, hits = 0;

	assert_non_null(c);
	for (unsigned i = 0; i < THREADS; i++) {
		w[i] = (struct work){ .c = c, .seed = i + 1 };
		assert_int_equal(pthread_create(&t[i], NULL, run, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(w[i].wrong, 0);
		lookups += w[i].lookups;
		hits += w[i].hits;
	}
	segcache_stats(c, &st);
	assert_int_equal(st.hits, hits);
	assert_int_equal(st.hits + st.misses, lookups);
	assert_int_equal(st.stored - st.evicted, st.entries);
	assert_true(hits > lookups / 100);
	segcache_free(c);
}

static void one_small_shard(void **state)
{
	mix(SEGCACHE_LEAST);
}

static void many_shards(void **state)
{
	mix(8 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_small_shard),
		cmocka_unit_test(many_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

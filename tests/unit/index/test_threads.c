/* test_threads.c - readers and writers on the same hot prefix; run it under ThreadSanitizer too.
 *
 * Each thread has a server of its own that it commits, confirms, cancels and drops, and matches in
 * between: with nobody else touching its server, what it finds of it must be what it left. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/index.h"

#define WRITERS	3
#define READERS	2
#define STEPS	20000
#define HOT	8		/* pages that every prompt starts with */
#define LEN	16

static const struct space_key sp = { .h = { 1, 2 } };

struct worker {
	pthread_t thread;
	struct index *ix;
	unsigned id, wrong, refused;
	atomic_bool *stop;
};

static void make(struct rng *rng, page_key *p)
{
	unsigned i;

	for (i = 0; i < LEN; i++)
		p[i] = i < HOT ? i : rng_below(rng, 3);
}

static void *write_some(void *arg)
{
	struct worker *w = arg;
	struct index_match m;
	struct rng rng;
	page_key p[LEN];
	index_claim c;
	unsigned i;

	rng_init(&rng, w->id + 1);
	if (index_match_init(&m) < 0)
		return w;
	for (i = 0; i < STEPS; i++) {
		make(&rng, p);
		index_match(w->ix, &sp, p, LEN, &m);
		c = index_commit(w->ix, &sp, p, LEN, &m, (server_id)w->id, i);
		index_match(w->ix, &sp, p, LEN, &m);
		if (c == 0)		/* what was freed waits for a reader that has lost its CPU */
			w->refused++;
		else
			w->wrong += index_match_depth(&m, (server_id)w->id) != LEN;
		if (rng_below(&rng, 2))
			index_confirm(w->ix, c, i);
		else
			index_cancel(w->ix, c);
		if (rng_below(&rng, 50) > 0)
			continue;
		index_drop_server(w->ix, (server_id)w->id);
		index_match(w->ix, &sp, p, LEN, &m);
		w->wrong += index_match_depth(&m, (server_id)w->id) != 0;
	}
	index_match_fini(&m);
	return NULL;
}

static void *read_some(void *arg)
{
	struct worker *w = arg;
	struct index_match m;
	struct index_stats st;
	struct rng rng;
	page_key p[LEN];
	unsigned i;

	rng_init(&rng, w->id + 100);
	if (index_match_init(&m) < 0)
		return w;
	while (!atomic_load(w->stop)) {
		make(&rng, p);
		index_match(w->ix, &sp, p, LEN, &m);
		for (i = 0; i < m.n_bands; i++)
			w->wrong += m.bands[i].depth == 0 || m.bands[i].depth > LEN ||
				    (i > 0 && m.bands[i].depth >= m.bands[i - 1].depth);
		index_stats(w->ix, &st);
		w->wrong += st.bytes > st.max_bytes;
	}
	index_match_fini(&m);
	return NULL;
}

static void readers_and_writers_on_a_hot_prefix(void **state)
{
	struct index_opts o = { .max_bytes = 4 << 20, .max_pages = 65536 };
	struct worker w[WRITERS + READERS];
	atomic_bool stop = false;
	struct index_stats st;
	unsigned i, refused = 0;
	void *failed;

	for (i = 0; i < WRITERS + READERS; i++)
		w[i] = (struct worker){ .id = i, .stop = &stop };
	assert_non_null(w[0].ix = index_new(&o));
	for (i = 0; i < WRITERS + READERS; i++) {
		w[i].ix = w[0].ix;
		assert_int_equal(pthread_create(&w[i].thread, NULL,
						i < WRITERS ? write_some : read_some, &w[i]), 0);
	}
	for (i = 0; i < WRITERS + READERS; i++) {
		if (i == WRITERS)
			atomic_store(&stop, true);
		assert_int_equal(pthread_join(w[i].thread, &failed), 0);
		assert_null(failed);
	}
	for (i = 0; i < WRITERS + READERS; i++) {
		assert_int_equal(w[i].wrong, 0);
		refused += w[i].refused;
	}
	index_stats(w[0].ix, &st);
	assert_int_equal(refused, st.refused);
	assert_true(refused < WRITERS * STEPS / 20);
	assert_null(index_check(w[0].ix));
	index_free(w[0].ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(readers_and_writers_on_a_hot_prefix) };

	return cmocka_run_group_tests_name("index threads", tests, NULL, NULL);
}

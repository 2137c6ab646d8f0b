/* test_places_threads.c - threads that commit from places in a tree that all of them change. For
 * ThreadSanitizer above all. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/place.h"
#include "tests/lib/index/index_test.h"

#define LONGEST	1200
#define THREADS	4
#ifdef __SANITIZE_THREAD__
#define TURNS	1500
#else
#define TURNS	10000
#endif

static const struct space_key space = { .h = { 1, 2 }, .page_room = 16 };

struct worker {
	pthread_t thread;
	struct index *ix;
	unsigned id, wrong, from;
};

/* Add runs of pages from few pieces, so that prompts branch from each other anywhere. */
static uint32_t add_pages(struct rng *rng, page_key *pages, uint32_t n, uint32_t most)
{
	while (n < most) {
		uint32_t len = 1 + rng_below(rng, 200), piece = rng_below(rng, 3);

		for (uint32_t i = 0; i < len && n < most; i++)
			pages[n++] = 1000 * piece + i;
	}
	return n;
}

/* Conversations of a server of its own, in a tree that all change. */
static void *converse(void *arg)
{
	struct worker *w = arg;
	page_key pages[LONGEST], given[LONGEST];
	struct index_place at = { 0 }, end;
	struct index_match m;
	index_claim c = 0, before = 0;
	struct rng rng;
	uint32_t n = 0;

	rng_init(&rng, w->id + 1);
	if (index_match_init(&m) < 0)
		return w;
	for (unsigned i = 0; i < TURNS; i++, before = c) {
		if (n > LONGEST - 100 || rng_below(&rng, 20) == 0 || at.node == 0)
			n = at.node = 0;
		n = add_pages(&rng, pages, n, n + 1 + rng_below(&rng, 60));
		memcpy(given, pages, n * sizeof(*pages));
		memset(given, 0xbd, at.node != 0 ? at.depth * sizeof(*pages) : 0);
		if (at.node != 0 && index_commit_from(w->ix, &space, at, given, n, (server_id)w->id,
					i, 0, &c, &end))
			w->from++;
		else
			c = index_commit_at(
			    w->ix, &space, pages, n, NULL, (server_id)w->id, i, 0, &end);
		index_match(w->ix, &space, pages, n, &m);
		w->wrong += c != 0 && index_match_depth(&m, (server_id)w->id) != n;
		if (rng_below(&rng, 4) == 0)
			index_cancel(w->ix, before);
		else
			index_confirm(w->ix, before, i);
		at = c != 0 ? end : (struct index_place){ 0 };
	}
	index_match_fini(&m);
	return NULL;
}

static void several_threads(void **state)
{
	struct index_opts o;
	struct worker w[THREADS] = { 0 };
	unsigned from = 0;
	void *failed;

	index_defaults(&o);
	o.max_bytes = 64 << 20;
	assert_non_null(w[0].ix = index_new(&o));
	for (unsigned i = 0; i < THREADS; i++) {
		w[i].id = i;
		w[i].ix = w[0].ix;
		assert_int_equal(pthread_create(&w[i].thread, NULL, converse, &w[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(w[i].thread, &failed), 0);
		assert_null(failed);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(w[i].wrong, 0);
		from += w[i].from;
	}
	assert_true(from > THREADS * TURNS / 10);
	assert_null(index_check(w[0].ix));
	index_free(w[0].ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

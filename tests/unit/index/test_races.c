/* test_races.c - claims of the same servers end while others split, join, extend and cut the same
 * nodes.
 *
 * Prompts are short and of two different pages, so nodes are made and removed all the time, and the
 * same page comes at any depth: a reader that goes on from an old node finds other nodes that begin
 * with the page it searches.
 *
 * Between two steps only locks are released, so that is where a thread loses its CPU here. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/index.h"
#include "tests/lib/index/index_test.h"

/* The file itself, in place of the one in the library. */
#define shards_unlock	shards_unlock_at_once
#include "agent/index/lock.c"
#undef shards_unlock

void shards_unlock(struct index *ix, uint64_t mask);

void shards_unlock(struct index *ix, uint64_t mask)
{
	static _Thread_local unsigned n;

	shards_unlock_at_once(ix, mask);
	if (mask != 0 && (n = n * 1103515245 + 12345) >> 29 == 0)
		sched_yield();
}

#define WRITERS	3
#define READERS	1
#define STEPS	60
#define ROUNDS	25
#define LEN	24
#define SERVERS	2
#define OPEN	8		/* claims that a writer keeps open */

static const struct space_key sp = { .h = { 3, 4 } };

struct worker {
	pthread_t thread;
	struct index *ix;
	unsigned id, wrong;
	atomic_bool *stop;
};

/* Mostly one page, so that prompts differ late or not at all. */
static unsigned make(struct rng *rng, page_key *p)
{
	unsigned i, n = 1 + (unsigned)rng_below(rng, LEN);

	for (i = 0; i < n; i++)
		p[i] = rng_below(rng, 6) == 0 ? 8 : 7;
	return n;
}

static void end(struct index *ix, struct rng *rng, index_claim c, unsigned now)
{
	unsigned how = (unsigned)rng_below(rng, 8);

	if (how == 0)
		index_confirm(ix, c, now);
	else if (how == 1)
		index_confirm_at(ix, c, (server_id)rng_below(rng, SERVERS), now);
	else
		index_cancel(ix, c);
}

/* Other threads soon release what they work on. */
static bool drop(struct index *ix, server_id s)
{
	unsigned tries;

	for (tries = 0; tries < 1000000; tries++) {
		if (index_drop_step(ix, s, 1000))
			return true;
		sched_yield();
	}
	return false;
}

static void *write_some(void *arg)
{
	index_claim open[OPEN] = { 0 };
	struct worker *w = arg;
	struct index_match m;
	page_key p[LEN];
	struct rng rng;
	unsigned i, k, n;

	rng_init(&rng, w->id + 1);
	if (index_match_init(&m) < 0)
		return w;
	for (i = 0; i < STEPS; i++) {
		n = make(&rng, p);
		k = (unsigned)rng_below(&rng, OPEN);
		if (open[k] != 0)
			end(w->ix, &rng, open[k], i);
		index_match(w->ix, &sp, p, n, &m);
		w->wrong += m.n_bands > 0 && m.bands[0].depth > n;
		open[k] = index_commit(w->ix, &sp, p, n, &m, (server_id)rng_below(&rng, SERVERS), i, 0);
		if (rng_below(&rng, 100) == 0)
			w->wrong += !drop(w->ix, (server_id)rng_below(&rng, SERVERS));
	}
	for (k = 0; k < OPEN; k++)
		index_cancel(w->ix, open[k]);
	index_match_fini(&m);
	return NULL;
}

static void *read_some(void *arg)
{
	struct worker *w = arg;
	struct index_match m;
	page_key p[LEN];
	struct rng rng;
	unsigned i, n;

	rng_init(&rng, w->id + 100);
	if (index_match_init(&m) < 0)
		return w;
	while (!atomic_load(w->stop)) {
		n = make(&rng, p);
		index_match(w->ix, &sp, p, n, &m);
		for (i = 0; i < m.n_bands; i++)
			w->wrong += m.bands[i].depth == 0 || m.bands[i].depth > n;
	}
	index_match_fini(&m);
	return NULL;
}

static void check(struct index *ix)
{
	const char *bad = index_check(ix);

	if (bad != NULL)
		fail_msg("%s", bad);
}

static void one_round(unsigned round)
{
	struct index_opts o = { .max_bytes = 4 << 20, .max_pages = 65536 };
	struct worker w[WRITERS + READERS];
	atomic_bool stop = false;
	struct index_stats st;
	unsigned i, s;
	void *failed;

	assert_non_null(w[0].ix = index_new(&o));
	for (i = 0; i < WRITERS + READERS; i++) {
		w[i] = (struct worker){ .ix = w[0].ix, .id = round * 10 + i, .stop = &stop };
		assert_int_equal(pthread_create(&w[i].thread, NULL,
						i < WRITERS ? write_some : read_some, &w[i]), 0);
	}
	for (i = 0; i < WRITERS + READERS; i++) {
		if (i == WRITERS)
			atomic_store(&stop, true);
		assert_int_equal(pthread_join(w[i].thread, &failed), 0);
		assert_null(failed);
	}
	check(w[0].ix);
	for (i = 0; i < WRITERS + READERS; i++)
		assert_int_equal(w[i].wrong, 0);
	for (s = 0; s < SERVERS; s++)
		assert_true(drop(w[0].ix, (server_id)s));
	check(w[0].ix);
	index_stats(w[0].ix, &st);
	assert_int_equal(st.nodes + st.spaces + st.records + st.claims, 0);
	index_free(w[0].ix);
}

static void claims_end_while_nodes_change(void **state)
{
	unsigned i;

	for (i = 0; i < ROUNDS; i++)
		one_round(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(claims_end_while_nodes_change) };

	return cmocka_run_group_tests_name("index races", tests, NULL, NULL);
}

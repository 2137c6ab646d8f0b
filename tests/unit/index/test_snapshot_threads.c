/* test_snapshot_threads.c - snapshots written while threads commit, confirm, cancel, evict and
 * drop. Each one loads, all invariants hold, and no server has pages that it never held. Under
 * ThreadSanitizer too. */
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "tests/unit/index/snapshots.h"
#include "tests/lib/index/index_test.h"

#define WRITERS		2
#define SNAPSHOTS	6
#define EACH		2	/* servers of a thread */
#define LEN		12
#define GRANT		100u	/* steps of each writer for one of the snapshot's, */
#define AHEAD		400u	/* and how many of them may run beside the next */

static const struct space_key sp = { .h = { 1, 2 } };

struct worker {
	pthread_t thread;
	struct index *ix;
	unsigned id;
	struct held was;	/* everything that was ever confirmed */
	atomic_bool *stop;
	atomic_uint *granted;	/* steps that each may have taken */
	atomic_uint steps;
};

/* The first pages are few, so that nodes split and join all the time; then each prompt differs. */
static size_t make(struct rng *rng, page_key *p)
{
	size_t n = 1 + rng_below(rng, LEN), i;

	for (i = 0; i < n; i++)
		p[i] = i < 6 ? rng_below(rng, 2) : i < 8 ? rng_below(rng, 50) : rng_next(rng) % 100000;
	return n;
}

static void note(struct held *h, server_id s, const page_key *p, size_t n)
{
	char *line = malloc(32 + n * 20);
	size_t at = (size_t)sprintf(line, "%u: ", s), i;

	for (i = 0; i < n; i++)
		at += (size_t)sprintf(line + at, "%" PRIx64 " ", p[i]);
	held_add(h, line);
}

static void *churn(void *arg)
{
	struct worker *w = arg;
	struct rng rng;
	page_key p[LEN];
	index_claim c;
	unsigned i;
	size_t n;

	rng_init(&rng, w->id + 1);
	for (i = 0; !atomic_load(w->stop); i++) {
		server_id s = (server_id)(w->id * EACH + rng_below(&rng, EACH));

		while (i >= atomic_load(w->granted) && !atomic_load(w->stop))
			sched_yield();
		n = make(&rng, p);
		c = index_commit(w->ix, &sp, p, n, NULL, s, i, 0);
		if (rng_below(&rng, 3) == 0) {
			index_cancel(w->ix, c);
		} else if (c != 0) {
			note(&w->was, s, p, n);
			index_confirm(w->ix, c, i);
		}
		if (rng_below(&rng, 8000) == 0)
			index_drop_server(w->ix, s);
		atomic_fetch_add(&w->steps, 1);
	}
	return NULL;
}

static unsigned fewest_steps(struct worker *w)
{
	unsigned n = UINT_MAX, i;

	for (i = 0; i < WRITERS; i++)
		n = atomic_load(&w[i].steps) < n ? atomic_load(&w[i].steps) : n;
	return n;
}

/* Write slowly, so that much changes meanwhile: a fixed number of steps of each writer for one of
 * the snapshot's. */
static void take(struct index *ix, struct worker *w, struct bytes *b)
{
	struct snapshot_writer *wr = snapshot_writer_new(ix, &here, 1000, put_bytes, b);

	assert_non_null(wr);
	name_servers(wr, WRITERS * EACH);
	while (snapshot_write(wr, 4) == 0) {
		atomic_fetch_add(w->granted, GRANT);
		while (fewest_steps(w) + AHEAD < atomic_load(w->granted))
			sched_yield();
	}
	assert_int_equal(snapshot_write(wr, 1), 1);
	snapshot_writer_free(wr);
}

static bool was_held(const struct held *h, const char *line)
{
	size_t n = strlen(line), low = 0, high = h->n, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (strcmp(h->line[mid], line) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low < h->n && strncmp(h->line[low], line, n) == 0;
}

static size_t check_one(const struct bytes *b, struct worker *w)
{
	struct index_opts o = { .max_bytes = 4 << 20, .max_pages = 100 };
	struct index *ix = index_new(&o);
	struct snapshot_stats st;
	struct err e = { 0 };
	struct held h;
	size_t i, n;

	assert_non_null(ix);
	if (snapshot_load(ix, &here, b->p, b->n, server_by_name, NULL, 0, &st, &e) != 0)
		fail_msg("%s", e.text);
	assert_null(index_check(ix));
	held_in(ix, &sp, &h);
	for (i = 0; i < h.n; i++)
		if (!was_held(&w[atoi(h.line[i]) / EACH].was, h.line[i]))
			fail_msg("never held: %s", h.line[i]);
	n = h.n;
	held_free(&h);
	index_free(ix);
	return n;
}

static void written_while_all_changes(void **state)
{
	struct index_opts o = { .max_bytes = 1 << 20, .max_pages = 100 };
	struct index *ix = index_new(&o);
	struct bytes b[SNAPSHOTS] = { { NULL } };
	struct worker w[WRITERS] = { { 0 } };
	atomic_bool stop = false;
	atomic_uint granted = 1000;
	size_t n = 0;
	unsigned i;

	assert_non_null(ix);
	for (i = 0; i < WRITERS * EACH; i++)
		index_set_capacity(ix, (server_id)i, 300);
	for (i = 0; i < WRITERS; i++) {
		w[i].ix = ix;
		w[i].id = i;
		w[i].stop = &stop;
		w[i].granted = &granted;
		assert_int_equal(pthread_create(&w[i].thread, NULL, churn, &w[i]), 0);
	}
	while (fewest_steps(w) < 1000)
		sched_yield();
	for (i = 0; i < SNAPSHOTS; i++)
		take(ix, w, &b[i]);
	atomic_store(&stop, true);
	for (i = 0; i < WRITERS; i++) {
		assert_int_equal(pthread_join(w[i].thread, NULL), 0);
		held_longest(&w[i].was);
	}
	for (i = 0; i < SNAPSHOTS; i++) {
		n += check_one(&b[i], w);
		free(b[i].p);
	}
	assert_true(n > 20 * SNAPSHOTS);
	for (i = 0; i < WRITERS; i++)
		held_free(&w[i].was);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(written_while_all_changes) };

	return cmocka_run_group_tests_name("snapshot threads", tests, NULL, NULL);
}

/* test_threads.c - readers and writers on the same hot prefix; run it under ThreadSanitizer too.
 *
 * Each thread has a server of its own that it commits, confirms, cancels and drops, and matches in
 * between. No other thread touches its server, so it must find what it left. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/index.h"
#include "tests/lib/index/index_test.h"

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
		c = index_commit(w->ix, &sp, p, LEN, &m, (server_id)w->id, i, 0);
		index_match(w->ix, &sp, p, LEN, &m);
		if (c == 0)		/* freed memory waits for a reader that has lost its CPU */
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
	struct index_opts o = { .max_bytes = 64 << 20, .max_pages = 65536 };
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
	assert_true(refused < WRITERS * STEPS / 4);	/* old objects wait for a reader without a CPU */
	assert_null(index_check(w[0].ix));
	index_free(w[0].ix);
}

/* ---- everything at once ---- */

#define OWNERS		3	/* threads with two servers each that no other thread touches */
#define OTHERS		3	/* one floods a server with a capacity, two read, count, tick and dump */
#ifdef __SANITIZE_THREAD__
#define MOVES		300	/* each takes 20 times as long */
#else
#define MOVES		2500
#endif
#define MAX_HELD	24
#define MAX_PAGES	700
#define FLOODED		1000u	/* the server */

struct held {
	page_key p[MAX_PAGES];
	unsigned n;
	server_id server;
};

struct owner {
	struct worker w;
	struct index_match m[2];
	struct held a[MAX_HELD], now;
	unsigned n;
	unsigned lost;			/* moved claims that did not arrive */
	bool tight;			/* others need the bytes: held pages may be cut from their end */
	struct rng rng;
};

/* Few prefixes that all threads know, of a few pages or some hundred, and tails that they may
 * share. */
static void make_some(struct rng *rng, struct held *h)
{
	unsigned long_run = rng_below(rng, 8) == 0, letter, end, max;

	max = 1 + rng_below(rng, long_run ? MAX_PAGES : 24);
	for (h->n = 0; h->n < max; ) {
		letter = h->n < HOT ? 0 : rng_below(rng, 3);
		end = h->n + 1 + rng_below(rng, long_run ? 300 : 6);
		for (; h->n < end && h->n < max; h->n++)
			h->p[h->n] = (page_key)letter << 32 | h->n;
	}
}

static unsigned common(const struct held *a, const struct held *b)
{
	unsigned i = 0;

	while (i < a->n && i < b->n && a->p[i] == b->p[i])
		i++;
	return i;
}

static void look(struct owner *o, const struct held *h, server_id s, unsigned least)
{
	struct index_match *m = &o->m[rng_below(&o->rng, 2)];
	unsigned i, d, most = least;

	for (i = 0; i < o->n; i++) {
		d = o->a[i].server == s ? common(&o->a[i], h) : 0;
		most = d > most ? d : most;
	}
	/* a match that lost its CPU at each try returns what it has: allowed for some time, not always */
	for (i = 0; i < 200; i++) {
		index_match(o->w.ix, &sp, h->p, h->n, m);
		d = index_match_depth(m, s);
		if (d > most || d >= (o->tight ? least : most))
			break;
		sched_yield();
	}
	o->w.wrong += d > most || d < (o->tight ? least : most);
}

/* A claim is moved while its path changes all the time. */
static bool moved(struct owner *o, const struct held *h, server_id s)
{
	index_match(o->w.ix, &sp, h->p, h->n, &o->m[0]);
	return index_match_depth(&o->m[0], s) > 0;
}

static void leave(struct owner *o, server_id s)
{
	unsigned i;

	while (!index_drop_step(o->w.ix, s, 1 + rng_below(&o->rng, 50)))
		;
	for (i = o->n; i-- > 0; )
		if (o->a[i].server == s)
			o->a[i] = o->a[--o->n];
	o->w.wrong += index_server_room(o->w.ix, s) != 0;
}

static void one_move(struct owner *o, msec now)
{
	server_id s = (server_id)(o->w.id * 300 + rng_below(&o->rng, 2)), other = s ^ 1;
	struct index *ix = o->w.ix;
	index_claim c;

	make_some(&o->rng, &o->now);
	o->now.server = s;
	index_match(ix, &sp, o->now.p, o->now.n, &o->m[0]);
	c = index_commit(ix, &sp, o->now.p, o->now.n, rng_below(&o->rng, 4) ? &o->m[0] : NULL, s, now, 0);
	o->w.refused += c == 0;
	look(o, &o->now, s, c ? o->now.n : 0);
	if (c == 0)
		return;
	switch (rng_below(&o->rng, 4)) {
	case 0:
		index_cancel(ix, c);
		o->now.server = SERVER_NONE;
		break;
	case 1:
		index_confirm_at(ix, c, other, now);
		o->now.server = moved(o, &o->now, other) ? other : SERVER_NONE;
		o->lost += o->now.server == SERVER_NONE;
		break;
	case 2:
		index_confirm_at(ix, c, FLOODED, now);
		o->now.server = SERVER_NONE;
		break;
	default:
		index_confirm(ix, c, now);
	}
	index_cancel(ix, c);		/* already unknown */
	o->a[0] = o->now;
	o->n = 1;
	look(o, &o->now, s, 0);
	look(o, &o->now, other, 0);
}

static void *own_some(void *arg)
{
	struct owner *o = arg;
	unsigned i;

	for (i = 0; i < MOVES; i++) {
		server_id s = (server_id)(o->w.id * 300 + rng_below(&o->rng, 2));
		index_claim c;

		if (o->n < MAX_HELD && rng_below(&o->rng, 4) == 0) {
			make_some(&o->rng, &o->a[o->n]);
			o->a[o->n].server = s;
			c = index_commit(o->w.ix, &sp, o->a[o->n].p, o->a[o->n].n, NULL, s, i, 0);
			index_confirm(o->w.ix, c, i);
			o->n += c != 0;
			o->w.refused += c == 0;
		} else if (rng_below(&o->rng, 40) == 0) {
			leave(o, s);
		} else {
			make_some(&o->rng, &o->now);
			look(o, &o->now, s, 0);
		}
	}
	return NULL;
}

/* Claims that end in all ways, each on servers that hold nothing else. */
static void *move_some(void *arg)
{
	struct owner *o = arg;
	unsigned i;

	for (i = 0; i < MOVES; i++) {
		one_move(o, i);
		leave(o, (server_id)(o->w.id * 300));
		leave(o, (server_id)(o->w.id * 300 + 1));
	}
	return NULL;
}

static void *flood_some(void *arg)
{
	struct worker *w = arg;
	struct held *h = calloc(1, sizeof(*h));
	struct rng rng;
	unsigned i;

	rng_init(&rng, 77);
	index_set_capacity(w->ix, FLOODED, 3000);
	for (i = 0; h != NULL && !atomic_load(w->stop); i++) {
		make_some(&rng, h);
		if (rng_below(&rng, 2))
			h->p[h->n - 1] = (page_key)i << 40;	/* a tail of its own */
		index_confirm(w->ix, index_commit(w->ix, &sp, h->p, h->n, NULL, FLOODED, i, 0), i);
		if (i % 200 == 199)
			index_drop_server(w->ix, FLOODED);
	}
	free(h);
	return h ? NULL : w;
}

static void ignore(void *arg, const char *text, size_t n)
{
	*(size_t *)arg += n;
}

static void *look_on(void *arg)
{
	struct worker *w = arg;
	struct held *h = calloc(1, sizeof(*h));
	struct index_shard_stats st;
	struct index_match m[3];
	struct rng rng;
	unsigned i, k;
	size_t n = 0;

	rng_init(&rng, w->id + 500);
	for (k = 0; k < 3; k++)
		if (h == NULL || index_match_init(&m[k]) < 0)
			return w;
	for (i = 0; !atomic_load(w->stop); i++) {
		make_some(&rng, h);
		k = i % 3;
		index_match(w->ix, &sp, h->p, h->n, &m[k]);
		for (n = 0; n < m[k].n_bands; n++)
			w->wrong += m[k].bands[n].depth == 0 || m[k].bands[n].depth > h->n ||
				    (n > 0 && m[k].bands[n].depth >= m[k].bands[n - 1].depth);
		if (i % 16 == 0)
			index_tick(w->ix);
		if (i % 64 == 0) {
			index_shard_stats(w->ix, i / 64 % 4, &st);
			w->wrong += st.bytes > st.max_bytes;
		}
		if (i % 512 == 0)
			index_dump(w->ix, &sp, ignore, &n);
		if (i % 50 == 49) {
			index_match_fini(&m[k]);
			w->wrong += index_match_init(&m[k]) < 0;
		}
	}
	for (k = 0; k < 3; k++)
		index_match_fini(&m[k]);
	free(h);
	return NULL;
}

static void all_at_once(size_t max_bytes, bool tight)
{
	void *(*const others[OTHERS])(void *) = { flood_some, look_on, look_on };
	struct index_opts o = {
		.max_bytes = max_bytes, .max_pages = 65536, .shards = 4, .reserve_percent = 100
	};
	struct owner *own = calloc(OWNERS, sizeof(*own));
	struct worker other[OTHERS];
	struct index *ix = index_new(&o);
	struct index_stats st;
	atomic_bool stop = false;
	unsigned i, refused = 0;
	void *failed;

	assert_non_null(ix);
	assert_non_null(own);
	for (i = 0; i < OWNERS; i++) {
		own[i].w = (struct worker){ .ix = ix, .id = i };
		own[i].tight = tight;
		rng_init(&own[i].rng, i + 10);
		assert_int_equal(index_match_init(&own[i].m[0]) + index_match_init(&own[i].m[1]), 0);
	}
	for (i = 0; i < OTHERS; i++) {
		other[i] = (struct worker){ .ix = ix, .id = i, .stop = &stop };
		assert_int_equal(pthread_create(&other[i].thread, NULL, others[i], &other[i]), 0);
	}
	for (i = 0; i < OWNERS; i++)
		assert_int_equal(pthread_create(&own[i].w.thread, NULL, i ? own_some : move_some, &own[i]), 0);
	for (i = 0; i < OWNERS + OTHERS; i++) {
		if (i == OWNERS)
			atomic_store(&stop, true);
		assert_int_equal(
		    pthread_join(i < OWNERS ? own[i].w.thread : other[i - OWNERS].thread, &failed),
		    0);
		assert_null(failed);
	}
	for (i = 0; i < OWNERS; i++) {
		assert_int_equal(own[i].w.wrong, 0);
		assert_true(tight || own[i].lost <= MOVES / 50);
		refused += own[i].w.refused;
		index_match_fini(&own[i].m[0]);
		index_match_fini(&own[i].m[1]);
	}
	for (i = 0; i < OTHERS; i++)
		assert_int_equal(other[i].wrong, 0);
	index_stats(ix, &st);
	assert_true(refused <= st.refused);
	assert_true(tight || refused < OWNERS * MOVES / 20);
	assert_true(st.evicted_records > 0);
	assert_int_equal(st.claims, 0);
	assert_null(index_check(ix));
	for (i = 0; i < SERVERS_MAX; i++)
		index_drop_server(ix, (server_id)i);
	assert_null(index_check(ix));
	index_stats(ix, &st);
	assert_int_equal(st.nodes + st.spaces + st.records, 0);
	free(own);
	index_free(ix);
}

static void each_finds_what_it_left(void **state)
{
	all_at_once(32 << 20, false);
}

static void or_less_where_bytes_run_out(void **state)
{
	all_at_once(1 << 17, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(readers_and_writers_on_a_hot_prefix),
		cmocka_unit_test(each_finds_what_it_left),
		cmocka_unit_test(or_less_where_bytes_run_out),
	};

	return cmocka_run_group_tests_name("index threads", tests, NULL, NULL);
}

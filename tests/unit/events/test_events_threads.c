/* test_events_threads.c - one thread of events, and readers beside it; run it under ThreadSanitizer
 * too.
 *
 * Server 0 holds all of prompt P at every instant. Its copies move through the tiers and from one
 * handle to another, and other servers enter and leave the same chains, so that these get sets and
 * lose them. Much of the budget is in use, so memory is used again and again. Server 1 holds
 * only prompt Q, under a holder that others had before. A match of P must find all of it at server
 * 0 and nothing at server 1. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/events/events.h"

#define READERS	2
#if defined(__SANITIZE_THREAD__)
#define ROUNDS	1500u
#elif defined(__SANITIZE_ADDRESS__)
#define ROUNDS	6000u
#else
#define ROUNDS	30000u
#endif
#define OTHERS	20u		/* servers from 2 on */
#define LEN	12u

static const uint64_t space[2] = { 1, 2 };

struct reader {
	pthread_t thread;
	const struct events *ev;
	page_key p[LEN], q[LEN], r[LEN];
	uint64_t wrong, partly;
	_Atomic uint64_t seen;
	atomic_bool *stop;
};

static void make(page_key *keys, uint64_t seed)
{
	struct rng rng;
	unsigned i;

	rng_init(&rng, seed);
	for (i = 0; i < LEN; i++)
		keys[i] = rng_next(&rng);
}

static void *read_some(void *arg)
{
	struct reader *rd = arg;
	struct events_match m;
	uint32_t i;

	if (events_match_init(&m) < 0) {
		rd->wrong++;
		return NULL;
	}
	while (!atomic_load(rd->stop)) {
		events_match(rd->ev, space, rd->p, LEN, &m);
		rd->wrong += events_match_pages(&m, 0) != LEN || events_match_pages(&m, 1) != 0;
		for (i = 0; i < m.n_hits; i++) {
			const struct events_hit *h = &m.hits[i];

			rd->wrong += h->pages > LEN ||
			    h->in_tier[0] + h->in_tier[1] + h->in_tier[2] + h->in_tier[3] !=
				h->pages;
			rd->partly += h->pages < LEN;
		}
		events_match(rd->ev, space, rd->r, LEN, &m);
		rd->wrong += events_match_pages(&m, 0) != 0 || events_match_pages(&m, 1) != 0;
		events_match(rd->ev, space, rd->q, LEN, &m);
		rd->wrong += m.n_hits > 1 || (m.n_hits == 1 && m.hits[0].server != 1);
		rd->seen++;
	}
	events_match_fini(&m);
	return NULL;
}

static void store(struct events *ev, server_id server, const page_key *keys, uint32_t n,
    enum events_tier tier, uint64_t seed)
{
	uint64_t handles[LEN];
	uint32_t i;
	struct events_run run = { .server = server,
		.n = n,
		.block_pages = 1,
		.tier = tier,
		.handles = handles,
		.keys = keys,
		.space = space };

	for (i = 0; i < n; i++)
		handles[i] = keys[i] + seed;
	assert_int_equal(events_stored(ev, &run), n);
}

static void removed(struct events *ev, server_id server, const page_key *keys, uint32_t from,
    uint32_t to, enum events_tier tier, uint64_t seed)
{
	uint64_t handle;
	uint32_t i;

	for (i = to; i-- > from;) {
		handle = keys[i] + seed;
		events_removed(ev, server, 0, &handle, 1, tier);
	}
}

static void write_some(struct events *ev, const struct reader *rd)
{
	enum events_tier now = EVENTS_DEVICE, next;
	uint64_t seed = 0, was = 0;
	struct rng rng;
	server_id s;
	uint32_t i, n;

	rng_init(&rng, 5);
	for (i = 0; i < ROUNDS; i++) {
		next = rng_below(&rng, EVENTS_TIERS);
		seed = rng_below(&rng, 4) == 0 ? !was : was;
		store(ev, 0, rd->p, LEN, next, seed);
		removed(ev, 0, rd->p, 0, LEN, now, was);
		now = next;
		was = seed;
		for (n = 0; n < 6; n++) {
			s = (server_id)(2 + rng_below(&rng, OTHERS));
			switch (rng_below(&rng, 6)) {
			case 0:
			case 1:
				store(ev, s, rd->p, 1 + rng_below(&rng, LEN), EVENTS_DEVICE, rng_below(&rng, 2));
				break;
			case 2:
				store(ev, s, rd->r, LEN, EVENTS_DEVICE, 7);
				break;
			case 3:
				removed(ev, s, rd->p, rng_below(&rng, LEN), LEN, EVENTS_DEVICE, rng_below(&rng, 2));
				break;
			case 4:
				removed(ev, s, rd->r, 0, LEN, EVENTS_DEVICE, 7);
				break;
			default:
				events_cleared(ev, s, 0);
			}
		}
		if (i % 16 == 0)
			events_drop_server(ev, 1);
		if (i % 16 == 8)
			store(ev, 1, rd->q, LEN, EVENTS_DEVICE, 9);
		if (i % 64 == 0)
			for (s = 2; s < 2 + OTHERS; s++)
				events_drop_server(ev, s);
		while (events_tick(ev, 8))
			;
	}
}

/* Fill it, except for the room that the other servers need. */
static void fill(struct events *ev)
{
	struct events_stats st;
	page_key keys[LEN];
	uint64_t i;

	for (i = 0;; i++) {
		events_stats(ev, &st);
		if (st.bytes > st.max_bytes - st.max_bytes / 4)
			break;
		make(keys, 100 + i);
		store(ev, 40, keys, LEN, EVENTS_DEVICE, 0);
	}
}

static void readers_beside_events(void **state)
{
	struct events_opts o;
	struct hash_key key;
	struct events *ev;
	struct events_stats st;
	struct reader rd[READERS] = { 0 };
	atomic_bool stop = false;
	struct rng rng;
	unsigned i;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	events_defaults(&o);
	o.max_bytes = 1 << 20;
	o.max_holders = 64;
	o.key = &key;
	ev = events_new(&o);
	assert_non_null(ev);
	for (i = 0; i < READERS; i++) {
		rd[i].ev = ev;
		rd[i].stop = &stop;
		make(rd[i].p, 1);
		make(rd[i].q, 2);
		make(rd[i].r, 3);
	}
	fill(ev);
	store(ev, 0, rd[0].p, LEN, EVENTS_DEVICE, 0);
	for (i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&rd[i].thread, NULL, read_some, &rd[i]), 0);
	for (i = 0; i < READERS; i++)
		while (rd[i].seen == 0)
			sched_yield();
	write_some(ev, &rd[0]);
	atomic_store(&stop, true);
	for (i = 0; i < READERS; i++)
		pthread_join(rd[i].thread, NULL);
	for (i = 0; i < READERS; i++)
		assert_int_equal(rd[i].wrong, 0);
	assert_null(events_check(ev));
	events_stats(ev, &st);
	assert_int_equal(st.refused, 0);
	assert_true(st.cleared > 0);
	assert_int_equal(st.evicted, 0);
	events_free(ev);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(readers_beside_events) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

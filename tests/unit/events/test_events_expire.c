/* test_events_expire.c - blocks with a time to live, against an array with the time at which each
 * was stored last. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/events/events_in.h"

#define RANKS	5u
#define BLOCKS	400u		/* of a rank: chains of CHAIN */
#define CHAIN	8u
#define TTL	4000		/* of ranks 0 and 1; 3 times that of 2 and 3; of rank 4 none */
#define ALL	UINT32_MAX

struct model {
	struct events *ev;
	struct rng rng;
	msec now, stored[RANKS][BLOCKS];	/* 0: not there */
	uint64_t gone;				/* expired */
};

static msec ttl_of(uint32_t rank)
{
	return rank == 4 ? 0 : rank < 2 ? TTL : 3 * TTL;
}

static uint64_t handle_of(uint32_t rank, uint32_t block)
{
	return (rank * BLOCKS + block + 1) * 0x9e3779b97f4a7c15ull;
}

static page_key key_of(uint32_t block)
{
	return block * 0x100000001b3ull + 7;
}

static const uint64_t space[2] = { 5, 6 };

/* Store a block after the one before it in its chain. */
static uint32_t store(struct events *ev, uint32_t rank, uint32_t block)
{
	uint64_t handle = handle_of(rank, block);
	page_key key = key_of(block);
	struct events_run run = {
		.server = 1, .rank = (uint16_t)rank, .tier = EVENTS_HOST, .n = 1, .block_pages = 1,
		.handles = &handle, .keys = &key, .space = space, .has_parent = block % CHAIN != 0,
		.parent = block % CHAIN != 0 ? handle_of(rank, block - 1) : 0, .ttl_ms = ttl_of(rank),
	};

	return events_stored(ev, &run);
}

static struct events *make(size_t bytes)
{
	static const struct hash_key key = { { 9, 8, 7 } };
	struct events_opts o;
	struct events *ev;

	events_defaults(&o);
	o.max_bytes = bytes;
	o.key = &key;
	assert_non_null(ev = events_new(&o));
	return ev;
}

static void store_at(struct model *m, uint32_t rank, uint32_t block)
{
	if (block % CHAIN != 0 && m->stored[rank][block - 1] == 0)
		return;			/* it would be parked */
	assert_int_equal(store(m->ev, rank, block), 1);
	m->stored[rank][block] = m->now;
}

static void remove_at(struct model *m, uint32_t rank, uint32_t block)
{
	uint64_t handle = handle_of(rank, block);

	while (events_removed(m->ev, 1, (uint16_t)rank, &handle, 1, EVENTS_HOST) > 0)
		;
	m->stored[rank][block] = 0;
}

/* A block is there for its time to live, and not a quarter longer. */
static void compare(struct model *m, msec step)
{
	for (uint32_t rank = 0; rank < RANKS; rank++) {
		msec ttl = ttl_of(rank);

		for (uint32_t b = 0; b < BLOCKS; b++) {
			bool has = events_has(m->ev, 1, (uint16_t)rank, handle_of(rank, b));
			msec age = m->now - m->stored[rank][b];

			if (m->stored[rank][b] == 0)
				assert_false(has);
			else if (ttl == 0 || age < ttl)
				assert_true(has);
			else if (age > ttl + ttl / EVENTS_AGES + step)
				assert_false(has);
			if (!has && m->stored[rank][b] != 0) {
				m->stored[rank][b] = 0;
				m->gone++;
			}
		}
	}
}

static void as_the_model(void **unused)
{
	struct model *m = calloc(1, sizeof(*m));
	struct events_stats st;
	uint64_t most = 0;

	assert_non_null(m);
	rng_init(&m->rng, 11);
	m->ev = make((size_t)1 << 20);
	m->now = 1000;
	events_expire(m->ev, m->now, ALL);
	for (uint32_t i = 0; i < 3000; i++) {
		msec step = rng_below(&m->rng, 400);

		m->now += step;
		while (events_expire(m->ev, m->now, 1 + rng_below(&m->rng, 50)))
			;
		compare(m, step);
		for (uint32_t k = rng_below(&m->rng, 40); k > 0; k--)
			store_at(m, rng_below(&m->rng, RANKS), rng_below(&m->rng, BLOCKS / 2));
		for (uint32_t k = i % 50 == 0 ? BLOCKS : 0; k > 0; k--)
			store_at(m, i / 50 % RANKS, BLOCKS - k);
		for (uint32_t k = rng_below(&m->rng, 4); k > 0; k--)
			remove_at(m, rng_below(&m->rng, RANKS), rng_below(&m->rng, BLOCKS));
		if (i % 700 == 699) {
			uint32_t rank = rng_below(&m->rng, RANKS);

			events_cleared(m->ev, 1, (uint16_t)rank);
			memset(m->stored[rank], 0, sizeof(m->stored[rank]));
		}
		if (i % 100 == 0)
			assert_null(events_check(m->ev));
		events_stats(m->ev, &st);
		most = st.records > most ? st.records : most;
	}
	assert_true(m->gone > 5000 && most > 500);
	assert_int_equal(st.expired, m->gone);
	events_free(m->ev);
	free(m);
}

/* One call looks at no more records than it may, however many have expired. */
static void work_is_bounded(void **unused)
{
	enum { N = 20000, WORK = 16 };
	struct events *ev = make((size_t)8 << 20);
	uint64_t handles[N];
	page_key keys[N];
	struct events_run run = {
		.server = 1, .tier = EVENTS_HOST, .n = N, .block_pages = 1, .handles = handles,
		.keys = keys, .space = space, .ttl_ms = TTL,
	};
	struct events_stats st;
	uint32_t calls = 0, was = N;
	msec now = 10;

	for (uint32_t i = 0; i < N; i++) {
		handles[i] = i * 0x9e3779b97f4a7c15ull;
		keys[i] = i + 1;
	}
	events_expire(ev, now, ALL);
	assert_int_equal(events_stored(ev, &run), N);
	for (; was > 0; calls++, now += 5) {
		events_expire(ev, now, WORK);
		events_stats(ev, &st);
		assert_in_range(st.records, was < LINE_SLOTS * WORK ? 0 : was - LINE_SLOTS * WORK, was);
		was = (uint32_t)st.records;
		assert_true(calls < 100000);
	}
	assert_true(calls > N / (LINE_SLOTS * WORK));
	assert_int_equal(st.expired, N);
	assert_null(events_check(ev));
	assert_false(events_expire(ev, now, 2));
	events_free(ev);
}

/* Time that passes at once, as of a machine that slept, takes no work per part. */
static void after_a_long_time(void **unused)
{
	struct events *ev = make((size_t)1 << 20);

	events_expire(ev, 0, ALL);
	assert_int_equal(store(ev, 0, 0), 1);
	for (int i = 0; i < 10; i++)
		events_expire(ev, (msec)1 << 50, 1000);
	assert_false(events_has(ev, 1, 0, handle_of(0, 0)));
	assert_false(events_expire(ev, ((msec)1 << 50) + 1, 4));
	assert_int_equal(store(ev, 0, 0), 1);
	assert_false(events_expire(ev, ((msec)1 << 50) + TTL - 1, 1000));
	assert_true(events_has(ev, 1, 0, handle_of(0, 0)));
	events_free(ev);
}

static void put_run(struct events *ev, uint16_t rank, enum events_tier tier, uint32_t n,
    uint32_t block_pages)
{
	uint64_t handles[64];
	page_key keys[64];
	struct events_run run = {
		.server = 1, .rank = rank, .tier = tier, .n = n, .block_pages = block_pages,
		.handles = handles, .keys = keys, .space = space,
	};

	for (uint32_t i = 0; i < 64; i++) {
		handles[i] = rank * 1000u + i;
		keys[i] = key_of(i);
	}
	assert_int_equal(events_stored(ev, &run), n);
}

/* What is stored apart begins where the device ends, whichever is found first. */
static void apart_extends_a_rank(void **unused)
{
	static const struct { uint32_t own, apart, pages, device; } cases[] = {
		{ 10, 5, 20, 10 }, { 20, 5, 20, 20 }, { 30, 5, 30, 30 }, { 0, 5, 20, 0 }, { 3, 0, 3, 3 },
	};
	struct events_match m;
	page_key keys[64];

	for (uint32_t i = 0; i < 64; i++)
		keys[i] = key_of(i);
	assert_int_equal(events_match_init(&m), 0);
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		for (uint16_t other = 0; other < 2; other++) {
			struct events *ev = make((size_t)1 << 20);

			if (other != 0 && cases[c].apart > 0)
				put_run(ev, 2 | EVENTS_APART, EVENTS_HOST, cases[c].apart, 4);
			if (cases[c].own > 0)
				put_run(ev, 2, EVENTS_DEVICE, cases[c].own, 1);
			if (other == 0 && cases[c].apart > 0)
				put_run(ev, 2 | EVENTS_APART, EVENTS_HOST, cases[c].apart, 4);
			put_run(ev, 1, EVENTS_DEVICE, 2, 1);
			events_match(ev, space, keys, 64, &m);
			assert_int_equal(m.n_hits, 1);
			assert_int_equal(m.hits[0].rank, 2);
			assert_int_equal(m.hits[0].pages, cases[c].pages);
			assert_int_equal(m.hits[0].in_tier[EVENTS_DEVICE], cases[c].device);
			assert_int_equal(
			    m.hits[0].in_tier[EVENTS_HOST], cases[c].pages - cases[c].device);
			events_free(ev);
		}
	}
	events_match_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_model),
		cmocka_unit_test(work_is_bounded),
		cmocka_unit_test(after_a_long_time),
		cmocka_unit_test(apart_extends_a_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

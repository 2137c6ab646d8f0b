/* test_events_fault.c - the event door without memory, and without room in each of its parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/events/events_in.h"
#include "tests/unit/fault.h"

static const uint64_t space[2] = { 1, 2 };
static struct hash_key key;

static struct events *make(struct events_opts o)
{
	struct events *ev;

	o.key = &key;
	ev = events_new(&o);
	assert_non_null(ev);
	return ev;
}

/* Store <n> blocks of one page that no other server has. */
static uint32_t store(struct events *ev, server_id server, uint16_t rank, uint64_t number,
    uint32_t n, uint32_t block_pages)
{
	uint64_t handles[64];
	page_key keys[64 * 20];
	struct events_run run = { .server = server,
		.rank = rank,
		.n = n,
		.block_pages = block_pages,
		.handles = handles,
		.keys = keys,
		.space = space };
	uint32_t i;

	for (i = 0; i < n; i++)
		handles[i] = number * 64 + i;
	for (i = 0; i < n * block_pages; i++)
		keys[i] = number * 64 + i;
	return events_stored(ev, &run);
}

static void no_memory(void **state)
{
	struct events_opts o;
	struct events_match m;
	struct events *ev;
	unsigned long k;
	uint32_t n;
	page_key page = 64;

	events_defaults(&o);
	o.max_bytes = 0;
	o.key = &key;
	for (k = 1;; k++) {
		memset(&m, 0, sizeof(m));
		fault_begin(k);
		ev = events_new(&o);
		if (ev != NULL && events_match_init(&m) == 0) {
			n = store(ev, 3, 0, 1, 5, 1);
			assert_int_equal(n, fault.seen < k ? 5 : 0);
			events_match(ev, space, &page, 1, &m);
			assert_int_equal(m.n_hits, n > 0);
			events_removed(ev, 3, 0, &page, 1, EVENTS_DEVICE);
			events_drop_server(ev, 3);
			events_tick(ev, 100);
			events_match_fini(&m);
		}
		events_free(ev);
		if (!fault_end())
			break;
	}
	/* the index, the hits and scratch of a match, a table's pieces and its slots as it grows */
	assert_int_equal(k, 6);
	o.key = NULL;
	assert_null(events_new(&o));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void no_address_space(void **state)
{
	struct rlimit was, little;
	struct events_opts o;

	events_defaults(&o);
	o.key = &key;
	o.max_bytes = (size_t)256 << 20;
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	little = (struct rlimit){ .rlim_cur = (rlim_t)128 << 20, .rlim_max = was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
	assert_null(events_new(&o));
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	o.max_bytes = 0;
	events_free(make(o));
}
#endif

static void no_holder(void **state)
{
	struct events *ev = make((struct events_opts){ .max_holders = 3, .max_parked = 10 });
	struct events_stats st;

	assert_int_equal(store(ev, 0, 0, 1, 4, 1), 4);
	assert_int_equal(store(ev, 0, 1, 1, 4, 1), 4);
	assert_int_equal(store(ev, 1, 0, 1, 4, 1), 4);
	assert_int_equal(store(ev, 1, 1, 1, 4, 1), 0);
	assert_int_equal(store(ev, SERVERS_MAX, 0, 1, 4, 1), 0);
	events_stats(ev, &st);
	assert_int_equal(st.refused, 8);
	/* a cleared holder is reaped at once when its number is needed */
	events_cleared(ev, 0, 1);
	assert_int_equal(store(ev, 1, 1, 1, 4, 1), 4);
	events_stats(ev, &st);
	assert_int_equal(st.records, 12);
	assert_null(events_check(ev));
	events_free(ev);
}

static void no_size(void **state)
{
	struct events *ev = make((struct events_opts){ .max_holders = 64 });
	struct events_stats st;
	uint32_t i;

	for (i = 0; i < EVENTS_SIZES_MAX; i++)
		assert_int_equal(store(ev, (server_id)i, 0, 1, 2, i + 1), 2);
	assert_int_equal(store(ev, 20, 0, 1, 2, 17), 0);
	events_stats(ev, &st);
	assert_int_equal(st.refused, 2);
	events_drop_server(ev, 5);
	assert_int_equal(store(ev, 20, 0, 1, 2, 17), 2);
	assert_null(events_check(ev));
	events_free(ev);
}

static void no_parking(void **state)
{
	struct events *ev = make((struct events_opts){ .max_holders = 64, .max_parked = 0 });
	uint64_t handle = 7;
	page_key page = 7;
	struct events_run run = { .n = 1,
		.block_pages = 1,
		.handles = &handle,
		.keys = &page,
		.space = space,
		.has_parent = true,
		.parent = 6 };
	struct events_stats st;

	assert_int_equal(events_stored(ev, &run), 0);
	assert_int_equal(events_removed(ev, 0, 0, &handle, 1, EVENTS_DEVICE), 0);
	events_stats(ev, &st);
	assert_int_equal(st.refused, 1);
	assert_int_equal(st.parked, 0);
	assert_null(events_check(ev));
	events_free(ev);
}

/* Without one more chunk: what is there is found and can be removed, the rest is refused or takes
 * the place of something older, and everything adds up. */
static void no_chunk(void **state)
{
	struct events *ev = make((struct events_opts){ .max_holders = 64 });
	struct events_stats st;
	uint64_t i, handle;
	server_id s;

	for (i = 0; i < 40; i++)
		assert_int_equal(store(ev, (server_id)(i % 4), 0, i, 20, 1), 20);
	ev->slab.max_chunks = ev->slab.used_chunks;
	ev->slab.reserve = 0;
	for (i = 40; i < 400; i++) {
		store(ev, (server_id)(i % 60), 0, i, 20, 1);
		handle = i * 64 + 5;
		events_removed(ev, (server_id)(i % 60), 0, &handle, 1, EVENTS_DEVICE);
		store(ev, (server_id)(i % 59), 1, i - i % 7, 20, 1);
		if (events_check(ev) != NULL)
			print_message("%s\n", events_check(ev));
		assert_null(events_check(ev));
	}
	events_stats(ev, &st);
	assert_true(st.evicted > 0);
	print_message("records=%lu evicted=%lu refused=%lu\n", st.records, st.evicted, st.refused);
	assert_true(st.records > 100);
	for (s = 0; s < 60; s++)
		events_drop_server(ev, s);
	while (events_tick(ev, 10))
		;
	events_stats(ev, &st);
	assert_int_equal(st.records + st.blocks + st.runs + st.sets, 0);
	assert_null(events_check(ev));
	events_free(ev);
}

/* The heap is needed for tables that grow and for copies: without it, blocks are refused or counted
 * once. */
static void no_heap(void **state)
{
	uint64_t handle;
	unsigned long k;
	struct events *ev;
	uint32_t i, n;

	for (k = 1;; k++) {
		ev = make((struct events_opts){ .max_holders = 64 });
		fault_begin(k);
		for (i = 0; i < 30; i++) {
			n = store(ev, 1, 0, i, 20, 1);
			assert_true(n <= 20);
			handle = i * 64 + 1;
			store(ev, 1, 0, i, 20, 1);
			events_removed(ev, 1, 0, &handle, 1, EVENTS_DEVICE);
		}
		assert_null(events_check(ev));
		events_drop_server(ev, 1);
		events_tick(ev, 10000);
		assert_null(events_check(ev));
		events_free(ev);
		if (!fault_end())
			break;
	}
	assert_true(k > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(no_address_space),
#endif
		cmocka_unit_test(no_holder),
		cmocka_unit_test(no_size),
		cmocka_unit_test(no_parking),
		cmocka_unit_test(no_chunk),
		cmocka_unit_test(no_heap),
	};
	struct rng rng;
	unsigned i;

	rng_init(&rng, 1);
	for (i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

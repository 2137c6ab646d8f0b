/* test_output.c - generated tokens, and servers of several orders side by side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/index.h"
#include "tests/lib/index/index_test.h"

#define SECOND	1000

static const struct space_key sp = { .h = { 7, 7 } };

static struct index *make(void)
{
	struct index_opts o;
	struct index *ix;

	index_defaults(&o);
	o.max_bytes = 4 << 20;
	o.mixed = true;
	o.reserve_percent = 50;		/* less than one more prompt needs */
	assert_non_null(ix = index_new(&o));
	return ix;
}

static void end(struct index *ix)
{
	const char *bad = index_check(ix);

	if (bad != NULL)
		fail_msg("%s", bad);
	index_free(ix);
}

static void work_it_off(struct index *ix)
{
	for (int i = 0; index_tick(ix); i++)
		assert_true(i < 100000);
}

/* Hold <n> pages that only prompt <id> has. */
static void hold(struct index *ix, unsigned id, unsigned n, server_id s, msec now)
{
	page_key p[512];
	index_claim c;

	for (unsigned i = 0; i < n; i++)
		p[i] = (page_key)id << 32 | i;
	c = index_commit(ix, &sp, p, n, NULL, s, now, id % 7);
	assert_true(c != 0);
	index_confirm(ix, c, now);
}

static unsigned held(struct index *ix, unsigned id, unsigned n, server_id s)
{
	struct index_match m;
	page_key p[512];
	unsigned d;

	for (unsigned i = 0; i < n; i++)
		p[i] = (page_key)id << 32 | i;
	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, &sp, p, n, &m);
	d = index_match_depth(&m, s);
	index_match_fini(&m);
	return d;
}

/* 1 at second 1, output at 2, 2 at 3: evicted are first 1, then the output, then 2. */
static void it_ages_with_the_others(void **state)
{
	struct index *ix = make();

	index_set_capacity(ix, 3, 100);
	hold(ix, 1, 30, 3, 1 * SECOND);
	index_add_output(ix, 3, 40, 2 * SECOND);
	hold(ix, 2, 30, 3, 3 * SECOND);
	assert_int_equal(index_server_output(ix, 3), 40);
	assert_int_equal(index_server_room(ix, 3), 60);
	hold(ix, 3, 10, 3, 4 * SECOND);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 30, 3), 20);
	assert_int_equal(index_server_output(ix, 3), 40);
	hold(ix, 4, 50, 3, 5 * SECOND);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 30, 3), 0);
	assert_int_equal(index_server_output(ix, 3), 10);
	assert_int_equal(held(ix, 2, 30, 3), 30);
	hold(ix, 5, 20, 3, 6 * SECOND);
	work_it_off(ix);
	assert_int_equal(index_server_output(ix, 3), 0);
	assert_int_equal(held(ix, 2, 30, 3), 20);
	assert_int_equal(index_server_room(ix, 3), 100);
	end(ix);
}

/* A report alone evicts pages. */
static void it_pushes_out(void **state)
{
	struct index *ix = make();

	index_set_capacity(ix, 0, 100);
	hold(ix, 1, 90, 0, 1 * SECOND);
	index_add_output(ix, 0, 60, 2 * SECOND);
	assert_int_equal(held(ix, 1, 90, 0), 40);	/* at once, without a tick */
	/* more than there is room for: only that much is kept */
	index_add_output(ix, 0, 5000, 3 * SECOND);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 90, 0), 0);
	assert_int_equal(index_server_output(ix, 0), 100);
	end(ix);
}

static void it_counts_only_where_it_can_go(void **state)
{
	struct index *ix = make();

	index_add_output(ix, 0, 60, SECOND);		/* the capacity is unknown */
	assert_int_equal(index_server_output(ix, 0), 0);
	index_add_output(ix, SERVER_NONE, 60, SECOND);
	index_add_output(ix, SERVERS_MAX, 60, SECOND);
	index_set_capacity(ix, 0, 100);
	index_add_output(ix, 0, 0, SECOND);
	assert_int_equal(index_server_output(ix, 0), 0);
	index_add_output(ix, 0, 60, SECOND);
	hold(ix, 1, 10, 0, 2 * SECOND);
	index_drop_server(ix, 0);			/* the next server with this id has generated nothing */
	assert_int_equal(index_server_output(ix, 0), 0);
	assert_int_equal(index_server_room(ix, 0), 0);
	end(ix);
}

/* After any number of reports the sum is right, and the youngest are left. */
static void a_long_day(void **state)
{
	struct index *ix = make();
	uint64_t sum = 0;

	index_set_capacity(ix, 1, 1u << 30);
	for (unsigned i = 1; i <= 5000; i++) {
		index_add_output(ix, 1, i % 9 + 1, (msec)i * SECOND);
		sum += i % 9 + 1;
		assert_int_equal(index_server_output(ix, 1), sum);
	}
	hold(ix, 1, 100, 1, 2500 * SECOND);		/* in the middle of them */
	index_set_capacity(ix, 1, sum / 2 + 100 + sum / 16);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 100, 1), 100);	/* the older half is evicted before it */
	index_set_capacity(ix, 1, sum / 2 - sum / 16);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 100, 1), 0);
	assert_int_equal(index_server_output(ix, 1), sum / 2 - sum / 16);
	end(ix);
}

/* An engine frees the end of an answer first. */
static void it_goes_before_its_prompt(void **state)
{
	struct index *ix = make();

	index_set_capacity(ix, 3, 100);
	hold(ix, 1, 40, 3, 1 * SECOND);
	index_add_output(ix, 3, 20, 1 * SECOND);
	hold(ix, 2, 50, 3, 2 * SECOND);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 40, 3), 40);
	assert_int_equal(index_server_output(ix, 3), 10);
	assert_false(index_output_gone(ix, 3, 1 * SECOND));
	hold(ix, 3, 20, 3, 3 * SECOND);
	work_it_off(ix);
	assert_int_equal(index_server_output(ix, 3), 0);
	assert_int_equal(held(ix, 1, 40, 3), 30);
	assert_true(index_output_gone(ix, 3, 1 * SECOND));
	assert_false(index_output_gone(ix, 3, 2 * SECOND));
	end(ix);
}

/* The next turn's pages hold what was generated: it counts once. */
static void it_is_taken_back(void **state)
{
	struct index *ix = make();

	index_set_capacity(ix, 3, 100);
	index_add_output(ix, 3, 20, 1 * SECOND);
	index_add_output(ix, 3, 30, 2 * SECOND);
	index_take_output(ix, 3, 15, 1 * SECOND);
	assert_int_equal(index_server_output(ix, 3), 35);
	index_take_output(ix, 3, 15, 1 * SECOND);	/* no more than is left of it */
	assert_int_equal(index_server_output(ix, 3), 30);
	index_take_output(ix, 3, 15, 3 * SECOND);
	assert_int_equal(index_server_output(ix, 3), 30);
	hold(ix, 1, 80, 3, 4 * SECOND);
	work_it_off(ix);
	assert_int_equal(held(ix, 1, 80, 3), 80);
	assert_int_equal(index_server_output(ix, 3), 20);
	end(ix);
}

/* The last is evicted first: output too. */
static void the_last_of_filo_is_the_output(void **state)
{
	struct index *ix = make();

	index_set_order(ix, 2, INDEX_FILO);
	index_set_capacity(ix, 2, 100);
	hold(ix, 1, 50, 2, 1 * SECOND);
	index_add_output(ix, 2, 40, 2 * SECOND);
	index_set_capacity(ix, 2, 200);
	hold(ix, 2, 20, 2, 3 * SECOND);
	index_add_output(ix, 2, 30, 4 * SECOND);
	index_set_capacity(ix, 2, 100);
	work_it_off(ix);
	assert_int_equal(index_server_output(ix, 2), 40);
	assert_int_equal(held(ix, 2, 20, 2), 10);
	assert_int_equal(held(ix, 1, 50, 2), 50);
	end(ix);
}

/* Six servers get the same, and each evicts in its own order. Prompts 1 to 4, a second apart, 1
 * used twice more and 4 once; then 5, for which one of the others is evicted. Priority is id %
 * 7. */
static void each_its_own_order(void **state)
{
	static const struct { enum index_order order; unsigned gone; } want[] = {
		{ INDEX_LRU, 2 }, { INDEX_LFU, 2 }, { INDEX_FIFO, 1 }, { INDEX_MRU, 1 }, { INDEX_FILO, 4 },
		{ INDEX_PRIORITY, 1 },
	};
	struct index *ix = make();

	for (server_id s = 0; s < 6; s++) {
		index_set_order(ix, s, want[s].order);
		index_set_capacity(ix, s, 40);
		for (unsigned id = 1; id <= 4; id++)
			hold(ix, id, 10, s, (msec)id * SECOND);
		hold(ix, 1, 10, s, 5 * SECOND);
		hold(ix, 4, 10, s, 6 * SECOND);
		hold(ix, 1, 10, s, 7 * SECOND);
		index_set_order(ix, s, INDEX_LRU);	/* ignored, because it holds pages */
		hold(ix, 5, 10, s, 8 * SECOND);
	}
	work_it_off(ix);
	for (server_id s = 0; s < 6; s++)
		for (unsigned id = 1; id <= 5; id++)
			if (held(ix, id, 10, s) != (id == want[s].gone ? 0 : 10))
				fail_msg("order %u: %u has %u pages", want[s].order, id, held(ix, id, 10, s));
	end(ix);
}

/* A prompt larger than the reserve is accepted if it is the only one that waits. */
static void one_long_prompt(void **state)
{
	struct index *ix = make();

	index_set_capacity(ix, 0, 100);
	hold(ix, 1, 100, 0, 1 * SECOND);
	hold(ix, 2, 60, 0, 2 * SECOND);
	work_it_off(ix);
	assert_int_equal(held(ix, 2, 60, 0), 60);
	assert_int_equal(held(ix, 1, 100, 0), 40);
	end(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ages_with_the_others),
		cmocka_unit_test(it_pushes_out),
		cmocka_unit_test(it_counts_only_where_it_can_go),
		cmocka_unit_test(a_long_day),
		cmocka_unit_test(it_goes_before_its_prompt),
		cmocka_unit_test(it_is_taken_back),
		cmocka_unit_test(the_last_of_filo_is_the_output),
		cmocka_unit_test(each_its_own_order),
		cmocka_unit_test(one_long_prompt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

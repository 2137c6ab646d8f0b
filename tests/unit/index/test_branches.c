/* test_branches.c - whether the record above goes next when a server lost the end of a branch: in
 * each order, within the work of a call, and only if it was used before the horizon.
 *
 *      [P]  servers 1, 2          Server 2 holds two branches more, so [P] stays a node of its own
 *     / | \                       when server 1 loses [Y].
 *   [Y][X][W]      [Z] server 1
 *    1  2  2                                                                                     */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/index/held.h"
#include "tests/unit/index/asks.h"

#define PART	4u		/* pages of each node */
#define LONG	30u

static const struct space_key sp = { .h = { 7, 7 } };

enum branch { P, Y, X, W, Z };

static size_t pages_of(enum branch b, page_key *p)
{
	for (uint32_t i = 0; i < PART; i++) {
		p[i] = (b == Z ? 100 : 0) + i;
		p[PART + i] = 1000 * (1 + (uint64_t)b) + i;
	}
	return b == P || b == Z ? PART : 2 * PART;
}

static struct index *make(enum index_order o)
{
	struct index_opts opts = { .max_bytes = 4 << 20, .max_pages = 65536, .shards = 1, .order = o };
	struct index *ix = index_new(&opts);

	assert_non_null(ix);
	return ix;
}

/* With <again> only the end of the branch is used, as if the match had found all of it. */
static void hold(
    struct index *ix, enum branch b, server_id s, unsigned second, unsigned priority, bool again)
{
	msec now = (msec)second * 1000;
	struct index_match m;
	page_key p[2 * PART];
	size_t n = pages_of(b, p);
	index_claim c;

	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, &sp, p, n, &m);
	c = index_commit(ix, &sp, p, n, again ? &m : NULL, s, now, (uint8_t)priority);
	assert_true(c != 0);
	index_confirm(ix, c, now);
	index_match_fini(&m);
}

/* As another agent tells it. */
static struct index_place told(struct index *ix, enum branch b, unsigned second, unsigned now)
{
	struct held_use use = { .hits = 1, .unused_ms = (msec)(now - second) * 1000 };
	struct index_place at = { 0 };
	page_key p[2 * PART];
	size_t n = pages_of(b, p);

	assert_int_equal(index_hold(ix, &sp, p, n, 0, 1, &use, (msec)now * 1000, &at), HELD_DONE);
	return at;
}

static bool has(struct index *ix, enum branch b)
{
	page_key p[2 * PART];
	size_t n = pages_of(b, p);

	return depth_of(ix, &sp, p, n, 1) == n;
}

static void branches_of_another(struct index *ix)
{
	hold(ix, X, 2, 1, 0, false);
	hold(ix, W, 2, 1, 0, false);
}

/* [Y] goes first in each case; then <left> stays of [P] and [Z]. */
static const struct {
	const char *name;
	enum index_order order;
	struct { enum branch b; unsigned second, priority; bool again, told; } use[4];
	unsigned n;
	enum branch left;
} cases[] = {
	{ "lru: one use", INDEX_LRU, { { Y, 3 }, { Z, 4 } }, 2, Z },
	{ "lru: used later alone", INDEX_LRU, { { Y, 3 }, { Z, 4 }, { P, 5 } }, 3, P },
	{ "lfu: more hits", INDEX_LFU, { { P, 2 }, { Y, 3 }, { Z, 4 } }, 3, P },
	{ "lfu: as late as what was below it", INDEX_LFU,
	  { { P, 2 }, { Z, 3 }, { Z, 4 }, { Y, 5 } }, 4, P },
	{ "priority: a higher one", INDEX_PRIORITY, { { P, 2, 3 }, { Y, 3 }, { Z, 4, 1 } }, 3, P },
	{ "mru: as late as what was below it", INDEX_MRU,
	  { { Y, 3 }, { Z, 4 }, { Y, 6, 0, true } }, 3, Z },
	{ "filo: entered first", INDEX_FILO, { { P, 2 }, { Z, 3 }, { Y, 4 } }, 3, P },
	{ "fifo: entered first", INDEX_FIFO, { { P, 2 }, { Y, 3 }, { Z, 4 } }, 3, Z },
	{ "fifo: entered again", INDEX_FIFO,
	  { { Y, 3, 0, false, true }, { Z, 4 }, { P, 5, 0, false, true } }, 3, P },
};

static void the_record_above_goes_when_it_is_its_turn(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct index *ix = make(cases[i].order);

		branches_of_another(ix);
		for (unsigned k = 0; k < cases[i].n; k++) {
			if (cases[i].use[k].told)
				told(ix, cases[i].use[k].b, cases[i].use[k].second, 6);
			else
				hold(ix, cases[i].use[k].b, 1, cases[i].use[k].second,
				    cases[i].use[k].priority, cases[i].use[k].again);
		}
		assert_true(has(ix, Y) && has(ix, Z));
		index_set_capacity(ix, 1, PART);
		while (index_tick(ix))
			;
		sound(ix);
		if (has(ix, Y) || has(ix, P) != (cases[i].left == P) || has(ix, Z) != (cases[i].left == Z))
			fail_msg("%s: P %d Y %d Z %d", cases[i].name, has(ix, P), has(ix, Y), has(ix, Z));
		index_free(ix);
	}
}

/* Server 1 holds a path of LONG nodes of one page, all of one use. */
static struct index *make_path(void)
{
	struct index *ix = make(INDEX_LRU);
	page_key p[LONG + 1];
	index_claim c;

	for (uint32_t n = 0; n <= LONG; n++) {
		for (uint32_t i = 0; i < LONG + 1; i++)
			p[i] = i;
		if (n < LONG)
			p[n] = 1000 + n;
		c = index_commit(ix, &sp, p, n < LONG ? n + 1 : LONG, NULL, n < LONG ? 2 : 1, 0, 0);
		index_confirm(ix, c, 0);
	}
	index_set_capacity(ix, 1, LONG);
	assert_int_equal(stats(ix).evicted_records, 0);
	return ix;
}

static void a_path_of_one_use_goes_in_parts(void **state)
{
	struct index *ix = make_path();
	unsigned i;

	(void)state;
	for (i = 1; i <= 3; i++) {
		assert_true(index_evict_unused(ix, 1, 1000, 10000, 5));
		assert_int_equal(stats(ix).evicted_records, 5 * i);
		sound(ix);
	}
	assert_false(index_evict_unused(ix, 1, 1000, 10000, 100));
	assert_int_equal(stats(ix).evicted_records, LONG);
	index_free(ix);
}

/* The place of one record names none of those above it, even of the same use. */
static void one_place_is_one_record(void **state)
{
	struct index *ix = make(INDEX_LRU);
	struct index_place y, z;

	(void)state;
	branches_of_another(ix);
	index_set_capacity(ix, 1, 100);
	y = told(ix, Y, 3, 6);
	z = told(ix, Z, 5, 6);
	index_evict_at(ix, 1, y);
	assert_true(has(ix, Y));		/* there is no horizon */
	assert_true(index_evict_unused(ix, 1, 2000, 6000, 0));
	index_evict_at(ix, 1, z);
	assert_true(has(ix, Z));		/* used after it */
	index_evict_at(ix, 1, y);
	assert_false(has(ix, Y));
	assert_true(has(ix, P));
	sound(ix);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_record_above_goes_when_it_is_its_turn),
		cmocka_unit_test(a_path_of_one_use_goes_in_parts),
		cmocka_unit_test(one_place_is_one_record),
	};

	return cmocka_run_group_tests_name("index branches", tests, NULL, NULL);
}

/* test_clear_space.c - spaces are listed, and one is forgotten in steps while the other stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/spaces.h"
#include "tests/lib/index/index_test.h"

#define PROMPTS	300
#define PAGES	40

static const struct space_key spaces[2] = {
	{ .h = { 11, 12 }, .page_room = 16 }, { .h = { 13, 14 }, .page_room = 16, .tenant = 3 }
};

static struct index *ix;
static struct index_match match;

/* Prompts that begin alike in many ways. */
static void make_prompt(unsigned i, page_key *pages)
{
	struct rng rng;

	rng_init(&rng, 7);
	for (unsigned k = 0; k < PAGES; k++)
		pages[k] = k < 10 ? 1000 + k : 5000 + k * 8 + (i >> (k / 10)) % 8;
}

static void fill(unsigned n_servers)
{
	page_key pages[PAGES];

	for (unsigned i = 0; i < PROMPTS; i++)
		for (unsigned k = 0; k < 2; k++) {
			make_prompt(i, pages);
			index_confirm(ix, index_commit(ix, &spaces[k], pages, PAGES, NULL, (server_id)(i % n_servers),
						  (msec)i * 16, 0), (msec)i * 16);
		}
}

static unsigned bands_of(const struct space_key *space)
{
	page_key pages[PAGES];
	unsigned n = 0;

	for (unsigned i = 0; i < PROMPTS; i++) {
		make_prompt(i, pages);
		index_match(ix, space, pages, PAGES, &match);
		n += match.n_bands;
	}
	return n;
}

static void count_space(void *arg, const struct space_view *v)
{
	unsigned *seen = arg;

	for (unsigned k = 0; k < 2; k++)
		if (v->h[0] == spaces[k].h[0] && v->h[1] == spaces[k].h[1]) {
			seen[k]++;
			assert_int_equal(v->tenant, spaces[k].tenant);
			assert_int_equal(v->openings, 1);
		}
}

static void list_spaces(unsigned seen[2])
{
	struct spaces_walk w = { 0 };

	seen[0] = seen[1] = 0;
	while (index_spaces(ix, &w, 10, count_space, seen))
		;
	assert_int_equal(w.shard + w.read, 0);
}

static void test_one_goes_the_other_stays(void **state)
{
	struct index_opts o;
	struct spaces_walk w = { 0 };
	struct index_stats s;
	uint64_t records = 0;
	unsigned seen[2], before;

	index_defaults(&o);
	o.max_bytes = 8u << 20;
	ix = index_new(&o);
	assert_non_null(ix);
	assert_int_equal(index_match_init(&match), 0);
	fill(5);
	list_spaces(seen);
	assert_true(seen[0] == 1 && seen[1] == 1);
	before = bands_of(&spaces[1]);
	while (index_clear_space(ix, &w, spaces[0].h, 7, &records))
		;
	assert_true(records > 0);
	assert_int_equal(bands_of(&spaces[0]), 0);
	assert_int_equal(bands_of(&spaces[1]), before);
	index_stats(ix, &s);
	assert_int_equal(s.spaces, 1);
	list_spaces(seen);
	assert_true(seen[0] == 0 && seen[1] == 1);
	assert_null(index_check(ix));
	fill(5);
	assert_true(bands_of(&spaces[0]) > 0);
	index_match_fini(&match);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_one_goes_the_other_stays) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

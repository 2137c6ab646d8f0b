/* test_pairs.c - the pairs of a server and a prefix in a snapshot: equal for equal content, however
 * it came about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "tests/unit/index/snapshots.h"

#define SERVERS	12

static const struct space_key space = { .h = { 1, 2 } }, other = { .h = { 1, 3 } };

static struct index *new_index(void)
{
	struct index_opts o;
	struct index *ix;

	index_defaults(&o);
	o.max_bytes = 4 << 20;
	assert_non_null(ix = index_new(&o));
	return ix;
}

static void hold(struct index *ix, const struct space_key *in, const char *pages, server_id s)
{
	page_key key[32];
	size_t n = strlen(pages);
	index_claim c;

	for (size_t i = 0; i < n; i++)
		key[i] = (page_key)pages[i];
	assert_true((c = index_commit(ix, in, key, n, NULL, s, 100, 0)) != 0);
	index_confirm(ix, c, 100);
}

/* ---- a sum that does not depend on the order ---- */

struct sum {
	uint64_t n, sum;
};

static void add(void *arg, struct span server, uint64_t prefix)
{
	struct sum *s = arg;
	uint64_t pair[2] = { XXH3_64bits(server.p, server.n), prefix };

	s->n++;
	s->sum += XXH3_64bits(pair, sizeof(pair));
}

static struct sum sum_of(struct index *ix)
{
	struct bytes b = { NULL };
	struct sum s = { 0 };

	assert_int_equal(write_all(ix, SERVERS, 200, &b, NULL), 1);
	assert_int_equal(snapshot_pairs(b.p, b.n, add, &s), 0);
	free(b.p);
	return s;
}

static void has_pairs(struct index *ix, uint64_t n)
{
	assert_int_equal(sum_of(ix).n, n);
}

static void differ(struct index *a, struct index *b, bool yes)
{
	struct sum x = sum_of(a), y = sum_of(b);

	assert_int_equal(x.n != y.n || x.sum != y.sum, yes);
}

/* ---- stories ---- */

static void a_pair_for_each_page_of_each_server(void **state)
{
	struct index *ix = new_index();
	page_key x = 'x';

	has_pairs(ix, 0);
	hold(ix, &space, "abcd", 1);
	has_pairs(ix, 4);
	hold(ix, &space, "ab", 2);
	hold(ix, &space, "abxy", 1);
	has_pairs(ix, 8);
	hold(ix, &other, "abcd", 1);
	has_pairs(ix, 12);
	index_commit(ix, &space, &x, 1, NULL, 3, 100, 0);	/* only claimed */
	has_pairs(ix, 12);
	index_free(ix);
}

static void the_way_there_does_not_count(void **state)
{
	struct index *a = new_index(), *b = new_index();

	hold(a, &space, "abcd", 1);
	hold(a, &space, "abx", 2);
	hold(b, &space, "ab", 2);
	hold(b, &space, "ab", 1);
	hold(b, &space, "abx", 2);
	differ(a, b, true);
	hold(b, &space, "abcd", 1);
	differ(a, b, false);
	index_free(a);
	index_free(b);
}

static void server_space_and_order_count(void **state)
{
	static const struct { const struct space_key *space; const char *pages; server_id s; } one[] = {
		{ &space, "abcd", 1 }, { &space, "abcd", 2 }, { &other, "abcd", 1 }, { &space, "abdc", 1 },
		{ &space, "abcdd", 1 }, { &space, "abc", 1 },
	};

	for (size_t i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
		for (size_t k = 0; k < sizeof(one) / sizeof(one[0]); k++) {
			struct index *a = new_index(), *b = new_index();

			hold(a, one[i].space, one[i].pages, one[i].s);
			hold(b, one[k].space, one[k].pages, one[k].s);
			differ(a, b, i != k);
			index_free(a);
			index_free(b);
		}
	}
}

/* The nodes of a loaded tree are cut at other places. */
static void a_loaded_tree_has_the_same(void **state)
{
	struct index *a = new_index(), *b = new_index();
	struct snapshot_stats st;
	struct bytes s = { NULL };
	char pages[24];
	struct rng rng;
	struct err e;

	rng_init(&rng, 5);
	for (int i = 0; i < 2000; i++) {
		unsigned n = 1 + rng_below(&rng, sizeof(pages) - 1);

		for (unsigned k = 0; k < n; k++)
			pages[k] = (char)('a' + rng_below(&rng, 2));
		pages[n] = '\0';
		hold(a, i % 2 ? &space : &other, pages, (server_id)rng_below(&rng, SERVERS));
	}
	assert_int_equal(write_all(a, SERVERS, 200, &s, NULL), 1);
	assert_int_equal(snapshot_load(b, &here, s.p, s.n, server_by_name, NULL, 200, &st, &e), 0);
	differ(a, b, false);
	free(s.p);
	index_free(a);
	index_free(b);
}

static void cut_short_anywhere(void **state)
{
	struct index *ix = new_index();
	struct bytes s = { NULL };
	struct sum sum = { 0 };

	hold(ix, &space, "abcd", 1);
	hold(ix, &space, "abxy", 2);
	assert_int_equal(write_all(ix, SERVERS, 200, &s, NULL), 1);
	for (size_t n = 0; n < s.n; n++) {
		uint8_t *part = malloc(n + 1);

		memcpy(part, s.p, n);
		assert_int_equal(snapshot_pairs(part, n, add, &sum), -1);
		free(part);
	}
	free(s.p);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pair_for_each_page_of_each_server),
		cmocka_unit_test(the_way_there_does_not_count),
		cmocka_unit_test(server_space_and_order_count),
		cmocka_unit_test(a_loaded_tree_has_the_same),
		cmocka_unit_test(cut_short_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_between.c - a thread that joins nodes loses its CPU at any time. A match must not wait for
 * it, and must find everything.
 *
 * The file is compiled in here with a match before and after each step that readers can see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

#define LEN	60u
#define BY	7		/* the server that holds it */

static const struct space_key sp = { .h = { 6, 1 } };
static page_key all[LEN];
static struct index_match m;
static unsigned looks;

static void look(struct index *ix)
{
	if (m.bands == NULL)
		return;
	looks++;
	index_match(ix, &sp, all, LEN, &m);
	assert_int_equal(index_match_depth(&m, BY), LEN);
}

#define table_move(ix, a, b)	(look(ix), table_move(ix, a, b), look(ix))
#define table_remove(ix, a)	(look(ix), table_remove(ix, a), look(ix))
#define node_publish(ix, a)	(look(ix), node_publish(ix, a), look(ix))
#define node_bury(ix, a)	(look(ix), node_bury(ix, a), look(ix))
#define node_retire(ix, a)	(look(ix), node_retire(ix, a), look(ix))
#include "agent/index/shrink.c"

static void hold(struct index *ix, const page_key *p, uint32_t n, server_id s)
{
	index_claim c = index_commit(ix, &sp, p, n, NULL, s, 0, 0);

	assert_true(c != 0);
	index_confirm(ix, c, 0);
}

/* Other prompts branch from it and are removed one after the other, from its start, its end or its
 * middle. */
static void what_was_parted_is_found_while_it_joins(void **state)
{
	static const uint32_t orders[3][5] = { { 1, 2, 3, 4, 5 }, { 5, 4, 3, 2, 1 }, { 3, 1, 5, 2, 4 } };
	struct index_opts o = { .max_bytes = 1 << 20, .max_pages = 65536 };
	struct index_stats st;
	page_key p[LEN];
	struct index *ix;
	uint32_t i, k;

	for (i = 0; i < LEN; i++)
		all[i] = i;
	for (k = 0; k < 3; k++) {
		assert_non_null(ix = index_new(&o));
		hold(ix, all, LEN, BY);
		for (i = 1; i <= 5; i++) {
			memcpy(p, all, sizeof(p));
			p[i * 10] = 1000;
			hold(ix, p, i * 10 + 3, (server_id)i);
		}
		assert_int_equal(index_match_init(&m), 0);
		looks = 0;
		for (i = 0; i < 5; i++)
			index_drop_server(ix, (server_id)orders[k][i]);
		assert_true(looks > 50);
		index_stats(ix, &st);
		assert_int_equal(st.nodes, 1);
		index_match_fini(&m);
		assert_null(index_check(ix));
		index_free(ix);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(what_was_parted_is_found_while_it_joins) };

	return cmocka_run_group_tests_name("index between", tests, NULL, NULL);
}

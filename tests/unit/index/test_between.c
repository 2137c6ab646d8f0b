/* test_between.c - a thread that joins nodes loses its CPU at any time. A match must not wait for
 * it, and must find everything. A branch that goes is cut also where a lock that its cut needs is
 * with another thread.
 *
 * The file is compiled in here with a match before and after each step that readers can see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/index/claim_in.h"
#include "agent/index/lock_in.h"
#include "tests/lib/index/index_test.h"

#define LEN	60u
#define BY	7		/* the server that holds it */

static const struct space_key sp = { .h = { 6, 1 } };
static page_key all[LEN];
static struct index_match m;
static unsigned looks;

/* As if another thread had one of the locks, at each call but every <passes>th; 0: at none. */
static unsigned passes, passed, refused;

static bool pass_or_not(struct index *ix, uint64_t *locked, uint64_t to)
{
	if (passes != 0 && (passed + refused) % passes != 0) {
		refused++;
		return false;
	}
	passed++;
	return shards_pass(ix, locked, to);
}

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
#define shards_pass	pass_or_not
#include "agent/index/shrink.c"
#undef shards_pass

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

/* <n> prompts of other servers leave the prompt <p> at page <at>. */
static void leave_at(struct index *ix, const page_key *p, uint32_t at, uint32_t n)
{
	page_key other[LEN];

	memcpy(other, p, sizeof(other));
	for (uint32_t i = 1; i <= n; i++) {
		other[at] = 100000 + i;
		hold(ix, other, at + 2, (server_id)(20 + i));
	}
}

/* Evict all of a server whose branches have many nodes, because others leave them. With one other
 * at a node, that is joined with what remains below it. */
static void branches_go_without_the_locks_too(void **state)
{
	static const unsigned each[] = { 0, 1000000, 2, 3 };
	struct index_opts o = { .max_bytes = 8 << 20, .max_pages = 65536, .shards = 16 };
	struct index_stats st;
	uint64_t nodes = 0;
	page_key p[LEN];
	struct index *ix;

	for (unsigned k = 0; k < sizeof(each) / sizeof(*each); k++) {
		assert_non_null(ix = index_new(&o));
		for (uint32_t branch = 0; branch < 40; branch++) {
			for (uint32_t i = 0; i < LEN; i++)
				p[i] = branch << 8 | i;
			hold(ix, p, LEN, BY);
			for (uint32_t at = 5; at < LEN; at += 5)
				leave_at(ix, p, at, 1 + at % 3);
		}
		passes = each[k];
		passed = refused = 0;
		index_set_capacity(ix, BY, 1);
		for (unsigned ticks = 0; ticks < 1000 && index_tick(ix); ticks++)
			;
		passes = 0;
		assert_true(passed + refused > 100);
		assert_int_equal(refused > 0, k > 0);
		assert_true(index_server_room(ix, BY) <= 1);
		index_stats(ix, &st);
		nodes = k == 0 ? st.nodes : nodes;
		assert_int_equal(st.nodes, nodes);
		assert_null(index_check(ix));
		index_free(ix);
	}
}

/* Without one of the locks nothing changes; with all, those of before are released. */
static void locks_are_passed_or_left(void **state)
{
	struct index_opts o = { .max_bytes = 8 << 20, .max_pages = 65536, .shards = 16 };
	struct index *ix = index_new(&o);
	uint64_t locked = 1 << 5 | 1 << 3, other = 1 << 7;

	(void)state;
	assert_non_null(ix);
	shards_lock(ix, locked);
	shards_lock(ix, other);
	assert_false(shards_pass(ix, &locked, 1 << 1 | 1 << 3 | other));
	assert_int_equal(locked, 1 << 5 | 1 << 3);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(ix->shards[i].locked, i == 3 || i == 5 || i == 7);
	shards_unlock(ix, other);
	assert_true(shards_pass(ix, &locked, 1 << 1 | 1 << 3 | other));
	assert_int_equal(locked, 1 << 1 | 1 << 3 | other);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(ix->shards[i].locked, i == 1 || i == 3 || i == 7);
	shards_unlock(ix, locked);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_parted_is_found_while_it_joins),
		cmocka_unit_test(branches_go_without_the_locks_too),
		cmocka_unit_test(locks_are_passed_or_left),
	};

	return cmocka_run_group_tests_name("index between", tests, NULL, NULL);
}

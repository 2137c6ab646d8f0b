/* test_index_fault.c - each allocation of a story fails once. A commit without memory is refused or
 * succeeds at the second try, and all other servers keep what they had; the same for a claim that
 * another server has served. Nothing else may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/index/index.h"
#include "tests/unit/fault.h"
#include "tests/lib/index/index_test.h"

#define SERVERS	4

static const struct space_key spaces[2] = { { .h = { 1, 1 } }, { .h = { 2, 2 } } };

static void check(struct index *ix)
{
	unsigned long at = fault.fail_at;
	const char *bad;

	fault.fail_at = 0;		/* the check allocates too */
	if ((bad = index_check(ix)) != NULL)
		fail_msg("%s", bad);
	fault.fail_at = at;
}

static index_claim commit(
    struct index *ix, unsigned space, const page_key *p, size_t n, server_id s)
{
	uint64_t had[SERVERS];
	index_claim c;
	server_id i;

	for (i = 0; i < SERVERS; i++)
		had[i] = index_server_room(ix, i);
	c = index_commit(ix, &spaces[space], p, n, NULL, s, 0, 0);
	check(ix);
	for (i = 0; i < SERVERS; i++)
		if (c == 0 || i != s)
			assert_int_equal(index_server_room(ix, i), had[i]);
	return c;
}

static void hold(struct index *ix, unsigned space, const page_key *p, size_t n, server_id s)
{
	index_confirm(ix, commit(ix, space, p, n, s), 0);
	check(ix);
}

static void ignore(void *arg, const char *text, size_t n)
{
	*(size_t *)arg += n;
}

static void story(void)
{
	struct index_opts o = { .max_bytes = 1 << 18, .max_pages = 1000 };
	page_key p[64] = { 0 }, q[6] = { 0, 0, 0, 9, 9, 9 };
	struct index *ix = index_new(&o);
	struct index_match m = { 0 };
	index_claim c[3];
	size_t n = 0, i;

	if (ix == NULL)
		return;
	hold(ix, 0, p, 10, 0);
	c[0] = commit(ix, 0, q, 6, 1);		/* a split and a leaf */
	c[1] = commit(ix, 0, p, 20, 2);
	hold(ix, 0, p, 3, 3);
	c[2] = commit(ix, 1, q, 6, 3);
	for (i = 0; i < SERVERS; i++)		/* arrays of owners grow */
		hold(ix, 0, p, 5, (server_id)i);
	hold(ix, 0, p, 30, 0);
	if (index_match_init(&m) == 0) {
		index_match(ix, &spaces[0], p, 30, &m);
		index_match_fini(&m);
	}
	index_dump(ix, &spaces[0], ignore, &n);
	assert_true(n > 0);
	index_cancel(ix, c[0]);
	check(ix);
	index_confirm(ix, c[1], 0);
	check(ix);
	index_cancel(ix, c[2]);
	check(ix);
	for (i = 0; i < SERVERS; i++) {
		index_drop_server(ix, (server_id)i);
		check(ix);
	}
	index_free(ix);
}

/* Let <to> serve the claim: it holds all pages, and the claiming server has what it had before. */
static void move(struct index *ix, index_claim c, uint64_t before, server_id from, server_id to,
    const page_key *p, size_t n)
{
	unsigned long at = fault.fail_at;
	struct index_match m = { 0 };

	index_confirm_at(ix, c, to, 1);
	check(ix);
	if (c == 0)
		return;
	assert_int_equal(index_server_room(ix, from), before);
	fault.fail_at = 0;
	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, &spaces[0], p, n, &m);
	assert_int_equal(index_match_depth(&m, to), n);
	index_match_fini(&m);
	fault.fail_at = at;
}

/* Move claims, and replace nodes: for more owners, longer, shorter, joined and split. */
static void story_of_moves(void)
{
	struct index_opts o = { .max_bytes = 1 << 18, .max_pages = 1000 };
	page_key p[64] = { 0 }, q[6] = { 0, 0, 0, 9, 9, 9 }, x[40] = { 0 };
	struct index *ix = index_new(&o);
	index_claim c;
	size_t i;

	if (ix == NULL)
		return;
	for (i = 30; i < 40; i++)
		x[i] = i;
	hold(ix, 0, p, 30, 0);
	hold(ix, 0, q, 6, 1);
	c = commit(ix, 0, p, 30, 2);
	move(ix, c, 0, 2, 3, p, 30);
	c = commit(ix, 0, p, 50, 0);		/* longer */
	index_cancel(ix, c);			/* and shorter */
	check(ix);
	c = commit(ix, 0, x, 40, 2);		/* if that did not get shorter, its end goes first */
	move(ix, c, 0, 2, 0, x, 40);
	c = commit(ix, 0, q, 6, 3);
	move(ix, c, index_server_room(ix, 3) - (c ? 3 : 0), 3, 2, q, 6);
	index_drop_server(ix, 1);
	check(ix);
	index_drop_server(ix, 2);		/* no prompt branches at q any more: two nodes become one */
	check(ix);
	index_set_capacity(ix, 3, 12);
	while (index_tick(ix))
		;
	check(ix);
	index_drop_server(ix, 0);
	check(ix);
	assert_true(index_server_room(ix, 3) <= 12);
	index_free(ix);
}

static void fail_each(void (*tell)(void), unsigned least)
{
	unsigned long k;

	for (k = 1; k < 10000; k++) {
		fault_begin(k);
		tell();
		if (!fault_end())
			break;
	}
	assert_in_range(k, least, 9999);
}

static void every_allocation_fails_once(void **state)
{
	fail_each(story, 20);
}

static void and_where_claims_are_moved(void **state)
{
	fail_each(story_of_moves, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_fails_once),
		cmocka_unit_test(and_where_claims_are_moved),
	};

	return cmocka_run_group_tests_name("index faults", tests, NULL, NULL);
}

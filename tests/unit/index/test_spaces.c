/* test_spaces.c - the number of spaces of a tenant is limited, and only the tenant itself pays for
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/index/index.h"
#include "tests/lib/index/index_test.h"

#define PROMPTS	50
#define PAGES	64
#define SALTS	20000
#define SPACES	100

static const struct space_key quiet = { .h = { 1, 1 }, .tenant = 1 };

static void hold(
    struct index *ix, const struct space_key *space, page_key first, unsigned n, msec now)
{
	page_key p[PAGES];
	index_claim c;

	for (unsigned i = 0; i < n; i++)
		p[i] = first << 32 | i;
	c = index_commit(ix, space, p, n, NULL, 0, now, 0);
	assert_true(c != 0);
	index_confirm(ix, c, now);
}

static unsigned held(struct index *ix, const struct space_key *space, page_key first, unsigned n)
{
	struct index_match m;
	page_key p[PAGES];
	unsigned d;

	for (unsigned i = 0; i < n; i++)
		p[i] = first << 32 | i;
	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, space, p, n, &m);
	d = index_match_depth(&m, 0);
	index_match_fini(&m);
	return d;
}

/* New salts without end: none is refused, the last ones are kept, and the other tenant loses
 * nothing. */
static void ever_new_salts(void **state)
{
	struct space_key loud = { .tenant = 2 };
	struct index_opts o;
	struct index_stats s;
	struct index *ix;
	const char *bad;
	unsigned left = 0, i;

	index_defaults(&o);
	o.max_bytes = 16 << 20;
	o.max_spaces = SPACES;
	assert_non_null(ix = index_new(&o));
	for (i = 1; i <= PROMPTS; i++)
		hold(ix, &quiet, i, PAGES, i * 100);
	for (i = 0; i < SALTS; i++) {
		loud.h[0] = 1000 + i;
		loud.h[1] = i * 7919ull;
		hold(ix, &loud, 1, 8, 100000 + i * 20);
		assert_int_equal(held(ix, &loud, 1, 8), 8);
	}
	for (i = 1; i <= PROMPTS; i++)
		left += held(ix, &quiet, i, PAGES);
	assert_int_equal(left, PROMPTS * PAGES);
	index_stats(ix, &s);
	assert_int_equal(s.spaces, SPACES + 1);
	assert_int_equal(s.refused, 0);
	if ((bad = index_check(ix)) != NULL)
		fail_msg("%s", bad);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ever_new_salts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

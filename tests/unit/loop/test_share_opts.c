/* test_share_opts.c - what sharing takes at the most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/loop/share.h"

/* One that is loaded, and sessions that are written. */
static void snapshots_count(void **state)
{
	const size_t index = (size_t)256 << 20, sessions = (size_t)8 << 20;
	struct route_opts *ro = calloc(1, sizeof(*ro));
	struct loop_opts *o = calloc(1, sizeof(*o));

	loop_defaults(o);
	ro->index.max_bytes = index;
	assert_int_equal(share_budget(o), 0);
	assert_int_equal(share_snapshot_budget(o, ro), 0);
	snprintf(o->share.snapshot_from[0], sizeof(o->share.snapshot_from[0]), "127.0.0.1:1");
	assert_true(share_snapshot_budget(o, ro) >= index);
	o->share.snapshot_from[0][0] = '\0';
	snprintf(o->share.servers[0], sizeof(o->share.servers[0]), "127.0.0.1:1");
	assert_true(share_snapshot_budget(o, ro) >= index);
	assert_true(share_snapshot_budget(o, ro) < index + (2 << 20));
	ro->sessions_max_bytes = sessions;
	assert_true(share_snapshot_budget(o, ro) >= index + 3 * sessions);
	assert_true(share_snapshot_budget(o, ro) < index + 3 * sessions + (5 << 20));
	o->share.servers[0][0] = '\0';
	assert_int_equal(share_snapshot_budget(o, ro), 0);
	o->share.serve_snapshot = true;
	assert_int_equal(share_snapshot_budget(o, ro), 2 * route_sessions_bytes_most(ro));
	snprintf(o->share.snapshot_from[0], sizeof(o->share.snapshot_from[0]), "127.0.0.1:1");
	assert_true(share_snapshot_budget(o, ro) >= index + 3 * sessions);
	o->share.serve_snapshot = false;
	snprintf(o->snapshot_file, sizeof(o->snapshot_file), "/f");
	assert_true(share_snapshot_budget(o, ro) >= index + 2 * sessions);
	o->snapshot_file[0] = '\0';
	assert_true(share_snapshot_budget(o, ro) < index + sessions + (3 << 20));
	free(ro);
	free(o);
}

static void a_batch_under_way_counts_twice(void **state)
{
	struct loop_opts *o = calloc(1, sizeof(*o));
	uint64_t before;

	loop_defaults(o);
	snprintf(o->share.servers[0], sizeof(o->share.servers[0]), "127.0.0.1:1");
	before = share_budget(o);
	o->share.max_bytes += 1 << 20;
	assert_int_equal(share_budget(o) - before, 2 << 20);
	free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshots_count),
		cmocka_unit_test(a_batch_under_way_counts_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

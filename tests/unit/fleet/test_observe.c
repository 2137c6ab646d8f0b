/* test_observe.c - rows of stats sockets: which processes count, and until when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/fleet/observe.h"

static void more_processes_than_places(void **state)
{
	struct hastats_row r = { .state = HASTATS_UP, .weight = 1, .sessions = 1 };
	struct watch w = { .n = 0 };

	(void)state;
	for (uint64_t p = 1; p <= WATCHERS_MAX + 3; p++)
		watch_row(&w, p, &r, 100, 200 + (msec)p);
	assert_int_equal(watch_sum(&w, 150).n, WATCHERS_MAX);
	assert_int_equal(watch_sum(&w, 150).load, WATCHERS_MAX);
	watch_row(&w, 99, &r, 203, 400);	/* three have gone stale by then */
	assert_int_equal(watch_sum(&w, 203).n, WATCHERS_MAX - 2);
	r.sessions = r.queue = INT32_MAX;
	for (uint64_t p = 1; p <= WATCHERS_MAX; p++)
		watch_row(&w, p + 50, &r, 500, 600);
	assert_int_equal(watch_sum(&w, 500).load, UINT32_MAX);
	assert_int_equal(watch_sum(&w, 600).n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_processes_than_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

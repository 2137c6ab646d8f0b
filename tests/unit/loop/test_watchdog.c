/* test_watchdog.c - the service manager hears something only while every loop turns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/loop/watchdog_in.h"

#define LIMIT	8000	/* so a message every 2000 ms, and a report after 4000 */
#define N	3

static void all_turn(void **state)
{
	uint64_t turns[N] = { 0 };
	struct watchdog w;
	unsigned who = 99, told = 0;

	watchdog_init(&w, LIMIT, 1000);
	for (msec now = 1000; now < 1000 + 10 * LIMIT; now += 100) {
		for (unsigned i = 0; i < N; i++)
			turns[i]++;
		if (watchdog_check(&w, turns, N, now, &who) == WATCHDOG_TELL) {
			watchdog_told(&w, turns, N, now);
			told++;
		}
	}
	assert_int_equal(told, 39);
	assert_int_equal(who, 99);
}

static void one_hangs(void **state)
{
	uint64_t turns[N] = { 5, 5, 5 };
	struct watchdog w;
	unsigned who = 99;

	watchdog_init(&w, LIMIT, 0);
	assert_int_equal(watchdog_check(&w, turns, N, 1999, &who), WATCHDOG_QUIET);
	assert_int_equal(watchdog_check(&w, turns, N, 2000, &who), WATCHDOG_TELL);
	watchdog_told(&w, turns, N, 2000);
	turns[0] = turns[2] = 9;
	assert_int_equal(watchdog_check(&w, turns, N, 4000, &who), WATCHDOG_QUIET);
	assert_int_equal(watchdog_check(&w, turns, N, 5999, &who), WATCHDOG_QUIET);
	assert_int_equal(watchdog_check(&w, turns, N, 6000, &who), WATCHDOG_LATE);
	assert_int_equal(who, 1);
	assert_int_equal(watchdog_check(&w, turns, N, 7000, &who), WATCHDOG_QUIET);
	turns[1]++;	/* it goes on: told at once, and a second time is reported again */
	assert_int_equal(watchdog_check(&w, turns, N, 7100, &who), WATCHDOG_TELL);
	watchdog_told(&w, turns, N, 7100);
	turns[0]++;
	assert_int_equal(watchdog_check(&w, turns, N, 11100, &who), WATCHDOG_LATE);
}

/* A message that was not sent stays due. */
static void not_sent(void **state)
{
	uint64_t turns[N] = { 1, 1, 1 };
	struct watchdog w;
	unsigned who;

	watchdog_init(&w, LIMIT, 0);
	assert_int_equal(watchdog_check(&w, turns, N, 2000, &who), WATCHDOG_TELL);
	assert_int_equal(watchdog_check(&w, turns, N, 2100, &who), WATCHDOG_TELL);
}

static void off(void **state)
{
	uint64_t turns[N] = { 1, 1, 1 };
	struct watchdog w;
	unsigned who;

	watchdog_init(&w, 0, 0);
	assert_int_equal(watchdog_check(&w, turns, N, 1000000, &who), WATCHDOG_QUIET);
	watchdog_init(&w, 1, 0);	/* as often as possible */
	assert_int_equal(w.every_ms, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_turn), cmocka_unit_test(one_hangs), cmocka_unit_test(not_sent),
		cmocka_unit_test(off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

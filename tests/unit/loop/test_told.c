/* test_told.c - a fault that lasts is logged once, every hour, and when it is over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/loop/told_in.h"

static void once_hourly_and_at_the_end(void **state)
{
	struct told t = { .bad = false };
	msec now = 5;

	assert_int_equal(told_next(&t, false, now), TELL_NOTHING);
	assert_int_equal(told_next(&t, true, now), TELL_BAD);
	for (; now < 5 + TOLD_AGAIN_MS; now += 100000)
		assert_int_equal(told_next(&t, true, now), TELL_NOTHING);
	assert_int_equal(told_next(&t, true, now), TELL_BAD);
	assert_int_equal(told_next(&t, true, now + TOLD_AGAIN_MS - 1), TELL_NOTHING);
	assert_int_equal(told_next(&t, false, now + TOLD_AGAIN_MS), TELL_OVER);
	assert_int_equal(told_next(&t, false, now + TOLD_AGAIN_MS), TELL_NOTHING);
	assert_int_equal(told_next(&t, true, now + TOLD_AGAIN_MS), TELL_BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(once_hourly_and_at_the_end) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_announced.c - how much comes of what is announced. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/fleet/announced.h"

static void nothing_is_known_at_first(void **state)
{
	struct announced a = { 0 };

	(void)state;
	for (int i = 0; i < 8; i++) {
		assert_true(announced_share(&a, 0) == 0);
		announced_learn(&a, 2, 1, 0);
	}
	announced_learn(&a, 2, 1, 0);
	assert_true(fabs(announced_share(&a, 0) - 0.5) < 1e-9);
}

/* Every tenth announces five times as much as comes; the sum of what is expected is that of what
 * comes. */
static void the_sum_is_right_with_lies(void **state)
{
	struct announced a = { 0 };
	double expected = 0, came = 0;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		double says = i % 10 == 0 ? 5 : 1;

		if (i >= 1000) {
			expected += says * announced_share(&a, 0);
			came += 1;
		}
		announced_learn(&a, says, 1, 0);
	}
	assert_true(expected > 0.9 * came && expected < 1.1 * came);
}

static void no_more_comes_than_was_announced(void **state)
{
	struct announced a = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		announced_learn(&a, 1, 100, 0);
	assert_true(announced_share(&a, 0) <= 1);
	for (int i = 0; i < 1000; i++)
		announced_learn(&a, 0, 0, 0);
	assert_true(announced_share(&a, 0) <= 1);
}

/* A huge one of which nothing comes counts like ANNOUNCED_WEIGHT others. */
static void one_lesson_weighs_little(void **state)
{
	struct announced a = { 0 };

	(void)state;
	for (int i = 0; i < 20; i++)
		announced_learn(&a, 2, 2, 0);
	announced_learn(&a, 1e9, 0, 0);
	assert_true(announced_share(&a, 0) > 0.7);
}

static void it_fades_with_time(void **state)
{
	struct announced a = { 0 };

	(void)state;
	for (int i = 0; i < 20; i++)
		announced_learn(&a, 2, 2, 1000);
	assert_true(announced_share(&a, 1000) > 0.99);
	assert_true(announced_share(&a, 1000 + 24 * 3600000) < 0.01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_known_at_first),
		cmocka_unit_test(the_sum_is_right_with_lies),
		cmocka_unit_test(no_more_comes_than_was_announced),
		cmocka_unit_test(one_lesson_weighs_little),
		cmocka_unit_test(it_fades_with_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

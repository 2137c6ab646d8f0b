/* test_unseen.c - which tenants' lessons are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/fleet/unseen.h"

/* Teach that caches keep nothing, and that all comes. */
static void teach(struct unseen *u, uint32_t tenant)
{
	struct unseen_tenant *t = unseen_lesson(u, tenant);

	for (uint64_t i = 1; i <= 2 * KEEP_LEAST; i++) {
		keep_learn(&t->keep, i, 2000, 0, 0);
		announced_learn(&t->announced, 1, 1, 0);
	}
}

static bool is_known(const struct unseen *u, uint32_t tenant)
{
	return keep_chance(&unseen_of(u, tenant)->keep, 4000, 0) < 0.1 &&
	    announced_share(&unseen_of(u, tenant)->announced, 0) > 0.9;
}

static void those_that_taught_last_are_known(void **state)
{
	struct unseen u = { 0 };

	(void)state;
	assert_false(is_known(&u, 0));
	for (uint32_t i = 1; i <= UNSEEN_TENANTS; i++)
		teach(&u, i);
	teach(&u, 1);
	teach(&u, UNSEEN_TENANTS + 1);
	for (uint32_t i = 1; i <= UNSEEN_TENANTS + 1; i++)
		assert_int_equal(is_known(&u, i), i != 2);
	assert_false(is_known(&u, 0));
}

static void a_known_size_ends_what_was_learned_of_times(void **state)
{
	struct unseen u = { 0 };

	(void)state;
	teach(&u, 1);
	unseen_sized(&u);
	assert_true(keep_chance(&unseen_of(&u, 1)->keep, 4000, 0) == 1);
	assert_true(announced_share(&unseen_of(&u, 1)->announced, 0) > 0.9);
}

/* Caches keep 5 s of one tenant and 40 s of another; half comes of what one of them announces. */
static void a_pool_tells_the_shortest_time(void **state)
{
	static const msec kept_ms[] = { 40000, 5000 };
	struct unseen u = { 0 };
	struct unseen_sum sum;

	(void)state;
	sum = unseen_sum(&u, 0);
	assert_true(sum.kept_s == -1 && sum.came_share == -1);
	for (uint32_t t = 0; t < 2; t++) {
		struct unseen_tenant *of = unseen_lesson(&u, 1 + t);

		for (uint64_t i = 0; i < 400; i++) {
			msec age = 500 + (msec)(i * 7919 % 80) * 1000;

			keep_learn(&of->keep, 1 + i % 20, age, age < kept_ms[t] ? 1 : 0, 0);
		}
		sum = unseen_sum(&u, 0);
		assert_true(sum.kept_s > 0.7 * (double)kept_ms[t] / 1000);
		assert_true(sum.kept_s < 1.3 * (double)kept_ms[t] / 1000);
	}
	assert_true(sum.came_share == -1);
	for (unsigned i = 0; i < 20; i++)
		announced_learn(&unseen_lesson(&u, 1)->announced, 1, 0.5, 0);
	sum = unseen_sum(&u, 0);
	assert_true(sum.came_share > 0.49 && sum.came_share < 0.51);
	assert_true(unseen_sum(&u, 24 * 3600000).kept_s == -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_taught_last_are_known),
		cmocka_unit_test(a_known_size_ends_what_was_learned_of_times),
		cmocka_unit_test(a_pool_tells_the_shortest_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

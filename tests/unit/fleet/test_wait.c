/* test_wait.c - expected times to the first token, corrected by how they turned out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/fleet/wait.h"

static msec now = 1000;

#define assert_near(a, b, share)	assert_true(fabs((a) - (b)) <= (share) * (b))

/* Let <n> first tokens come after <a> + <b> x estimate, +- <off> of that. Returns the mean error of
 * the last tenth. */
static double learn(
    struct wait_line *l, struct rng *rng, unsigned n, double a, double b, double off, double most)
{
	double sum = 0;

	for (unsigned i = 0; i < n; i++) {
		double estimate = most * rng_below(rng, 1000) / 1000.0;
		double real = (a + b * estimate) * (1 + off * (rng_below(rng, 2001) / 1000.0 - 1));
		double expected = wait_expected(l, estimate, 1, now);

		if (i >= n * 9 / 10)
			sum += fabs(expected - real) / real;
		wait_came(l, estimate, expected, real, now += 100);
	}
	return sum / (n - n * 9 / 10);
}

static void estimates_count_until_others_are_known(void **state)
{
	struct wait_line l = { 0 };

	(void)state;
	assert_near(wait_expected(&l, 0.1, 1, now), 0.1, 1e-6);
	assert_near(wait_expected(&l, 3, 1, now), 3, 1e-6);
	assert_near(wait_expected(&l, 100, 1, now), 100, 1e-6);
	assert_near(wait_expected(&l, 0, 1, now), 0.001, 1e-6);		/* never none */
	assert_true(wait_error(&l) < 0);
}

static void a_line_is_learned(void **state)
{
	static const struct { double a, b, most; } cases[] = {
		{ 0.02, 1, 0.5 }, { 0.02, 0.7, 3 }, { 0.005, 3, 0.1 }, { 1, 1.2, 20 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct wait_line l = { 0 };
		struct rng rng;

		rng_init(&rng, i);
		assert_true(learn(&l, &rng, 300, cases[i].a, cases[i].b, 0, cases[i].most) < 0.1);
		assert_true(learn(&l, &rng, 300, cases[i].a, cases[i].b, 0.2, cases[i].most) < 0.2);
		assert_true(wait_error(&l) > 0.03 && wait_error(&l) < 0.25);
	}
}

/* Short waits, however many and however long they take, do not say that a long queue is short. */
static void a_longer_queue_is_expected_to_take_longer(void **state)
{
	struct wait_line l = { 0 };
	struct rng rng;

	(void)state;
	rng_init(&rng, 1);
	learn(&l, &rng, 1000, 0.05, 0, 0.5, 0.02);
	assert_true(wait_expected(&l, 10, 1, now) > 1);
	assert_true(wait_expected(&l, 100, 1, now) > 10);
}

static void one_first_token_moves_it_little(void **state)
{
	struct wait_line l = { 0 };
	struct rng rng;

	(void)state;
	rng_init(&rng, 1);
	learn(&l, &rng, 500, 0.02, 1, 0.1, 1);
	wait_came(&l, 0.5, wait_expected(&l, 0.5, 1, now), 600, now);
	wait_came(&l, 0.5, wait_expected(&l, 0.5, 1, now), 0, now);
	assert_near(wait_expected(&l, 0.5, 1, now), 0.52, 0.2);
	learn(&l, &rng, 600, 0.1, 5, 0.1, 1);		/* but many do */
	assert_near(wait_expected(&l, 0.5, 1, now), 2.6, 0.25);
}

/* A tenth of the estimates are ten times too high: the others are still right. */
static void estimates_too_high_hold_it_not_down(void **state)
{
	struct wait_line l = { 0 };
	struct rng rng;

	(void)state;
	rng_init(&rng, 1);
	for (unsigned i = 0; i < 600; i++) {
		double real = 0.05 + 2 * rng_unit(&rng), estimate = i % 10 == 0 ? 10 * real : real;

		now += 100;
		wait_came(&l, estimate, wait_expected(&l, estimate, 1, now), real, now);
	}
	assert_true(wait_expected(&l, 1, 1, now) > 0.75);
	assert_true(wait_expected(&l, 2, 1, now) > 1.5);
}

/* Estimates nearly alike, and times that happen to grow with them, say little of others. */
static void estimates_alike_make_no_steep_line(void **state)
{
	struct wait_line l = { 0 };

	(void)state;
	for (unsigned i = 0; i < 500; i++) {
		double estimate = 0.5 + 0.001 * (i % 11), real = 0.3 + 0.04 * (i % 11);

		now += 100;
		wait_came(&l, estimate, wait_expected(&l, estimate, 1, now), real, now);
	}
	assert_near(wait_expected(&l, 0.5, 1, now), 0.45, 0.3);
	assert_true(wait_expected(&l, 5, 1, now) < 20);		/* 180 along the line */
	assert_true(wait_expected(&l, 5, 1, now) > 1.25);
}

/* The line has made up for the slowness until that is learned; both together were too much. */
static void what_the_slowness_learns_does_not_count_twice(void **state)
{
	struct wait_line l = { 0 };
	struct rng rng;

	(void)state;
	rng_init(&rng, 1);
	learn(&l, &rng, 300, 0, 0.5, 0.1, 2);
	assert_near(wait_expected(&l, 1, 1, now), 0.45, 0.15);
	assert_near(wait_expected(&l, 0.4, 0.4, now), 0.45, 0.15);
	assert_near(wait_expected(&l, 1.6, 1.6, now), 0.45, 0.15);
}

/* HAProxy may refuse all that wait so long; then no first token comes that tells better. */
static void a_line_that_no_first_token_confirms_is_forgotten(void **state)
{
	struct wait_line l = { 0 };
	struct rng rng;
	uint64_t count;

	(void)state;
	rng_init(&rng, 1);
	learn(&l, &rng, 3000, 20, 1, 0.1, 0.1);
	count = l.count;
	now += 60000;
	assert_true(wait_expected(&l, 0.1, 1, now) > 5);
	now += 70000;
	assert_near(wait_expected(&l, 0.1, 1, now), 0.1, 1e-6);
	wait_came(&l, 0.1, 0.1, 0.1, now);
	assert_near(wait_expected(&l, 0.1, 1, now), 0.1, 1e-6);
	assert_int_equal(l.count, count + 1);
}

static void the_histogram_has_each_once(void **state)
{
	static const double ratios[] = { 0.2, 0.5, 0.76, 1, 1.2, 1.3, 3, 1000 };
	static const uint64_t want[WAIT_BUCKETS] = { 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1 };
	struct wait_line l = { 0 };
	uint64_t n = 0;

	(void)state;
	for (size_t i = 0; i < 8; i++)
		wait_came(&l, 1, ratios[i], 1, now);
	for (size_t i = 0; i < WAIT_BUCKETS; i++) {
		assert_int_equal(l.bucket[i], want[i]);
		n += l.bucket[i];
	}
	assert_int_equal(n, l.count);
	assert_near(l.ratios, 1007.96, 1e-9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_count_until_others_are_known),
		cmocka_unit_test(a_line_is_learned),
		cmocka_unit_test(a_longer_queue_is_expected_to_take_longer),
		cmocka_unit_test(one_first_token_moves_it_little),
		cmocka_unit_test(estimates_too_high_hold_it_not_down),
		cmocka_unit_test(estimates_alike_make_no_steep_line),
		cmocka_unit_test(what_the_slowness_learns_does_not_count_twice),
		cmocka_unit_test(a_line_that_no_first_token_confirms_is_forgotten),
		cmocka_unit_test(the_histogram_has_each_once),
	};

	return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}

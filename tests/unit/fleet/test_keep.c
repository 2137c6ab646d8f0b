/* test_keep.c - caches that keep everything for so long, as turns of sessions show it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/fleet/keep.h"

#define HONEST	15u	/* sessions */
#define LIAR	100u

/* Turns of HONEST sessions, <least> to <most> seconds after the last; caches keep <kept>. */
static void turns(struct keep *k, struct rng *rng, unsigned n, msec least, msec most, msec kept)
{
	for (unsigned i = 0; i < n; i++) {
		msec age = least + (msec)rng_below(rng, (uint32_t)(most - least));

		keep_learn(k, 1 + i % HONEST, age * 1000, age < kept ? 0.9 : 0.2, 0);
	}
}

static void start(struct keep *k, struct rng *rng)
{
	memset(k, 0, sizeof(*k));
	rng_init(rng, 5);
}

static void nothing_known_is_kept(void **state)
{
	struct rng rng;
	struct keep k;

	(void)state;
	start(&k, &rng);
	turns(&k, &rng, KEEP_LEAST, 100, 200, 1);
	assert_true(keep_chance(&k, 150000, 0) == 1);
	turns(&k, &rng, HONEST, 100, 200, 1);
	assert_true(keep_chance(&k, 150000, 0) < 0.5);
}

static void the_time_is_found(void **state)
{
	static const msec kept[] = { 5, 40, 300 };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct rng rng;
		struct keep k;

		start(&k, &rng);
		turns(&k, &rng, 200, 1, 4 * kept[i], kept[i]);
		assert_true(keep_chance(&k, kept[i] * 1000 / 2, 0) > 0.9);
		assert_true(keep_chance(&k, kept[i] * 1000 * 2, 0) < 0.1);
		assert_true(keep_chance(&k, INT64_MAX, 0) == 0);
	}
}

/* It grew, and it shrank. */
static void another_time_is_found(void **state)
{
	struct rng rng;
	struct keep k;

	(void)state;
	start(&k, &rng);
	turns(&k, &rng, 200, 1, 160, 40);
	turns(&k, &rng, 200, 1, 600, 160);
	assert_true(keep_chance(&k, 100000, 0) > 0.9);
	turns(&k, &rng, 200, 1, 600, 40);
	assert_true(keep_chance(&k, 100000, 0) < 0.1);
}

/* Short ages alone do not show how long caches keep; but what was learned of long ones is old then,
 * so that these count as kept again. */
static void old_evidence_fades(void **state)
{
	struct rng rng;
	struct keep k;

	(void)state;
	start(&k, &rng);
	turns(&k, &rng, 200, 1, 160, 40);
	assert_true(keep_chance(&k, 80000, 0) < 0.1);
	turns(&k, &rng, 1000, 1, 20, 40);
	assert_true(keep_chance(&k, 80000, 0) > 0.5);
}

/* A client changes the hidden part of its session each time, and takes every second turn. */
static void one_session_tells_little(void **state)
{
	struct rng rng;
	struct keep k;

	(void)state;
	start(&k, &rng);
	for (unsigned i = 0; i < 1000; i++)
		keep_learn(&k, LIAR, 2000, 0, 0);
	assert_true(keep_chance(&k, 2000, 0) == 1);
	for (unsigned i = 0; i < 1000; i++) {
		keep_learn(&k, LIAR, 2000, 0, 0);
		turns(&k, &rng, 1, 1, 20, 40);
		assert_true(keep_chance(&k, 2000, 0) > 0.8);
	}
}

static void a_day_later_nothing_is_known(void **state)
{
	struct rng rng;
	struct keep k;

	(void)state;
	start(&k, &rng);
	turns(&k, &rng, 200, 1, 160, 40);
	assert_true(keep_chance(&k, 80000, 0) < 0.1);
	assert_true(keep_chance(&k, 80000, 24 * 3600000) > 0.99);
	keep_learn(&k, 10, 1000, 1, 24 * 3600000);
	assert_true(keep_chance(&k, 80000, 24 * 3600000) == 1);
}

/* Of a few turns at one age, all evicted, the odds are those of STRENGTH. */
static void few_turns_tell_much(void **state)
{
	struct keep k;

	(void)state;
	memset(&k, 0, sizeof(k));
	for (uint64_t i = 0; i < 2 * KEEP_LEAST; i++)
		keep_learn(&k, 1 + i % HONEST, 80000, i % 4 == 0 ? 1 : 0, 0);
	assert_true(keep_chance(&k, 80000, 0) < 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_known_is_kept),
		cmocka_unit_test(the_time_is_found),
		cmocka_unit_test(another_time_is_found),
		cmocka_unit_test(old_evidence_fades),
		cmocka_unit_test(one_session_tells_little),
		cmocka_unit_test(a_day_later_nothing_is_known),
		cmocka_unit_test(few_turns_tell_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

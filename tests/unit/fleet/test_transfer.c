/* test_transfer.c - the factor of transfers is learned, beside what computing takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/fleet/transfer.h"

static double learned(double slowness, double factor, unsigned n)
{
	struct transfer_line l = { .known = 0 };
	struct rng rng;

	rng_init(&rng, 7);
	for (unsigned i = 0; i < n; i++) {
		double compute = 0.05 + rng_below(&rng, 1000) / 1000.0;
		double move = 0.02 + rng_below(&rng, 400) / 1000.0;

		transfer_came(&l, compute, move, slowness * compute + factor * move);
	}
	return transfer_factor(&l);
}

static void the_factor_is_found(void **state)
{
	(void)state;
	assert_true(learned(1, 1, 0) == 1);
	for (double slowness = 0.5; slowness < 3; slowness *= 2)
		for (double factor = 0.5; factor < 5; factor *= 2) {
			double got = learned(slowness, factor, 200);

			if (got < factor * 0.9 || got > factor * 1.1)
				fail_msg("%f, %f: %f", slowness, factor, got);
		}
}

static void nonsense_is_ignored_and_bounded(void **state)
{
	struct transfer_line l = { .known = 0 };

	(void)state;
	transfer_came(&l, 0, 1, 1);
	transfer_came(&l, 1, 0, 1);
	transfer_came(&l, 1, 1, -1);
	assert_int_equal(l.known, 0);
	for (int i = 0; i < 1000; i++)
		transfer_came(&l, 1, 0.001, 1e9);
	assert_true(transfer_factor(&l) <= TRANSFER_FACTOR_MAX);
	for (int i = 0; i < 1000; i++)
		transfer_came(&l, 1, 0.001, 1e-9);
	assert_true(transfer_factor(&l) >= TRANSFER_FACTOR_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_factor_is_found),
		cmocka_unit_test(nonsense_is_ignored_and_bounded),
	};

	return cmocka_run_group_tests_name("fleet transfer", tests, NULL, NULL);
}

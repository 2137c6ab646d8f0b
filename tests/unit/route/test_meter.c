/* test_meter.c - shares of a thread: by counted steps and a clock that is an argument. */
#include "tests/unit/route/world.h"

#include "agent/route/meter.h"

static struct meter m;

static uint64_t allows(uint64_t who, msec now)
{
	return meter_allows(&m, meter_account(&m, who, now));
}

static void use(uint64_t who, uint64_t steps, msec now)
{
	meter_charge(&m, meter_account(&m, who, now), steps);
}

static int start(void **state)
{
	memset(&m, 0, sizeof(m));
	return 0;
}

/* All take what they may, in turns, until nothing changes: one gets half, two a third each, and so on. */
static void shares_are_fair(void **state)
{
	for (uint64_t n = 1; n <= 4; n++) {
		msec now = METER_KNOWN_MS;

		start(state);
		for (uint64_t who = 1; who <= n; who++)
			meter_account(&m, who, 1);
		for (int round = 0; round < 1000; round++)
			for (uint64_t who = 1; who <= n; who++)
				use(who, allows(who, now + 1) / 10, now + 1);
		for (uint64_t who = 1; who <= n; who++)
			assert_in_range(*meter_account(&m, who, now + 1), METER_CORE / (n + 1) - METER_CORE / 50,
					METER_CORE / (n + 1) + METER_CORE / 50);
	}
}

static void what_was_used_is_forgotten(void **state)
{
	msec now = METER_KNOWN_MS + 1;

	meter_account(&m, 1, 1);
	use(1, METER_CORE / 2, now);
	assert_int_equal(allows(1, now), 0);
	assert_in_range(allows(1, now + METER_HALF_MS), METER_CORE / 2 - 2, METER_CORE / 2 + 2);
	assert_true(allows(1, now + 20 * METER_HALF_MS) > METER_CORE - 200);
	assert_int_equal(allows(1, now + (msec)1000000000), METER_CORE);
}

/* Ever new names get one share together, and those that were known before keep theirs. */
static void inventing_tenants_does_not_help(void **state)
{
	msec now = METER_KNOWN_MS + 10;
	uint64_t all = 0, got;

	meter_account(&m, 7, 1);
	for (uint64_t who = 100; who < 100000; who++) {
		got = allows(who, now) < 350000 ? allows(who, now) : 350000;
		use(who, got, now);
		all += got;
	}
	assert_in_range(all, METER_CORE / 2 - 350000, METER_CORE / 2 + 350000);
	assert_true(allows(7, now) > METER_CORE / 2 - 700000);
}

/* A place is given to another tenant only when its own has been silent; the others are strangers. */
static void places_are_kept(void **state)
{
	msec now = 1;

	for (uint64_t i = 0; i <= METER_WAYS; i++)
		meter_account(&m, 1 + i * (METER_PLACES / METER_WAYS), now);
	now += METER_KNOWN_MS;
	use(1, 5, now);
	assert_int_equal(m.strangers, 0);
	use(1 + METER_WAYS * (METER_PLACES / METER_WAYS), 5, now);
	assert_int_equal(m.strangers, 5);
	now += METER_SILENT_MS;
	meter_account(&m, 1 + METER_WAYS * (METER_PLACES / METER_WAYS), now);
	now += METER_KNOWN_MS;
	use(1 + METER_WAYS * (METER_PLACES / METER_WAYS), 5, now);
	assert_int_equal(m.strangers, 0);
	assert_int_equal(allows(3, now), METER_CORE - 5);
}

/* Simulated time may begin anew. */
static void time_that_goes_back(void **state)
{
	use(1, 1000, 1000000);
	use(1, 1000, 5);
	assert_int_equal(m.all, 2000);
	assert_int_equal(allows(1, 5 + 100 * METER_HALF_MS), METER_CORE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(shares_are_fair, start),
		cmocka_unit_test_setup(what_was_used_is_forgotten, start),
		cmocka_unit_test_setup(inventing_tenants_does_not_help, start),
		cmocka_unit_test_setup(places_are_kept, start),
		cmocka_unit_test_setup(time_that_goes_back, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

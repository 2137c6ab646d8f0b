/* test_meter.c - shares of a thread, by counted steps and a clock that is an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "agent/request/meter.h"

static struct meter m;

static uint64_t allows(uint64_t who, msec now)
{
	return meter_allows(&m, meter_account(&m, who, 0, now));
}

static void use(uint64_t who, uint64_t steps, msec now)
{
	meter_charge(&m, meter_account(&m, who, 0, now), steps);
}

static int start(void **state)
{
	memset(&m, 0, sizeof(m));
	return 0;
}

/* All tenants use their share in turns until nothing changes: one gets half, two a third each, and
 * so on. */
static void shares_are_fair(void **state)
{
	for (uint64_t n = 1; n <= 4; n++) {
		msec now = METER_KNOWN_MS;

		start(state);
		for (uint64_t who = 1; who <= n; who++)
			meter_account(&m, who, 0, 1);
		for (int round = 0; round < 1000; round++)
			for (uint64_t who = 1; who <= n; who++)
				use(who, allows(who, now + 1) / 10, now + 1);
		for (uint64_t who = 1; who <= n; who++)
			assert_in_range(*meter_account(&m, who, 0, now + 1), METER_CORE / (n + 1) - METER_CORE / 50,
					METER_CORE / (n + 1) + METER_CORE / 50);
	}
}

static void used_steps_are_forgotten(void **state)
{
	msec now = METER_KNOWN_MS + 1;

	meter_account(&m, 1, 0, 1);
	use(1, METER_CORE / 2, now);
	assert_int_equal(allows(1, now), 0);
	assert_in_range(allows(1, now + METER_HALF_MS), METER_CORE / 2 - 2, METER_CORE / 2 + 2);
	assert_true(allows(1, now + 20 * METER_HALF_MS) > METER_CORE - 200);
	assert_int_equal(allows(1, now + (msec)1000000000), METER_CORE);
}

/* Accounts are found by keyed hashes. */
static uint64_t hashed(uint64_t who)
{
	who *= 0x9e3779b97f4a7c15u;
	return (who ^ who >> 29) * 0xbf58476d1ce4e5b9u;
}

/* A flood of new names gets one share together, and names known before keep theirs. */
static void inventing_tenants_does_not_help(void **state)
{
	msec now = METER_KNOWN_MS + 10;
	uint64_t all = 0, got;

	meter_account(&m, 7, 0, 1);
	for (uint64_t who = 100; who < 100000; who++) {
		got = allows(hashed(who), now) < 310000 ? allows(hashed(who), now) : 310000;
		use(hashed(who), got, now);
		all += got;
	}
	assert_in_range(all, METER_CORE / 2 - 310000, METER_CORE / 2 + 310000);
	assert_true(allows(7, now) > METER_CORE / 2 - 700000);
}

/* Names that may have the same places. */
static uint64_t rival(uint64_t i)
{
	return 1 + (i << 8);
}

#define PLACES	(2 * METER_WAYS)

static bool has_account(uint64_t who, msec now)
{
	uint64_t before = m.strangers;

	use(who, 5, now);
	return m.strangers == before;
}

/* The place of a silent tenant is free. */
static void places_are_kept(void **state)
{
	msec now = 1;

	for (uint64_t i = 0; i <= PLACES; i++)
		meter_account(&m, rival(i), 0, now);
	now += METER_KNOWN_MS;
	for (uint64_t i = 0; i <= PLACES; i++)
		assert_int_equal(has_account(rival(i), now), i < PLACES);
	now += METER_SILENT_MS;
	meter_account(&m, rival(PLACES), 0, now);
	now += METER_KNOWN_MS;
	assert_true(has_account(rival(PLACES), now));
}

/* All places are held by names with a request every ten seconds, during a flood of new names. A new
 * name with two requests a second is known after 15 s. */
static void the_more_active_name_gets_a_place(void **state)
{
	uint64_t invented = 1u << 20;
	msec now = 1, known = 0;

	for (; now < 60000; now += 100) {
		if (now % 10000 == 1)
			for (uint64_t i = 0; i < METER_PLACES * 4; i++)
				meter_account(&m, i / 4 + (i % 4 << 34) + (i << 12), 0, now);
		for (unsigned i = 0; i < 50; i++)
			meter_account(&m, hashed(invented++), 0, now);
		if (now < 20000 || now % 500 != 1)
			continue;
		if (has_account(7, now))
			known = known ? known : now;
		else
			assert_int_equal(known, 0);
	}
	assert_in_range(known, 20000 + METER_KNOWN_MS, 20000 + METER_KNOWN_MS + 15000);
}

/* The account of a named tenant is its own from the start; no other tenant can get it. */
static void named_tenants_have_an_account(void **state)
{
	meter_charge(&m, meter_account(&m, rival(0), 3, 1), 5);
	assert_int_equal(m.strangers, 0);
	for (uint64_t i = 0; i < 100000; i++)
		meter_account(&m, rival(i), 0, 2);
	meter_charge(&m, meter_account(&m, rival(0), 3, 2), 5);
	assert_int_equal(m.named[3], 10);
	meter_account(&m, rival(0), 3, 1 + METER_HALF_MS);
	assert_int_equal(m.named[3], 5);
	assert_ptr_equal(meter_account(&m, 1, METER_NAMED, 1 + METER_HALF_MS), &m.strangers);
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
		cmocka_unit_test_setup(used_steps_are_forgotten, start),
		cmocka_unit_test_setup(inventing_tenants_does_not_help, start),
		cmocka_unit_test_setup(places_are_kept, start),
		cmocka_unit_test_setup(the_more_active_name_gets_a_place, start),
		cmocka_unit_test_setup(named_tenants_have_an_account, start),
		cmocka_unit_test_setup(time_that_goes_back, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_density.c - tokens in a page of text, by model: 4 bytes each until engines report others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/request/density.h"
#include "agent/request/space.h"

static void unknown_models_have_four_bytes_a_token(void **state)
{
	struct density d = { 0 };

	(void)state;
	assert_int_equal(density_room(&d, 1, 64), 16 * ROOM_OF_TOKEN);
	for (int i = 0; i < DENSITY_LEAST - 1; i++)
		density_learn(&d, 1, 3000, 1000);
	assert_int_equal(density_room(&d, 1, 64), 16 * ROOM_OF_TOKEN);
	density_learn(&d, 1, 0, 1000);
	density_learn(&d, 1, 3000, 0);
	assert_int_equal(density_room(&d, 1, 64), 16 * ROOM_OF_TOKEN);
}

static void each_model_has_its_own(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		density_learn(&d, 1, 2000, 1000);
		density_learn(&d, 2, 5000, 1000);
	}
	assert_int_equal(density_room(&d, 1, 64), 32 * ROOM_OF_TOKEN);
	assert_in_range(density_room(&d, 2, 64), 12.7 * ROOM_OF_TOKEN, 12.9 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 3, 64), 16 * ROOM_OF_TOKEN);
}

static void it_follows_and_has_bounds(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		density_learn(&d, 1, 4000, 1000);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 2000, 1000);
	assert_in_range(density_room(&d, 1, 64), 31.9 * ROOM_OF_TOKEN, 32 * ROOM_OF_TOKEN);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 1, UINT32_MAX);
	assert_int_equal(density_room(&d, 1, 64), 64 * ROOM_OF_TOKEN);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, UINT64_MAX / 2, 1);
	assert_int_equal(density_room(&d, 1, 64), 4 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 1, 1), 1);
}

static void there_is_room_for_so_many(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (uint64_t key = 1; key <= DENSITY_MODELS + 5; key++)
		for (int i = 0; i < 20; i++)
			density_learn(&d, key, 2000, 1000);
	assert_int_equal(density_room(&d, DENSITY_MODELS, 64), 32 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, DENSITY_MODELS + 1, 64), 16 * ROOM_OF_TOKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_models_have_four_bytes_a_token),
		cmocka_unit_test(each_model_has_its_own),
		cmocka_unit_test(it_follows_and_has_bounds),
		cmocka_unit_test(there_is_room_for_so_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

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
	assert_int_equal(density_room(&d, 1, 0, 64), 16 * ROOM_OF_TOKEN);
	for (int i = 0; i < DENSITY_LEAST - 1; i++)
		density_learn(&d, 1, 0, 3000, 1000);
	assert_int_equal(density_room(&d, 1, 0, 64), 16 * ROOM_OF_TOKEN);
	density_learn(&d, 1, 0, 0, 1000);
	density_learn(&d, 1, 0, 3000, 0);
	assert_int_equal(density_room(&d, 1, 0, 64), 16 * ROOM_OF_TOKEN);
}

static void each_model_has_its_own(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++) {
		density_learn(&d, 1, 0, 2000, 1000);
		density_learn(&d, 2, 0, 5000, 1000);
	}
	assert_int_equal(density_room(&d, 1, 0, 64), 32 * ROOM_OF_TOKEN);
	assert_in_range(density_room(&d, 2, 0, 64), 12.7 * ROOM_OF_TOKEN, 12.9 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 3, 0, 64), 16 * ROOM_OF_TOKEN);
}

static void it_follows_and_has_bounds(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (int i = 0; i < 100; i++)
		density_learn(&d, 1, 0, 4000, 1000);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 0, 2000, 1000);
	assert_in_range(density_room(&d, 1, 0, 64), 31.9 * ROOM_OF_TOKEN, 32 * ROOM_OF_TOKEN);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 0, 1000, UINT32_MAX);
	assert_in_range(density_room(&d, 1, 0, 64), 63.9 * ROOM_OF_TOKEN, 64 * ROOM_OF_TOKEN);
	for (int i = 0; i < 300; i++)
		density_learn(&d, 1, 0, UINT64_MAX / 2, 1);
	assert_int_equal(density_room(&d, 1, 0, 64), 4 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 1, 0, 1), 1);
}

static void learn(struct density *d, uint64_t tenant, uint64_t bytes, uint64_t tokens, int n)
{
	for (int i = 0; i < n; i++)
		density_learn(d, 1, tenant, bytes, tokens);
}

/* A tenant's texts, or its requests for what the engine has stored, count for that tenant. */
static void a_tenant_changes_no_other(void **state)
{
	struct density d = { 0 };

	(void)state;
	learn(&d, 3, 1000, 100000, 300);
	assert_int_equal(density_room(&d, 1, 3, 64), 64 * ROOM_OF_TOKEN);
	learn(&d, 1, 4000, 1000, 20);
	learn(&d, 2, 4000, 1000, 20);
	learn(&d, 3, 1000, 100000, 300);
	assert_int_equal(density_room(&d, 1, 1, 64), 16 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 1, 2, 64), 16 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 1, 3, 64), 64 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, 1, 4, 64), 16 * ROOM_OF_TOKEN);	/* never seen */
	learn(&d, 4, 2000, 1000, 20);
	assert_in_range(density_room(&d, 1, 5, 64), 16 * ROOM_OF_TOKEN, 32 * ROOM_OF_TOKEN);
}

/* However long a prompt is, it counts for at most an eighth of those before it. */
static void one_prompt_moves_it_little(void **state)
{
	struct density d = { 0 };

	(void)state;
	learn(&d, 0, 4000, 1000, 100);
	learn(&d, 0, 100000000, 100000000, 1);
	assert_in_range(density_room(&d, 1, 0, 64), 20 * ROOM_OF_TOKEN, 23 * ROOM_OF_TOKEN);
	learn(&d, 0, 4000, 1000, 100);
	learn(&d, 0, 4000, 100000000, 1);
	assert_in_range(density_room(&d, 1, 0, 64), 16 * ROOM_OF_TOKEN, 18 * ROOM_OF_TOKEN);
}

static void there_is_room_for_so_many(void **state)
{
	struct density d = { 0 };

	(void)state;
	for (uint64_t key = 1; key <= DENSITY_MODELS + 5; key++)
		for (int i = 0; i < 20; i++)
			density_learn(&d, key, 0, 2000, 1000);
	assert_int_equal(density_room(&d, DENSITY_MODELS, 0, 64), 32 * ROOM_OF_TOKEN);
	assert_int_equal(density_room(&d, DENSITY_MODELS + 1, 0, 64), 16 * ROOM_OF_TOKEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_models_have_four_bytes_a_token),
		cmocka_unit_test(each_model_has_its_own),
		cmocka_unit_test(it_follows_and_has_bounds),
		cmocka_unit_test(a_tenant_changes_no_other),
		cmocka_unit_test(one_prompt_moves_it_little),
		cmocka_unit_test(there_is_room_for_so_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

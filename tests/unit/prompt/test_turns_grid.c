/* test_turns_grid.c - chunks of the grid follow one another, and each byte is in one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/prompt/turns_grid.h"

static void each_byte_is_in_one_chunk(void **state)
{
	static const size_t chunks[] = { 64, 66, 256, 8192 };

	for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
		size_t chunk = chunks[i], k = 0;

		assert_int_equal(grid_at(chunk, 0), 0);
		assert_int_equal(grid_before(chunk, 0), 0);
		for (uint64_t at = 0; at < 40 * chunk; at++) {
			k += at == grid_at(chunk, k + 1);
			assert_int_equal(grid_of(chunk, at), k);
			assert_int_equal(grid_before(chunk, at + 1), k);
		}
		assert_true(k > 40);
	}
}

static void chunks_have_their_bytes(void **state)
{
	for (size_t k = 0; k < 100; k++) {
		assert_int_equal(grid_at(8192, k + 1) - grid_at(8192, k), grid_bytes(8192, k));
		assert_int_equal(grid_bytes(8192, k), k >= 1 && k <= 6 ? 4096 : 8192);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_byte_is_in_one_chunk),
		cmocka_unit_test(chunks_have_their_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Hashes are kept: in snapshots and by the other agents of a fleet. So what hash.h computes in a
 * shorter way must be what XXH3 computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"

static void test_mix_is_xxh3(void **state)
{
	struct rng r;
	struct hash_key k;

	rng_init(&r, 1);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t both[2] = { rng_next(&r), i % 3 == 0 ? i : rng_next(&r) };

		for (size_t b = 0; b < sizeof(k.secret); b++)
			k.secret[b] = (uint8_t)rng_next(&r);
		assert_int_equal(hash_mix(&k, both[0], both[1]),
				 XXH3_64bits_withSecret(both, sizeof(both), k.secret, sizeof(k.secret)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mix_is_xxh3),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

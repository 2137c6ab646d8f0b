/* Hashes are kept: in snapshots and by the other agents of a fleet. So what hash.h computes in a
 * shorter way must be what XXH3 computes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/hash_wide.h"
#include "agent/base/rng.h"

static void fill(struct rng *r, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)rng_next(r);
}

static void test_mix_is_xxh3(void **state)
{
	struct rng r;
	struct hash_key k;

	rng_init(&r, 1);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t both[2] = { rng_next(&r), i % 3 == 0 ? i : rng_next(&r) };

		fill(&r, k.secret, sizeof(k.secret));
		assert_int_equal(hash_mix(&k, both[0], both[1]),
				 XXH3_64bits_withSecret(both, sizeof(both), k.secret, sizeof(k.secret)));
	}
}

/* Lengths that the compiler knows. */
static void constant_lengths_are_the_same(void **state)
{
	uint8_t bytes[72];
	struct hash_key k;
	struct rng r;

	rng_init(&r, 3);
	fill(&r, k.secret, sizeof(k.secret));
	fill(&r, bytes, sizeof(bytes));
	assert_int_equal(hash64(&k, bytes, 0), hash64_of(&k, bytes, 0));
	assert_int_equal(hash64(&k, bytes, 3), hash64_of(&k, bytes, 3));
	assert_int_equal(hash64(&k, bytes, 8), hash64_of(&k, bytes, 8));
	assert_int_equal(hash64(&k, bytes, 16), hash64_of(&k, bytes, 16));
	assert_int_equal(hash64(&k, bytes, 17), hash64_of(&k, bytes, 17));
	assert_int_equal(hash64(&k, bytes, 24), hash64_of(&k, bytes, 24));
	assert_int_equal(hash64(&k, bytes, 32), hash64_of(&k, bytes, 32));
	assert_int_equal(hash64(&k, bytes, 33), hash64_of(&k, bytes, 33));
	assert_int_equal(hash64(&k, bytes, 50), hash64_of(&k, bytes, 50));
	assert_int_equal(hash64(&k, bytes, 64), hash64_of(&k, bytes, 64));
	assert_int_equal(hash64(&k, bytes, 65), hash64_of(&k, bytes, 65));
}

/* Whatever registers the CPU has, and whatever the length. */
static void wide_hashes_are_the_same(void **state)
{
	static uint8_t bytes[20000];
	struct hash_key k;
	struct rng r;

	rng_init(&r, 2);
	fill(&r, k.secret, sizeof(k.secret));
	fill(&r, bytes, sizeof(bytes));
	for (size_t n = 0; n < sizeof(bytes); n += n < 600 ? 1 : 501) {
		struct hash128 a = hash128(&k, bytes, n), b = hash128_best()(&k, bytes, n);

		assert_int_equal(hash64(&k, bytes, n), hash64_best()(&k, bytes, n));
		assert_int_equal(hash64_of(&k, bytes, n),
				 XXH3_64bits_withSecret(bytes, n, k.secret, sizeof(k.secret)));
		assert_true(a.lo == b.lo && a.hi == b.hi);
	}
}

static void pages_are_hashed_as_one_is(void **state)
{
	static uint8_t bytes[64 * 100 + 3];
	uint64_t out[101] = { 0 };
	struct hash_key k;
	struct rng r;

	rng_init(&r, 4);
	fill(&r, k.secret, sizeof(k.secret));
	fill(&r, bytes, sizeof(bytes));
	hash64_pages(&k, bytes, 0, out);
	assert_int_equal(out[0], 0);
	hash64_pages(&k, bytes + 3, 100, out);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(out[i], hash64_of(&k, bytes + 3 + 64 * i, 64));
	assert_int_equal(out[100], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mix_is_xxh3),
		cmocka_unit_test(constant_lengths_are_the_same),
		cmocka_unit_test(wide_hashes_are_the_same),
		cmocka_unit_test(pages_are_hashed_as_one_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

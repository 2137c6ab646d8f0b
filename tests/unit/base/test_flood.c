/* test_flood.c - messages crafted to collide. They collide under hashes with a seed or without a
 * key, and not under our keyed hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/flood.h"

#define SEEDS	16

/* Half of the positions in the first set collide for any one seed, so about 64 of 4096 messages
 * share a hash. */
static void the_sets_collide(void **state)
{
	struct rng rng;

	(void)state;
	rng_init(&rng, 3);
	for (enum flood_set s = 0; s < FLOOD_SETS; s++) {
		unsigned most, commonest = 0, distinct, fewest = FLOOD_N, sum = 0;

		for (int i = 0; i < SEEDS; i++) {
			distinct = flood_check(s, rng_next(&rng), &most);
			fewest = distinct < fewest ? distinct : fewest;
			commonest = most > commonest ? most : commonest;
			sum += distinct;
		}
		printf("%s, weak form, %d seeds: %u messages have %u hashes, at best %u; %u have one\n",
		       flood_names[s], SEEDS, FLOOD_N, sum / SEEDS, fewest, commonest);
		assert_true(sum / SEEDS <= (s == FLOOD_XXH64 ? FLOOD_N / 8 : 1));
	}
}

static void the_keyed_hash_does_not_collide(void **state)
{
	static uint64_t h[FLOOD_N];
	struct hash_key k;
	uint8_t m[FLOOD_MAX];
	struct rng rng;

	(void)state;
	rng_init(&rng, 5);
	for (int turn = 0; turn < SEEDS; turn++) {
		for (size_t i = 0; i < sizeof(k.secret); i++)
			k.secret[i] = (uint8_t)(rng_next(&rng) >> 32);
		for (enum flood_set s = 0; s <= FLOOD_RANDOM; s++) {
			unsigned distinct, most;

			for (unsigned i = 0; i < FLOOD_N; i++) {
				size_t n = flood_message(s, i, m);

				h[i] = hash64(&k, m, n);
			}
			most = flood_commonest(h, FLOOD_N, &distinct);
			if (turn == 0)
				printf("%s, keyed: %u messages, %u hashes\n", flood_names[s], FLOOD_N,
				       distinct);
			assert_int_equal(most, 1);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sets_collide),
		cmocka_unit_test(the_keyed_hash_does_not_collide),
	};

	return cmocka_run_group_tests_name("base flood", tests, NULL, NULL);
}

/* test_segcache.c - the cache of segments: a hit gives the ids that were put, old entries are
 * evicted first, and sizes, counters and keys are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/hash_wide.h"
#include "agent/base/rng.h"
#include "agent/tok/segcache.h"
#include "tests/unit/tok/secret.h"

static struct segcache *make(size_t bytes, unsigned threads)
{
	struct segcache_opts o = { .max_bytes = bytes, .threads = threads };
	struct hash_key key = secret_key();
	struct segcache *c = segcache_new(&o, &key);

	assert_non_null(c);
	return c;
}

static struct segcache_stats stats(struct segcache *c)
{
	struct segcache_stats s;

	segcache_stats(c, &s);
	return s;
}

static struct segcache_key key_of(const struct segcache *c, uint64_t number)
{
	struct segcache_scope none = { 0 };

	return segcache_key(c, none, span_of(&number, sizeof(number)), false);
}

/* Put <n> ids that are derived from <number>. */
static void put(struct segcache *c, uint64_t number, size_t n)
{
	struct segcache_key k = key_of(c, number);
	token_id *ids = malloc((n + 1) * sizeof(*ids));

	assert_non_null(ids);
	for (size_t i = 0; i < n; i++)
		ids[i] = (token_id)(number * 1000003 + i);
	segcache_put(c, &k, ids, n);
	free(ids);
}

static bool has(struct segcache *c, uint64_t number, size_t n)
{
	struct segcache_key k = key_of(c, number);
	struct ids out = { 0 };
	int got = segcache_get(c, &k, &out);

	assert_true(got >= 0);
	if (got == 1) {
		assert_int_equal(out.n, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(out.p[i], (token_id)(number * 1000003 + i));
	} else {
		assert_int_equal(out.n, 0);
	}
	ids_free(&out);
	return got == 1;
}

static void entries_are_found(void **state)
{
	struct segcache *c = make(1 << 20, 1);

	assert_false(has(c, 1, 10));
	put(c, 1, 10);
	put(c, 2, 0);
	put(c, 3, 1000);
	assert_true(has(c, 1, 10));
	assert_true(has(c, 2, 0));
	assert_true(has(c, 3, 1000));
	put(c, 3, 1000);			/* a second put changes nothing */
	assert_int_equal(stats(c).entries, 3);
	assert_int_equal(stats(c).stored, 3);
	assert_int_equal(stats(c).hits, 3);
	assert_int_equal(stats(c).misses, 1);
	assert_int_equal(stats(c).hit_ids, 1010);
	segcache_free(c);
}

static void ids_are_appended(void **state)
{
	struct segcache *c = make(1 << 20, 1);
	struct segcache_key k = key_of(c, 5);
	token_id ids[3] = { 7, 8, 9 };
	struct ids out = { 0 };

	segcache_put(c, &k, ids, 3);
	for (unsigned i = 1; i <= 100; i++) {
		assert_int_equal(segcache_get(c, &k, &out), 1);
		assert_int_equal(out.n, 3 * i);
	}
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(out.p[i], 7 + i % 3);
	ids_free(&out);
	segcache_free(c);
}

/* A different text, length, tokenizer, tenant or place (first or not) gives a different key. */
static void different_segments_have_different_keys(void **state)
{
	struct segcache *c = make(1 << 20, 1);
	struct segcache_scope s = { 1, 2 }, other_tokenizer = { 3, 2 }, other_tenant = { 1, 3 },
			      swapped = { 2, 1 };
	struct segcache_key k[8];
	struct ids out = { 0 };
	token_id one = 1;

	k[0] = segcache_key(c, s, SPAN("some text"), false);
	k[1] = segcache_key(c, s, SPAN("some text"), true);
	k[2] = segcache_key(c, other_tokenizer, SPAN("some text"), false);
	k[3] = segcache_key(c, other_tenant, SPAN("some text"), false);
	k[4] = segcache_key(c, swapped, SPAN("some text"), false);
	k[5] = segcache_key(c, s, SPAN("some texu"), false);
	k[6] = segcache_key(c, s, SPAN("some text\0"), false);
	k[7] = k[0];
	k[7].bytes++;				/* the hash alone is not enough */
	segcache_put(c, &k[0], &one, 1);
	for (unsigned i = 1; i < 8; i++)
		assert_int_equal(segcache_get(c, &k[i], &out), 0);
	assert_int_equal(segcache_get(c, &k[0], &out), 1);
	k[1] = segcache_key(c, s, SPAN("some text"), false);
	assert_int_equal(segcache_get(c, &k[1], &out), 1);
	ids_free(&out);
	segcache_free(c);
}

/* The AVX2 build of the hash gives the same values as the plain one. */
static void avx2_hash_is_the_same(void **state)
{
#ifdef __x86_64__
	struct hash_key key = secret_key();
	static uint8_t text[5000];
	struct hash128 a, b;

	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2"))
		return;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * i >> 3);
	for (size_t n = 0; n < sizeof(text); n += 1 + n / 16) {
		a = hash128(&key, text, n);
		b = hash128_avx2(&key, text, n);
		assert_true(a.lo == b.lo && a.hi == b.hi);
	}
#endif
}

/* Two caches with different secrets have different keys for the same text. */
static void keys_depend_on_the_secret(void **state)
{
	struct segcache_opts o = { .max_bytes = SEGCACHE_LEAST };
	struct hash_key key = secret_key();
	struct segcache_scope none = { 0 };
	struct segcache *a = segcache_new(&o, &key), *b;
	struct segcache_key ka, kb;

	key.secret[0]++;
	b = segcache_new(&o, &key);
	assert_true(a != NULL && b != NULL);
	ka = segcache_key(a, none, SPAN("0123456789abcdefghij"), false);
	kb = segcache_key(b, none, SPAN("0123456789abcdefghij"), false);
	assert_true(ka.hash.lo != kb.hash.lo && ka.hash.hi != kb.hash.hi);
	segcache_free(a);
	segcache_free(b);
}

static void the_oldest_is_evicted_first(void **state)
{
	struct segcache *c = make(SEGCACHE_LEAST, 1);
	uint64_t i, oldest;

	for (i = 1; stats(c).evicted == 0; i++)
		put(c, i, 50);
	assert_int_equal(stats(c).stored, i - 1);
	for (oldest = 1; !has(c, oldest, 50); oldest++)
		;
	assert_int_equal(oldest, 1 + stats(c).evicted);
	for (; oldest < i; oldest++)
		assert_true(has(c, oldest, 50));
	segcache_free(c);
}

/* An entry that is read again and again is not evicted, however many others are put. */
static void used_entries_stay(void **state)
{
	struct segcache *c = make(SEGCACHE_LEAST, 1);

	put(c, 1, 60);
	for (uint64_t i = 2; i < 2000; i++) {
		put(c, i, i % 60);
		assert_true(has(c, 1, 60));
	}
	assert_true(stats(c).spared > 0);
	for (uint64_t i = 2000; i < 6000; i++)		/* evicted once it is no longer read */
		put(c, i, i % 60);
	assert_false(has(c, 1, 60));
	segcache_free(c);
}

static void too_large_entries_are_not_stored(void **state)
{
	struct segcache *c = make(1 << 20, 1);
	size_t most = (1 << 20) / 4 / 16;		/* larger than any shard */

	put(c, 1, 100);
	put(c, 2, most);
	assert_int_equal(stats(c).too_large, 1);
	assert_false(has(c, 2, most));
	assert_true(has(c, 1, 100));
	for (size_t n = 1; n < most; n += 101)
		put(c, 100 + n, n);
	assert_true(stats(c).too_large > 1 && stats(c).stored > 30);
	segcache_free(c);
}

/* In a random mix, a hit gives the ids that were put, a small entry is found at once after its put,
 * and the size stays within the bound. */
static void random_mix(void **state)
{
	static const size_t room[] = { SEGCACHE_LEAST, SEGCACHE_LEAST + 1000, 50000, 300000, 3 << 20 };
	struct rng r;

	rng_init(&r, 3);
	for (unsigned round = 0; round < 5; round++) {
		struct segcache *c = make(room[round], round);
		struct segcache_stats st;
		size_t found = 0;

		for (unsigned i = 0; i < 40000; i++) {
			uint64_t number = rng_below(&r, 1 + rng_below(&r, 3000));
			size_t n = number * 7919 % 1000 % (1 + number * 31 % 240);

			if (has(c, number, n)) {
				found++;
				continue;
			}
			put(c, number, n);
			if (n <= room[round] / 16 / 4 / 8)
				assert_true(has(c, number, n));
		}
		st = stats(c);
		assert_true(found > 1000);
		assert_true(st.used_bytes <= st.max_bytes && st.max_bytes == room[round]);
		assert_int_equal(st.stored - st.evicted, st.entries);
		segcache_free(c);
	}
}

/* Short entries fill the table before they fill the ring. */
static void a_full_table(void **state)
{
	struct segcache *c = make(SEGCACHE_LEAST, 1);
	struct segcache_stats st;

	for (uint64_t i = 1; i < 3000; i++) {
		put(c, i, i % 2);
		assert_true(has(c, i, i % 2));
	}
	st = stats(c);
	assert_true(st.entries >= SEGCACHE_LEAST / 512 && st.used_bytes < SEGCACHE_LEAST / 2);
	segcache_free(c);
}

static void sizes_and_shards(void **state)
{
	struct segcache_opts o = { .max_bytes = SEGCACHE_LEAST - 1 };
	struct hash_key key = secret_key();
	struct segcache *c;

	assert_null(segcache_new(&o, &key));
	o = (struct segcache_opts){ .max_bytes = 64 << 20, .threads = 4 };
	c = segcache_new(&o, &key);
	assert_non_null(c);
	assert_int_equal(stats(c).shards, 16);
	segcache_free(c);
	c = make(1 << 20, 8);
	assert_int_equal(stats(c).shards, 4);
	segcache_free(c);
	c = make(256 << 20, 1000);
	assert_int_equal(stats(c).shards, 64);
	segcache_free(c);
	segcache_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_are_found),
		cmocka_unit_test(ids_are_appended),
		cmocka_unit_test(different_segments_have_different_keys),
		cmocka_unit_test(avx2_hash_is_the_same),
		cmocka_unit_test(keys_depend_on_the_secret),
		cmocka_unit_test(the_oldest_is_evicted_first),
		cmocka_unit_test(used_entries_stay),
		cmocka_unit_test(too_large_entries_are_not_stored),
		cmocka_unit_test(random_mix),
		cmocka_unit_test(a_full_table),
		cmocka_unit_test(sizes_and_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

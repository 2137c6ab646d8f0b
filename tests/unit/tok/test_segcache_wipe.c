/* test_segcache_wipe.c - the memory of the cache never holds an id in plain form, and is zero
 * outside of its entries. This file defines the functions of mem.h, so that it can look at a block
 * before it is freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/tok/segcache.h"
#include "tests/unit/tok/secret.h"

#define MARK	0x5eceu		/* an id; no other word has this value */
#define IN_FRONT 512u		/* bytes of struct segcache and of one shard */

static size_t taken, left_over, freed;
static uint8_t *block;

void *mem_alloc(size_t n)
{
	taken = n;
	return block = calloc(1, n);
}

void *mem_calloc(size_t count, size_t size)
{
	return calloc(count, size);
}

void *mem_resize(void *p, size_t count, size_t size)
{
	return realloc(p, count * size);
}

void mem_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}

/* Return how often MARK occurs in the memory of the cache. */
static size_t marks(void)
{
	size_t n = 0;

	for (size_t i = 0; i + 4 <= taken; i += 4)
		n += memcmp(block + i, &(uint32_t){ MARK }, 4) == 0;
	return n;
}

/* Return the number of nonzero bytes in the block after the structs and the key at its start. */
static size_t written(void)
{
	size_t n = 0;

	for (size_t i = IN_FRONT; i < taken; i++)
		n += block[i] != 0;
	return n;
}

void mem_free(void *p)
{
	left_over += p != NULL && p == block ? marks() : 0;
	freed += p != NULL;
	free(p);
}

static void ids_are_never_plain(void **state)
{
	struct segcache_opts o = { .max_bytes = 100000 };
	struct hash_key key = secret_key();
	struct segcache *c = segcache_new(&o, &key);
	token_id ids[100];

	assert_non_null(c);
	for (unsigned i = 0; i < 100; i++)
		ids[i] = MARK;
	for (uint64_t i = 0; i < 1000; i++) {
		struct segcache_key k =
		    segcache_key(c, (struct segcache_scope){ 0 }, span_of(&i, sizeof(i)), false);

		segcache_put(c, &k, ids, 1 + i % 100);
	}
	assert_int_equal(marks(), 0);
	segcache_free(c);
	assert_int_equal(taken, 100000);
	assert_int_equal(freed, 1);
	assert_int_equal(left_over, 0);
}

static struct segcache_key numbered(const struct segcache *c, uint64_t i)
{
	return segcache_key(c, (struct segcache_scope){ 0 }, span_of(&i, sizeof(i)), false);
}

/* Fill a small ring with entries of 200 ids, then put entries of 2 ids, each of which replaces a
 * long one and leaves a gap of 800 bytes. All ids are zero, so an entry holds only its pad: one
 * byte in 256 of it is 0 by chance, and about 9 of the 24 bytes before the ids. */
static void with_a_gap(struct segcache *c, bool used)
{
	static const token_id ids[200];
	struct segcache_stats before, s;
	struct segcache_key k;
	struct ids out = { 0 };

	segcache_stats(c, &s);
	for (uint64_t i = 0; s.evicted == 0; i++) {
		before = s;
		k = numbered(c, i);
		segcache_put(c, &k, ids, 200);
		out.n = 0;
		assert_int_equal(i % 4 == 0 && used ? segcache_get(c, &k, &out) : 1, 1);
		segcache_stats(c, &s);
	}
	assert_in_range(before.entries, 15, 20);
	for (uint64_t i = 0; i < 12; i++) {
		k = numbered(c, 1000 + i);
		segcache_put(c, &k, ids, i % 4 == 3 ? 200 : 2);
		segcache_stats(c, &s);
		/* an entry has 24 bytes and its ids, and a slot of 8 bytes */
		assert_in_range(written(), s.used_bytes * 9 / 10, s.used_bytes + s.entries * 8);
	}
	assert_int_equal(s.spared > 0, used);
	ids_free(&out);
}

/* Fill the table long before the ring. Entries that were read move on, and the bytes that they
 * leave must be zero. */
static void with_a_full_table(struct segcache *c)
{
	static const token_id ids[2];
	struct segcache_key k;
	struct segcache_stats s;
	struct ids out = { 0 };

	for (uint64_t i = 0; i < 130; i++) {
		k = numbered(c, i);
		segcache_put(c, &k, ids, 2);
		out.n = 0;
		assert_int_equal(segcache_get(c, &k, &out), 1);
		segcache_stats(c, &s);
		assert_in_range(written(), s.used_bytes / 2, s.used_bytes + s.entries * 8);
	}
	assert_true(s.spared > 100 && s.evicted > 10);
	ids_free(&out);
}

static void evicted_entries_are_wiped(void **state)
{
	struct segcache_opts o = { .max_bytes = SEGCACHE_LEAST };
	struct hash_key key = secret_key();
	struct segcache *c = segcache_new(&o, &key);
	token_id ids[150];
	struct segcache_stats s;
	struct ids out = { 0 };
	struct segcache_key k;

	with_a_gap(c, false);
	segcache_free(c);
	c = segcache_new(&o, &key);
	with_a_gap(c, true);
	segcache_free(c);
	c = segcache_new(&o, &key);
	with_a_full_table(c);
	segcache_clear(c);
	assert_int_equal(written(), 0);
	segcache_stats(c, &s);
	assert_int_equal(s.entries, 0);
	assert_int_equal(s.used_bytes, 0);
	for (unsigned i = 0; i < 150; i++)
		ids[i] = i * 7;
	k = numbered(c, 1);
	segcache_put(c, &k, ids, 150);
	assert_int_equal(segcache_get(c, &k, &out), 1);
	assert_int_equal(out.n, 150);
	assert_memory_equal(out.p, ids, sizeof(ids));
	ids_free(&out);
	segcache_free(c);
}

/* The AVX2 build makes the same pad as the plain one. */
static void avx2_pad_is_the_same(void **state)
{
	uint32_t here[PAD_WORDS], there[PAD_WORDS];
	struct pad_seed seed;

	for (uint32_t i = 0; i < 1000; i++) {
		for (unsigned k = 0; k < 10; k++)
			seed.word[k] = i * 2654435761u ^ k * 40503u << 7;
		pad_batch(&seed, i, here);
#ifdef __x86_64__
		if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) {
			segcache_pad_avx2(&seed, i, there);
			assert_memory_equal(here, there, sizeof(here));
		}
#endif
		seed.word[i % 10] ^= 1u << i % 32;
		pad_batch(&seed, i, there);
		assert_memory_not_equal(here, there, sizeof(here));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(ids_are_never_plain),
		cmocka_unit_test(evicted_entries_are_wiped), cmocka_unit_test(avx2_pad_is_the_same) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_pages.c - keys and digests of every instruction set this CPU has are those of hash64(), and what
 * compares them stops where a slow loop stops. Input ends at an unreadable page of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/index/pages.h"
#include "tests/unit/edge.h"

static const char *const isas[] = { "generic", "sse2", "avx2", "avx512" };
#define N_ISAS (sizeof(isas) / sizeof(*isas))

static struct hash_key key;

static void fill(uint8_t *p, size_t n, uint64_t seed)
{
	struct rng r;
	size_t i;

	rng_init(&r, seed);
	for (i = 0; i < n; i++)
		p[i] = (uint8_t)(rng_next(&r) >> 40);
}

static int setup(void **state)
{
	fill(key.secret, sizeof(key.secret), 99);
	return 0;
}

/* <n> random bytes whose end touches a page that cannot be read. */
static uint8_t *bytes(size_t n, uint64_t seed)
{
	uint8_t *tmp = malloc(n + 1), *p;

	assert_non_null(tmp);
	fill(tmp, n, seed);
	p = edge_copy(tmp, n);
	free(tmp);
	return p;
}

static void every(void (*story)(const struct pages_ops *))
{
	unsigned ran = 0;

	for (size_t i = 0; i < N_ISAS; i++) {
		const struct pages_ops *o = pages_ops_named(isas[i]);

		if (o == NULL)
			continue;
		assert_string_equal(o->isa, isas[i]);
		story(o);
		ran++;
	}
	assert_true(ran >= 1);
}

static void the_best_is_one_of_them(void **state)
{
	const struct pages_ops *best = pages_ops_best();

	assert_ptr_equal(pages_ops_named(best->isa), best);
	assert_null(pages_ops_named("mmx"));
	printf("best here: %s\n", best->isa);
}

static void one_page(const struct pages_ops *o)
{
	static const size_t large[] = { 1024, 1025, 2047, 2048, 2049, 4096, 16384, 32768, 65532, 65535, 65536 };

	for (size_t n = 1; n <= 600; n++) {
		uint8_t *p = bytes(n, n);

		assert_true(o->key(&key, p, n) == hash64(&key, p, n));
		assert_true(o->digest(&key, p, n) == hash64(&key, p, n));
		edge_free(p, n);
	}
	for (size_t i = 0; i < sizeof(large) / sizeof(*large); i++) {
		size_t n = large[i];
		uint8_t *p = bytes(n, n);

		assert_true(o->key(&key, p, n) == hash64(&key, p, n));
		assert_true(o->digest(&key, p, n) == hash64(&key, p, n));
		edge_free(p, n);
	}
}

static void keys_of_every_size_are_those_of_the_hash(void **state)
{
	every(one_page);
}

/* Pages of 64 bytes have code of their own. Some have whole words of 0 or of ones, under a secret that has
 * too: carries at their limits. */
static void million(const struct pages_ops *o)
{
	enum { N = 1000 };
	uint8_t *p = malloc(N * 64);
	struct hash_key k = key;
	page_key out[N];
	struct rng r;

	assert_non_null(p);
	rng_init(&r, 5);
	for (unsigned round = 0; round < 1000; round++) {
		for (size_t i = 0; i < N * 8; i++) {
			uint64_t x = rng_next(&r), how = round & 1 ? rng_below(&r, 8) : 8;

			x = how == 0 ? 0 : how == 1 ? ~0ull : how == 2 ? x << 32 : how == 3 ? x >> 32 : x;
			memcpy(p + 8 * i, &x, 8);
		}
		if (round & 2)
			memset(k.secret, round & 4 ? 0xff : 0, 64);
		else
			k = key;
		o->keys(&k, p, 64, N, out);
		for (size_t i = 0; i < N; i++)
			if (out[i] != hash64(&k, p + 64 * i, 64))
				fail_msg("%s: round %u, page %zu", o->isa, round, i);
		assert_int_equal(o->same(&k, p, 64, out, N), N);
	}
	free(p);
}

static void a_million_pages_of_64_bytes(void **state)
{
	every(million);
}

static void many(const struct pages_ops *o)
{
	static const size_t sizes[] = { 4, 8, 16, 32, 60, 64, 68, 128, 256, 2048 };
	page_key out[41];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (size_t n = 0; n <= 40; n++) {
			uint8_t *p = bytes(n * sizes[s], n);

			out[n] = 4711;
			o->keys(&key, p, sizes[s], n, out);
			for (size_t i = 0; i < n; i++)
				assert_true(out[i] == hash64(&key, p + i * sizes[s], sizes[s]));
			assert_true(out[n] == 4711);
			o->digests(&key, p, sizes[s], n, out);
			for (size_t i = 0; i < n; i++)
				assert_true(out[i] == hash64(&key, p + i * sizes[s], sizes[s]));
			assert_true(out[n] == 4711);
			edge_free(p, n * sizes[s]);
		}
}

static void any_number_of_pages_in_a_row(void **state)
{
	every(many);
}

/* Each page differs once, first alone, then with all behind it; the keys too end at an unreadable page. */
static void stops(const struct pages_ops *o)
{
	static const size_t sizes[] = { 4, 60, 64, 128, 2048 };
	page_key right[40];

	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++)
		for (size_t n = 0; n <= 40; n++) {
			uint8_t *p = bytes(n * sizes[s], n);
			page_key *k;

			for (size_t i = 0; i < n; i++)
				right[i] = hash64(&key, p + i * sizes[s], sizes[s]);
			k = (page_key *)(void *)edge_copy(right, n * sizeof(*right));
			assert_int_equal(o->same(&key, p, sizes[s], k, n), n);
			assert_int_equal(o->same_digests(&key, p, sizes[s], k, n), n);
			assert_int_equal(o->same_keys(right, k, n), n);
			for (size_t bad = n; bad-- > 0;) {
				k[bad] ^= 1ull << (bad * 7 + n) % 64;
				assert_int_equal(o->same(&key, p, sizes[s], k, n), bad);
				assert_int_equal(o->same_digests(&key, p, sizes[s], k, n), bad);
				assert_int_equal(o->same_keys(right, k, n), bad);
				assert_int_equal(o->same_keys(k, right, n), bad);
				if (n % 2)
					k[bad] = right[bad];
			}
			edge_free((uint8_t *)k, n * sizeof(*right));
			edge_free(p, n * sizes[s]);
		}
}

static void comparisons_stop_at_the_first_other(void **state)
{
	every(stops);
}

/* A change of any byte is seen, by the keys and by the digest. */
static void bytewise(const struct pages_ops *o)
{
	uint8_t p[2048];
	page_key keys[32];
	uint64_t digest;

	fill(p, sizeof(p), 3);
	o->chunks(&key, p, 64, 32, 1, keys, &digest);
	for (size_t i = 0; i < sizeof(p); i++) {
		p[i] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(o->same(&key, p, 64, keys, 32), i / 64);
		assert_int_equal(o->same_digests(&key, p, 2048, &digest, 1), 0);
		p[i] ^= (uint8_t)(1u << i % 8);
	}
	assert_int_equal(o->same(&key, p, 64, keys, 32), 32);
	assert_int_equal(o->same_digests(&key, p, 2048, &digest, 1), 1);
}

static void every_byte_counts(void **state)
{
	every(bytewise);
}

static void whole_chunks(const struct pages_ops *o)
{
	static const struct { size_t page, per; } shapes[] = {
		{ 64, 32 }, { 64, 1 }, { 64, 5 }, { 4, 32 }, { 128, 16 }, { 256, 8 }, { 2048, 1 }, { 60, 32 },
	};

	for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++)
		for (size_t n = 0; n <= 5; n++) {
			size_t per = shapes[s].per, page = shapes[s].page, chunk = per * page;
			uint8_t *p = bytes(n * chunk, n + s);
			page_key keys[5 * PAGES_PER_CHUNK_MAX + 1];
			uint64_t digests[6];

			keys[n * per] = digests[n] = 4711;
			o->chunks(&key, p, page, per, n, keys, digests);
			for (size_t i = 0; i < n * per; i++)
				assert_true(keys[i] == hash64(&key, p + i * page, page));
			for (size_t i = 0; i < n; i++)
				assert_true(digests[i] == hash64(&key, p + i * chunk, chunk));
			assert_true(keys[n * per] == 4711 && digests[n] == 4711);
			edge_free(p, n * chunk);
		}
}

static void chunks_give_both(void **state)
{
	every(whole_chunks);
}

static void unaligned(const struct pages_ops *o)
{
	uint8_t *p = bytes(64 * 40, 8);
	page_key out[32], *odd = malloc(33 * sizeof(*odd));
	uint64_t digests[1];

	assert_non_null(odd);
	for (size_t at = 0; at < 64; at++) {
		o->chunks(&key, p + at, 64, 32, 1, out, digests);
		for (size_t i = 0; i < 32; i++)
			assert_true(out[i] == hash64(&key, p + at + 64 * i, 64));
		assert_true(digests[0] == hash64(&key, p + at, 2048));
		memcpy(odd + 1, out, sizeof(out));	/* 8 bytes off a line */
		assert_int_equal(o->same(&key, p + at, 64, odd + 1, 32), 32);
		assert_int_equal(o->same_keys(out, odd + 1, 32), 32);
		assert_int_equal(o->same_digests(&key, p + at, 2048, digests, 1), 1);
	}
	free(odd);
	edge_free(p, 64 * 40);
}

static void input_needs_no_alignment(void **state)
{
	every(unaligned);
}

static void none(const struct pages_ops *o)
{
	o->keys(&key, NULL, 64, 0, NULL);
	o->keys(&key, NULL, 16, 0, NULL);
	o->digests(&key, NULL, 2048, 0, NULL);
	o->chunks(&key, NULL, 64, 32, 0, NULL, NULL);
	assert_int_equal(o->same(&key, NULL, 64, NULL, 0), 0);
	assert_int_equal(o->same(&key, NULL, 16, NULL, 0), 0);
	assert_int_equal(o->same_digests(&key, NULL, 2048, NULL, 0), 0);
	assert_int_equal(o->same_keys(NULL, NULL, 0), 0);
}

static void of_nothing_nothing_is_read(void **state)
{
	every(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_is_one_of_them),
		cmocka_unit_test(keys_of_every_size_are_those_of_the_hash),
		cmocka_unit_test(a_million_pages_of_64_bytes),
		cmocka_unit_test(any_number_of_pages_in_a_row),
		cmocka_unit_test(comparisons_stop_at_the_first_other),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(chunks_give_both),
		cmocka_unit_test(input_needs_no_alignment),
		cmocka_unit_test(of_nothing_nothing_is_read),
	};

	return cmocka_run_group_tests_name("index pages", tests, setup, NULL);
}

/* test_pages.c - the digest of a block of page keys: each key and its place count, with and without
 * the instructions of AES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/index/pages.c"

typedef uint64_t digest_fn(const page_key *p);

static void fill(page_key *p)
{
	static const struct hash_key key = { .secret = { 1, 2, 3 } };

	for (uint64_t i = 0; i < DIGEST_PAGES; i++)
		p[i] = hash64_of(&key, &i, sizeof(i));
}

static void swap(page_key *a, page_key *b)
{
	page_key x = *a;

	*a = *b;
	*b = x;
}

static void check(digest_fn *f)
{
	page_key p[DIGEST_PAGES];
	uint64_t was;

	fill(p);
	was = f(p);
	for (unsigned i = 0; i < DIGEST_PAGES; i++) {
		for (unsigned bit = 0; bit < 64; bit++) {
			p[i] ^= 1ull << bit;
			assert_int_not_equal(f(p), was);
			p[i] ^= 1ull << bit;
		}
		for (unsigned j = 0; j < i; j++) {
			swap(&p[i], &p[j]);
			assert_int_not_equal(f(p), was);
			swap(&p[i], &p[j]);
		}
	}
	for (unsigned by = 1; by < DIGEST_PAGES; by++) {
		swap(&p[0], &p[by]);		/* a rotation in steps */
		assert_int_not_equal(f(p), was);
	}
	fill(p);
	assert_int_equal(f(p), was);
}

static void portable(void **state)
{
	(void)state;
	check(digest_portable);
}

static void aes(void **state)
{
	(void)state;
#ifdef __x86_64__
	if (__builtin_cpu_supports("aes")) {
		check(digest_aes);
		return;
	}
#endif
	skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(portable),
		cmocka_unit_test(aes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

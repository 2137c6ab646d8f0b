/* test_segcache_wipe.c - no id is left in memory that is given back: the functions of mem.h are this file's, and look before
 * they free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/tok/segcache.h"
#include "tests/unit/tok/secret.h"

#define MARK	0x5eceu		/* an id, and nothing else */

static size_t taken, left_over, freed;

void *mem_alloc(size_t n)
{
	taken = n;
	return calloc(1, n);
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

void mem_free(void *p)
{
	const uint32_t *w = p;

	for (size_t i = 0; w != NULL && i < taken / sizeof(*w); i++)
		left_over += w[i] == MARK;
	freed += p != NULL;
	free(p);
}

static void nothing_is_left(void **state)
{
	struct segcache_opts o = { .max_bytes = 100000 };
	struct hash_key key = secret_key();
	struct segcache *c = segcache_new(&o, &key);
	token_id ids[100];

	assert_non_null(c);
	for (unsigned i = 0; i < 100; i++)
		ids[i] = MARK;
	for (uint64_t i = 0; i < 1000; i++) {
		struct segcache_key k = segcache_key(c, (struct segcache_scope){ 0 }, span_of(&i, sizeof(i)), false);

		segcache_put(c, &k, ids, 1 + i % 100);
	}
	segcache_free(c);
	assert_int_equal(taken, 100000);
	assert_int_equal(freed, 1);
	assert_int_equal(left_over, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_left) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* cache.h - a segment cache, and ids that must be equal. For unit tests only. */
#ifndef TESTS_TOK_CACHE_H
#define TESTS_TOK_CACHE_H

#include "agent/tok/segcache.h"
#include "agent/tok/tok.h"
#include "tests/unit/tok/secret.h"

static inline struct segcache *make_cache(size_t bytes)
{
	struct segcache_opts o = { .max_bytes = bytes, .threads = 1 };
	struct hash_key key = secret_key();
	struct segcache *c = segcache_new(&o, &key);

	assert_non_null(c);
	return c;
}

static inline void same_ids(const struct ids *a, const struct ids *b)
{
	assert_int_equal(a->n, b->n);
	if (a->n > 0)
		assert_memory_equal(a->p, b->p, a->n * sizeof(*a->p));
}

#endif

/* asks.h - short checks that many tests of the index use. */
#ifndef KVROUTE_TESTS_INDEX_ASKS_H
#define KVROUTE_TESTS_INDEX_ASKS_H

#include "agent/index/index.h"
#include "tests/lib/index/index_test.h"

static inline void sound(struct index *ix)
{
	const char *bad = index_check(ix);

	if (bad != NULL)
		fail_msg("%s", bad);
}

static inline struct index_stats stats(struct index *ix)
{
	struct index_stats st;

	index_stats(ix, &st);
	return st;
}

/* Return how many of the <n> pages <s> has from the first on. */
static inline uint32_t depth_of(
    struct index *ix, const struct space_key *space, const page_key *p, size_t n, server_id s)
{
	struct index_match m;
	uint32_t d;

	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, space, p, n, &m);
	d = index_match_depth(&m, s);
	index_match_fini(&m);
	return d;
}

#endif

/* test_large.c - the largest possible index, of which only touched pages take memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

#define PROMPTS	200u
#define PAGES	20u

static const struct space_key sp = { .h = { 7, 7 } };

static void unique(page_key *p, uint64_t id)
{
	for (uint32_t i = 0; i < PAGES; i++)
		p[i] = i < 2 ? i : id << 20 | i;
}

static bool hold(struct index *ix, uint64_t id, server_id s)
{
	page_key p[PAGES];
	index_claim c;

	unique(p, id);
	c = index_commit(ix, &sp, p, PAGES, NULL, s, 0, 0);
	index_confirm(ix, c, 0);
	return c != 0;
}

static uint32_t depth(struct index *ix, uint64_t id, server_id s)
{
	struct index_match m;
	page_key p[PAGES];
	uint32_t d;

	unique(p, id);
	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, &sp, p, PAGES, &m);
	d = index_match_depth(&m, s);
	index_match_fini(&m);
	return d;
}

/* Nodes lie on both sides of 32 GiB, so their refs use all bits; ids are freed and taken again. */
static void refs_of_all_bits(void **state)
{
	struct index_opts o = { .max_bytes = (size_t)63 << 30,
		.max_pages = 65536,
		.shards = 16,
		.reserve_percent = 100 };
	struct index *ix = index_new(&o);
	struct index_shard_stats s;
	struct index_stats st;
	uint64_t high = 0;

	if (ix == NULL)
		skip();		/* a limit on addresses, or a sanitizer */
	(void)madvise(ix->region.base, ix->region.bytes, MADV_NOHUGEPAGE);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < PROMPTS; i++)
			assert_true(hold(ix, i, (server_id)(i % 2)));
		for (uint32_t i = 0; i < PROMPTS; i++)
			assert_int_equal(depth(ix, i, (server_id)(i % 2)), PAGES);
		index_drop_server(ix, 1);
		for (uint32_t i = 0; i < PROMPTS; i++)
			assert_int_equal(depth(ix, i, (server_id)(i % 2)), i % 2 ? 0 : PAGES);
	}
	for (uint32_t i = 0; i < ix->n_shards; i++) {
		index_shard_stats(ix, i, &s);
		high += ix->shards[i].arena.first >= ID_FREE ? s.nodes : 0;
	}
	assert_in_range(high, PROMPTS / 8, PROMPTS / 2 + 2);
	index_drop_server(ix, 0);
	index_stats(ix, &st);
	assert_int_equal(st.nodes + st.records + st.spaces, 0);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refs_of_all_bits) };

	return cmocka_run_group_tests_name("a large index", tests, NULL, NULL);
}

/* test_slack.c - a full arena: prompts come, branch, end within each other and go, and no node
 * stays larger than necessary. If there was no memory for a shorter or a joined copy, the node has
 * slack until there is.
 *
 * A cycle is a prompt that comes and, as memory is full, evicts another. SLACK_CYCLES=n in the
 * environment: n times as many; 20 is a million (make test-long). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/claim_in.h"
#include "tests/unit/index/asks.h"
#include "tests/lib/index/index_test.h"

#ifdef __SANITIZE_ADDRESS__
#define SLOWER	4u
#else
#define SLOWER	1u
#endif
#define OPEN	8u		/* claims at a time */
#define LEN	1000u

static const struct space_key sp = { .h = { 7, 7 } };

struct setup {
	const char *name;
	size_t max_bytes;
	uint32_t shards, servers, longest;
	unsigned cycles;
};

struct churn {
	const struct setup *set;
	struct index *ix;
	struct rng rng;
	index_claim open[OPEN];
	page_key p[LEN];
	uint64_t seen;			/* nodes with slack, before ticks */
};

/* A few paths that branch again and again; a prompt follows one of them and ends anywhere. */
static size_t make(struct churn *c)
{
	uint32_t n = 1 + rng_below(&c->rng, c->set->longest), i, end, way = 0;

	for (i = 0; i < n; ) {
		end = i + 1 + rng_below(&c->rng, rng_below(&c->rng, 2) ? 40 : 400);
		way = way * 4 + rng_below(&c->rng, 4);
		for (; i < end && i < n; i++)
			c->p[i] = (page_key)way << 32 | i;
	}
	return n;
}

static void cycle(struct churn *c, msec now)
{
	index_claim *open = &c->open[rng_below(&c->rng, OPEN)];
	server_id s = (server_id)rng_below(&c->rng, c->set->servers);
	uint32_t how = rng_below(&c->rng, 8);

	if (how == 0)
		index_cancel(c->ix, *open);
	else if (how == 1)
		index_confirm_at(c->ix, *open, s, now);
	else
		index_confirm(c->ix, *open, now);
	*open = index_commit(c->ix, &sp, c->p, make(c), NULL, s, now, 0);
}

/* The check accepts a node with slack, so count that there is none. */
static void none_after_ticks(struct churn *c)
{
	unsigned i;

	for (i = 0; i < 100 && stats(c->ix).slack > 0; i++)
		while (index_tick(c->ix))
			;
	assert_int_equal(stats(c->ix).slack, 0);
	sound(c->ix);
}

static void churn(const struct setup *set, unsigned cycles)
{
	struct index_opts o = { .max_bytes = set->max_bytes, .max_pages = 65536, .shards = set->shards };
	struct churn c = { .set = set, .ix = index_new(&o) };
	struct index_stats st;
	unsigned i;

	assert_non_null(c.ix);
	rng_init(&c.rng, 1);
	for (i = 0; i < cycles; i++) {
		cycle(&c, i * 4);
		c.seen += stats(c.ix).slack;
		if (i % 499 == 0)
			sound(c.ix);
		if (i % 4999 == 4998)
			none_after_ticks(&c);
	}
	for (i = 0; i < OPEN; i++)
		index_cancel(c.ix, c.open[i]);
	none_after_ticks(&c);
	st = stats(c.ix);
	printf(
	    "%s: %u cycles, %llu records evicted, %llu nodes left, %.3f with slack in the mean\n",
	    set->name, cycles, (unsigned long long)st.evicted_records, (unsigned long long)st.nodes,
	    (double)c.seen / cycles);
	assert_true(st.evicted_records > cycles / 2);
	index_free(c.ix);
}

static const struct setup setups[] = {
	{ "64 KiB", 65536, 1, 3, 300, 12000 },
	{ "256 KiB", 256 << 10, 1, 10, LEN, 6000 },
	{ "256 KiB of 1000 servers", 256 << 10, 1, 1000, LEN, 6000 },
	{ "1 MiB", 1 << 20, 1, 64, LEN, 6000 },
	{ "1 MiB in 4 shards", 1 << 20, 4, 64, LEN, 8000 },
	{ "4 MiB in 4 shards", 4 << 20, 4, 64, LEN, 8000 },
	{ "4 MiB of 1000 servers", 4 << 20, 4, 1000, LEN, 8000 },
};

static void a_full_arena_leaves_no_node_larger_than_it_need_be(void **state)
{
	const char *more = getenv("SLACK_CYCLES");
	unsigned i, times = more ? (unsigned)strtoul(more, NULL, 10) : 1;

	for (i = 0; i < sizeof(setups) / sizeof(*setups); i++)
		churn(&setups[i], setups[i].cycles * times / SLOWER);
}

/* ---- a reader that does not go on ---- */

/* Claim <n> pages that no other <id> has after the first <common>. */
static index_claim claim(
    struct index *ix, uint64_t id, uint32_t common, uint32_t n, server_id s, msec now)
{
	page_key p[512];
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] = i < common ? i : (id + 1) << 20 | i;
	return index_commit(ix, &sp, p, n, NULL, s, now, 0);
}

static bool hold(struct index *ix, uint64_t id, uint32_t common, uint32_t n, server_id s, msec now)
{
	index_claim c = claim(ix, id, common, n, s, now);

	index_confirm(ix, c, now);
	return c != 0;
}

static struct index *make_index(size_t bytes)
{
	struct index_opts o = {
		.max_bytes = bytes, .max_pages = 65536, .shards = 1, .reserve_percent = 100
	};
	struct index *ix = index_new(&o);

	assert_non_null(ix);
	return ix;
}

/* Return the number of prompts until something was evicted. */
static uint64_t fill(struct index *ix)
{
	uint64_t n;

	for (n = 0; stats(ix).evicted_records == 0; n++)
		assert_true(hold(ix, n, 0, 64, 1, (msec)n * 16));
	return n;
}

/* Memory is late, not short: no server loses more for it than a tick keeps free. */
static void a_reader_without_a_cpu_costs_nobody_records(void **state)
{
	struct reader *reader;
	struct index_match m;
	struct index *ix = make_index(2 << 20);
	uint64_t n = fill(ix), i, had, went = 0;

	assert_int_equal(index_match_init(&m), 0);
	reader = reader_of(ix, &m);
	had = stats(ix).records;
	reader_enter(ix, reader);
	for (i = 0; i < 1000; i++) {
		went += hold(ix, n + i, 0, 64, 1, (msec)(n + i) * 16);
		index_tick(ix);
	}
	assert_true(went < 100);
	assert_int_equal(stats(ix).refused, 1000 - went);
	assert_true(stats(ix).records >= had - had / 12);
	sound(ix);
	reader_leave(reader);
	for (i = 0; i < 1000; i++)
		assert_true(hold(ix, 2 * n + i, 0, 64, 1, (msec)(2 * n + i) * 16));
	assert_true(stats(ix).records >= had - had / 12);
	sound(ix);
	index_match_fini(&m);
	index_free(ix);
}

/* Nodes that cannot get smaller meanwhile do so after the reader has left. */
static void what_cannot_become_smaller_does_so_later(void **state)
{
	struct reader *reader;
	struct index_match m;
	struct index *ix = make_index(512 << 10);
	index_claim c[40];
	uint64_t i;

	for (i = 0; i < 40; i++) {	/* one claim of each ends before the other */
		assert_true(claim(ix, 10000 + i, 0, 400, 2, 0) != 0);
		assert_true((c[i] = claim(ix, 10000 + i, 0, 500, 3, 0)) != 0);
	}
	assert_int_equal(stats(ix).nodes, 40);
	fill(ix);
	assert_int_equal(index_match_init(&m), 0);
	reader = reader_of(ix, &m);
	reader_enter(ix, reader);
	for (i = 0; i < 40; i++)
		index_cancel(ix, c[i]);
	assert_in_range(stats(ix).slack, 10, 40);
	sound(ix);
	reader_leave(reader);
	for (i = 0; i < 8; i++)
		index_tick(ix);
	assert_int_equal(stats(ix).slack, 0);
	sound(ix);
	index_match_fini(&m);
	index_free(ix);
}

/* Nodes with slack leave their list in any order, in every way there is. */
static void a_node_with_slack_may_go_at_any_time(void **state)
{
	struct index *ix = make_index(1 << 20);
	struct shard *sh = &ix->shards[0];
	uint32_t i, k;

	for (i = 0; i < 40; i++)
		assert_true(hold(ix, i, 0, 30, (server_id)i, 0));
	for (k = 1; k <= sh->n_ids; k++)
		if (node_at(ix, k << SHARD_BITS) != NULL && node_at(ix, k << SHARD_BITS)->kind == NODE_EDGE)
			slack_note(ix, node_at(ix, k << SHARD_BITS));
	assert_int_equal(stats(ix).slack, 40);
	sound(ix);
	for (i = 0; i < 40; i++) {
		server_id s = (server_id)(i * 17 % 40);

		if (i % 4 == 0)
			index_drop_server(ix, s);
		else if (i % 4 == 1)
			assert_true(hold(ix, s, 0, 15, (server_id)(100 + i), 0));
		else if (i % 4 == 2)
			assert_true(hold(ix, s, 0, 60, s, 0));
		else
			index_cancel(ix, claim(ix, s, 0, 25, (server_id)(200 + i), 0));
		sound(ix);
	}
	assert_int_equal(stats(ix).slack, 30);
	index_tick(ix);
	assert_int_equal(stats(ix).slack, 14);
	index_tick(ix);
	assert_int_equal(stats(ix).slack, 0);
	sound(ix);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_arena_leaves_no_node_larger_than_it_need_be),
		cmocka_unit_test(a_reader_without_a_cpu_costs_nobody_records),
		cmocka_unit_test(what_cannot_become_smaller_does_so_later),
		cmocka_unit_test(a_node_with_slack_may_go_at_any_time),
	};

	return cmocka_run_group_tests_name("index slack", tests, NULL, NULL);
}

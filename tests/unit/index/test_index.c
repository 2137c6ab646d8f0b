/* test_index.c - stories of the index: its bounds, its refusals, and what must cost nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/state_in.h"
#include "tests/unit/index/asks.h"
#include "tests/lib/index/index_test.h"
#include "tests/unit/rounds.h"

static const struct space_key sp = { .h = { 7, 7 } };

static struct index *make(size_t max_bytes, uint32_t max_pages)
{
	struct index_opts o = { .max_bytes = max_bytes, .max_pages = max_pages };
	struct index *ix = index_new(&o);

	assert_non_null(ix);
	return ix;
}

/* Make <n> pages that no other <id> has. */
static void unique(page_key *p, uint32_t n, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] = id << 20 | i;
}

static void hold(struct index *ix, const page_key *p, size_t n, server_id s)
{
	index_claim c = index_commit(ix, &sp, p, n, NULL, s, 0, 0);

	assert_true(c != 0);
	index_confirm(ix, c, 0);
}

static uint32_t depth(struct index *ix, const page_key *p, size_t n, server_id s)
{
	return depth_of(ix, &sp, p, n, s);
}

static void append(void *arg, const char *text, size_t n)
{
	fwrite(text, 1, n, arg);
}

static char *dump(struct index *ix)
{
	char *text;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	assert_non_null(f);
	index_dump(ix, &sp, append, f);
	fclose(f);
	return text;
}

/* Digests of 64 pages stand for the pages of a node. <branch>: another prompt leaves there, so that
 * the node below begins within a block; 0: none does. */
static void each_page_counts(uint32_t branch)
{
	enum { N = 300, LANES = 16 };
	struct index *ix = make(1 << 20, 65536);
	page_key p[N], q[N];

	unique(p, N, 1);
	hold(ix, p, N, 1);
	memcpy(q, p, sizeof(q));
	q[branch] = 1;
	if (branch != 0)
		hold(ix, q, branch + 2, 2);
	for (uint32_t i = 0; i < N; i++) {
		memcpy(q, p, sizeof(q));
		q[i] ^= 1ull << i % 64;
		assert_int_equal(depth(ix, q, N, 1), i);
		if (i > 0)
			assert_int_equal(depth(ix, p, i, 1), i);
		if (i + LANES >= N)
			continue;
		q[i] = p[i + LANES];
		q[i + LANES] = p[i];
		assert_int_equal(depth(ix, q, N, 1), i);
	}
	assert_null(index_check(ix));
	index_free(ix);
}

static void each_page_of_a_node_counts(void **state)
{
	(void)state;
	each_page_counts(0);
	each_page_counts(10);
	each_page_counts(64);
}

static void defaults_are_the_documented_ones(void **state)
{
	struct index_opts o;

	index_defaults(&o);
	assert_int_equal(o.max_bytes, 256u << 20);
	assert_int_equal(o.max_pages, 65536);
	index_free(NULL);
}

/* Matches and commits of several threads write to neighbours in these structs. */
static void what_threads_write_has_lines_of_its_own(void **state)
{
	struct index *ix = make(1 << 20, 100);

	assert_int_equal((uintptr_t)ix % 64, 0);
	assert_int_equal((uintptr_t)ix->readers % 64, 0);
	index_free(ix);
}

/* A match reads the owners of a node four at a time, if there are many. Each number of owners up to
 * 70, so that the last four are full or not and some servers need a second word of the set; some
 * servers hold less, and some were dropped. */
static void many_servers_on_one_node(void **state)
{
	uint32_t n, s, part, want;
	page_key p[40];

	unique(p, 40, 1);
	for (n = 1; n <= 70; n++) {
		for (part = 1; part <= 33; part += 8) {
			struct index *ix = make(1 << 20, 100);

			for (s = 0; s < n; s++)
				hold(ix, p, part > 1 && s % part == 3 ? s % 30 + 1 : 40, (server_id)s);
			for (s = 5; s < n; s += 11)
				while (!index_drop_step(ix, (server_id)s, 100))
					;
			for (s = 0; s < 70; s++) {
				want = s >= n || s % 11 == 5 ? 0 : part > 1 && s % part == 3 ? s % 30 + 1 : 40;
				assert_int_equal(depth(ix, p, 40, (server_id)s), want);
			}
			assert_null(index_check(ix));
			index_free(ix);
		}
	}
}

/* The second index has other pages in nodes with the same numbers and serials, and perhaps the
 * address of the first. */
static void a_match_outlives_its_index(void **state)
{
	struct index *a = make(1 << 20, 100), *b;
	page_key p[2][20];
	struct index_match m;

	unique(p[0], 20, 1);
	unique(p[1], 20, 2);
	assert_int_equal(index_match_init(&m), 0);
	hold(a, p[0], 20, 1);
	index_match(a, &sp, p[0], 20, &m);
	assert_int_equal(index_match_depth(&m, 1), 20);
	index_free(a);
	assert_int_equal(index_match_depth(&m, 1), 20);
	b = make(1 << 20, 100);
	hold(b, p[1], 20, 1);
	assert_true(index_commit(b, &sp, p[0], 20, &m, 2, 0, 0) != 0);
	assert_int_equal(depth(b, p[0], 20, 2), 20);
	assert_int_equal(depth(b, p[1], 20, 2), 0);
	assert_true(index_commit(b, &sp, p[0], 20, &m, 1, 0, 0) != 0);
	assert_int_equal(depth(b, p[0], 20, 1), 20);
	assert_null(index_check(b));
	index_match(b, &sp, p[1], 20, &m);
	assert_int_equal(index_match_depth(&m, 1), 20);
	index_free(b);
	index_match_fini(&m);
}

static void a_tiny_budget_is_raised_to_the_least_that_works(void **state)
{
	struct index *ix = make(1, 100);
	page_key p[3] = { 1, 2, 3 };

	assert_int_equal(stats(ix).max_bytes, 65536);
	hold(ix, p, 3, 0);
	assert_int_equal(depth(ix, p, 3, 0), 3);
	index_free(ix);
}

static void pages_beyond_max_pages_do_not_exist(void **state)
{
	struct index *ix = make(1 << 20, 4);
	page_key p[6] = { 1, 2, 3, 4, 5, 6 };

	hold(ix, p, 6, 0);
	assert_int_equal(stats(ix).pages, 4);
	assert_int_equal(depth(ix, p, 6, 0), 4);
	assert_int_equal(depth(ix, p, 3, 0), 3);
	index_free(ix);
}

static void servers_that_cannot_be_are_refused(void **state)
{
	struct index *ix = make(1 << 20, 100);
	page_key p[1] = { 1 };

	assert_int_equal(index_commit(ix, &sp, p, 1, NULL, SERVERS_MAX, 0, 0), 0);
	assert_int_equal(index_commit(ix, &sp, p, 1, NULL, SERVER_NONE, 0, 0), 0);
	index_drop_server(ix, SERVER_NONE);
	assert_int_equal(index_server_room(ix, SERVER_NONE), 0);
	assert_int_equal(depth(ix, p, 1, SERVER_NONE), 0);
	assert_int_equal(stats(ix).records, 0);
	index_confirm(ix, 0, 0);
	index_cancel(ix, UINT64_MAX);
	assert_int_equal(stats(ix).confirmed + stats(ix).cancelled, 0);
	index_free(ix);
}

static void a_match_changes_nothing(void **state)
{
	struct index *ix = make(1 << 20, 100);
	page_key p[6] = { 1, 2, 3, 4, 5, 6 };
	struct index_stats before, after;

	hold(ix, p, 4, 3);
	before = stats(ix);
	assert_int_equal(depth(ix, p, 2, 3), 2);
	assert_int_equal(depth(ix, p, 6, 3), 4);
	after = stats(ix);
	assert_int_equal(after.matches, before.matches + 2);
	after.matches = before.matches;
	assert_memory_equal(&before, &after, sizeof(before));
	index_free(ix);
}

/* A commit and its cancel leave the same text and the same bytes: on nothing, at the end of a node,
 * inside one, and in a space of its own. */
static void a_cancelled_commit_leaves_no_trace(void **state)
{
	static const struct { page_key p[6]; uint32_t n; server_id s; } cases[] = {
		{ { 9, 9 }, 2, 1 },
		{ { 1, 2, 3, 4 }, 4, 1 },
		{ { 1, 2, 3, 4, 5, 6 }, 6, 0 },
		{ { 1, 2 }, 2, 0 },
		{ { 1, 2 }, 2, 1 },
		{ { 1, 2, 7, 8 }, 4, 0 },
		{ { 1, 2, 7, 8 }, 4, 5 },
	};
	struct index *ix = make(1 << 20, 100);
	page_key p[4] = { 1, 2, 3, 4 };
	char *before, *after;
	size_t i, bytes;

	hold(ix, p, 4, 0);
	before = dump(ix);
	bytes = stats(ix).bytes;
	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		index_cancel(ix, index_commit(ix, &sp, cases[i].p, cases[i].n, NULL, cases[i].s, 0, 0));
		sound(ix);
		after = dump(ix);
		assert_string_equal(before, after);
		/* owners may have doubled their slots once; spare memory varies by a block of 16 bytes */
		assert_in_range(stats(ix).bytes, bytes - 32, bytes + 64);
		free(after);
	}
	free(before);
	index_drop_server(ix, 0);
	bytes = stats(ix).bytes;
	index_cancel(ix, index_commit(ix, &sp, p, 4, NULL, 0, 0, 0));
	assert_in_range(stats(ix).bytes, bytes - 32, bytes + 32);
	assert_int_equal(stats(ix).spaces, 0);
	index_free(ix);
}

static void ten_times_the_budget_stays_inside_it(void **state)
{
	const uint32_t n = 64, prompts = 10 * (1 << 20) / (64 * 8);
	struct index *ix = make(1 << 20, 65536);
	struct index_stats st;
	page_key p[64];
	uint64_t i;

	for (i = 0; i < prompts; i++) {
		unique(p, n, i);
		hold(ix, p, n, (server_id)(i % 8));
		st = stats(ix);
		assert_true(st.bytes <= st.max_bytes);
		assert_int_equal(depth(ix, p, n, (server_id)(i % 8)), n);
	}
	sound(ix);
	assert_true(st.evicted_pages > 8ull * st.pages);
	assert_int_equal(st.evicted_pages + st.pages, (uint64_t)n * prompts);
	assert_true(st.bytes > st.max_bytes / 100 * 90);	/* and it uses them */
	unique(p, n, 0);
	assert_int_equal(depth(ix, p, n, 0), 0);
	index_free(ix);
}

/* Claims have a part of the budget. When it is used up, the oldest claim expires and is unknown.
 * Held pages stay, and claimed pages stay as long as their claim. */
static void the_oldest_claim_goes_first(void **state)
{
	struct index *ix = make(1 << 20, 65536);
	index_claim c[100];
	page_key p[500];
	uint32_t n, i, open;

	unique(p, 500, 1000);
	hold(ix, p, 500, 1);
	for (n = 0; n < 100; n++) {
		unique(p, 500, n);
		assert_true((c[n] = index_commit(ix, &sp, p, 500, NULL, 1, 0, 0)) != 0);
		sound(ix);
	}
	open = (uint32_t)stats(ix).claims;
	assert_in_range(open, 10, 40);		/* of 10 % of 1 MiB, 4500 bytes each */
	assert_int_equal(stats(ix).expired, 100 - open);
	assert_int_equal(stats(ix).evicted_records, 0);
	for (i = 0; i < n; i++) {
		unique(p, 500, i);
		assert_int_equal(depth(ix, p, 500, 1), i < n - open ? 0 : 500);
	}
	index_confirm(ix, c[0], 0);
	assert_int_equal(stats(ix).confirmed, 1);
	index_confirm(ix, c[n - 1], 0);
	assert_int_equal(stats(ix).confirmed, 2);
	unique(p, 500, 1000);
	assert_int_equal(depth(ix, p, 500, 1), 500);
	sound(ix);
	index_free(ix);
}

/* With all of the budget for claims: everything is claimed, the next commit is refused and counted,
 * nothing is lost. After one confirmation there is room again. */
static void what_is_pinned_is_not_evicted(void **state)
{
	struct index_opts o = { .max_bytes = 1 << 20, .max_pages = 65536, .reserve_percent = 100 };
	struct index *ix = index_new(&o);
	index_claim c[1024];
	page_key p[500];
	uint32_t n, i;

	for (n = 0; n < 1024; n++) {
		unique(p, 500, n);
		if ((c[n] = index_commit(ix, &sp, p, 500, NULL, 1, 0, 0)) == 0)
			break;
	}
	assert_in_range(n, 100, 300);
	assert_int_equal(stats(ix).refused, 1);
	assert_int_equal(stats(ix).evicted_records, 0);
	sound(ix);
	for (i = 0; i < n; i++) {
		unique(p, 500, i);
		assert_int_equal(depth(ix, p, 500, 1), 500);
	}
	for (i = 0; i < 32; i++)		/* so that every shard has room */
		index_confirm(ix, c[i], 0);
	unique(p, 500, 5000);
	assert_true(index_commit(ix, &sp, p, 500, NULL, 1, 0, 0) != 0);
	sound(ix);
	index_free(ix);
}

static void a_prompt_larger_than_the_index_evicts_nobody(void **state)
{
	struct index *ix = make(1 << 18, 65536);
	page_key *big = calloc(65536, sizeof(*big)), p[3] = { 1, 2, 3 };

	assert_non_null(big);
	hold(ix, p, 3, 0);
	assert_int_equal(index_commit(ix, &sp, big, 65536, NULL, 0, 0, 0), 0);
	assert_int_equal(stats(ix).refused, 1);
	assert_int_equal(depth(ix, p, 3, 0), 3);
	free(big);
	index_free(ix);
}

/* A prompt that is committed again is evicted last, although it was the oldest. */
static void a_commit_does_not_evict_its_own_prefix(void **state)
{
	struct index *ix = make(1 << 18, 65536);
	page_key p[2500];
	uint64_t i;

	unique(p, 2500, 0);
	hold(ix, p, 1000, 1);
	for (i = 1; stats(ix).max_bytes - stats(ix).bytes > 9000; i++) {
		unique(p, 1000, i);
		hold(ix, p, 1000, 2);
	}
	assert_int_equal(stats(ix).evicted_records, 0);
	unique(p, 2500, 0);
	index_cancel(ix, index_commit(ix, &sp, p, 2500, NULL, 1, 0, 0));
	assert_true(stats(ix).evicted_records > 0);
	assert_int_equal(depth(ix, p, 2500, 1), 1000);
	sound(ix);
	index_free(ix);
}

static void all_servers_on_one_root(void **state)
{
	struct index *ix = make(128 << 20, 65536);
	struct index_match m;
	page_key p[SERVERS_MAX];
	uint32_t i;

	unique(p, SERVERS_MAX, 1);
	assert_int_equal(index_match_init(&m), 0);
	for (i = 0; i < SERVERS_MAX; i++)
		hold(ix, p, 4, (server_id)i);
	index_match(ix, &sp, p, SERVERS_MAX, &m);
	assert_int_equal(m.n_bands, 1);
	assert_int_equal(m.bands[0].depth, 4);
	for (i = 0; i < SERVERS_MAX; i++)
		hold(ix, p, i + 1, (server_id)i);
	index_match(ix, &sp, p, SERVERS_MAX, &m);
	assert_int_equal(m.n_bands, SERVERS_MAX - 3);
	for (i = 0; i < SERVERS_MAX; i++)
		assert_int_equal(index_match_depth(&m, (server_id)i), i < 4 ? 4 : i + 1);
	sound(ix);
	for (i = 0; i < SERVERS_MAX; i++)
		index_drop_server(ix, (server_id)(i * 7 % SERVERS_MAX));
	sound(ix);
	assert_int_equal(stats(ix).nodes, 0);
	index_match_fini(&m);
	index_free(ix);
}

static void a_hundred_thousand_spaces_are_harmless(void **state)
{
	struct index *ix = make(1 << 20, 65536);
	struct space_key k;
	page_key p[2] = { 1, 2 };
	uint64_t i;

	for (i = 0; i < 100000; i++) {
		k = (struct space_key){ .h = { i, ~i } };
		index_confirm(ix, index_commit(ix, &k, p, 2, NULL, 3, 0, 0), 0);
	}
	assert_true(stats(ix).bytes <= stats(ix).max_bytes);
	assert_in_range(stats(ix).spaces, 1000, 10000);
	sound(ix);
	index_drop_server(ix, 3);
	assert_int_equal(stats(ix).spaces, 0);
	sound(ix);
	index_free(ix);
}

/* A prompt that grew page by page is no chain of one-page nodes, but as few nodes as possible. */
static void a_prompt_that_grew_is_few_nodes(void **state)
{
	const uint32_t n = 4000;
	struct index *ix = make(16 << 20, 65536);
	page_key *p = calloc(n, sizeof(*p));
	char *text;
	uint32_t i;

	assert_non_null(p);
	for (i = 1; i <= n; i++)
		hold(ix, p, i, 0);
	assert_int_equal(stats(ix).nodes, (n + 511) / 512);
	assert_int_equal(depth(ix, p, n, 0), n);
	sound(ix);
	text = dump(ix);
	assert_true(strlen(text) >= n * 2u);
	free(text);
	index_drop_server(ix, 0);
	assert_int_equal(stats(ix).nodes, 0);
	free(p);
	index_free(ix);
}

/* A million prompts come and go: no page without an owner stays. */
static void churn_leaves_nothing_behind(void **state)
{
	struct index *ix = make(1 << 17, 65536);
	struct rng rng;
	page_key p[8];
	uint32_t i, k, prompts = rounds(1000000, 100000);

	rng_init(&rng, 1);
	for (i = 0; i < prompts; i++) {
		for (k = 0; k < 8; k++)
			p[k] = rng_below(&rng, k < 2 ? 4 : 1000);
		index_confirm(ix, index_commit(ix, &sp, p, 8, NULL, (server_id)(i % 4), 0, 0), 0);
	}
	sound(ix);
	assert_true(stats(ix).evicted_records > prompts - prompts / 10);
	for (i = 0; i < 4; i++)
		index_drop_server(ix, (server_id)i);
	assert_int_equal(stats(ix).nodes + stats(ix).spaces + stats(ix).records, 0);
	sound(ix);
	index_free(ix);
}

/* A node of 300 pages and its only child of 300 are too long for one, until the child's end is
 * cut. */
static void what_is_short_enough_becomes_one(void **state)
{
	struct index *ix = make(1 << 20, 65536);
	page_key p[600];

	unique(p, 600, 1);
	hold(ix, p, 400, 1);
	p[300]++;
	hold(ix, p, 310, 2);
	p[300]--;
	hold(ix, p, 600, 1);
	index_drop_server(ix, 2);
	assert_int_equal(stats(ix).nodes, 2);
	sound(ix);
	index_set_capacity(ix, 1, 400);
	while (index_tick(ix))
		;
	sound(ix);
	assert_int_equal(stats(ix).pages, 400);
	assert_int_equal(stats(ix).nodes, 1);
	index_free(ix);
}

/* The first event of a server may be that it served what another was sent. */
static void a_server_that_was_never_sent_anything_may_have_served_it(void **state)
{
	struct index *ix = make(1 << 20, 65536);
	page_key p[40];
	index_claim c;

	unique(p, 40, 1);
	c = index_commit(ix, &sp, p, 40, NULL, 1, 0, 0);
	index_confirm_at(ix, c, 1000, 0);
	assert_int_equal(depth(ix, p, 40, 1000), 40);
	assert_int_equal(depth(ix, p, 40, 1), 0);
	assert_int_equal(index_server_room(ix, 1000), 40);
	sound(ix);
	index_free(ix);
}

static uint32_t pages_beyond(struct index *ix, const page_key *p, size_t n)
{
	struct index_match m;
	uint32_t beyond;

	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, &sp, p, n, &m);
	beyond = m.beyond;
	index_match_fini(&m);
	return beyond;
}

static void what_goes_on_after_a_match(void **state)
{
	struct index *ix = make(1 << 20, 1000);
	page_key a[40], b[40], c[40];

	(void)state;
	unique(a, 40, 1);
	memcpy(b, a, sizeof(b));
	unique(b + 20, 20, 2);
	unique(c, 40, 3);
	assert_int_equal(pages_beyond(ix, a, 40), 0);
	hold(ix, a, 30, 0);
	assert_int_equal(pages_beyond(ix, a, 40), 0);	/* the next turn */
	assert_int_equal(pages_beyond(ix, b, 40), 10);	/* leaves an edge of which 10 pages follow */
	assert_int_equal(pages_beyond(ix, a, 12), 18);
	assert_int_equal(pages_beyond(ix, c, 40), 0);
	hold(ix, b, 40, 1);
	assert_int_equal(pages_beyond(ix, a, 20), UINT32_MAX);	/* it branches */
	memcpy(b + 20, c, 20 * sizeof(*b));
	assert_int_equal(pages_beyond(ix, b, 40), UINT32_MAX);	/* and a third branch */
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_page_of_a_node_counts),
		cmocka_unit_test(what_threads_write_has_lines_of_its_own),
		cmocka_unit_test(many_servers_on_one_node),
		cmocka_unit_test(what_goes_on_after_a_match),
		cmocka_unit_test(defaults_are_the_documented_ones),
		cmocka_unit_test(a_match_outlives_its_index),
		cmocka_unit_test(a_tiny_budget_is_raised_to_the_least_that_works),
		cmocka_unit_test(pages_beyond_max_pages_do_not_exist),
		cmocka_unit_test(servers_that_cannot_be_are_refused),
		cmocka_unit_test(a_match_changes_nothing),
		cmocka_unit_test(a_cancelled_commit_leaves_no_trace),
		cmocka_unit_test(ten_times_the_budget_stays_inside_it),
		cmocka_unit_test(the_oldest_claim_goes_first),
		cmocka_unit_test(what_is_pinned_is_not_evicted),
		cmocka_unit_test(a_prompt_larger_than_the_index_evicts_nobody),
		cmocka_unit_test(a_commit_does_not_evict_its_own_prefix),
		cmocka_unit_test(all_servers_on_one_root),
		cmocka_unit_test(a_hundred_thousand_spaces_are_harmless),
		cmocka_unit_test(a_prompt_that_grew_is_few_nodes),
		cmocka_unit_test(what_is_short_enough_becomes_one),
		cmocka_unit_test(a_server_that_was_never_sent_anything_may_have_served_it),
		cmocka_unit_test(churn_leaves_nothing_behind),
	};

	return cmocka_run_group_tests_name("index", tests, NULL, NULL);
}

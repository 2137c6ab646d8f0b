/* test_evict.c - what is evicted when something runs out, how much of it in one call, and who loses
 * it: spaces of a tenant, floors, reserves of claims, drops in slices; and that the shards share
 * the work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/claim_in.h"
#include "tests/unit/index/asks.h"
#include "tests/lib/index/index_test.h"
#include "tests/unit/rounds.h"

static const struct space_key sp = { .h = { 7, 7 } };

static struct index *make(size_t max_bytes, uint32_t shards)
{
	struct index_opts o = { .max_bytes = max_bytes, .max_pages = 65536, .shards = shards };
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

static bool hold_in(
    struct index *ix, const struct space_key *space, uint64_t id, size_t n, server_id s, msec now)
{
	page_key p[512];
	index_claim c;

	unique(p, (uint32_t)n, id);
	c = index_commit(ix, space, p, n, NULL, s, now, 0);
	index_confirm(ix, c, now);
	return c != 0;
}

static bool hold(struct index *ix, uint64_t id, size_t n, server_id s)
{
	return hold_in(ix, &sp, id, n, s, 0);
}

static index_claim claim(struct index *ix, uint64_t id, size_t n, server_id s)
{
	page_key p[512];

	unique(p, (uint32_t)n, id);
	return index_commit(ix, &sp, p, n, NULL, s, 0, 0);
}

static uint32_t depth_in(
    struct index *ix, const struct space_key *space, uint64_t id, size_t n, server_id s)
{
	page_key p[512];

	unique(p, (uint32_t)n, id);
	return depth_of(ix, space, p, n, s);
}

static uint32_t depth(struct index *ix, uint64_t id, size_t n, server_id s)
{
	return depth_in(ix, &sp, id, n, s);
}

/* ---- spaces ---- */

/* A million salts of one tenant: none is refused, the newest are kept, another tenant loses
 * nothing. */
static void a_million_salts_are_harmless(void **state)
{
	struct index_opts o = {
		.max_bytes = 16 << 20, .max_pages = 65536, .shards = 4, .max_spaces = 1000
	};
	struct index *ix = index_new(&o);
	struct space_key quiet = { .h = { 1, 1 }, .tenant = 6 }, k;
	uint64_t i, refused = 0, n = rounds(1000000, 100000);

	assert_non_null(ix);
	assert_true(hold_in(ix, &quiet, 1, 100, 2, 0));
	for (i = 0; i < n; i++) {
		k = (struct space_key){ .h = { i, ~i }, .tenant = 5 };
		refused += !hold_in(ix, &k, 1, 2, 3, i * 16);	/* one tick each */
	}
	assert_int_equal(refused, 0);
	assert_int_equal(stats(ix).spaces, 1001);
	assert_int_equal(stats(ix).evicted_records, n - 1000);
	assert_int_equal(depth_in(ix, &quiet, 1, 100, 2), 100);
	for (i = n - 2000; i < n; i++) {
		k = (struct space_key){ .h = { i, ~i }, .tenant = 5 };
		assert_int_equal(depth_in(ix, &k, 1, 2, 3), i >= n - 1000 ? 2 : 0);
	}
	sound(ix);
	index_free(ix);
}

/* A used space stays although others come. A space of many records is evicted over several calls,
 * 64 in each. */
static void the_space_not_used_longest_goes(void **state)
{
	struct index_opts o = { .max_bytes = 4 << 20, .max_pages = 65536, .shards = 4, .max_spaces = 2 };
	struct index *ix = index_new(&o);
	struct space_key big = { .h = { 1, 1 } }, used = { .h = { 2, 2 } }, k;
	uint64_t i, before, refused = 0;

	for (i = 0; i < 200; i++)
		assert_true(hold_in(ix, &big, i, 1, 1, 0));
	for (i = 0; i < 20; i++) {
		assert_true(hold_in(ix, &used, 1, 50, 1, 1000 + i * 100));
		before = stats(ix).evicted_records;
		k = (struct space_key){ .h = { 3, i } };
		refused += !hold_in(ix, &k, 1, 1, 1, 1000 + i * 100);
		assert_true(stats(ix).evicted_records - before <= EVICT_MAX);
		assert_int_equal(depth_in(ix, &used, 1, 50, 1), 50);
		sound(ix);
	}
	assert_int_equal(refused, (200 - 1) / EVICT_MAX);	/* and then the last few */
	assert_int_equal(stats(ix).refused, refused);
	assert_int_equal(stats(ix).spaces, 2);
	index_free(ix);
}

/* A tenant with open claims in all of its spaces gets no further one, and no other tenant loses
 * anything. */
static void spaces_in_flight_are_pinned(void **state)
{
	struct index_opts o = { .max_bytes = 4 << 20, .max_pages = 65536, .shards = 4, .max_spaces = 8 };
	struct index *ix = index_new(&o);
	struct space_key k = { .h = { 9, 9 }, .tenant = 1 };
	page_key p[1] = { 5 };
	index_claim c[8];
	unsigned i;

	assert_true(hold_in(ix, &k, 1, 10, 1, 0));
	for (i = 0; i < 8; i++) {
		k = (struct space_key){ .h = { i, 0 } };
		assert_true((c[i] = index_commit(ix, &k, p, 1, NULL, 1, 0, 0)) != 0);
	}
	k = (struct space_key){ .h = { 8, 0 } };
	assert_int_equal(index_commit(ix, &k, p, 1, NULL, 1, 0, 0), 0);
	assert_int_equal(stats(ix).evicted_records, 0);
	index_confirm(ix, c[3], 0);
	assert_true(index_commit(ix, &k, p, 1, NULL, 1, 0, 0) != 0);
	assert_int_equal(stats(ix).evicted_records, 1);
	assert_int_equal(stats(ix).spaces, 9);
	sound(ix);
	index_free(ix);
}

/* ---- floors ---- */

/* A quiet tenant has 300 old prompts in each shard; a loud one commits 50 times as much as there is
 * room for. */
static void a_floor_holds_against_a_flood(void **state)
{
	struct index *ix = make(4 << 20, 4);
	struct space_key quiet = { .h = { 1, 1 }, .tenant = 3 }, loud = { .h = { 2, 2 }, .tenant = 0 };
	uint64_t i, kept = 0, crossed = 0, refused = 0;

	index_set_floor(ix, 3, 1 << 20);
	for (i = 0; i < 1200; i++)
		assert_true(hold_in(ix, &quiet, i, 32, 1, 0));
	for (i = 0; i < 50 * (4u << 20) / (9 * 64); i++) {
		refused += !hold_in(ix, &loud, i, 64, (server_id)(i % 4), 1000 + i);
		if (i % 64 == 0)
			while (index_tick(ix))
				;
	}
	for (i = 0; i < 1200; i++) {
		kept += depth_in(ix, &quiet, i, 32, 1) == 32;
		crossed += depth_in(ix, &quiet, i, 64, 2) + depth_in(ix, &quiet, i, 64, 3);
	}
	assert_int_equal(refused, 0);
	assert_int_equal(kept, 1200);
	assert_int_equal(crossed, 0);
	assert_true(stats(ix).evicted_pages > 10 * stats(ix).pages);
	sound(ix);
	index_set_floor(ix, 3, 0);		/* without it, the oldest is evicted first */
	for (i = 0; i < 10000; i++)
		hold_in(ix, &loud, i, 64, 2, 10000000 + i);
	assert_int_equal(depth_in(ix, &quiet, 7, 32, 1), 0);
	index_free(ix);
}

/* What exceeds the floor of a tenant is evicted like any other's; what is below stays. */
static void beyond_its_floor_a_tenant_is_like_others(void **state)
{
	struct index *ix = make(4 << 20, 1);
	struct space_key quiet = { .h = { 1, 1 }, .tenant = 200 }, loud = { .h = { 2, 2 }, .tenant = 1 };
	uint64_t i, pages = 0;

	index_set_floor(ix, 200, 256 << 10);
	for (i = 0; i < 2000; i++)
		assert_true(hold_in(ix, &quiet, i, 64, 1, i));
	for (i = 0; i < 40000; i++)
		assert_true(hold_in(ix, &loud, i, 64, 1, 40000 + i));
	for (i = 0; i < 2000; i++)
		pages += depth_in(ix, &quiet, i, 64, 1);
	/* of nodes, 64 pages are 584 bytes in blocks of 592 */
	assert_in_range(pages, (256u << 10) / 600 * 64 - 200, (256u << 10) / 580 * 64 + 200);
	assert_int_equal(depth_in(ix, &quiet, 1999, 64, 1), 64);
	assert_int_equal(depth_in(ix, &quiet, 0, 64, 1), 0);
	sound(ix);
	index_free(ix);
}

/* ---- capacity and claims ---- */

static void one_call_does_a_bounded_part(void **state)
{
	struct index *ix = make(16 << 20, 4);
	uint64_t i, before;
	unsigned calls = 0;
	bool more = true;

	for (i = 0; i < 1000; i++)
		hold(ix, i, 1, 1);
	index_set_capacity(ix, 1, 10);
	assert_true(hold(ix, 5000, 1, 1));
	assert_in_range(stats(ix).evicted_records, EVICT_MAX - 4, EVICT_MAX);
	for (before = stats(ix).evicted_records; more; before = stats(ix).evicted_records, calls++) {
		more = index_tick(ix);
		assert_true(stats(ix).evicted_records - before <= EVICT_MAX);
		assert_true(!more || stats(ix).evicted_records - before == EVICT_MAX);
	}
	assert_in_range(calls, 900 / EVICT_MAX, 1000 / EVICT_MAX + 1);
	assert_int_equal(index_server_room(ix, 1), 10);
	sound(ix);
	index_free(ix);
}

/* Each evicted record leaves its node's parent with one child, and both are joined: four times the
 * work. */
static void what_is_joined_counts_as_more(void **state)
{
	struct index *ix = make(16 << 20, 4);
	uint64_t i, before;
	unsigned calls = 0;
	page_key p[120];
	bool more = true;

	for (i = 0; i < 600; i++) {	/* the second of each pair is used again */
		unique(p, 120, i % 200);
		p[100] += i < 200 ? 0 : UINT64_MAX / 2;
		index_confirm(ix, index_commit(ix, &sp, p, 120, NULL, 1, i * 16, 0), i * 16);
	}
	assert_int_equal(stats(ix).nodes, 600);
	index_set_capacity(ix, 1, 200 * 120);
	for (before = 0; more; before = stats(ix).evicted_records, calls++) {
		more = index_tick(ix);
		assert_in_range(stats(ix).evicted_records - before, more ? EVICT_MAX / 4 : 0, EVICT_MAX / 4 + 1);
	}
	assert_in_range(calls, 200 / (EVICT_MAX / 4 + 1), 200 / (EVICT_MAX / 4) + 1);
	assert_int_equal(stats(ix).nodes, 200);
	assert_int_equal(stats(ix).evicted_records, 200);
	sound(ix);
	index_free(ix);
}

/* The other server of each node holds 496 of its 500 pages, which are copied. A copy of so many
 * counts as four records. */
static void long_copies_count_as_more(void **state)
{
	struct index *ix = make(16 << 20, 4);
	uint64_t i, before;
	page_key p[500];
	bool more = true;

	for (i = 0; i < 200; i++) {
		unique(p, 500, i);
		index_confirm(ix, index_commit(ix, &sp, p, 500, NULL, 1, i, 0), i);
		index_confirm(ix, index_commit(ix, &sp, p, 496, NULL, 2, i, 0), i);
	}
	index_set_capacity(ix, 1, 500);
	for (before = 0; more; before = stats(ix).evicted_records) {
		more = index_tick(ix);
		assert_in_range(stats(ix).evicted_records - before, more ? EVICT_MAX / 5 : 0, EVICT_MAX / 5 + 1);
	}
	assert_int_equal(stats(ix).evicted_records, 199);
	assert_int_equal(index_server_room(ix, 2), 200 * 496);
	sound(ix);
	index_free(ix);
}

/* Bytes run out: a commit evicts EVICT_MAX records at most, and a tick keeps some free. */
static void so_does_a_call_that_needs_bytes(void **state)
{
	struct index *ix = make(1 << 20, 1);
	struct index_stats st;
	uint64_t i, before;

	for (i = 0; stats(ix).evicted_records == 0; i++)
		assert_true(hold(ix, i, 1, 1));
	for (; i < 20000; i++) {
		before = stats(ix).evicted_records;
		hold(ix, i, 1 + i % 512, 1);
		assert_true(stats(ix).evicted_records - before <= EVICT_MAX);
	}
	while (index_tick(ix))
		;
	st = stats(ix);
	assert_true(st.bytes < st.max_bytes - (st.max_bytes - st.fixed_bytes) / 40);
	assert_int_equal(st.slack, 0);
	sound(ix);
	index_free(ix);
}

static uint64_t held_of(struct index *ix, uint64_t from, uint64_t to, uint32_t n, server_id s)
{
	uint64_t i, sum = 0;

	for (i = from; i < to; i++)
		sum += depth(ix, i, n, s);
	return sum;
}

/* Server 0 holds two nodes of one branch, and a second branch of the same use; <used>: when the
 * upper node was used again. Evict two of the three nodes. */
static struct index *two_of_three_go(msec used)
{
	struct index *ix = make(8u << 20, 1);
	page_key p[8];
	index_claim c;

	assert_true(hold(ix, 1, 8, 0));
	unique(p, 8, 3);
	unique(p, 4, 1);
	c = index_commit(ix, &sp, p, 8, NULL, 1, 0, 0);		/* makes them two nodes */
	index_confirm(ix, c, 0);
	assert_true(hold(ix, 2, 4, 0));
	if (used > 0)
		assert_true(hold_in(ix, &sp, 1, 4, 0, used));
	index_set_capacity(ix, 0, 4);
	while (index_tick(ix))
		;
	assert_null(index_check(ix));
	return ix;
}

/* What a server used at one time goes branch by branch; but what it used later stays. */
static void a_branch_of_one_use_goes_first(void **state)
{
	struct index *ix = two_of_three_go(0);
	struct index_stats st;

	assert_int_equal(depth(ix, 1, 8, 0), 0);
	assert_int_equal(depth(ix, 2, 4, 0), 4);
	index_stats(ix, &st);
	assert_int_equal(st.evicted_records, 2);
	assert_int_equal(st.evicted_pages, 8);
	index_free(ix);
	ix = two_of_three_go(1000);
	assert_int_equal(depth(ix, 1, 8, 0), 4);
	assert_int_equal(depth(ix, 2, 4, 0), 0);
	index_free(ix);
}

/* A server has room for 1000 pages, all held. Open requests will have taken the room of the oldest
 * when the next prompt is served. Claims that need more than all of it do not evict each other. */
static void claims_take_their_room_from_what_is_held(void **state)
{
	struct index *ix = make(4 << 20, 4);
	index_claim c[60];
	uint64_t i;

	index_set_capacity(ix, 1, 1000);
	for (i = 0; i < 50; i++)
		hold(ix, i, 20, 1);
	assert_int_equal(index_server_room(ix, 1), 1000);
	for (i = 0; i < 60; i++) {
		c[i] = claim(ix, 100 + i, 20, 1);
		assert_true(c[i] != 0);
		assert_int_equal(held_of(ix, 0, 50, 20, 1), i < 50 ? 980 - i * 20 : 0);
		sound(ix);
	}
	assert_int_equal(stats(ix).claims, 60);
	assert_int_equal(held_of(ix, 100, 160, 20, 1), 1200);
	assert_int_equal(index_server_room(ix, 1), 1200);
	for (i = 0; i < 60; i++)
		index_confirm(ix, c[i], 1000);
	while (index_tick(ix))
		;
	assert_int_equal(stats(ix).confirmed, 50 + 60);
	assert_int_equal(index_server_room(ix, 1), 1000);
	assert_int_equal(held_of(ix, 100, 160, 20, 1), 1000);
	sound(ix);
	index_free(ix);
}

/* An open prompt also takes the block that it fills in part from the held pages; it is released at
 * the end. */
static void a_part_page_counts_while_it_is_open(void **state)
{
	struct index *ix = make(4 << 20, 4);
	struct space_key k = { .h = { 7, 7 }, .page_room = 2, .part_room = 30 };
	index_claim c;
	page_key p[20];
	uint64_t i;

	index_set_capacity(ix, 1, 400);
	for (i = 0; i < 10; i++) {
		unique(p, 20, i);
		c = index_commit(ix, &k, p, 20, NULL, 1, i * 16, 0);
		index_confirm(ix, c, i * 16);
	}
	assert_int_equal(index_server_room(ix, 1), 370);	/* the last was open besides the nine before it */
	unique(p, 20, 10);
	c = index_commit(ix, &k, p, 20, NULL, 1, 1000, 0);
	assert_int_equal(index_server_room(ix, 1), 370);
	index_cancel(ix, c);
	assert_int_equal(index_server_room(ix, 1), 330);
	sound(ix);
	index_free(ix);
}

/* Spaces whose pages take 3, 16 and 1: each server keeps to its room, in whole pages, the oldest of
 * any space first. */
static void pages_take_the_room_of_their_space(void **state)
{
	static const uint32_t rooms[3] = { 3, 16, 0 };	/* 0 counts as 1 */
	struct index *ix = make(4 << 20, 4);
	struct space_key k[3];
	struct index_match m;
	page_key p[20];
	uint64_t i;

	assert_int_equal(index_match_init(&m), 0);
	index_set_capacity(ix, 1, 1000);
	for (i = 0; i < 3; i++)
		k[i] = (struct space_key){ .h = { i, 9 }, .page_room = rooms[i] };
	for (i = 0; i < 90; i++) {
		unique(p, 20, i);
		index_confirm(ix, index_commit(ix, &k[i % 3], p, 20, NULL, 1, i * 16, 0), i * 16);
		assert_true(index_server_room(ix, 1) <= 1000);
		sound(ix);
	}
	/* the last seven whole, 820 in all, and 11 pages of 16 of the one before */
	assert_in_range(index_server_room(ix, 1), 1000 - 15, 1000);
	for (i = 80; i < 90; i++) {
		static const uint32_t left[10] = { 0, 0, 11, 20, 20, 20, 20, 20, 20, 20 };

		unique(p, 20, i);
		index_match(ix, &k[i % 3], p, 20, &m);
		assert_int_equal(index_match_depth(&m, 1), left[i - 80]);
	}
	index_match_fini(&m);
	index_free(ix);
}

/* The room of a space's pages may change. Existing pages keep theirs, even if two nodes are
 * joined. */
static void pages_keep_the_room_they_came_with(void **state)
{
	struct index *ix = make(4 << 20, 4);
	struct space_key k = { .h = { 1, 9 }, .page_room = 2 };
	page_key p[60], q[60];

	unique(p, 60, 1);
	memcpy(q, p, sizeof(q));
	q[20]--;
	index_confirm(ix, index_commit(ix, &k, p, 40, NULL, 1, 0, 0), 0);
	assert_int_equal(index_server_room(ix, 1), 80);
	k.page_room = 5;
	index_confirm(ix, index_commit(ix, &k, q, 60, NULL, 1, 1000, 0), 1000);	/* 40 of them are new */
	assert_int_equal(index_server_room(ix, 1), 80 + 200);
	sound(ix);
	/* the end of the older one is evicted, and the two nodes of the other are joined */
	index_set_capacity(ix, 1, 240);
	while (index_tick(ix))
		;
	assert_int_equal(stats(ix).nodes, 1);
	sound(ix);
	index_drop_server(ix, 1);
	assert_int_equal(index_server_room(ix, 1), 0);
	index_free(ix);
}

/* The same for memory: it is full of held pages, and ten times as much is claimed and never
 * confirmed. */
static void claims_take_a_part_of_the_memory(void **state)
{
	struct index *ix = make(2 << 20, 1);
	uint64_t i, n, had, left;

	for (n = 0; stats(ix).evicted_records == 0; n++)
		assert_true(hold(ix, n, 64, 1));
	had = held_of(ix, 0, n, 64, 1);
	for (i = 0; i < 10 * n; i++)
		assert_true(claim(ix, n + i, 64, 1) != 0);
	left = held_of(ix, 0, n, 64, 1);
	assert_true(left >= had * 80 / 100);
	assert_true(left < had);
	sound(ix);
	index_free(ix);
}

/* ---- leaving ---- */

static void a_server_leaves_in_slices(void **state)
{
	struct index *ix = make(4 << 20, 4);
	uint64_t i, before;
	unsigned steps = 0;
	bool done = false;
	index_claim c;

	for (i = 0; i < 300; i++) {
		hold(ix, i, 3, 1);
		hold(ix, i, 2, 2);
	}
	c = claim(ix, 1000, 5, 1);
	while (!done) {
		before = stats(ix).records;
		done = index_drop_step(ix, 1, 10);
		assert_true(before - stats(ix).records <= 10);
		assert_int_equal(depth(ix, 299, 3, 1), 0);	/* in no match, from the first step on */
		assert_int_equal(depth(ix, 299, 3, 2), 2);
		assert_int_equal(depth(ix, 1000, 5, 1), 0);
		if (!done)
			assert_int_equal(claim(ix, 2000, 5, 1), 0);
		sound(ix);
		steps++;
	}
	assert_in_range(steps, 60, 65);		/* the other's node is copied each time: twice the work */
	assert_int_equal(stats(ix).evicted_records, 0);
	assert_true(claim(ix, 2000, 5, 1) != 0);		/* the number belongs to another claim now */
	index_confirm(ix, c, 0);
	assert_int_equal(stats(ix).confirmed, 600);
	assert_int_equal(depth(ix, 1000, 5, 1), 0);
	assert_int_equal(depth(ix, 299, 3, 1), 0);
	assert_int_equal(depth(ix, 2000, 5, 1), 5);
	index_free(ix);
}

/* ---- shards ---- */

static void share(struct index *ix, const page_key *p, size_t n, server_id s)
{
	index_confirm(ix, index_commit(ix, &sp, p, n, NULL, s, 0, 0), 0);
}

#define TRACE	"../shared/data/traces/mooncake_conversation.jsonl"

/* Replay a trace; each id is 512 tokens, two pages here. Returns false if there is no trace. */
static bool play_trace(struct index *ix)
{
	FILE *f = fopen(TRACE, "r");
	char *line = NULL, *at_id;
	size_t cap = 0, n;
	page_key p[1024];
	uint64_t i = 0, id;

	if (f == NULL)
		return false;
	while (getline(&line, &cap, f) > 0) {
		at_id = strstr(line, "\"hash_ids\": [");
		for (n = 0, at_id = at_id ? strchr(at_id, '[') : NULL;
		     at_id && *at_id != ']' && n < 1024; n += 2) {
			id = strtoull(at_id + 1, &at_id, 10);
			p[n] = id * 2;
			p[n + 1] = id * 2 + 1;
		}
		if (n > 0)
			share(ix, p, n, (server_id)(i++ % 64));
	}
	free(line);
	fclose(f);
	return i > 1000;
}

/* Generate one like it: all prompts begin with the same 512 tokens, and most continue one of many
 * conversations. */
static void play_like_it(struct index *ix)
{
	page_key p[256];
	struct rng rng;
	unsigned i, k, n, who;

	rng_init(&rng, 1);
	for (i = 0; i < 12000; i++) {
		who = rng_below(&rng, 3000);
		n = 32 + rng_below(&rng, 200);
		for (k = 0; k < n; k++)
			p[k] = k < 32 ? k : (uint64_t)(who + 1) << 32 | k;
		share(ix, p, n, (server_id)(i % 64));
	}
}

static void shares_are_even(struct index *ix)
{
	struct index_shard_stats s;
	uint64_t most = 0, sum = 0;
	uint32_t i, n = (uint32_t)stats(ix).shards;

	assert_int_equal(n, 16);
	for (i = 0; i < n; i++) {
		index_shard_stats(ix, i, &s);
		sum += s.commits;
		most = s.commits > most ? s.commits : most;
	}
	printf("%llu commits, the busiest of 16 shards has %.2f of the mean\n", (unsigned long long)sum,
	       (double)most * n / (double)sum);
	assert_int_equal(sum, stats(ix).commits);
	assert_true(most * n <= 2 * sum);
}

static void no_shard_has_twice_its_share(void **state)
{
	struct index *ix = make(64 << 20, 16);

	play_like_it(ix);
	shares_are_even(ix);
	index_free(ix);
	ix = make(64 << 20, 16);
	if (play_trace(ix))
		shares_are_even(ix);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_million_salts_are_harmless),
		cmocka_unit_test(the_space_not_used_longest_goes),
		cmocka_unit_test(spaces_in_flight_are_pinned),
		cmocka_unit_test(a_floor_holds_against_a_flood),
		cmocka_unit_test(beyond_its_floor_a_tenant_is_like_others),
		cmocka_unit_test(one_call_does_a_bounded_part),
		cmocka_unit_test(what_is_joined_counts_as_more),
		cmocka_unit_test(long_copies_count_as_more),
		cmocka_unit_test(so_does_a_call_that_needs_bytes),
		cmocka_unit_test(a_branch_of_one_use_goes_first),
		cmocka_unit_test(claims_take_their_room_from_what_is_held),
		cmocka_unit_test(a_part_page_counts_while_it_is_open),
		cmocka_unit_test(pages_take_the_room_of_their_space),
		cmocka_unit_test(pages_keep_the_room_they_came_with),
		cmocka_unit_test(claims_take_a_part_of_the_memory),
		cmocka_unit_test(a_server_leaves_in_slices),
		cmocka_unit_test(no_shard_has_twice_its_share),
	};

	return cmocka_run_group_tests_name("index eviction", tests, NULL, NULL);
}

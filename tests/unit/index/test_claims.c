/* test_claims.c - many claims on one record, many open at once, and claims that another server has
 * served.
 *
 * The cost of an operation is counted in accesses to claims and stops, so no clock is read. The
 * files are compiled in here with these accesses counted, and with a hook at the places where they
 * release locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/claim_in.h"

static unsigned long looks, unlocks, act_at;
static void (*act)(struct index *ix);

static void unlock(struct index *ix, uint64_t mask)
{
	shards_unlock(ix, mask);
	if (act != NULL && ++unlocks == act_at)
		act(ix);
}

#define claim_at(ix, c)		(looks++, claim_at(ix, c))
#define stop_at(ix, k)		(looks++, stop_at(ix, k))
#define shards_unlock(ix, mask)	unlock(ix, mask)
#include "agent/index/claim.c"
#include "agent/index/follow.c"
#include "tests/unit/index/asks.h"
#include "tests/lib/index/index_test.h"
#undef claim_at
#undef stop_at
#undef shards_unlock

#define FEW	100u		/* accesses of an operation that walks no list */
#define MANY	20000u
#define LEN	500u		/* one node */

static const struct space_key sp = { .h = { 4, 2 } };

static struct index *make(size_t max_bytes, uint32_t shards, uint32_t reserve)
{
	struct index_opts o = { .max_bytes = max_bytes,
		.max_pages = 65536,
		.shards = shards,
		.reserve_percent = reserve };
	struct index *ix = index_new(&o);

	assert_non_null(ix);
	return ix;
}

/* Make the shared pages up to <parts>, then those of <id>. */
static void prompt(page_key *p, uint32_t n, uint32_t parts, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		p[i] = (i < parts ? 0 : id) << 32 | i;
}

static uint32_t depth(struct index *ix, const page_key *p, size_t n, server_id s)
{
	return depth_of(ix, &sp, p, n, s);
}

static uint64_t n_open(struct index *ix)
{
	struct index_stats st;

	index_stats(ix, &st);
	return st.claims;
}

static bool known(const struct index *ix, index_claim id)
{
	const struct claim *cl = &ix->claims[(uint32_t)id];

	return cl->generation == id >> 32 && cl->state == CLAIM_OPEN;
}

static void shuffle(struct rng *rng, index_claim *c, uint32_t *n, uint32_t count)
{
	uint32_t i, k, t;
	index_claim x;

	for (i = count; i > 1; i--) {
		k = rng_below(rng, i);
		x = c[i - 1], c[i - 1] = c[k], c[k] = x;
		t = n[i - 1], n[i - 1] = n[k], n[k] = t;
	}
}

/* ---- many on one record ---- */

struct many {
	struct index *ix;
	struct rng rng;
	index_claim c[MANY];
	uint32_t n[MANY];	/* pages of each */
	page_key p[LEN];
};

static struct many *open_many(bool spread)
{
	struct many *m = calloc(1, sizeof(*m));
	uint32_t i;

	assert_non_null(m);
	rng_init(&m->rng, 5);
	m->ix = make(64 << 20, 16, 100);
	prompt(m->p, LEN, LEN, 0);
	for (i = 0; i < MANY; i++) {
		m->n[i] = spread ? 1 + rng_below(&m->rng, LEN) : LEN;
		looks = 0;
		assert_true((m->c[i] = index_commit(m->ix, &sp, m->p, m->n[i], NULL, 3, i, 0)) != 0);
		assert_true(looks < FEW + (spread ? 2 * LEN : 0));
	}
	sound(m->ix);
	return m;
}

/* End claims in any order and in both ways. The server has as many pages as the longest claim that
 * is open or was confirmed. */
static void end_many(bool spread)
{
	struct many *m = open_many(spread);
	uint32_t i, held = 0;

	shuffle(&m->rng, m->c, m->n, MANY);
	for (i = 0; i < MANY; i++) {
		looks = 0;
		if (i % 100 == 99) {
			index_confirm(m->ix, m->c[i], MANY + i);
			held = m->n[i] > held ? m->n[i] : held;
		} else {
			index_cancel(m->ix, m->c[i]);
		}
		assert_true(looks < FEW);
		if (i % 4000 == 0)
			sound(m->ix);
	}
	assert_int_equal(n_open(m->ix), 0);
	assert_int_equal(depth(m->ix, m->p, LEN, 3), held);
	sound(m->ix);
	index_free(m->ix);
	free(m);
}

static void a_hot_prompt_ends_in_any_order(void **state)
{
	end_many(false);
}

static void so_do_prompts_that_begin_each_other(void **state)
{
	end_many(true);
}

/* Other prompts branch from the hot one at every page. Each split moves the stops above it, not
 * their claims. */
static void split_under(bool spread)
{
	struct many *m = open_many(spread);
	unsigned long all = 0;
	uint32_t k, i;

	for (k = 1; k < LEN; k += 7) {
		prompt(m->p, LEN, LEN - k, 1);
		looks = 0;
		assert_true(index_commit(m->ix, &sp, m->p, LEN, NULL, 4, MANY, 0) != 0);
		all += looks;
	}
	assert_true(all < LEN / 7 * (spread ? 2 * LEN : FEW));
	sound(m->ix);
	prompt(m->p, LEN, LEN, 0);
	for (i = 0; i < MANY; i++)
		index_cancel(m->ix, m->c[i]);
	assert_int_equal(depth(m->ix, m->p, LEN, 3), 0);
	sound(m->ix);
	index_free(m->ix);
	free(m);
}

static void a_split_takes_all_at_once(void **state)
{
	split_under(false);
	split_under(true);
}

/* ---- a way of many nodes ---- */

#define NODES	17000u

/* Use about as many nodes as pages: no number of nodes is too many for a new claim. */
static void a_prompt_may_lie_on_many_nodes(void **state)
{
	page_key *p = malloc(NODES * sizeof(*p));
	struct index *ix = make(64 << 20, 16, 10);
	struct index_stats st;
	uint32_t k;

	assert_non_null(p);
	prompt(p, NODES, NODES, 0);
	index_confirm(ix, index_commit(ix, &sp, p, NODES, NULL, 1, 0, 0), 0);
	for (k = NODES - 1; k > 0; k--) {	/* from the end, so that the nodes above are still few */
		p[k] = 1ull << 40;
		index_confirm(ix, index_commit(ix, &sp, p, k + 1, NULL, 1, 0, 0), 0);
	}
	prompt(p, NODES, NODES, 0);
	index_stats(ix, &st);
	assert_true(st.nodes > 2 * NODES - 10);
	index_confirm(ix, index_commit(ix, &sp, p, NODES, NULL, 2, 1, 0), 1);
	assert_int_equal(depth(ix, p, NODES, 2), NODES);
	index_confirm_at(ix, index_commit(ix, &sp, p, NODES, NULL, 2, 1, 0), 3, 1);
	assert_int_equal(depth(ix, p, NODES, 3), NODES);
	sound(ix);
	free(p);
	index_free(ix);
}

/* ---- many open ones ---- */

#define OPEN	65536u
#define RARE	777u		/* a server with few claims among all of them */

static server_id opener(uint32_t i)
{
	return (server_id)(i == 0 || i == OPEN / 2 || i == OPEN - 1 ? RARE : i * 7 % 600);
}

static struct index *open_all(index_claim *c)
{
	struct index *ix = make((size_t)OPEN * 2048, 16, 10);
	page_key p[3];
	uint32_t i;

	prompt(p, 3, 3, 0);
	for (i = 0; i < OPEN; i++)
		assert_true((c[i] = index_commit(ix, &sp, p, 3, NULL, opener(i), (msec)i * 16, 0)) != 0);
	assert_int_equal(n_open(ix), OPEN);
	return ix;
}

static void the_oldest_is_found_at_once(void **state)
{
	index_claim *c = calloc(OPEN, sizeof(*c));
	struct index *ix;
	struct index_stats st;
	page_key p[3];
	uint32_t i;

	assert_non_null(c);
	ix = open_all(c);
	prompt(p, 3, 3, 0);
	for (i = 0; i < 1000; i++) {		/* all claims are open: each new one expires the oldest */
		assert_true(known(ix, c[i]));
		looks = 0;
		assert_true(index_commit(ix, &sp, p, 3, NULL, 900, (msec)(OPEN + i) * 16, 0) != 0);
		assert_true(looks < FEW);
		assert_false(known(ix, c[i]));
	}
	index_stats(ix, &st);
	assert_int_equal(st.expired, 1000);
	sound(ix);
	looks = 0;
	assert_true(claim_expire_of(ix, RARE));
	assert_false(known(ix, c[OPEN / 2]));
	assert_true(known(ix, c[OPEN - 1]));
	assert_true(claim_expire_of(ix, RARE));
	assert_false(known(ix, c[OPEN - 1]));
	assert_false(claim_expire_of(ix, RARE));
	assert_true(looks < 3 * FEW);
	sound(ix);
	index_free(ix);
	free(c);
}

static void all_expire_in_order(void **state)
{
	index_claim *c = calloc(OPEN, sizeof(*c));
	unsigned long most = 0;
	struct index *ix;
	uint32_t i;

	assert_non_null(c);
	ix = open_all(c);
	for (i = 0; i + 1 < OPEN; i++) {
		looks = 0;
		assert_true(claim_expire(ix, true));
		most = looks > most ? looks : most;
		assert_false(known(ix, c[i]));
	}
	assert_true(most > 0 && most < FEW);
	assert_false(claim_expire(ix, true));
	assert_true(known(ix, c[OPEN - 1]));
	assert_true(claim_expire(ix, false));
	assert_false(claim_expire(ix, false));
	sound(ix);
	assert_int_equal(index_server_room(ix, RARE), 0);
	index_free(ix);
	free(c);
}

/* The reserve counts pages of each server. If many servers are sent the same prompt, that is more
 * than the memory. With a reserve of 100 % no claim expires for it. */
static void with_all_reserved_none_expires(void **state)
{
	const uint32_t n = 2000, servers = 128;
	struct index *ix = make(1 << 20, 4, 100);
	page_key p[2000];
	struct index_stats st;
	uint32_t s;

	(void)state;
	prompt(p, n, n, 0);
	for (s = 0; s < servers; s++)
		assert_true(index_commit(ix, &sp, p, n, NULL, (server_id)s, 0, 0) != 0);
	index_stats(ix, &st);
	assert_int_equal(st.expired, 0);
	assert_int_equal(st.claims, servers);
	sound(ix);
	index_free(ix);
}

/* Free claims go back to the group of their server. If one group has all of them, the others take
 * from it. */
static void a_server_may_have_all_claims(void **state)
{
	struct index *ix = make(1 << 20, 1, 100);
	uint32_t n = ix->n_claims - 1, round, i;
	index_claim *c = calloc(n, sizeof(*c));
	page_key p[3];

	assert_non_null(c);
	prompt(p, 3, 3, 0);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < n; i++)
			assert_true((c[i] = index_commit(ix, &sp, p, 3, NULL, (server_id)round, 0, 0)) != 0);
		assert_int_equal(index_commit(ix, &sp, p, 3, NULL, 9, 0, 0), 0);
		sound(ix);
		for (i = 0; i < n; i++)
			index_cancel(ix, c[i]);
		assert_int_equal(n_open(ix), 0);
	}
	sound(ix);
	free(c);
	index_free(ix);
}

/* ---- served by another ---- */

#define FROM	120		/* servers */
#define TO	121
#define WAY	200u		/* pages */
#define OTHER	1000u		/* number of the first prompt that shares nothing with it */

/* Build a path of nodes of <each> pages: other prompts branch from it. <open>: they only claim, so
 * they cannot be evicted. */
static index_claim long_way(struct index *ix, page_key *p, uint32_t each, bool open)
{
	index_claim c;
	uint32_t k;

	for (k = each; k < WAY; k += each) {
		prompt(p, WAY, k, k);
		c = index_commit(ix, &sp, p, k + 1, NULL, (server_id)(k / each), 0, 0);
		if (!open)
			index_confirm(ix, c, 0);
	}
	prompt(p, WAY, WAY, 0);
	return index_commit(ix, &sp, p, WAY, NULL, FROM, 1, 0);
}

/* Fill the rest with open claims, shorter and shorter ones; then end <give> of the longest. */
static void fill(struct index *ix, uint32_t give)
{
	index_claim c[256];
	page_key p[LEN];
	uint32_t n = 0, len;

	for (len = LEN; len > 0; len /= 2)
		while (n < 256) {
			prompt(p, len, 0, OTHER + n);
			if ((c[n] = index_commit(ix, &sp, p, len, NULL, 130, 2, 0)) == 0)
				break;
			n++;
		}
	assert_in_range(n, 60, 255);
	while (give-- > 0)
		index_cancel(ix, c[give]);
}

/* All or nothing, however little room there is. */
static void without_room_nothing_is_left(void **state)
{
	unsigned all = 0, none = 0, give;
	page_key p[WAY];

	for (give = 0; give <= 60; give += 4) {
		struct index *ix = make(1 << 19, 1, 100);
		index_claim c = long_way(ix, p, 4, true);
		uint64_t n;

		assert_true(c != 0);
		fill(ix, give);
		index_confirm_at(ix, c, TO, 3);
		sound(ix);
		n = index_server_room(ix, TO);
		assert_true(n == 0 || n == WAY);
		assert_int_equal(depth(ix, p, WAY, TO), n);
		assert_int_equal(index_server_room(ix, FROM), 0);
		all += n == WAY;
		none += n == 0;
		index_free(ix);
	}
	assert_true(all > 0 && none > 0);
}

static void it_keeps_within_the_capacity(void **state)
{
	struct index *ix = make(8 << 20, 4, 10);
	page_key p[WAY], q[40];
	index_claim c;
	uint32_t i;

	index_set_capacity(ix, TO, 210);
	for (i = 0; i < 5; i++) {
		prompt(q, 40, 0, OTHER + i);
		index_confirm(ix, index_commit(ix, &sp, q, 40, NULL, TO, i * 16, 0), i * 16);
	}
	assert_int_equal(index_server_room(ix, TO), 200);
	c = long_way(ix, p, 10, false);
	index_confirm_at(ix, c, TO, 1000);
	assert_int_equal(index_server_room(ix, TO), 210);
	assert_int_equal(depth(ix, p, WAY, TO), WAY);
	sound(ix);
	index_free(ix);
}

static void drop_it(struct index *ix)
{
	act = NULL;
	index_drop_step(ix, TO, 1000);
}

/* The server starts to leave at any time: then it has nothing, and its drop ends. */
static void who_leaves_meanwhile_has_nothing(void **state)
{
	page_key p[WAY];
	unsigned long k;

	for (k = 1; ; k++) {
		struct index *ix = make(8 << 20, 4, 10);
		index_claim c = long_way(ix, p, 10, false);
		bool met;

		unlocks = 0;
		act_at = k;
		act = drop_it;
		index_confirm_at(ix, c, TO, 1);
		met = act == NULL;
		act = NULL;
		sound(ix);
		if (met) {
			assert_int_equal(depth(ix, p, WAY, TO), 0);
			index_drop_server(ix, TO);
		}
		assert_int_equal(index_server_room(ix, TO), met ? 0 : WAY);
		assert_int_equal(index_server_room(ix, FROM), 0);
		sound(ix);
		index_free(ix);
		if (!met)
			break;
	}
	assert_true(k > WAY / 10);
}

static server_id parted;

static void drop_parted(struct index *ix)
{
	act = NULL;
	index_drop_server(ix, parted);
}

/* A prompt that branches at one page is removed at any time: two nodes become one, and the claim
 * that was there is further along. */
static void what_is_behind_it_joins(void **state)
{
	page_key p[WAY];
	unsigned long k;

	for (parted = 1; parted < WAY / 10; parted += 6)
		for (k = 1; ; k++) {
			struct index *ix = make(4 << 20, 4, 10);
			index_claim c = long_way(ix, p, 10, false);
			struct index_stats st;
			bool met;

			/* otherwise its end would do it */
			index_confirm(ix, index_commit(ix, &sp, p, WAY, NULL, FROM, 1, 0), 1);
			unlocks = 0;
			act_at = k;
			act = drop_parted;
			index_confirm_at(ix, c, TO, 1);
			met = act == NULL;
			act = NULL;
			sound(ix);
			index_stats(ix, &st);
			assert_int_equal(st.nodes, 2 * WAY / 10 - (met ? 3 : 1));
			assert_int_equal(depth(ix, p, WAY, TO), WAY);
			index_free(ix);
			if (!met)
				break;
		}
	assert_true(k > WAY / 10);
}

static index_claim partings[8];
static unsigned turn;

/* Prompts branch from the path, or are removed, so its nodes split, join and grow. */
static void change(struct index *ix)
{
	unsigned i, n = turn++ % 8;
	page_key p[WAY + 20];

	act_at += 1 + turn % 3;
	if (partings[n] != 0) {
		index_cancel(ix, partings[n]);
		partings[n] = 0;
		index_drop_step(ix, (server_id)(1 + turn % 19), 1000);
		return;
	}
	i = 3 + turn * 37 % (WAY - 4);
	prompt(p, WAY, i, OTHER + turn);
	partings[n] = index_commit(ix, &sp, p, i + 2, NULL, 140, 2, 0);
}

static void the_way_may_change_meanwhile(void **state)
{
	page_key p[WAY];
	unsigned round, i;

	for (round = 0; round < 50; round++) {
		struct index *ix = make(8 << 20, 4, 10);
		index_claim c = long_way(ix, p, 10, false);

		turn = round * 13;
		unlocks = 0;
		act_at = 1 + round % 5;
		act = change;
		index_confirm_at(ix, c, TO, 1);
		act = NULL;
		assert_true(unlocks > WAY / 10);
		sound(ix);
		assert_int_equal(index_server_room(ix, TO), WAY);
		assert_int_equal(depth(ix, p, WAY, TO), WAY);
		assert_int_equal(index_server_room(ix, FROM), 0);
		for (i = 0; i < 8; i++) {
			index_cancel(ix, partings[i]);
			partings[i] = 0;
		}
		sound(ix);
		index_free(ix);
	}
}

/* The path has more nodes than one walk up remembers; the server has a part of them already. */
static void a_long_way_is_gone_in_parts(void **state)
{
	struct index *ix = make(8 << 20, 4, 10);
	page_key p[LEN];
	uint32_t k;

	for (k = 1; k < LEN; k++) {
		prompt(p, LEN, k, k);
		index_confirm(ix, index_commit(ix, &sp, p, k + 1, NULL, 1, 0, 0), 0);
	}
	prompt(p, LEN, LEN, 0);
	index_confirm_at(ix, index_commit(ix, &sp, p, 120, NULL, FROM, 1, 0), TO, 1);
	assert_int_equal(depth(ix, p, LEN, TO), 120);
	index_confirm_at(ix, index_commit(ix, &sp, p, LEN, NULL, FROM, 2, 0), TO, 2);
	assert_int_equal(depth(ix, p, LEN, TO), LEN);
	assert_int_equal(index_server_room(ix, TO), LEN);
	assert_int_equal(index_server_room(ix, FROM), 0);
	sound(ix);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hot_prompt_ends_in_any_order),
		cmocka_unit_test(so_do_prompts_that_begin_each_other),
		cmocka_unit_test(a_split_takes_all_at_once),
		cmocka_unit_test(a_prompt_may_lie_on_many_nodes),
		cmocka_unit_test(the_oldest_is_found_at_once),
		cmocka_unit_test(all_expire_in_order),
		cmocka_unit_test(with_all_reserved_none_expires),
		cmocka_unit_test(a_server_may_have_all_claims),
		cmocka_unit_test(without_room_nothing_is_left),
		cmocka_unit_test(it_keeps_within_the_capacity),
		cmocka_unit_test(who_leaves_meanwhile_has_nothing),
		cmocka_unit_test(what_is_behind_it_joins),
		cmocka_unit_test(the_way_may_change_meanwhile),
		cmocka_unit_test(a_long_way_is_gone_in_parts),
	};

	return cmocka_run_group_tests_name("index claims", tests, NULL, NULL);
}

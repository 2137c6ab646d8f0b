/* test_places.c - a place whose era is the same is the same prefix, whatever happened to the tree:
 * each is noted with its pages. A commit from it reads none of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/place.h"
#include "tests/lib/index/index_test.h"

#define SERVERS	4
#define LONGEST	1200
#define NOTED	200
#define OPEN	16

static const struct space_key spaces[2] = {
	{ .h = { 1, 2 }, .page_room = 16 }, { .h = { 3, 4 }, .page_room = 16, .tenant = 3 }
};

struct noted {
	struct index_place at;		/* .node 0: none */
	unsigned space;
	page_key pages[LONGEST];	/* [at.depth] */
};

struct play {
	struct index *ix;
	struct rng rng;
	struct index_match m;
	struct noted noted[NOTED];
	index_claim open[OPEN];
	msec now;
	unsigned same, other;		/* places looked at */
	unsigned from, refused;		/* commits from a place; not known to be the same */
	unsigned let_go, kept;		/* calls that cut pages, or none */
};

/* Add runs of pages from few pieces, so that prompts branch from each other anywhere. */
static uint32_t add_pages(struct rng *rng, page_key *pages, uint32_t n, uint32_t most)
{
	while (n < most) {
		uint32_t len = 1 + rng_below(rng, 200), piece = rng_below(rng, 3);

		for (uint32_t i = 0; i < len && n < most; i++)
			pages[n++] = 1000 * piece + i;
	}
	return n;
}

static server_id any_server(struct play *p)
{
	return (server_id)rng_below(&p->rng, SERVERS);
}

static void end_one(struct play *p, unsigned k)
{
	unsigned how = rng_below(&p->rng, 5);

	if (how < 2)
		index_cancel(p->ix, p->open[k]);
	else if (how == 2)
		index_confirm_at(p->ix, p->open[k], any_server(p), p->now);
	else
		index_confirm(p->ix, p->open[k], p->now);
	p->open[k] = 0;
}

/* Note a place of these pages, at its end or before it. */
static void note(struct play *p, unsigned space, const page_key *pages, struct index_place end)
{
	struct noted *x = &p->noted[rng_below(&p->rng, NOTED)];

	if (end.node == 0)
		return;
	x->at = end;
	x->at.depth = rng_below(&p->rng, 2) ? end.depth : 1 + rng_below(&p->rng, end.depth);
	x->space = space;
	memcpy(x->pages, pages, x->at.depth * sizeof(*pages));
}

static void commit_new(struct play *p, unsigned k)
{
	unsigned space = rng_below(&p->rng, 2);
	page_key pages[LONGEST];
	uint32_t n = add_pages(&p->rng, pages, 0, 1 + rng_below(&p->rng, LONGEST));
	struct index_place end;

	p->open[k] = index_commit_at(
	    p->ix, &spaces[space], pages, n, NULL, any_server(p), p->now, 0, &end);
	note(p, space, pages, end);
}

static void commit_from(struct play *p, unsigned k)
{
	const struct noted *x = &p->noted[rng_below(&p->rng, NOTED)];
	page_key pages[LONGEST], given[LONGEST];
	server_id s = any_server(p);
	struct index_place end;
	uint32_t n;

	if (x->at.node == 0)
		return;
	memcpy(pages, x->pages, x->at.depth * sizeof(*pages));
	n = add_pages(&p->rng, pages, x->at.depth,
	    x->at.depth + rng_below(&p->rng, LONGEST - x->at.depth + 1));
	memcpy(given, pages, n * sizeof(*pages));
	for (uint32_t i = 0; i < x->at.depth; i++)
		given[i] = 0xbad;
	if (!index_commit_from(
		p->ix, &spaces[x->space], x->at, given, n, s, p->now, 0, &p->open[k], &end)) {
		assert_int_equal(p->open[k], 0);
		p->refused++;
		return;
	}
	p->from++;
	if (p->open[k] == 0)
		return;
	assert_int_equal(end.depth, n);
	index_match(p->ix, &spaces[x->space], pages, n, &p->m);
	assert_int_equal(index_match_depth(&p->m, s), n);
	note(p, x->space, pages, end);
}

static uint32_t depth_of(struct play *p, const struct noted *x, uint32_t n, server_id s)
{
	index_match(p->ix, &spaces[x->space], x->pages, n, &p->m);
	return index_match_depth(&p->m, s);
}

/* What is let go is no more than said, of that server only, and at the end of what it holds. */
static void let_go(struct play *p)
{
	const struct noted *x = &p->noted[rng_below(&p->rng, NOTED)];
	server_id s = any_server(p), other = (server_id)((s + 1) % SERVERS);
	uint32_t keep, had, had_other, room;
	uint64_t held;

	if (x->at.node == 0)
		return;
	keep = rng_below(&p->rng, x->at.depth + 1);
	had = depth_of(p, x, x->at.depth, s);
	had_other = depth_of(p, x, x->at.depth, other);
	held = index_server_room(p->ix, s);
	room = index_let_go(p->ix, x->at, s, keep);
	assert_int_equal(held - index_server_room(p->ix, s), room);
	assert_int_equal(depth_of(p, x, x->at.depth, other), had_other);
	assert_int_equal(had - depth_of(p, x, x->at.depth, s), room / 16);
	assert_true(room == 0 || (had == x->at.depth && had - room / 16 >= keep));
	p->let_go += room > 0;
	p->kept += room == 0;
}

static void look_at_places(struct play *p)
{
	page_key pages[LONGEST];

	for (unsigned i = 0; i < NOTED; i++) {
		const struct noted *x = &p->noted[i];

		if (x->at.node == 0 || !index_place_same(p->ix, x->at)) {
			p->other++;
			continue;
		}
		p->same++;
		assert_true(index_place_pages(p->ix, &spaces[x->space], x->at, pages, NULL));
		assert_memory_equal(pages, x->pages, x->at.depth * sizeof(*pages));
	}
}

static void play(struct play *p, size_t max_bytes, unsigned steps)
{
	struct index_opts o;
	const char *broken;

	*p = (struct play){ .now = 1 << 20 };
	index_defaults(&o);
	o.max_bytes = max_bytes;
	o.max_pages = LONGEST;
	rng_init(&p->rng, max_bytes);
	assert_non_null(p->ix = index_new(&o));
	assert_int_equal(index_match_init(&p->m), 0);
	for (unsigned i = 0; i < steps; i++, p->now += 20) {
		unsigned k = rng_below(&p->rng, OPEN);

		end_one(p, k);
		if (rng_below(&p->rng, 2))
			commit_new(p, k);
		else
			commit_from(p, k);
		if (rng_below(&p->rng, 4) == 0)
			let_go(p);
		if (rng_below(&p->rng, 200) == 0)
			index_drop_server(p->ix, any_server(p));
		if (i % 8 == 0)
			look_at_places(p);
		if (i % 50 == 0 && (broken = index_check(p->ix)) != NULL)
			fail_msg("%s", broken);
	}
	index_match_fini(&p->m);
	index_free(p->ix);
}

static void with_room(void **state)
{
	static struct play p;

	play(&p, 64u << 20, 2000);
	assert_true(p.same > p.other / 4 && p.other > p.same / 100);
	assert_true(p.from > 100 && p.refused > 100);
	assert_true(p.let_go > 20 && p.kept > 20);
}

static void with_little_room(void **state)
{
	static struct play p;

	play(&p, 512u << 10, 6000);
	assert_true(p.same > 1000 && p.other > 1000 && p.from > 100);
}

/* Pages are cut from the end of a node, and others take their place. */
static void other_pages_at_the_end(void **state)
{
	page_key pages[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, other[8] = { 1, 2, 3, 4, 15, 16, 17, 18 };
	struct index_place half, end, end2;
	struct index_opts o;
	struct index *ix;
	index_claim c;

	index_defaults(&o);
	o.max_bytes = 1 << 20;
	assert_non_null(ix = index_new(&o));
	index_confirm(ix, index_commit_at(ix, &spaces[0], pages, 4, NULL, 1, 0, 0, &half), 0);
	c = index_commit_at(ix, &spaces[0], pages, 8, NULL, 1, 0, 0, &end);
	assert_int_equal(end.node, half.node);
	assert_true(index_place_same(ix, half));
	assert_true(index_place_same(ix, end));
	index_cancel(ix, c);
	assert_false(index_place_same(ix, end));
	index_commit_at(ix, &spaces[0], other, 8, NULL, 1, 0, 0, &end2);
	assert_int_equal(end2.node, end.node);
	assert_false(index_place_same(ix, end));
	assert_true(index_place_same(ix, end2));
	end2.era = 0;
	assert_false(index_place_same(ix, end2));
	assert_false(index_commit_from(ix, &spaces[0], end, pages, 8, 1, 0, 0, &c, &end2));
	index_free(ix);
}

/* A node is gone, and its number is another one's. */
static void a_number_given_again(void **state)
{
	page_key pages[4] = { 1, 2, 3, 4 }, other[4] = { 5, 6, 7, 8 };
	struct index_place first, end;
	struct index_opts o;
	struct index *ix;
	index_claim c;
	unsigned again = 0;

	index_defaults(&o);
	o.max_bytes = 1 << 20;
	o.shards = 1;
	assert_non_null(ix = index_new(&o));
	c = index_commit_at(ix, &spaces[0], pages, 4, NULL, 1, 0, 0, &first);
	for (unsigned i = 0; i < 500; i++) {
		index_cancel(ix, c);
		other[0]++;
		c = index_commit_at(ix, &spaces[0], other, 4, NULL, 1, 0, 0, &end);
		again += end.node == first.node;
		assert_false(index_place_same(ix, first));
		assert_true(index_place_same(ix, end));
	}
	assert_true(again > 0);
	index_free(ix);
}

static index_claim held_by(
    struct index *ix, const page_key *pages, size_t n, server_id s, struct index_place *end)
{
	index_claim c = index_commit_at(ix, &spaces[0], pages, n, NULL, s, 0, 0, end);

	index_confirm(ix, c, 0);
	return c;
}

/* An old path is let go up to the first branch, or to the pages that are kept. */
static void an_old_path_is_let_go(void **state)
{
	page_key old[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, other[6] = { 1, 2, 3, 9, 9, 9 };
	struct index_place end, of_other;
	struct index_opts o;
	struct index *ix;
	index_claim c;

	(void)state;
	index_defaults(&o);
	o.max_bytes = 1 << 20;
	assert_non_null(ix = index_new(&o));
	held_by(ix, old, 8, 1, &end);
	held_by(ix, old, 8, 2, &end);
	assert_int_equal(index_let_go(ix, end, 3, 0), 0);
	assert_int_equal(index_let_go(ix, end, 1, 6), 2 * 16);
	assert_int_equal(index_server_room(ix, 1), 6 * 16);
	assert_int_equal(index_server_room(ix, 2), 8 * 16);
	held_by(ix, old, 8, 1, &end);
	held_by(ix, other, 6, 1, &of_other);
	assert_int_equal(index_let_go(ix, end, 1, 0), 5 * 16);		/* both have the first three */
	assert_int_equal(index_server_room(ix, 1), 6 * 16);
	c = index_commit_at(ix, &spaces[0], old, 8, NULL, 1, 0, 0, &end);
	assert_int_equal(index_let_go(ix, end, 1, 0), 0);		/* claimed */
	index_confirm(ix, c, 0);
	assert_int_equal(index_let_go(ix, (struct index_place){ end.node, 7, end.era }, 1, 0), 0);
	assert_int_equal(index_let_go(ix, (struct index_place){ 0 }, 1, 0), 0);
	assert_int_equal(index_let_go(ix, of_other, 1, 0), 3 * 16);
	assert_int_equal(index_let_go(ix, end, 1, 0), 8 * 16);
	assert_int_equal(index_server_room(ix, 1), 0);
	assert_null(index_check(ix));
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_room),
		cmocka_unit_test(with_little_room),
		cmocka_unit_test(other_pages_at_the_end),
		cmocka_unit_test(a_number_given_again),
		cmocka_unit_test(an_old_path_is_let_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

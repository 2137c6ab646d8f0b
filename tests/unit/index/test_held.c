/* test_held.c - places of prefixes, the walk over what servers hold, and pages held without a
 * commit, against a slow listing of all (server, page): tests/lib/index/pairs.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/base/chain.h"
#include "agent/index/held.h"
#include "tests/lib/index/index_test.h"

#define SERVERS	5
#define LONGEST	1500

struct pair { uint64_t server, hash; };
struct pairs { struct pair *p; size_t n, cap; };

static struct hash_key key;
static const struct space_key spaces[2] = {
	{ .h = { 1, 2 }, .page_room = 16 }, { .h = { 3, 4 }, .page_room = 16, .tenant = 3 }
};

static void add(struct pairs *l, uint64_t server, uint64_t hash)
{
	if (l->n == l->cap) {
		l->cap = l->cap * 2 + 4096;
		assert_non_null(l->p = realloc(l->p, l->cap * sizeof(*l->p)));
	}
	l->p[l->n++] = (struct pair){ server, hash };
}

static int order(const void *x, const void *y)
{
	const struct pair *a = x, *b = y;

	if (a->server != b->server)
		return a->server < b->server ? -1 : 1;
	return a->hash == b->hash ? 0 : a->hash < b->hash ? -1 : 1;
}

static void see_pair(void *arg, server_id server, uint64_t prefix)
{
	add(arg, server, prefix);
}

static void see_run(void *arg, const struct held_run *run)
{
	assert_int_equal(run->end.depth, run->start + run->n_pages);
	for (uint32_t i = 0; i < run->n_holders; i++)
		for (uint32_t k = 0; k < run->holders[i].pages; k++)
			add(arg, run->holders[i].server, run->hashes[k]);
}

static void assert_walk_sees_all(struct index *ix, struct held_walk *w)
{
	struct pairs want = { 0 }, got = { 0 };

	index_each_pair(ix, &key, false, see_pair, &want);
	while (held_walk(w, 7, 0, see_run, &got))
		;
	assert_int_equal(got.n, want.n);
	if (want.n > 0) {
		qsort(want.p, want.n, sizeof(*want.p), order);
		qsort(got.p, got.n, sizeof(*got.p), order);
		assert_memory_equal(got.p, want.p, want.n * sizeof(*want.p));
	}
	free(want.p);
	free(got.p);
}

/* Make a prompt that shares a beginning with earlier ones: runs of pages from few pieces. */
static uint32_t make_prompt(struct rng *rng, page_key *pages)
{
	uint32_t n = 0, most = 1 + rng_below(rng, LONGEST), piece;

	while (n < most) {
		uint32_t len = 1 + rng_below(rng, 300);

		piece = rng_below(rng, 3);
		for (uint32_t i = 0; i < len && n < most; i++)
			pages[n++] = 1000 * piece + i;
	}
	return n;
}

static uint64_t chain(const struct space_key *s, const page_key *pages, uint32_t n)
{
	struct chain c = { .base = chain_start(&key, s->h) };

	for (uint32_t i = 0; i < n; i++)
		chain_add(&c, pages[i]);
	return chain_hash(&c);
}

struct noted {
	struct index_place at;
	unsigned space;
	uint64_t hash;
};

#define NOTED	400

/* A place gives its own pages or none that have its hash, whatever happened to the tree. */
static void check_places(struct index *ix, const struct noted *noted, unsigned n, unsigned *found)
{
	static page_key pages[LONGEST];

	for (unsigned i = 0; i < n; i++) {
		const struct noted *at = &noted[i];
		struct space_key space;

		if (!index_place_pages(ix, &spaces[at->space], at->at, pages, NULL))
			continue;
		assert_true(index_place_exists(ix, at->at));
		if (chain(&spaces[at->space], pages, at->at.depth) != at->hash)
			continue;
		assert_true(index_place_space(ix, at->at, &space));
		assert_memory_equal(space.h, spaces[at->space].h, sizeof(space.h));
		assert_int_equal(space.tenant, spaces[at->space].tenant);
		assert_int_equal(space.page_room, 16);
		assert_false(index_place_pages(ix, &spaces[1 - at->space], at->at, pages, NULL));
		++*found;
	}
}

static void run(size_t max_bytes, unsigned steps, unsigned least_found)
{
	static page_key pages[LONGEST];
	static struct noted noted[NOTED];
	struct index_opts o;
	struct index *ix;
	struct held_walk *w;
	struct rng rng;
	index_claim open[32] = { 0 };
	unsigned n_noted = 0, found = 0, looked = 0;
	msec now = 1 << 20;

	index_defaults(&o);
	o.max_bytes = max_bytes;
	o.max_pages = LONGEST;
	assert_non_null(ix = index_new(&o));
	assert_non_null(w = held_walk_new(ix, &key));
	rng_init(&rng, max_bytes);
	for (unsigned i = 0; i < steps; i++, now += 20) {
		unsigned space = rng_below(&rng, 2), k = rng_below(&rng, 32);
		uint32_t n = make_prompt(&rng, pages), depth;
		server_id s = (server_id)rng_below(&rng, SERVERS);
		struct held_use use = { .hits = 1, .unused_ms = 500 };
		struct index_place end;

		if (open[k] != 0 && rng_below(&rng, 3) == 0)
			index_cancel(ix, open[k]);
		else if (open[k] != 0)
			index_confirm(ix, open[k], now);
		open[k] = 0;
		if (rng_below(&rng, 4) == 0)
			index_hold(ix, &spaces[space], pages, n, s, &use, now, &end);
		else
			open[k] = index_commit_at(ix, &spaces[space], pages, n, NULL, s, now, 0, &end);
		if (end.node == 0)
			continue;
		assert_int_equal(end.depth, n);
		depth = 1 + rng_below(&rng, n);
		noted[n_noted++ % NOTED] =
		    (struct noted){ { end.node, depth, end.era }, space, chain(&spaces[space], pages, depth) };
		assert_true(index_place_pages(ix, &spaces[space], end, pages, NULL));
		if (i % 50 == 0) {
			const char *broken = index_check(ix);

			if (broken != NULL)
				fail_msg("%s", broken);
			assert_walk_sees_all(ix, w);
			check_places(ix, noted, n_noted < NOTED ? n_noted : NOTED, &found);
			looked += n_noted < NOTED ? n_noted : NOTED;
		}
	}
	assert_walk_sees_all(ix, w);
	if (looked > 0 && found * 100 / looked < least_found)
		fail_msg("only %u of %u places were found", found, looked);
	held_walk_free(w);
	index_free(ix);
}

static void with_room(void **state)
{
	run(64u << 20, 1500, 60);
}

static void with_little_room(void **state)
{
	run(512u << 10, 3000, 5);
}

static void odd_places(void **state)
{
	struct index_opts o;
	struct index *ix;
	struct index_place end;
	struct space_key space;
	page_key pages[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, got[LONGEST];
	struct held_use use = { .hits = 255, .priority = 255, .unused_ms = INT64_MAX };

	index_defaults(&o);
	o.max_bytes = 1 << 20;
	o.max_pages = LONGEST;
	assert_non_null(ix = index_new(&o));
	assert_false(index_hold(ix, &spaces[0], pages, 0, 1, &use, 0, &end));
	assert_false(index_hold(ix, &spaces[0], pages, 8, SERVERS_MAX, &use, 0, &end));
	assert_false(index_hold(ix, &spaces[0], pages, 8, SERVER_NONE, &use, 0, &end));
	assert_true(index_hold(ix, &spaces[0], pages, 8, 1, &use, 1000, &end));
	for (uint32_t node = 0; node < 300; node++) {
		for (uint32_t depth = 0; depth < 12; depth++) {
			struct index_place p = { node, depth, 0 };
			bool right = node == end.node && depth > 0 && depth <= 8;

			assert_int_equal(index_place_pages(ix, &spaces[0], p, got, NULL), right);
			assert_int_equal(index_place_exists(ix, p), right);
			if (right)
				assert_memory_equal(got, pages, depth * sizeof(*pages));
		}
		assert_int_equal(
		    index_place_space(ix, (struct index_place){ node, 1, 0 }, &space), node == end.node);
	}
	end.depth = UINT32_MAX;
	assert_false(index_place_pages(ix, &spaces[0], end, got, NULL));
	assert_false(index_place_exists(ix, (struct index_place){ UINT32_MAX, 1, 0 }));
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_room),
		cmocka_unit_test(with_little_room),
		cmocka_unit_test(odd_places),
	};
	struct rng rng;

	rng_init(&rng, 7);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

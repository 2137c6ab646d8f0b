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
#include "tests/unit/rounds.h"

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
			index_hold(ix, &spaces[space], pages, n, 0, s, &use, now, &end);
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
	assert_int_equal(index_hold(ix, &spaces[0], pages, 0, 0, 1, &use, 0, &end), HELD_NO_ROOM);
	assert_int_equal(
	    index_hold(ix, &spaces[0], pages, 8, 0, SERVERS_MAX, &use, 0, &end), HELD_NO_ROOM);
	assert_int_equal(
	    index_hold(ix, &spaces[0], pages, 8, 0, SERVER_NONE, &use, 0, &end), HELD_NO_ROOM);
	assert_int_equal(index_hold(ix, &spaces[0], pages, 8, 0, 1, &use, 1000, &end), HELD_DONE);
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

/* ---- full servers --------------------------------------------------------------------------- */

#define CAPACITY_PAGES	10u
#define HOURS		(10000 * 1000)

static struct index *full_index(uint64_t pages)
{
	struct index_opts o;
	struct index *ix;

	index_defaults(&o);
	o.max_bytes = 4 << 20;
	o.max_pages = LONGEST;
	assert_non_null(ix = index_new(&o));
	index_set_capacity(ix, 1, pages * spaces[0].page_room);
	return ix;
}

/* Let server 1 hold <n> pages of its own prompt <first>, not used for <unused_ms>. */
static enum index_held hold(struct index *ix, uint64_t first, uint32_t n, msec unused_ms)
{
	struct held_use use = { .hits = 1, .unused_ms = unused_ms };
	struct index_place end;
	page_key pages[LONGEST];
	enum index_held is;

	for (uint32_t i = 0; i < n; i++)
		pages[i] = first * 1000 + i;
	is = index_hold(ix, &spaces[0], pages, n, 0, 1, &use, HOURS, &end);
	assert_int_equal(end.depth, is == HELD_DONE ? n : 0);
	return is;
}

static uint32_t held_of(struct index *ix, uint64_t first, uint32_t n)
{
	struct index_match m;
	page_key pages[LONGEST];
	uint32_t depth;

	for (uint32_t i = 0; i < n; i++)
		pages[i] = first * 1000 + i;
	assert_int_equal(index_match_init(&m), 0);
	index_match(ix, &spaces[0], pages, n, &m);
	depth = index_match_depth(&m, 1);
	index_match_fini(&m);
	return depth;
}

static void a_full_server_holds_the_newest(void **state)
{
	struct index *ix = full_index(CAPACITY_PAGES);

	assert_int_equal(hold(ix, 1, 4, 5000), HELD_DONE);
	assert_int_equal(hold(ix, 2, 4, 9000), HELD_DONE);
	assert_int_equal(index_evicted_ago(ix, 1, HOURS), -1);
	/* it would go first, so it does not come */
	assert_int_equal(hold(ix, 3, 4, 9500), HELD_TOO_OLD);
	assert_int_equal(held_of(ix, 3, 4), 0);
	assert_int_equal(hold(ix, 3, 2, 9500), HELD_DONE);
	/* older ones go for it, the oldest first */
	assert_int_equal(hold(ix, 4, 4, 7000), HELD_DONE);
	assert_int_equal(held_of(ix, 3, 2), 0);
	assert_int_equal(held_of(ix, 2, 4), 2);
	assert_in_range(index_evicted_ago(ix, 1, HOURS), 9000 - 16, 9000 + 16);
	assert_int_equal(hold(ix, 5, 1, 9000 + 100), HELD_TOO_OLD);
	/* the rest of what was evicted in part goes when agents compare */
	while (index_evict_unused(ix, 1, -1, HOURS, 1))
		;
	assert_int_equal(held_of(ix, 2, 4), 0);
	assert_int_equal(held_of(ix, 1, 4) + held_of(ix, 4, 4), 8);
	/* too old, although there is room now */
	assert_int_equal(hold(ix, 5, 1, 9000 + 100), HELD_TOO_OLD);
	/* a sibling evicted more; a horizon never moves back */
	while (index_evict_unused(ix, 1, 6000, HOURS, 1) || index_evict_unused(ix, 1, 20000, HOURS, 1))
		;
	assert_int_equal(held_of(ix, 4, 4), 0);
	assert_int_equal(held_of(ix, 1, 4), 4);
	assert_in_range(index_evicted_ago(ix, 1, HOURS), 6000 - 16, 6000 + 16);
	/* a larger cache may hold what was evicted */
	index_set_capacity(ix, 1, 2 * CAPACITY_PAGES * spaces[0].page_room);
	assert_int_equal(index_evicted_ago(ix, 1, HOURS), -1);
	assert_int_equal(hold(ix, 2, 4, 9000), HELD_DONE);
	assert_null(index_check(ix));
	index_free(ix);
}

static void other_orders_refuse_without_room(void **state)
{
	struct index *ix = full_index(CAPACITY_PAGES);

	index_set_order(ix, 1, INDEX_MRU);
	assert_int_equal(hold(ix, 1, 8, 9000), HELD_DONE);
	assert_int_equal(hold(ix, 2, 4, 100), HELD_NO_ROOM);
	assert_int_equal(held_of(ix, 1, 8), 8);
	assert_false(index_evict_unused(ix, 1, 0, HOURS, 10));
	assert_int_equal(index_evicted_ago(ix, 1, HOURS), -1);
	assert_int_equal(held_of(ix, 1, 8), 8);
	index_free(ix);
}

#define MODELS		3u
#define PROMPTS		60u
#define EXCHANGES	60u

/* What one agent tells another: the ends of server 1, and its horizon. */
struct told {
	struct { uint64_t end; struct index_place at; msec unused_ms; } of[400];
	unsigned n;
	msec now;
};

static void see_ends(void *arg, const struct held_run *run)
{
	struct told *t = arg;

	for (uint32_t i = 0; i < run->n_holders; i++) {
		const struct holder *h = &run->holders[i];

		if (!h->end)
			continue;
		assert_true(t->n < 400);
		t->of[t->n].end = run->hashes[h->pages - 1];
		t->of[t->n].at = (struct index_place){ run->end.node, run->start + h->pages };
		t->of[t->n++].unused_ms = h->unused_ms;
	}
}

/* Let <to> know what <from> holds. Returns the number of prefixes that it took or refused. */
static unsigned exchange(struct index *from, struct index *to, msec now, msec error)
{
	struct told t = { .now = now };
	struct held_walk *w = held_walk_new(from, &key);
	msec ago = index_evicted_ago(from, 1, now);
	unsigned did = 0;

	assert_non_null(w);
	while (index_evict_unused(to, 1, ago >= 0 && error > -ago ? ago + error : ago, now, 3))
		;
	while (index_evict_unused(from, 1, -1, now, 3))
		;
	while (held_walk(w, 5, now, see_ends, &t))
		;
	for (unsigned i = 0; i < t.n; i++) {
		static page_key pages[LONGEST];
		struct held_use use = { .hits = 1, .unused_ms = t.of[i].unused_ms + error };
		struct index_match m;
		struct index_place end;
		uint32_t n = t.of[i].at.depth, had;

		use.unused_ms = use.unused_ms > 0 ? use.unused_ms : 0;
		assert_true(index_place_pages(from, &spaces[0], t.of[i].at, pages, NULL));
		assert_int_equal(index_match_init(&m), 0);
		index_match(to, &spaces[0], pages, n, &m);
		had = index_match_depth(&m, 1);
		index_match_fini(&m);
		if (had >= n)
			continue;
		did++;
		if (index_hold(to, &spaces[0], pages, n, had, 1, &use, now, &end) == HELD_TOO_OLD)
			index_evict_unused(to, 1, use.unused_ms > 200 ? use.unused_ms - 200 : 0, now, 1);
	}
	held_walk_free(w);
	return did;
}

static size_t differing(struct index *x, struct index *y)
{
	struct pairs a = { 0 }, b = { 0 };
	size_t i = 0, k = 0, n = 0;

	index_each_pair(x, &key, false, see_pair, &a);
	index_each_pair(y, &key, false, see_pair, &b);
	qsort(a.p, a.n, sizeof(*a.p), order);
	qsort(b.p, b.n, sizeof(*b.p), order);
	while (i < a.n || k < b.n) {
		int o = i == a.n ? 1 : k == b.n ? -1 : order(&a.p[i], &b.p[k]);

		n += o != 0;
		i += o <= 0;
		k += o >= 0;
	}
	free(a.p);
	free(b.p);
	return n;
}

/* Agents that missed different requests, have different capacities and clocks: they hold the same
 * after some exchanges, and then nothing is taken, refused or evicted any more. */
static void converge(unsigned seed)
{
	static page_key pages[LONGEST];
	struct index *ix[MODELS];
	struct rng rng;
	unsigned did = 1, exchanges = 0;
	msec now = HOURS;
	size_t held = 0;

	rng_init(&rng, seed);
	for (unsigned m = 0; m < MODELS; m++)
		ix[m] = full_index(seed % 2 ? 2000 : 1500 + 500 * m);
	for (unsigned i = 0; i < PROMPTS; i++, now += 1 + rng_below(&rng, 3000)) {
		uint32_t n = make_prompt(&rng, pages) / 4 + 1;

		for (unsigned m = 0; m < MODELS; m++)
			if (rng_below(&rng, 5) > 0)
				index_confirm(ix[m], index_commit(ix[m], &spaces[0], pages, n, NULL, 1,
					now + rng_below(&rng, 50), 0), now + 50);
	}
	for (; did > 0 && exchanges < EXCHANGES; exchanges++, now += 100) {
		did = 0;
		for (unsigned m = 0; m < MODELS * MODELS; m++)
			if (m / MODELS != m % MODELS)
				did += exchange(ix[m / MODELS], ix[m % MODELS], now, (msec)rng_below(&rng, 40) - 20);
	}
	for (unsigned m = 0; m < MODELS; m++) {
		assert_null(index_check(ix[m]));
		assert_int_equal(differing(ix[0], ix[m]), 0);
		held = index_server_room(ix[m], 1) / spaces[0].page_room;
	}
	if (did > 0 || held < 750)
		fail_msg("seed %u: %u done in the last of %u exchanges, %zu pages held", seed, did,
			 exchanges, held);
	for (unsigned m = 0; m < MODELS; m++)
		index_free(ix[m]);
}

static void agents_with_full_servers_converge(void **state)
{
	for (unsigned seed = 1; seed <= rounds(40, 8); seed++)
		converge(seed);
}

/* This machine has booted after its siblings evicted and used what they tell. */
static void times_before_the_clock_began(void **state)
{
	static const page_key pages[] = { 1, 2, 3, 4 };
	struct held_use use = { .hits = 1, .unused_ms = 300000 };
	struct index *ix = full_index(CAPACITY_PAGES);
	struct held_walk *w = held_walk_new(ix, &key);
	struct told t = { .now = 40000 };
	struct index_place end;

	assert_non_null(w);
	assert_int_equal(index_hold(ix, &spaces[0], pages, 4, 0, 1, &use, t.now, &end), HELD_DONE);
	assert_false(index_evict_unused(ix, 1, (msec)1 << 49, t.now, 10));
	assert_false(index_evict_unused(ix, 1, 600000, t.now, 10));
	assert_in_range(index_evicted_ago(ix, 1, t.now), 600000 - 16, 600000 + 16);
	while (held_walk(w, 5, t.now, see_ends, &t))
		;
	assert_int_equal(t.n, 1);
	assert_in_range(t.of[0].unused_ms, 300000 - 16, 300000 + 16);
	while (index_evict_unused(ix, 1, 200000, t.now, 10))
		;
	assert_int_equal(index_server_room(ix, 1), 0);
	assert_null(index_check(ix));
	held_walk_free(w);
	index_free(ix);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_room),
		cmocka_unit_test(with_little_room),
		cmocka_unit_test(odd_places),
		cmocka_unit_test(a_full_server_holds_the_newest),
		cmocka_unit_test(other_orders_refuse_without_room),
		cmocka_unit_test(agents_with_full_servers_converge),
		cmocka_unit_test(times_before_the_clock_began),
	};
	struct rng rng;

	rng_init(&rng, 7);
	for (size_t i = 0; i < sizeof(key.secret); i++)
		key.secret[i] = (uint8_t)rng_next(&rng);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_model.c - the index against a slow model: an array of all claimed and held prompts.
 *
 * A random but repeatable mix of all operations over few different pages, so that prompts share,
 * branch and end inside each other all the time. With room for all, every band must be exactly that
 * of the array. Without, the model reads what is left whenever the index reports an eviction or an
 * expired claim: no prompt may have grown, an open claim has all its pages, and the pages of a
 * server are as many as it counts. So evictions start at the end, and none is unreported.
 * test_orders.c checks which goes first.
 *
 * MODEL_STEPS=n in the environment: n quarters of the steps of each setup; default 1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

#ifdef __SANITIZE_ADDRESS__
#define SHARE		16u	/* fewer steps in setups whose steps take longer */
#else
#define SHARE		4u
#endif
#define SERVERS		12
#define SPACES		3
#define MAX_ADDED	192
#define MAX_LEN		1600
#define MAX_STALE	64

enum state { OPEN, CONFIRMED };

struct prompt {
	uint32_t pages[MAX_LEN];
	unsigned n, space;
};

struct added {
	struct prompt p;
	server_id server;
	enum state state;
	index_claim claim;
};

struct setup {
	const char *name;
	uint32_t shards;
	enum index_order order;
	unsigned max_len;
	size_t max_bytes;
	uint64_t capacity;		/* of each server, about; 0: none */
	unsigned steps;
	bool tight, runs;		/* <runs>: prompts are of long pieces that many share */
	uint32_t reserve;
};

struct run {
	const struct setup *set;
	struct rng rng;
	struct index *ix;
	struct index_match m, old;	/* <old>: an earlier match, of <old_of> */
	struct prompt old_of, probe;
	struct added *a[MAX_ADDED];
	unsigned n, letters;
	index_claim stale[MAX_STALE];	/* closed, expired, or of a server that left */
	unsigned n_stale;
	bool leaving[SERVERS];
	uint64_t evicted, expired;
	msec now;
	page_key *keys;
};

static const struct space_key spaces[SPACES] = {
	{ .h = { 0, 0 } }, { .h = { 0, 1 }, .tenant = 1 }, { .h = { 1, 0 }, .tenant = 255 }
};

/* Sparse ids, so that all words of a set are used. */
static server_id server_of(unsigned i)
{
	return (server_id)(i * (SERVERS_MAX - 1) / (SERVERS - 1));
}

/* ---- the truth --------------------------------------------------------------------------------
 */

static unsigned common(const struct prompt *a, const struct prompt *b)
{
	unsigned i = 0;

	if (a->space != b->space)
		return 0;
	while (i < a->n && i < b->n && a->pages[i] == b->pages[i])
		i++;
	return i;
}

/* Return the longest part of <p> that <server> has. */
static unsigned truth_depth(const struct run *r, const struct prompt *p, server_id server)
{
	unsigned i, d, best = 0;

	for (i = 0; i < r->n; i++) {
		if (r->a[i]->server != server)
			continue;
		d = common(&r->a[i]->p, p);
		best = d > best ? d : best;
	}
	return best;
}

/* Count the pages of a server, each once: of every entry those that no earlier one shares. */
static uint64_t truth_pages(const struct run *r, server_id server)
{
	unsigned i, j, d, best;
	uint64_t n = 0;

	for (i = 0; i < r->n; i++) {
		if (r->a[i]->server != server)
			continue;
		for (best = j = 0; j < i; j++) {
			if (r->a[j]->server != server)
				continue;
			d = common(&r->a[i]->p, &r->a[j]->p);
			best = d > best ? d : best;
		}
		n += r->a[i]->p.n - best;
	}
	return n;
}

static void forget(struct run *r, unsigned i)
{
	struct added *a = r->a[i];

	r->stale[r->n_stale++ % MAX_STALE] = a->claim;
	r->a[i] = r->a[--r->n];
	r->a[r->n] = a;
}

/* ---- prompts ------------------------------------------------------------------------------------
 */

/* Make a prompt: new from its first page, or an earlier one cut short, continued, or both. */
static void make_prompt(struct run *r, struct prompt *p)
{
	unsigned max = 1 + rng_below(&r->rng, r->set->max_len) / (1 + rng_below(&r->rng, 5)), letter, end;

	p->space = rng_below(&r->rng, SPACES);
	p->n = 0;
	if (r->n > 0 && rng_below(&r->rng, 3) > 0) {
		const struct prompt *q = &r->a[rng_below(&r->rng, r->n)]->p;

		p->space = q->space;
		p->n = rng_below(&r->rng, 3) ? 1 + rng_below(&r->rng, q->n) : q->n;
		memcpy(p->pages, q->pages, p->n * sizeof(*p->pages));
	}
	while (p->n < max) {
		letter = rng_below(&r->rng, r->letters);
		end = r->set->runs ? p->n + 1 + rng_below(&r->rng, 300) : p->n + 1;
		for (; p->n < end && p->n < max; p->n++)
			p->pages[p->n] = r->set->runs ? letter << 16 | p->n : letter;
	}
}

static const page_key *as_keys(struct run *r, const struct prompt *p)
{
	unsigned i;

	for (i = 0; i < p->n; i++)
		r->keys[i] = p->pages[i];
	return r->keys;
}

static void match(struct run *r, const struct prompt *p, struct index_match *m)
{
	index_match(r->ix, &spaces[p->space], as_keys(r, p), p->n, m);
}

static index_claim commit(
    struct run *r, const struct prompt *p, const struct index_match *m, server_id s)
{
	return index_commit(r->ix, &spaces[p->space], as_keys(r, p), p->n, m, s, r->now,
				     rng_below(&r->rng, 33));
}

/* ---- the index is as the truth says -------------------------------------------------------------
 */

static void check_bands(const struct index_match *m)
{
	struct server_set seen = { { 0 } };
	unsigned i, w;

	for (i = 0; i < m->n_bands; i++) {
		uint64_t any = 0;

		assert_true(m->bands[i].depth > 0 && m->bands[i].depth <= m->n_pages);
		assert_true(i == 0 || m->bands[i].depth < m->bands[i - 1].depth);
		for (w = 0; w < SERVERS_MAX / 64; w++) {
			assert_int_equal(seen.w[w] & m->bands[i].servers.w[w], 0);
			seen.w[w] |= m->bands[i].servers.w[w];
			any |= m->bands[i].servers.w[w];
		}
		assert_true(any != 0);
	}
}

static void check_match(struct run *r)
{
	struct prompt *p = &r->probe;
	unsigned i;

	make_prompt(r, p);
	match(r, p, &r->m);
	assert_int_equal(r->m.n_pages, p->n);
	check_bands(&r->m);
	for (i = 0; i < SERVERS; i++)
		assert_int_equal(index_match_depth(&r->m, server_of(i)),
				 r->leaving[i] ? 0 : truth_depth(r, p, server_of(i)));
}

static void check_all(struct run *r)
{
	const char *bad = index_check(r->ix);
	unsigned i;

	if (bad != NULL)
		fail_msg("%s: %s", r->set->name, bad);
	for (i = 0; i < SERVERS; i++)
		if (!r->leaving[i])
			assert_int_equal(index_server_room(r->ix, server_of(i)), truth_pages(r, server_of(i)));
}

static bool known(const struct run *r, index_claim id)
{
	const struct claim *cl = &r->ix->claims[(uint32_t)id];

	return id != 0 && cl->generation == id >> 32 && cl->state == CLAIM_OPEN;
}

/* Read what is left of each prompt after an eviction, or after <part>: held as far as there was
 * room. */
static void ask_what_is_left(struct run *r, bool part)
{
	struct index_stats st;
	unsigned i, k, d;

	index_stats(r->ix, &st);
	assert_true(st.bytes <= st.max_bytes);
	if (st.evicted_pages == r->evicted && st.expired == r->expired && !part)
		return;
	assert_true(r->set->tight);
	r->evicted = st.evicted_pages;
	r->expired = st.expired;
	for (i = r->n; i-- > 0; )
		if (r->a[i]->state == OPEN && !known(r, r->a[i]->claim))
			forget(r, i);
	for (i = 0; i < r->n; ) {
		for (k = 0; server_of(k) != r->a[i]->server; )
			k++;
		match(r, &r->a[i]->p, &r->m);
		d = index_match_depth(&r->m, r->a[i]->server);
		if (r->a[i]->state == OPEN || d == r->a[i]->p.n || r->leaving[k]) {
			if (!r->leaving[k])
				assert_int_equal(d, r->a[i]->p.n);
			i++;
		} else if (d > 0) {
			r->a[i++]->p.n = d;
		} else {
			forget(r, i);
		}
	}
}

/* ---- steps ---- */

static void step_commit(struct run *r)
{
	struct added *a;
	unsigned s = rng_below(&r->rng, SERVERS);
	const struct index_match *m = NULL;

	if (r->n == MAX_ADDED)
		return;
	a = r->a[r->n];
	a->server = server_of(s);
	switch (rng_below(&r->rng, 4)) {
	case 0:
		make_prompt(r, &a->p);
		break;
	case 1:
		a->p = r->old_of;		/* a cursor that may be out of date */
		m = &r->old;
		break;
	default:
		make_prompt(r, &a->p);
		match(r, &a->p, &r->m);
		m = &r->m;
	}
	a->claim = commit(r, &a->p, m, a->server);
	a->state = OPEN;
	if (r->leaving[s])
		assert_int_equal(a->claim, 0);
	else if (!r->set->tight)
		assert_true(a->claim != 0);
	if (a->claim != 0)
		r->n++;
	ask_what_is_left(r, false);
}

static unsigned find_open(const struct run *r, server_id s, bool any, unsigned from)
{
	unsigned i;

	for (i = 0; i < r->n; i++)
		if (r->a[(i + from) % r->n]->state == OPEN && (any || r->a[(i + from) % r->n]->server == s))
			return (i + from) % r->n;
	return MAX_ADDED;
}

/* Without room a server holds less than it should, and its own claims would hide how much. */
static bool claims_of(const struct run *r, const struct prompt *p, server_id s)
{
	unsigned i;

	for (i = 0; i < r->n; i++)
		if (r->a[i]->server == s && r->a[i]->state == OPEN && common(&r->a[i]->p, p) > 0)
			return true;
	return false;
}

static void step_close(struct run *r, unsigned how)
{
	unsigned i = r->n ? find_open(r, 0, true, rng_below(&r->rng, r->n)) : MAX_ADDED, to;
	struct added *a;

	if (i == MAX_ADDED)
		return;
	a = r->a[i];
	if (how == 0) {
		index_confirm(r->ix, a->claim, r->now);
		a->state = CONFIRMED;
	} else if (how == 1) {
		index_cancel(r->ix, a->claim);
		forget(r, i);
	} else {
		to = rng_below(&r->rng, SERVERS);
		if (r->set->tight && claims_of(r, &a->p, server_of(to)))
			return;
		index_confirm_at(r->ix, a->claim, server_of(to), r->now);
		a->server = server_of(to);
		a->state = CONFIRMED;
		if (r->leaving[to])
			forget(r, i);
		else if (r->set->tight)
			ask_what_is_left(r, true);
	}
}

/* A closed claim is unknown: nothing happens. */
static void step_stale(struct run *r)
{
	index_claim c = r->stale[rng_below(&r->rng, MAX_STALE)];

	assert_false(known(r, c));
	if (rng_below(&r->rng, 2))
		index_confirm(r->ix, c, r->now);
	else
		index_confirm_at(r->ix, c, server_of(rng_below(&r->rng, SERVERS)), r->now);
	index_cancel(r->ix, c);
}

static void step_drop(struct run *r, unsigned s)
{
	uint32_t work = 1 + rng_below(&r->rng, 6);
	unsigned i;

	r->leaving[s] = !index_drop_step(r->ix, server_of(s), work);
	for (i = r->n; i-- > 0; )
		if (r->a[i]->server == server_of(s) && (!r->leaving[s] || !known(r, r->a[i]->claim)))
			forget(r, i);
	if (!r->leaving[s])
		assert_int_equal(index_server_room(r->ix, server_of(s)), 0);
}

static void step_remember(struct run *r)
{
	make_prompt(r, &r->old_of);
	match(r, &r->old_of, &r->old);
}

static void step_tick(struct run *r)
{
	unsigned i, s = rng_below(&r->rng, SERVERS);

	if (r->set->capacity != 0 && rng_below(&r->rng, 4) == 0)
		index_set_capacity(r->ix, server_of(s),
		    r->set->capacity / 2 + rng_below(&r->rng, (uint32_t)r->set->capacity));
	for (i = 0; i < 3 && index_tick(r->ix); i++)
		;
	ask_what_is_left(r, false);
}

static void step(struct run *r)
{
	unsigned x = rng_below(&r->rng, 1000), s;

	r->now += rng_below(&r->rng, 40);
	if (x < 380)
		step_commit(r);
	else if (x < 560)
		step_close(r, 0);
	else if (x < 700)
		step_close(r, 1);
	else if (x < 760)
		step_close(r, 2);
	else if (x < 770)
		step_stale(r);
	else if (x < 780)
		step_drop(r, rng_below(&r->rng, SERVERS));
	else if (x < 800)
		step_remember(r);
	else if (x < 830)
		step_tick(r);
	else
		check_match(r);
	if (r->n > MAX_ADDED * 3 / 4 && rng_below(&r->rng, 20) == 0)
		step_drop(r, rng_below(&r->rng, SERVERS));
	for (s = 0; s < SERVERS; s++)
		if (r->leaving[s] && rng_below(&r->rng, 3) == 0)
			step_drop(r, s);
}

/* ---- runs ---- */

static void begin(struct run *r, const struct setup *set, uint64_t seed)
{
	struct index_opts o = { .max_bytes = set->max_bytes, .max_pages = 65536, .shards = set->shards,
				.order = set->order, .reserve_percent = set->reserve };
	unsigned i;

	rng_init(&r->rng, seed);
	r->set = set;
	r->letters = 2 + rng_below(&r->rng, 4);
	assert_non_null(r->ix = index_new(&o));
	assert_non_null(r->keys = malloc(MAX_LEN * sizeof(*r->keys)));
	for (i = 0; i < MAX_ADDED; i++)
		assert_non_null(r->a[i] = malloc(sizeof(*r->a[i])));
	assert_int_equal(index_match_init(&r->m), 0);
	assert_int_equal(index_match_init(&r->old), 0);
	for (i = 0; i < SERVERS; i++)
		index_set_capacity(r->ix, server_of(i), set->capacity);
	step_remember(r);
}

static void end(struct run *r)
{
	struct index_stats st;
	unsigned i;

	for (i = 0; i < SERVERS; i++)
		index_drop_server(r->ix, server_of(i));
	assert_null(index_check(r->ix));
	index_stats(r->ix, &st);
	assert_int_equal(st.nodes + st.spaces + st.records + st.pages + st.claims, 0);
	index_match_fini(&r->m);
	index_match_fini(&r->old);
	index_free(r->ix);
	for (i = 0; i < MAX_ADDED; i++)
		free(r->a[i]);
	free(r->keys);
	free(r);
}

static uint64_t slack_after_ticks(struct run *r)
{
	struct index_stats st;
	unsigned i;

	for (i = 0; i < 100 && (i == 0 || st.slack > 0); i++) {
		while (index_tick(r->ix))
			;
		index_stats(r->ix, &st);
	}
	return st.slack;
}

/* A node that lacked memory to get smaller has got it, although claims are open; if these may fill
 * all memory and never expire, only after they have ended. */
static void no_slack(struct run *r)
{
	unsigned i;

	if (slack_after_ticks(r) > 0 && r->set->reserve == 100)
		for (i = 0; i < r->n; i++)
			if (r->a[i]->claim != 0)
				index_cancel(r->ix, r->a[i]->claim);
	assert_int_equal(slack_after_ticks(r), 0);
	assert_null(index_check(r->ix));
}

static void run(const struct setup *set, uint64_t seed, struct index_stats *sum)
{
	const char *more = getenv("MODEL_STEPS");
	struct run *r = calloc(1, sizeof(*r));
	struct index_stats st;
	unsigned i, steps = set->steps * (more ? (unsigned)strtoul(more, NULL, 10) : 1) / SHARE;

	assert_non_null(r);
	begin(r, set, seed);
	for (i = 0; i < steps; i++) {
		step(r);
		if (i % 61 == 0)
			check_all(r);
	}
	check_all(r);
	index_stats(r->ix, &st);
	sum->commits += st.commits;
	sum->evicted_records += st.evicted_records;
	sum->expired += st.expired;
	sum->refused += st.refused;
	no_slack(r);
	end(r);
}

static const struct setup exact[] = {
	{ .name = "1 shard", .shards = 1, .max_len = 40, .max_bytes = 8 << 20, .steps = 200000 },
	{ .name = "4 shards", .shards = 4, .max_len = 40, .max_bytes = 8 << 20, .steps = 200000 },
	{ .name = "16 shards, lfu",
	    .shards = 16,
	    .order = INDEX_LFU,
	    .max_len = 12,
	    .max_bytes = 8 << 20,
	    .steps = 100000 },
	{ .name = "long prompts",
	    .shards = 4,
	    .max_len = 200,
	    .max_bytes = 16 << 20,
	    .steps = 60000 },
	{ .name = "long edges",
	    .shards = 4,
	    .max_len = 1500,
	    .runs = true,
	    .max_bytes = 32 << 20,
	    .steps = 30000 },
	{ .name = "long edges, 16 shards",
	    .shards = 16,
	    .max_len = 1500,
	    .runs = true,
	    .max_bytes = 32 << 20,
	    .steps = 10000 },
};

static void exact_with_room(void **state)
{
	struct index_stats sum = { 0 };
	unsigned i;

	for (i = 0; i < sizeof(exact) / sizeof(*exact); i++) {
		struct setup set = exact[i];

		set.reserve = 100;
		run(&set, i + 1, &sum);
		run(&set, i + 100, &sum);
	}
	assert_int_equal(sum.evicted_records + sum.expired + sum.refused, 0);
	assert_true(sum.commits > 100000 / SHARE);
}

static const enum index_order orders[] = {
	INDEX_LRU, INDEX_LFU, INDEX_FIFO, INDEX_MRU, INDEX_FILO, INDEX_PRIORITY
};

static void what_goes_goes_from_the_end(void **state)
{
	static const uint32_t shards[] = { 1, 4, 16 };
	struct index_stats sum = { 0 };
	unsigned i, k;

	for (i = 0; i < 6; i++)
		for (k = 0; k < 3; k++) {
			struct setup set = { .name = "capacity", .shards = shards[k], .order = orders[i],
					     .max_len = 40, .max_bytes = 4 << 20, .capacity = 60,
					     .steps = 40000, .tight = true, .reserve = 10 };

			run(&set, 1000 + i * 3 + k, &sum);
		}
	assert_true(sum.evicted_records > 1000);
	assert_int_equal(sum.expired + sum.refused, 0);
}

/* Every step finds the index full. */
static void without_room(void **state)
{
	struct index_stats sum = { 0 };
	unsigned i;

	for (i = 0; i < 6; i++) {
		struct setup set = { .name = "64 KiB", .shards = 1, .order = orders[i],
				     .max_len = 300, .max_bytes = 65536, .steps = 20000, .tight = true,
				     .reserve = i % 2 ? 100 : 10, .runs = i % 3 == 0 };

		run(&set, 2000 + i, &sum);
		set.name = "1 MiB";
		set.shards = 4;
		set.max_bytes = 1 << 20;
		set.max_len = 1500;
		set.runs = true;
		set.steps = 5000;
		run(&set, 3000 + i, &sum);
	}
	assert_true(sum.evicted_records > 1000);
	assert_true(sum.refused > 0 && sum.refused < sum.commits / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_with_room),
		cmocka_unit_test(what_goes_goes_from_the_end),
		cmocka_unit_test(without_room),
	};

	return cmocka_run_group_tests_name("index model", tests, NULL, NULL);
}

/* test_model.c - the index against a slow truth: an array of every prompt that was added.
 *
 * A random but repeatable mix of commits, confirms, cancels, drops and matches over few different
 * pages, so that prompts share, part, and end inside each other all the time. With room for all, every
 * band must be exactly what the array says. With a tight budget the truth cannot know what was
 * evicted; then an open claim is the least a server must hold, and what was ever added the most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/index/index.h"

#define SERVERS		12
#define SPACES		3
#define MAX_ADDED	4096
#define MAX_LEN		40

enum state { GONE, OPEN, CONFIRMED };

struct added {
	page_key pages[MAX_LEN];
	unsigned n, space;
	server_id server;
	enum state state;
	index_claim claim;
};

struct truth {
	struct added a[MAX_ADDED];
	unsigned n;
};

struct run {
	struct rng rng;
	struct index *ix;
	struct index_match m, old;	/* <old>: a match of some time ago, of prompt <old_of> */
	struct added old_of;
	struct truth t;
	unsigned letters;
	bool tight;
};

static const struct space_key spaces[SPACES] = { { .h = { 0, 0 } }, { .h = { 0, 1 } }, { .h = { 1, 0 } } };

/* Sparse ids, so that all words of a set are used. */
static server_id server_of(unsigned i)
{
	return (server_id)(i * (SERVERS_MAX - 1) / (SERVERS - 1));
}

static unsigned common(const struct added *a, const struct added *b)
{
	unsigned i = 0;

	if (a->space != b->space)
		return 0;
	while (i < a->n && i < b->n && a->pages[i] == b->pages[i])
		i++;
	return i;
}

/* The longest part of <p> that <server> has in an entry of one of the states asked for. */
static unsigned truth_depth(const struct truth *t, const struct added *p, server_id server, bool open,
			    bool confirmed, bool gone)
{
	unsigned i, d, best = 0;
	const struct added *a;

	for (i = 0; i < t->n; i++) {
		a = &t->a[i];
		if (a->server != server)
			continue;
		if ((a->state == OPEN && !open) || (a->state == CONFIRMED && !confirmed) ||
		    (a->state == GONE && !gone))
			continue;
		d = common(a, p);
		best = d > best ? d : best;
	}
	return best;
}

/* Pages that a server holds, each once: of every entry, what no earlier one of it shares. */
static uint64_t truth_pages(const struct truth *t, server_id server)
{
	unsigned i, j, d, best;
	uint64_t n = 0;

	for (i = 0; i < t->n; i++) {
		if (t->a[i].server != server || t->a[i].state == GONE)
			continue;
		for (best = j = 0; j < i; j++) {
			if (t->a[j].server != server || t->a[j].state == GONE)
				continue;
			d = common(&t->a[i], &t->a[j]);
			best = d > best ? d : best;
		}
		n += t->a[i].n - best;
	}
	return n;
}

/* New from the first page, or an earlier one cut short, gone on with, or both. */
static void make_prompt(struct run *r, struct added *p)
{
	unsigned max = 1 + rng_below(&r->rng, 8) * (1 + rng_below(&r->rng, 5));

	*p = (struct added){ .space = rng_below(&r->rng, SPACES),
			     .server = server_of(rng_below(&r->rng, SERVERS)) };
	if (r->t.n > 0 && rng_below(&r->rng, 3) > 0) {
		const struct added *a = &r->t.a[rng_below(&r->rng, r->t.n)];

		p->space = a->space;
		p->n = 1 + rng_below(&r->rng, a->n);
		memcpy(p->pages, a->pages, p->n * sizeof(*p->pages));
	}
	while (p->n < max && p->n < MAX_LEN)
		p->pages[p->n++] = rng_below(&r->rng, r->letters);
}

/* ---- the index is as the truth says ------------------------------------------------------- */

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
	unsigned i, got, least;
	struct added p;
	server_id id;

	make_prompt(r, &p);
	index_match(r->ix, &spaces[p.space], p.pages, p.n, &r->m);
	assert_int_equal(r->m.n_pages, p.n);
	check_bands(&r->m);
	for (i = 0; i < SERVERS; i++) {
		id = server_of(i);
		got = index_match_depth(&r->m, id);
		least = truth_depth(&r->t, &p, id, true, !r->tight, false);
		if (!r->tight) {
			assert_int_equal(got, least);
			continue;
		}
		assert_true(got >= least);
		assert_true(got <= truth_depth(&r->t, &p, id, true, true, true));
	}
}

static void check_all(struct run *r)
{
	const char *bad = index_check(r->ix);
	unsigned i;

	if (bad != NULL)
		fail_msg("%s", bad);
	for (i = 0; i < SERVERS && !r->tight; i++)
		assert_int_equal(index_server_pages(r->ix, server_of(i)),
				 truth_pages(&r->t, server_of(i)));
}

/* ---- steps ------------------------------------------------------------------------------------ */

static void step_commit(struct run *r)
{
	struct added *p = &r->t.a[r->t.n];
	const struct index_match *m = NULL;

	if (r->t.n == MAX_ADDED)
		return;
	make_prompt(r, p);
	switch (rng_below(&r->rng, 4)) {
	case 0:
		break;
	case 1:
		*p = r->old_of;		/* a cursor that may have grown old */
		p->server = server_of(rng_below(&r->rng, SERVERS));
		m = &r->old;
		break;
	default:
		index_match(r->ix, &spaces[p->space], p->pages, p->n, &r->m);
		m = &r->m;
	}
	if (p->n == 0)
		return;
	p->claim = index_commit(r->ix, &spaces[p->space], p->pages, p->n, m, p->server, 0);
	if (!r->tight)
		assert_true(p->claim != 0);
	p->state = OPEN;
	r->t.n += p->claim != 0;
}

static void step_close(struct run *r, bool confirm)
{
	struct added *a;

	if (r->t.n == 0)
		return;
	a = &r->t.a[rng_below(&r->rng, r->t.n)];	/* closed and dropped ones too: not known */
	if (confirm)
		index_confirm(r->ix, a->claim, 0);
	else
		index_cancel(r->ix, a->claim);
	if (a->state == OPEN)
		a->state = confirm ? CONFIRMED : GONE;
}

static void step_drop(struct run *r)
{
	server_id id = server_of(rng_below(&r->rng, SERVERS));
	unsigned i;

	index_drop_server(r->ix, id);
	for (i = 0; i < r->t.n; i++)
		if (r->t.a[i].server == id)
			r->t.a[i].state = GONE;
}

static void step_remember(struct run *r)
{
	make_prompt(r, &r->old_of);
	index_match(r->ix, &spaces[r->old_of.space], r->old_of.pages, r->old_of.n, &r->old);
}

static void step(struct run *r)
{
	unsigned x = rng_below(&r->rng, 1000);

	if (x < 380)
		step_commit(r);
	else if (x < 580)
		step_close(r, true);
	else if (x < 780)
		step_close(r, false);
	else if (x < 790)
		step_drop(r);
	else if (x < 820)
		step_remember(r);
	else
		check_match(r);
}

static void check_empty(struct index *ix)
{
	struct index_stats st;

	assert_null(index_check(ix));
	index_stats(ix, &st);
	assert_int_equal(st.nodes + st.spaces + st.records + st.pages + st.claims, 0);
}

static void run(uint64_t seed, unsigned steps, size_t max_bytes, bool tight, struct index_stats *st)
{
	struct index_opts o = { .max_bytes = max_bytes, .max_pages = 65536, .reserve_percent = 100 };
	struct run *r = calloc(1, sizeof(*r));
	unsigned i;

	assert_non_null(r);
	rng_init(&r->rng, seed);
	r->letters = 2 + (unsigned)(seed % 5);
	r->tight = tight;
	assert_non_null(r->ix = index_new(&o));
	assert_int_equal(index_match_init(&r->m), 0);
	assert_int_equal(index_match_init(&r->old), 0);
	step_remember(r);
	for (i = 0; i < steps; i++) {
		step(r);
		if (i % 64 == 0)
			check_all(r);
		index_stats(r->ix, st);
		assert_true(st->bytes <= st->max_bytes);
	}
	check_all(r);
	for (i = 0; i < SERVERS; i++)
		index_drop_server(r->ix, server_of(i));
	check_empty(r->ix);
	index_match_fini(&r->m);
	index_match_fini(&r->old);
	index_free(r->ix);
	free(r);
}

static void exact_with_room(void **state)
{
	struct index_stats st;
	uint64_t seed;

	for (seed = 1; seed <= 60; seed++)
		run(seed, 2000, 4 << 20, false, &st);
	assert_int_equal(st.evicted_records, 0);
	assert_int_equal(st.refused, 0);
}

static void bounded_without_room(void **state)
{
	uint64_t seed, evicted = 0, refused = 0;
	struct index_stats st;

	for (seed = 1; seed <= 60; seed++) {
		run(seed, 2500, 65536, true, &st);
		evicted += st.evicted_records;
		refused += st.refused;
	}
	assert_true(evicted > 100);
	assert_true(refused > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_with_room),
		cmocka_unit_test(bounded_without_room),
	};

	return cmocka_run_group_tests_name("index model", tests, NULL, NULL);
}

/* test_capacity.c - caches of a known size, inferred from times of first tokens alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/fleet/capacity.h"

#define PAGE		16u	/* tokens */
#define PROMPT		500u	/* pages: 8000 tokens */
#define SERVERS		4u

/* A server that evicts whole prompts, the least recently used first. */
struct lru {
	double size;		/* tokens */
	double slowness;	/* its seconds for one that is predicted */
	uint32_t held[1024];	/* newest first */
	uint32_t n;
};

struct fleet_of {
	struct policy_opts opts;
	struct marks_table *table;
	struct capacity_pool pool;
	struct capacity c[SERVERS];
	struct lru lru[SERVERS];
	struct rng rng;
	double noise;
	msec now;
	uint64_t uid, guess;
};

static void fleet_start(struct fleet_of *f, double noise)
{
	memset(f, 0, sizeof(*f));
	policy_defaults(&f->opts);
	f->table = marks_table_new();
	assert_non_null(f->table);
	rng_init(&f->rng, 7);
	f->noise = noise;
	f->now = 1000;
	for (unsigned i = 0; i < SERVERS; i++) {
		capacity_init(&f->c[i], i + 1);
		f->lru[i].slowness = 1;
	}
}

static double chance(struct fleet_of *f)
{
	return (double)rng_below(&f->rng, 1u << 20) / (1u << 20);
}

/* Returns true if the prompt was cached. */
static bool lru_use(struct lru *l, uint32_t prompt)
{
	uint32_t at = 0, room = (uint32_t)(l->size / (PROMPT * PAGE));
	bool hit;

	while (at < l->n && l->held[at] != prompt)
		at++;
	hit = at < l->n;
	if (!hit && l->n < room)
		at = l->n++;
	else if (!hit)
		at = l->n - 1;
	memmove(l->held + 1, l->held, at * sizeof(l->held[0]));
	l->held[0] = prompt;
	return hit;
}

/* <matched>: pages by the index, which evicts nothing here. */
static void asked(struct fleet_of *f, unsigned at, uint32_t prompt, uint32_t matched)
{
	struct capacity *c = &f->c[at];
	page_key pages[PROMPT];
	struct marks m;
	struct capacity_sent sent = {
		.marks = &m, .uid = ++f->uid, .tokens = PROMPT * PAGE, .matched = matched, .page_tokens = PAGE,
	};
	bool hit = lru_use(&f->lru[at], prompt);
	double s;

	for (uint32_t i = 0; i < PROMPT; i++)
		pages[i] = (page_key)prompt << 32 | i;
	marks_of(&m, 1, pages, PROMPT, NULL);
	capacity_sent(c, f->table, &sent, f->now);
	s = policy_prefill_s(&f->opts, sent.tokens, hit ? (uint64_t)matched * PAGE : 0) *
	    f->lru[at].slowness;
	s *= 1 + f->noise * (2 * chance(f) - 1);
	capacity_first(c, &f->pool, &f->opts, f->uid, f->now + (msec)(s * 1000));
	f->now += 100000;
}

/* New prompts, and old ones at all distances up to <far> tokens. */
static void run(struct fleet_of *f, unsigned n, double far)
{
	static uint32_t sent[SERVERS][4096];
	uint32_t n_sent[SERVERS] = { 0 }, next = 1;

	for (unsigned i = 0; i < n; i++) {
		unsigned at = rng_below(&f->rng, SERVERS);
		uint32_t back = (uint32_t)(chance(f) * far / (PROMPT * PAGE)) + 1;
		bool again = chance(f) < .3 && back <= n_sent[at];
		uint32_t prompt = again ? sent[at][n_sent[at] - back] : next++;

		asked(f, at, prompt, again ? PROMPT - 20 : 0);
		sent[at][n_sent[at]++] = prompt;
	}
}

static void fleet_end(struct fleet_of *f)
{
	marks_table_free(f->table);
}

static void within(struct fleet_of *f, unsigned i, double share)
{
	double got = (double)capacity_estimate(&f->c[i], &f->pool, f->guess), want = f->lru[i].size;

	if (got < want * (1 - share) || got > want * (1 + share))
		fail_msg("server %u has %.0f tokens, and %.0f were inferred", i, want, got);
}

/* Half the usual, as usual, twice; a quarter; at rates three times as fast or slow as configured;
 * with times that are off by up to half. */
static void sizes_are_found(void **state)
{
	static const struct { double size, slowness, noise; } cases[] = {
		{ 250e3, 1, .1 }, { 500e3, 1, .1 }, { 1000e3, 1, .1 }, { 125e3, 1, .1 },
		{ 250e3, .35, .3 }, { 500e3, .35, .3 }, { 1000e3, .35, .3 }, { 500e3, 3, .3 }, { 500e3, 1, .5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fleet_of f;

		fleet_start(&f, cases[i].noise);
		for (unsigned k = 0; k < SERVERS; k++) {
			f.lru[k].size = cases[i].size;
			f.lru[k].slowness = cases[i].slowness;
		}
		run(&f, 2000, 2e6);
		for (unsigned k = 0; k < SERVERS; k++)
			within(&f, k, .25);
		fleet_end(&f);
	}
}

/* From half to twice of any guess, in 2000 requests; prompts come again from as far as a server has
 * room for. */
static void a_guess_is_where_it_starts(void **state)
{
	static const double guesses[] = { 100e3, 400e3, 800e3 }, shares[] = { .5, 1, 2 };

	for (size_t i = 0; i < 9; i++) {
		struct fleet_of f;

		fleet_start(&f, .3);
		f.guess = (uint64_t)guesses[i / 3];
		for (unsigned k = 0; k < SERVERS; k++)
			f.lru[k].size = guesses[i / 3] * shares[i % 3];
		run(&f, 2000, 3 * guesses[i / 3]);
		for (unsigned k = 0; k < SERVERS; k++)
			within(&f, k, .25);
		fleet_end(&f);
	}
}

/* Evidence for 2^19 tokens, which leaves a deviation of a fifth of an octave: a guess of 2^17
 * counts for a 25th. */
static void a_guess_is_not_forgotten_at_once(void **state)
{
	static struct capacity_pool p;
	static struct capacity c;
	double none, low;

	p.all.n = 10;
	for (unsigned i = 0; i < CAPACITY_SIZES; i++)
		p.all.against[i] = 3 * (float)pow((i + .5) / 8 - 5, 2);
	none = (double)capacity_estimate(&c, &p, 1u << 19);
	low = (double)capacity_estimate(&c, &p, 1u << 17);
	assert_true(fabs(log2(none) - 19) < .01);
	assert_true(fabs(log2(low) - (19 - 1 / 24.)) < .01);	/* its tail is not normal */
}

/* After a restart each server's own estimate holds until there is enough new evidence. */
static void old_estimates_give_way(void **state)
{
	static struct capacity_pool p;
	struct fleet_of f;
	double low;

	p.all.n = 10;
	for (unsigned i = 0; i < CAPACITY_SIZES; i++)
		p.all.against[i] = 3 * (float)pow((i + .5) / 8 - 5, 2);
	fleet_start(&f, .2);
	assert_int_equal(capacity_recall(&f.c[0], 1u << 18), 1u << 18);
	low = (double)capacity_estimate(&f.c[0], &p, 1u << 19);
	assert_true(fabs(log2(low) - (19 - 4 / 24.)) < .01);
	for (unsigned k = 0; k < SERVERS; k++) {
		f.lru[k].size = 800e3;
		capacity_recall(&f.c[k], 200000);
	}
	assert_int_equal(capacity_estimate(&f.c[0], &f.pool, 0), 0);
	run(&f, 2000, 2e6);
	for (unsigned k = 0; k < SERVERS; k++)
		within(&f, k, .25);
	assert_true(capacity_recall(&f.c[0], 1) > CAPACITY_LEAST);
	assert_true(capacity_recall(&f.c[0], UINT32_MAX) < CAPACITY_LEAST * 1024);
	fleet_end(&f);
}

static void servers_that_differ(void **state)
{
	struct fleet_of f;

	fleet_start(&f, .2);
	for (unsigned k = 0; k < SERVERS; k++) {
		f.lru[k].size = k < 2 ? 300e3 : 1200e3;
		f.lru[k].slowness = k % 2 ? 1 : 2;
	}
	run(&f, 6000, 2e6);
	for (unsigned k = 0; k < SERVERS; k++)
		within(&f, k, .25);
	fleet_end(&f);
}

/* If nothing was evicted, or no prompt came again, the size stays unknown, unless what was held is
 * already far above the guess. */
static void unseen_sizes_stay_unknown(void **state)
{
	struct fleet_of f;

	fleet_start(&f, .2);
	for (unsigned k = 0; k < SERVERS; k++)
		f.lru[k].size = 8e6;
	assert_int_equal(capacity_estimate(&f.c[0], &f.pool, 0), 0);
	for (uint32_t i = 0; i < 200; i++)
		asked(&f, 0, i, 0);
	assert_int_equal(capacity_estimate(&f.c[0], &f.pool, 0), 0);
	for (uint32_t i = 160; i < 200; i++)
		asked(&f, 0, i, PROMPT - 20);
	assert_int_equal(capacity_estimate(&f.c[0], &f.pool, 0), 0);
	for (uint32_t i = 0; i < 160; i++)
		asked(&f, 0, i, PROMPT - 20);
	assert_true(f.pool.all.n > 0);
	assert_true(capacity_estimate(&f.c[0], &f.pool, 0) * 3 / 2 > 1600000);
	fleet_end(&f);
}

static void sent_pages(struct fleet_of *f, const page_key *pages, uint32_t n)
{
	struct marks m;
	struct capacity_sent sent = {
		.marks = &m, .uid = ++f->uid, .tokens = n * PAGE, .matched = n, .page_tokens = PAGE,
	};

	marks_of(&m, 1, pages, n, NULL);
	capacity_forget(&f->c[0], f->c[0].watched.uid);
	capacity_sent(&f->c[0], f->table, &sent, f->now += 1000);
}

/* Sixty turns of a conversation are one prompt, the longest. */
static void turns_count_once(void **state)
{
	static page_key other[4000], talk[8000];
	struct fleet_of f;
	uint32_t n = 2000;
	double far;

	fleet_start(&f, 0);
	for (uint32_t i = 0; i < 8000; i++)
		talk[i] = 1ull << 32 | i;
	for (uint32_t i = 0; i < 4000; i++)
		other[i] = 2ull << 32 | i;
	sent_pages(&f, other, 4000);
	for (unsigned turn = 0; turn < 60; turn++)
		sent_pages(&f, talk, n += 100);
	sent_pages(&f, other, 4000);
	assert_int_not_equal(f.c[0].watched.n_steps, 0);
	far = f.c[0].watched.step[f.c[0].watched.n_steps - 1].distance;
	assert_true(fabs(far / (n * PAGE + 4000 * PAGE / 2) - 1) < .05);	/* half of its own run */
	fleet_end(&f);
}

/* Of a thousand first tokens twenty tell of long distances; they count as long as the others. */
static void seldom_ones_count(void **state)
{
	struct fleet_of f;

	fleet_start(&f, .2);
	for (unsigned k = 0; k < SERVERS; k++)
		f.lru[k].size = 1600e3;
	run(&f, 4000, 4e6);
	for (unsigned i = 0; i < 3000; i++)
		for (unsigned k = 0; k < SERVERS; k++)
			asked(&f, k, 100000 + i / 2, PROMPT - 20);
	for (unsigned k = 0; k < SERVERS; k++)
		within(&f, k, .3);
	fleet_end(&f);
}

/* Send <prompt>, and return how far back it was used. */
static double sent_again(struct fleet_of *f, unsigned prompt, uint32_t matched, uint64_t room)
{
	page_key pages[PROMPT];
	struct marks m;
	const struct capacity_sent sent = {
		.marks = &m, .room = room, .uid = ++f->uid, .tokens = PROMPT * PAGE, .matched = matched,
		.page_tokens = PAGE,
	};

	for (uint32_t i = 0; i < PROMPT; i++)
		pages[i] = (page_key)prompt << 32 | i;
	marks_of(&m, 1, pages, PROMPT, NULL);
	f->c[0].watched = (struct watched_prompt){ 0 };
	capacity_sent(&f->c[0], f->table, &sent, f->now += 1000);
	return f->c[0].watched.n_steps > 0 ? (double)f->c[0].watched.step[0].distance : -1;
}

/* The first prompt is open until the end; those sent after it are evicted before it. */
static void what_ends_last_is_used_last(void **state)
{
	struct fleet_of f;
	uint32_t run;

	for (unsigned keep = 0; keep < 2; keep++) {
		fleet_start(&f, 0);
		sent_again(&f, 0, 0, 0);
		run = capacity_opened(&f.c[0]);
		if (!keep)
			capacity_ended(&f.c[0], run);
		for (unsigned i = 1; i <= 20; i++) {
			sent_again(&f, i, 0, 0);
			capacity_ended(&f.c[0], capacity_opened(&f.c[0]));
		}
		if (keep)
			capacity_ended(&f.c[0], run);
		if (keep)
			assert_true(sent_again(&f, 0, PROMPT, 0) < 4 * PROMPT * PAGE);
		else
			assert_true(sent_again(&f, 0, PROMPT, 0) > 16 * PROMPT * PAGE);
		fleet_end(&f);
	}
}

/* A prompt that the index has evicted, too early or not, tells that; one that it does not match for
 * another reason tells nothing. */
static void what_the_index_evicted_is_evidence(void **state)
{
	struct fleet_of f;

	fleet_start(&f, 0);
	for (unsigned i = 0; i <= 20; i++)
		sent_again(&f, i, 0, 0);
	assert_true(sent_again(&f, 1, 0, 10 * PROMPT * PAGE) > 16 * PROMPT * PAGE);
	assert_true(sent_again(&f, 2, 0, 80 * PROMPT * PAGE) < 0);
	assert_true(sent_again(&f, 3, 0, 0) < 0);
	fleet_end(&f);
}

/* Before any evidence half the guess is likely and eight times it is not; a size that many first
 * tokens showed leaves no chance to what is much older, and a few that misled leave some. */
static void a_chance_follows_the_sizes(void **state)
{
	struct fleet_of f;
	double few;

	(void)state;
	fleet_start(&f, .1);
	assert_true(capacity_chance(&f.c[0], &f.pool, 500000, 250000) > .7);
	assert_true(capacity_chance(&f.c[0], &f.pool, 500000, 4000000) < .1);
	for (unsigned i = 0; i < SERVERS; i++)
		f.lru[i].size = 500e3;
	run(&f, 100, 2e6);
	few = capacity_chance(&f.c[0], &f.pool, 0, 800000);
	assert_true(few > .005);
	run(&f, 2000, 2e6);
	assert_true(capacity_chance(&f.c[0], &f.pool, 0, 250000) > .95);
	assert_true(capacity_chance(&f.c[0], &f.pool, 0, 800000) < few / 2);
	assert_true(capacity_chance(&f.c[0], &f.pool, 0, 2000000) < .005);
	fleet_end(&f);
}

static void a_prompt_has_a_distance(void **state)
{
	page_key pages[PROMPT];
	struct fleet_of f;
	struct marks m;
	uint64_t far = 0;

	(void)state;
	fleet_start(&f, 0);
	for (unsigned i = 0; i <= 20; i++)
		sent_again(&f, i, 0, 0);
	for (uint32_t i = 0; i < PROMPT; i++)
		pages[i] = (page_key)5 << 32 | i;
	marks_of(&m, 1, pages, PROMPT, NULL);
	assert_true(capacity_far(&f.c[0], f.table, m.key[m.n - 1], &far));
	assert_true(far > 13 * PROMPT * PAGE && far < 17 * PROMPT * PAGE);
	assert_false(capacity_far(&f.c[1], f.table, m.key[m.n - 1], &far));
	capacity_cleared(&f.c[0]);
	assert_false(capacity_far(&f.c[0], f.table, m.key[m.n - 1], &far));
	sent_again(&f, 5, 0, 0);
	assert_true(capacity_far(&f.c[0], f.table, m.key[m.n - 1], &far));
	assert_true(far < PROMPT * PAGE);
	fleet_end(&f);
}

/* A server that was not asked has the size of the others, and another if its own first tokens say
 * so. */
static void equal_servers_are_one(void **state)
{
	struct fleet_of f;
	double all;

	fleet_start(&f, .2);
	for (unsigned k = 0; k < SERVERS; k++)
		f.lru[k].size = 900e3;
	run(&f, 3000, 2e6);
	all = (double)capacity_estimate(&f.c[1], &f.pool, 0);
	capacity_init(&f.c[0], 1);
	assert_true(fabs((double)capacity_estimate(&f.c[0], &f.pool, 0) / all - 1) < .01);
	for (unsigned k = 2; k < SERVERS; k++)
		assert_true(fabs((double)capacity_estimate(&f.c[k], &f.pool, 0) / all - 1) < .01);
	for (unsigned i = 0; i < CAPACITY_SIZES; i++)
		f.c[0].own.against[i] = fabsf((float)i - 24) * 2;
	assert_true(capacity_estimate(&f.c[0], &f.pool, 0) < all / 2);
	fleet_end(&f);
}

/* A third of each other prompt is not seen: distances would be too short. */
static void cut_prompts_hide_distances(void **state)
{
	page_key pages[PROMPT] = { 1 };
	struct marks m;
	struct capacity_sent sent = { .marks = &m, .tokens = PROMPT * PAGE, .page_tokens = PAGE };
	struct fleet_of f;

	fleet_start(&f, 0);
	marks_of(&m, 1, pages, PROMPT, NULL);
	for (unsigned i = 0; i < 400; i++) {
		sent.uid = i + 1;
		sent.matched = i > 0 ? PROMPT : 0;
		sent.unseen = i % 2 ? sent.tokens / 3 : 0;
		capacity_sent(&f.c[0], f.table, &sent, f.now + i * 1000);
		assert_true((f.c[0].watched.uid != 0) == (i < 60 && i % 2 == 0) || (i > 30 && i < 120));
		capacity_forget(&f.c[0], sent.uid);
	}
	fleet_end(&f);
}

/* A request that waits for much more work than its cached part could save is no evidence; nor is an
 * end without a first token. */
static void only_clear_ones_count(void **state)
{
	struct fleet_of f;
	page_key pages[PROMPT] = { 0 };
	struct marks m;
	struct capacity_sent sent = { .marks = &m, .tokens = PROMPT * PAGE, .page_tokens = PAGE };

	fleet_start(&f, 0);
	f.lru[0].size = 1e6;
	for (uint32_t i = 0; i < 20; i++)
		asked(&f, 0, i, 0);
	marks_of(&m, 1, pages, PROMPT, NULL);
	sent.uid = 1001;
	capacity_sent(&f.c[0], f.table, &sent, f.now);
	capacity_forget(&f.c[0], 1001);
	assert_false(capacity_first(&f.c[0], &f.pool, &f.opts, 1001, f.now + 1000));
	sent.matched = PROMPT;
	sent.uid = 1002;
	sent.waiting = 1000000;
	capacity_sent(&f.c[0], f.table, &sent, f.now + 2000);
	assert_false(capacity_first(&f.c[0], &f.pool, &f.opts, 1002, f.now + 3000));
	sent.uid = 1003;
	sent.waiting = 0;
	capacity_sent(&f.c[0], f.table, &sent, f.now + 4000);
	assert_false(capacity_first(&f.c[0], &f.pool, &f.opts, 1002, f.now + 4500));
	assert_true(capacity_first(&f.c[0], &f.pool, &f.opts, 1003, f.now + 5000));
	assert_false(capacity_first(&f.c[0], &f.pool, &f.opts, 1003, f.now + 5000));
	fleet_end(&f);
}

static void marks_are_where_prompts_agree(void **state)
{
	static page_key pages[1u << 20];
	static struct marks a, b;

	for (uint32_t i = 0; i < 1u << 20; i++)
		pages[i] = i * 77;
	marks_of(&a, 5, pages, 1u << 20, NULL);
	assert_in_range(a.n, 70, MARKS_MAX - 1);
	assert_int_equal(a.depth[0], 16);
	marks_of(&b, 6, pages, 1000, NULL);
	assert_true(b.n > 15 && b.key[0] != a.key[0]);
	pages[500] = 1;
	marks_of(&b, 5, pages, 1000, NULL);
	for (uint32_t i = 0; i < b.n; i++) {
		assert_int_equal(a.depth[i], b.depth[i]);
		assert_true((a.key[i] == b.key[i]) == (b.depth[i] <= 500));
	}
	marks_of(&b, 5, pages, 15, NULL);
	assert_int_equal(b.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_found),
		cmocka_unit_test(a_guess_is_where_it_starts),
		cmocka_unit_test(a_guess_is_not_forgotten_at_once),
		cmocka_unit_test(old_estimates_give_way),
		cmocka_unit_test(servers_that_differ),
		cmocka_unit_test(unseen_sizes_stay_unknown),
		cmocka_unit_test(turns_count_once),
		cmocka_unit_test(seldom_ones_count),
		cmocka_unit_test(what_ends_last_is_used_last),
		cmocka_unit_test(what_the_index_evicted_is_evidence),
		cmocka_unit_test(a_chance_follows_the_sizes),
		cmocka_unit_test(a_prompt_has_a_distance),
		cmocka_unit_test(equal_servers_are_one),
		cmocka_unit_test(cut_prompts_hide_distances),
		cmocka_unit_test(only_clear_ones_count),
		cmocka_unit_test(marks_are_where_prompts_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

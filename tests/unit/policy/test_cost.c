/* test_cost.c - the default rule: its formula against a slow one written from the words of
 * policy.h, the window of the guard, and ties. */
#include <math.h>

#include "agent/base/rng.h"
#include "tests/unit/policy/candidates.h"
#include "tests/lib/policy/guarded.h"

#define NEAR(a, b)	(fabs((double)(a) - (double)(b)) < 1e-12 * (1 + fabs((double)(b))))

/* ---- formulas ---- */

static void prefill_is_linear_and_attention_square(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	assert_true(policy_prefill_s(&o, 0, 0) == 0);
	assert_true(policy_prefill_s(&o, 500, 500) == 0);
	assert_true(policy_prefill_s(&o, 500, 600) == 0);	/* never negative */
	assert_true(NEAR(policy_prefill_s(&o, 8000, 0), 1 + 1.3e-9 * 8000 * 4000));
	assert_true(NEAR(policy_prefill_s(&o, 10000, 2000), 1 + 1.3e-9 * 8000 * (2000 + 4000)));
	o.attention_factor = 0;
	assert_true(NEAR(policy_prefill_s(&o, 100000, 20000), 10));
	o.prefill_tokens_per_s = 1000;
	assert_true(NEAR(policy_prefill_s(&o, 100000, 20000), 80));
}

static void sacrifice_grows_with_queues_up_to_a_limit(void **state)
{
	static const struct { struct policy_pressure p; double a; } cases[] = {
		{ { 0 }, 0.3 }, { { 1 }, 0.3 }, { { 1, 0.9 }, 1.3 }, { { 0.5, 0.9 }, 0.8 },
		/* without first tokens the waiting share is a limit */
		{ { 5, 0.5 }, 0.8 }, { { 5, 0.8 }, 2.3 }, { { 5, 0.99 }, 5.3 }, { { 1e9, 1 }, 24.8 },
		{ { 0, 0.9, true }, 0.3 }, { { 1, 0, true }, 0.3 }, { { 1, 0.5, true }, 0.8 },
		{ { 2, 0.9, true }, 9.3 }, { { 1, 0.98, true }, 24.8 }, { { 1, 1, true }, 24.8 },
		{ { 2, 0.98, true }, 30 },
	};
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_true(NEAR(policy_sacrifice(&o, &cases[i].p), cases[i].a));
	o.sacrifice_min = 0;
	o.sacrifice_gain = 0;
	assert_true(policy_sacrifice(&o, &(struct policy_pressure){ 5 }) == 0);
}

/* ---- the choice ---- */

struct cost_case {
	const char *name;
	uint64_t tokens;
	struct seat row[4];
	size_t n;
	int first, second;
	enum why why;
};

/* 8000 tokens take a second and count twice, because the sacrifice factor is set to 1; an open
 * request is 30 ms, so it equals 120 uncached tokens. */
static const struct cost_case cost_cases[] = {
	{ "cold: the lower load", 800, { { 2 }, { 1 } }, 2, 1, 0, WHY_COLD },
	{ "cold: the shorter wait", 800, { { 1, 0, 0.5 }, { 1, 0, 0.4 } }, 2, 1, 0, WHY_COLD },
	{ "the holder", 800, { { 0 }, { 0, 700 } }, 2, 1, 0, WHY_CACHED },
	{ "a part can be too little to wait for", 800, { { 3, 64 }, { 0 } }, 2, 1, 0, WHY_COLD },
	{ "the holder, though busier", 8000, { { 0 }, { 20, 8000 } }, 2, 1, 0, WHY_CACHED },
	{ "but not at any price", 8000, { { 0 }, { 64, 6000, 1 } }, 2, 0, 1, WHY_COLD },
	{ "three ranked", 800, { { 9 }, { 0, 700 }, { 0, 300 } }, 3, 1, 2, WHY_CACHED },
	{ "best last", 800, { { 2 }, { 1 }, { 0 } }, 3, 2, 1, WHY_COLD },
	{ "best first", 800, { { 0 }, { 1 }, { 2 } }, 3, 0, 1, WHY_COLD },
	{ "one", 800, { { 7 } }, 1, 0, -1, WHY_COLD },
	{ "one that holds it", 800, { { 7, 16 } }, 1, 0, -1, WHY_CACHED },
	{ "none", 800, { { 0 } }, 0, -1, -1, WHY_NOSERVER },
	/* the guard: 0 .. 65 is imbalanced, candidates are those with load <= 64 */
	{ "64 apart: free choice", 100000, { { 64, 99000 }, { 0 } }, 2, 0, 1, WHY_CACHED },
	{ "65 apart: the holder is out", 100000, { { 65, 99000 }, { 0 } }, 2, 1, 0, WHY_IMBALANCE },
	{ "tripped by another: the holder is in at min + abs", 100000,
	  { { 64, 99000 }, { 0 }, { 65 } }, 3, 0, 1, WHY_CACHED },
	{ "the longest prefix of those within", 100000,
	  { { 65, 99000 }, { 60, 90000 }, { 0 }, { 1, 50000 } }, 4, 1, 3, WHY_IMBALANCE },
	{ "tripped, and the choice is the same", 800, { { 0, 700 }, { 70 } }, 2, 0, 1, WHY_CACHED },
	{ "tripped, and cold all the same", 800, { { 0 }, { 70 }, { 1 } }, 3, 0, 2, WHY_COLD },
	{ "alone in the window: the second is from outside, by load", 800,
	  { { 200, 700 }, { 0 }, { 100 } }, 3, 1, 2, WHY_COLD },
	/* a penalty of one request: 30 ms, and a tenth of a second */
	{ "failed once, and idle: goes behind", 800, { { 1 }, { 0, 0, 0, 0, 2 } }, 2, 0, 1, WHY_COLD },
	{ "failed once: still the holder", 800, { { 0 }, { 0, 700, 0, 0, 1 } }, 2, 1, 0, WHY_CACHED },
	{ "until the work saved is less", 800, { { 0 }, { 0, 700, 0, 0, 2 } }, 2, 0, 1, WHY_COLD },
	{ "all have failed: the least", 800, { { 0, 0, 0, 0, 9 }, { 0, 0, 0, 0, 8 } }, 2, 1, 0, WHY_COLD },
	{ "idle as it fails: the busy are not too busy", 100000,
	  { { 0, 0, 0, 0, 100 }, { 70 }, { 99, 99000 } }, 3, 2, 1, WHY_CACHED },
	{ "and it is no candidate when it is above the window", 100000,
	  { { 1, 99000, 0, 0, 80 }, { 0 }, { 66 } }, 3, 1, 2, WHY_IMBALANCE },
	{ "a penalty alone trips nothing", 100000, { { 0, 99000, 0, 0, 66 }, { 0 } }, 2, 0, 1,
	  WHY_CACHED },
	{ "far apart but not by half: free choice", 100000, { { 299, 99000 }, { 200 } }, 2, 0, 1,
	  WHY_CACHED },
};

static void cost_table(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.sacrifice_min = 1;
	for (size_t i = 0; i < sizeof(cost_cases) / sizeof(cost_cases[0]); i++) {
		const struct cost_case *t = &cost_cases[i];
		struct candidate c[ROW_MAX];
		struct policy_choice got = choose(&o, t->tokens, c, row_of(t->row, t->n, c));

		check_choice(t->name, &got, t->first, t->second, t->why);
	}
}

static void cost_is_set_for_every_rule(void **state)
{
	const struct seat row[] = { { 2, 100, 0.25, 0 }, { 0, 0, 0, 0 } };
	struct policy_opts o;
	struct candidate c[ROW_MAX];

	(void)state;
	policy_defaults(&o);
	o.rule = RULE_CACHE_AWARE;
	o.sacrifice_min = 1;
	choose(&o, 1000, c, row_of(row, 2, c));
	assert_true(NEAR(c[0].cost, 0.25 + 0.06 + 2 * (900 / 8000.0 + 1.3e-9 * 900 * (100 + 450))));
	assert_true(NEAR(c[1].cost, 2 * (1000 / 8000.0 + 1.3e-9 * 1000 * 500)));
}

/* Half a second: 16 open requests, or 2000 tokens of twice their time. Columns: load, cached, wait,
 * adapter. */
static void adapters_come_first_but_not_at_any_price(void **state)
{
	static const struct {
		const char *name;
		struct seat row[3];
		bool has[3];
		int first;
		enum why why;
	} cases[] = {
		{ "nobody is known to have it", { { 1 }, { 0 }, { 2 } }, { false }, 1, WHY_COLD },
		{ "all have it", { { 1 }, { 0 }, { 2 } }, { true, true, true }, 1, WHY_COLD },
		{ "the holder, though busier", { { 0 }, { 16 }, { 1 } }, { false, true, false }, 1,
		    WHY_COLD },
		{ "but not at any price", { { 0 }, { 17 }, { 1 } }, { false, true, false }, 0,
		    WHY_COLD },
		{ "nor behind a queue", { { 0 }, { 0, 0, .51 }, { 1 } }, { false, true, false }, 0,
		    WHY_COLD },
		{ "of two, the one that waits less", { { 0 }, { 3 }, { 2 } }, { false, true, true },
		    2, WHY_COLD },
		{ "of two, the one that has the prompt", { { 0 }, { 3, 700 }, { 2 } },
		    { false, true, true }, 1, WHY_CACHED },
		{ "1900 cached tokens weigh less", { { 0, 1900 }, { 0 }, { 0 } },
		    { false, true, false }, 1, WHY_COLD },
		{ "2100 more", { { 0, 2100 }, { 0 }, { 0 } }, { false, true, false }, 0,
		    WHY_CACHED },
		{ "it is out of balance", { { 0 }, { 65 }, { 1 } }, { false, true, false }, 0,
		    WHY_COLD },
	};
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.sacrifice_min = 1;
	o.attention_factor = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_choice got;
		struct candidate c[ROW_MAX];

		row_of(cases[i].row, 3, c);
		for (size_t k = 0; k < 3; k++)
			c[k].has_adapter = cases[i].has[k];
		got = choose(&o, 2400, c, 3);
		if (got.first != cases[i].first || got.why != cases[i].why)
			fail_msg("%s: %d %s", cases[i].name, got.first, why_text(got.why));
	}
	o.adapter_ms = 60000;			/* even then the guard goes first */
	for (size_t i = 8; i <= 9; i++) {
		struct candidate c[ROW_MAX];

		row_of(cases[i].row, 3, c);
		c[1].has_adapter = true;
		assert_int_equal(choose(&o, 2400, c, 3).first, i == 8 ? 1 : 0);
	}
}

/* ---- against a slow truth ---- */

struct world {
	struct policy_opts o;
	struct candidate c[ROW_MAX];
	size_t n;
	uint64_t tokens;
	struct policy_pressure pressure;
};

static double part(struct rng *r, double most)
{
	return most * rng_below(r, 1001) / 1000;
}

static void world_make(struct rng *r, struct world *w)
{
	policy_defaults(&w->o);
	w->o.balance_abs_threshold = rng_below(r, 20);
	w->o.balance_rel_threshold = 1 + part(r, 1);
	w->o.load_ms = part(r, 60);
	w->o.adapter_ms = part(r, 1000);
	w->o.prefill_tokens_per_s = 500 + part(r, 20000);
	w->o.sacrifice_max = 2 + part(r, 30);
	w->pressure = (struct policy_pressure){ part(r, 12), part(r, 1), rng_below(r, 2) };
	w->o.sacrifice_firsts = part(r, 2);
	w->o.copy_share = part(r, 1);
	w->o.kv_ms = part(r, 4000);
	w->o.kv_share = part(r, 1);
	w->tokens = 1 + rng_below(r, 30000);
	w->n = 1 + rng_below(r, ROW_MAX);
	for (size_t i = 0; i < w->n; i++) {
		w->c[i] = (struct candidate){
			.id = (server_id)(i * 37), .load = rng_below(r, 40),
			.backlog_s = part(r, 3), .last_pick = 1000 - i, .slowness = 0.25 + part(r, 4),
			.penalty = rng_below(r, 3) ? 0 : rng_below(r, 60),
			.cached = rng_below(r, 3) ? rng_below(r, (uint32_t)w->tokens + 1) : 0,
			.has_adapter = rng_below(r, 6) == 0,
			.shared = rng_below(r, 2) ? part(r, 1) : 0,
			.load_s = rng_below(r, 3) ? 0 : part(r, 1),
			.kv_tokens = rng_below(r, 100000), .kv_room = rng_below(r, 2) ? 1 + rng_below(r, 100000) : 0,
		};
		w->c[i].penalty_s = w->c[i].penalty * part(r, 0.2);
		if (rng_below(r, 3) == 0) {
			w->c[i].perhaps = rng_below(r, (uint32_t)(w->tokens - w->c[i].cached) + 1);
			w->c[i].chance = part(r, 1);
		}
	}
}

/* 0.3 + P * w / (1 - w) / 2 with first tokens, 0.3 + the lesser of the two with ends: policy.h. */
static double slow_sacrifice(const struct world *w)
{
	double share = w->pressure.waiting > 0.98 ? 0.98 : w->pressure.waiting, a = w->o.sacrifice_min;

	if (w->pressure.firsts)
		a += w->o.sacrifice_firsts * w->pressure.wait * share / (1 - share);
	else
		a += fmin(w->o.sacrifice_gain * w->pressure.wait, w->o.sacrifice_firsts * share / (1 - share));
	return a > w->o.sacrifice_max ? w->o.sacrifice_max : a;
}

/* Return the excess of the server's cache as time. */
static double slow_kv(const struct world *w, const struct candidate *c)
{
	double filled;

	if (c->kv_room == 0)
		return 0;
	filled = ((double)c->kv_tokens + (double)w->tokens - (double)c->cached) / (double)c->kv_room;
	return filled > w->o.kv_share ? (filled - w->o.kv_share) * w->o.kv_ms / 1000 : 0;
}

static double slow_prefill(const struct world *w, double cached)
{
	double uncached = (double)w->tokens - cached, s = uncached / w->o.prefill_tokens_per_s;

	s += w->o.attention_factor * uncached * cached;
	return s + w->o.attention_factor * uncached * uncached / 2;
}

/* wait + (1 + a) * prefill(uncached) * (1 - s) + t + g * load + k + l; a penalty adds requests, and
 * what may be left saves its time by chance. */
static double slow_cost(const struct world *w, const struct candidate *c)
{
	double a = slow_sacrifice(w), own, prefill, load_adapter = 0, left;

	for (size_t i = 0; i < w->n && !c->has_adapter; i++)
		if (w->c[i].has_adapter)
			load_adapter = w->o.adapter_ms / 1000.0;

	prefill = slow_prefill(w, (double)c->cached) * c->slowness;
	left = prefill - slow_prefill(w, (double)(c->cached + c->perhaps)) * c->slowness;
	own = prefill - c->shared * prefill;
	return c->backlog_s - c->chance * left / 20 + own + a * own +
	    w->o.copy_share * c->shared * prefill + c->load_s + slow_kv(w, c) +
	    w->o.load_ms * c->load / 1000.0 + c->penalty_s +
	    w->o.load_ms * c->penalty / 1000.0 + load_adapter;
}

static uint32_t slow_load(const struct candidate *c)
{
	return c->load + c->penalty;
}

static bool slow_imbalanced(const struct world *w, uint32_t *min)
{
	uint32_t max = 0;

	*min = UINT32_MAX;
	for (size_t i = 0; i < w->n; i++) {
		*min = slow_load(&w->c[i]) < *min ? slow_load(&w->c[i]) : *min;
		max = w->c[i].load > max ? w->c[i].load : max;
	}
	return max > *min + w->o.balance_abs_threshold &&
		(double)max > (double)*min * w->o.balance_rel_threshold;
}

/* Return the cheapest with load and penalty <= <most>. */
static int slow_best(const struct world *w, uint64_t most)
{
	int best = -1;

	for (size_t i = 0; i < w->n; i++) {
		if (slow_load(&w->c[i]) <= most &&
		    (best < 0 || slow_cost(w, &w->c[i]) < slow_cost(w, &w->c[best])))
			best = (int)i;
	}
	return best;
}

/* Two costs may be closer than the sums are exact: then both are right. */
static bool same(const struct world *w, int a, int b)
{
	double d = slow_cost(w, &w->c[a]) - slow_cost(w, &w->c[b]);

	return a == b || (d < 3e-9 && d > -3e-9);
}

static void cost_equals_brute_force(void **state)
{
	struct rng rng;
	struct world w;
	unsigned narrowed = 0, changed = 0;

	(void)state;
	rng_init(&rng, 20);
	for (unsigned i = 0; i < 100000; i++) {
		struct policy_choice got;
		uint32_t min;
		int any, best;

		world_make(&rng, &w);
		policy_choose(&w.o, NULL, &(struct policy_prompt){ .tokens = w.tokens }, &w.pressure, &rng, w.c,
			      w.n, &got);
		for (size_t k = 0; k < w.n; k++)
			assert_true(NEAR(w.c[k].cost, slow_cost(&w, &w.c[k])));
		assert_int_equal(got.imbalanced, slow_imbalanced(&w, &min));
		any = slow_best(&w, UINT64_MAX);
		best = got.imbalanced ? slow_best(&w, (uint64_t)min + w.o.balance_abs_threshold) : any;
		assert_true(same(&w, got.first, best));
		if (any != best && got.first == best)
			assert_int_equal(got.why, WHY_IMBALANCE);
		else if (got.first == any)
			assert_int_equal(got.why, w.c[any].cached ? WHY_CACHED : WHY_COLD);
		assert_true(w.n == 1 ? got.second == -1 : got.second >= 0 && got.second != got.first);
		narrowed += got.imbalanced;
		changed += got.why == WHY_IMBALANCE;
	}
	assert_true(narrowed > 20000 && changed > 5000 && changed < narrowed);
}

/* ---- ties ---- */

static void ties_go_round(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		uint64_t last_pick[ROW_MAX] = { 0 };
		unsigned picked[ROW_MAX] = { 0 };

		o.rule = (enum policy_rule)rule;
		if (!policy_rule_guarded(o.rule) && o.rule != RULE_LEAST_CONN && o.rule != RULE_ROUND_ROBIN)
			continue;
		for (uint64_t i = 1; i <= 1000; i++) {
			struct seat row[ROW_MAX] = { { 0 } };
			struct candidate c[ROW_MAX];
			struct policy_choice got;

			for (size_t k = 0; k < ROW_MAX; k++)
				row[k].last_pick = last_pick[k];
			got = choose(&o, 500, c, row_of(row, ROW_MAX, c));
			assert_int_not_equal(got.first, got.second);
			last_pick[got.first] = i;
			picked[got.first]++;
		}
		for (size_t k = 0; k < ROW_MAX; k++)
			assert_int_equal(picked[k], 1000 / ROW_MAX);
	}
}

/* Equal sums of different terms must not decide by their last bit. */
static void rounding_is_a_tie(void **state)
{
	const struct seat row[] = { { 0, 0, 0.1 + 0.2, 2 }, { 0, 0, 0.3, 1 } };
	struct candidate c[ROW_MAX];
	struct policy_opts o;
	struct policy_choice got;

	(void)state;
	policy_defaults(&o);
	got = choose(&o, 500, c, row_of(row, 2, c));
	assert_int_equal(got.first, 1);
	got = choose(&o, 500, c, row_of((struct seat[]){ row[1], row[0] }, 2, c));
	assert_int_equal(got.first, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prefill_is_linear_and_attention_square),
		cmocka_unit_test(sacrifice_grows_with_queues_up_to_a_limit),
		cmocka_unit_test(cost_table),
		cmocka_unit_test(cost_is_set_for_every_rule),
		cmocka_unit_test(adapters_come_first_but_not_at_any_price),
		cmocka_unit_test(cost_equals_brute_force),
		cmocka_unit_test(ties_go_round),
		cmocka_unit_test(rounding_is_a_tie),
	};

	return cmocka_run_group_tests_name("policy cost", tests, NULL, NULL);
}

/* test_cache_aware.c - the guard that both rules share, and the rule that consists of little
 * more. */
#include "tests/unit/policy/candidates.h"
#include "tests/lib/policy/guarded.h"

/* ---- the guard ---- */

static void guard_is_strict_on_both_sides(void **state)
{
	static const struct { uint32_t abs; double rel; uint32_t min, max; bool tripped; } cases[] = {
		{ 64, 1.5,   0,  0, false },
		{ 64, 1.5,   0, 64, false },		/* max - min == abs */
		{ 64, 1.5,   0, 65, true },		/* min = 0: the relative limit is exceeded */
		{ 64, 1.5, 100, 164, false },
		{ 64, 1.5, 100, 165, true },
		{ 64, 1.5, 130, 195, false },		/* max == rel * min, 65 apart */
		{ 64, 1.5, 130, 196, true },
		{ 64, 1.5, 200, 299, false },		/* far apart, but not by half */
		{ 64, 1.5, 200, 300, false },
		{ 64, 1.5, 200, 301, true },
		{ 0, 1, 7, 7, false },
		{ 0, 1, 7, 8, true },
		{ 0, 0, 7, 7, false },			/* equal loads are never imbalanced */
		{ 64, 1.5, 0, UINT32_MAX, true },
		{ 64, 1.5, UINT32_MAX - 65, UINT32_MAX, false },
		{ 64, 1.5, UINT32_MAX / 2, UINT32_MAX, true },
		{ UINT32_MAX, 1.5, 0, UINT32_MAX, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_opts o = { .balance_abs_threshold = cases[i].abs,
					 .balance_rel_threshold = cases[i].rel };

		if (policy_imbalanced(&o, cases[i].min, cases[i].max) != cases[i].tripped)
			fail_msg("case %zu: %u .. %u", i, cases[i].min, cases[i].max);
	}
}

static void guard_looks_at_all_candidates(void **state)
{
	struct seat rows[][3] = {
		{ { 0, 0, 0, 0 }, { 65, 0, 0, 0 }, { 30, 0, 0, 0 } },
		{ { 30, 0, 0, 0 }, { 0, 0, 0, 0 }, { 65, 0, 0, 0 } },
		{ { 65, 0, 0, 0 }, { 30, 0, 0, 0 }, { 0, 0, 0, 0 } },
	};
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		if (!policy_rule_guarded((enum policy_rule)rule))
			continue;
		o.rule = (enum policy_rule)rule;
		for (size_t i = 0; i < 3; i++) {
			struct candidate c[ROW_MAX];
			struct policy_choice got = choose(&o, 100, c, row_of(rows[i], 3, c));

			assert_true(got.imbalanced);
			assert_int_equal(got.min_load, 0);
			assert_int_equal(got.max_load, 65);
			assert_int_equal(c[got.first].load, 0);
		}
	}
}

/* ---- cache_aware ---- */

struct aware_case {
	const char *name;
	double threshold;
	uint32_t min_match;
	uint64_t tokens;
	struct seat row[4];
	size_t n;
	int first, second;
	enum why why;
};

static const struct aware_case aware_cases[] = {
	{ "cold: least loaded", 0.3, 0, 1000, { { 5 }, { 2 }, { 3 } }, 3, 1, 2, WHY_COLD },
	{ "threshold is not above itself", 0.25, 0, 1000, { { 5, 250 }, { 2 } }, 2, 1, 0,
	    WHY_COLD },
	{ "one token more is", 0.25, 0, 1000, { { 5, 251 }, { 2 } }, 2, 0, 1, WHY_CACHED },
	{ "a threshold of 0 needs a match", 0, 0, 1000, { { 5 }, { 2 } }, 2, 1, 0, WHY_COLD },
	{ "and is content with one token", 0, 0, 1000, { { 5, 1 }, { 2 } }, 2, 0, 1, WHY_CACHED },
	{ "a threshold of 1 is never passed", 1, 0, 1000, { { 5, 1000 }, { 2 } }, 2, 1, 0,
	    WHY_COLD },
	{ "min_match one short", 0.3, 500, 1000, { { 5, 499 }, { 2 } }, 2, 1, 0, WHY_COLD },
	{ "min_match met", 0.3, 500, 1000, { { 5, 500 }, { 2 } }, 2, 0, 1, WHY_CACHED },
	{ "min_match alone is not enough", 0.9, 500, 1000, { { 5, 600 }, { 2 } }, 2, 1, 0,
	    WHY_COLD },
	{ "the longest holder", 0.3, 0, 1000, { { 0, 400 }, { 9, 900 }, { 1, 800 } }, 3, 1, 2,
	    WHY_CACHED },
	{ "ties by load", 0.3, 0, 1000, { { 9, 900 }, { 3, 900 }, { 4, 900 } }, 3, 1, 2,
	    WHY_CACHED },
	{ "then the one picked longest ago", 0.3, 0, 1000,
	    { { 3, 900, 0, 7 }, { 3, 900, 0, 5 }, { 3, 900, 0, 6 } }, 3, 1, 2, WHY_CACHED },
	{ "then the lower id", 0.3, 0, 1000, { { 3, 900 }, { 3, 900 } }, 2, 0, 1, WHY_CACHED },
	{ "64 apart: still the holder", 0.3, 0, 1000, { { 64, 1000 }, { 0 } }, 2, 0, 1,
	    WHY_CACHED },
	{ "65 apart: least loaded", 0.3, 0, 1000, { { 65, 1000 }, { 0 } }, 2, 1, 0, WHY_IMBALANCE },
	{ "imbalanced: the holder is not even second", 0.3, 0, 1000, { { 80, 1000 }, { 3 }, { 2 } },
	    3, 2, 1, WHY_IMBALANCE },
	{ "imbalanced: ties go by load alone", 0.3, 0, 1000,
	    { { 80 }, { 3, 0, 0, 9 }, { 3, 1000, 0, 10 } }, 3, 1, 2, WHY_IMBALANCE },
	{ "an empty prompt", 0.3, 0, 0, { { 5 }, { 2 } }, 2, 1, 0, WHY_COLD },
	{ "one server", 0.3, 0, 1000, { { 5, 10 } }, 1, 0, -1, WHY_COLD },
	{ "none", 0.3, 0, 1000, { { 0 } }, 0, -1, -1, WHY_NOSERVER },
};

static void cache_aware_table(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.rule = RULE_CACHE_AWARE;
	for (size_t i = 0; i < sizeof(aware_cases) / sizeof(aware_cases[0]); i++) {
		const struct aware_case *t = &aware_cases[i];
		struct candidate c[ROW_MAX];
		struct policy_choice got;

		o.cache_threshold = t->threshold;
		o.min_match_tokens = t->min_match;
		got = choose(&o, t->tokens, c, row_of(t->row, t->n, c));
		check_choice(t->name, &got, t->first, t->second, t->why);
	}
}

/* Choose with <pages> seen of a prompt that servers 0 to 3 hold, and these loads. */
static struct policy_choice among_holders(
    enum policy_rule rule, const page_key *pages, const uint32_t *load)
{
	struct policy_prompt p = { .tokens = 64,
		.matched = 64,
		.pages = pages,
		.n_pages = 4,
		.page_tokens = 16,
		.space = 7 };
	struct policy_pressure idle = { .wait = 0 };
	struct candidate c[4];
	struct policy_choice out;
	struct policy_opts o;
	struct seat row[4];
	struct rng rng;

	policy_defaults(&o);
	policy_preset(&o, rule);
	for (size_t i = 0; i < 4; i++)
		row[i] = (struct seat){ .load = load[i], .cached = 64 };
	row_of(row, 4, c);
	rng_init(&rng, 1);
	policy_choose(&o, NULL, &p, &idle, &rng, c, 4, &out);
	return out;
}

/* The published match names one holder of a prefix: always the same, whatever the loads, and
 * different ones for different prefixes. */
static void one_holder_of_a_prefix(void **state)
{
	static const enum policy_rule rules[] = { RULE_CACHE_AWARE, RULE_CACHE_AWARE_LIB };
	static const uint32_t loads[][4] = { { 0, 0, 0, 0 }, { 9, 1, 2, 3 }, { 1, 9, 3, 2 },
		{ 2, 3, 9, 1 }, { 3, 2, 1, 9 } };
	unsigned times[4] = { 0 };

	for (unsigned r = 0; r < 2; r++) {
		for (uint64_t i = 0; i < 200; i++) {
			page_key pages[4] = { 1, 2, 3, i };
			int first = among_holders(rules[r], pages, loads[0]).first;

			times[first]++;
			for (size_t k = 1; k < 5; k++) {
				struct policy_choice got = among_holders(rules[r], pages, loads[k]);

				assert_int_equal(got.first, first);
				assert_int_not_equal(got.second, first);
				assert_int_equal(got.why, WHY_CACHED);
			}
		}
	}
	for (unsigned i = 0; i < 4; i++)
		assert_true(times[i] > 60 && times[i] < 140);
}

/* ---- words ---- */

static void words(void **state)
{
	static const char *const why[] = {
		"cached", "cold", "imbalance", "sticky", "headless", "noprompt", "badbody",
		"noload", "noserver", "shadow", "overload",
	};

	(void)state;
	assert_int_equal(WHY_COUNT, sizeof(why) / sizeof(why[0]));
	for (int i = 0; i < WHY_COUNT; i++)
		assert_string_equal(why_text((enum why)i), why[i]);
	assert_string_equal(why_text((enum why)WHY_COUNT), "unknown");
	assert_string_equal(why_text((enum why)-1), "unknown");
	for (int i = 0; i < RULE_COUNT; i++)
		assert_int_equal(policy_rule_of(span_str(policy_rule_text((enum policy_rule)i))), i);
	assert_int_equal(policy_rule_of(SPAN("cost")), RULE_COST);
	assert_int_equal(policy_rule_of(SPAN("cache_aware")), RULE_CACHE_AWARE);
	assert_int_equal(policy_rule_of(SPAN("cos")), -1);
	assert_int_equal(policy_rule_of(SPAN("cost ")), -1);
	assert_int_equal(policy_rule_of(SPAN("")), -1);
	assert_string_equal(policy_rule_text((enum policy_rule)RULE_COUNT), "unknown");
}

static void a_preset_brings_its_authors_defaults(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.load_ms = 7;
	policy_preset(&o, RULE_CACHE_AWARE_LIB);
	assert_int_equal(o.rule, RULE_CACHE_AWARE_LIB);
	assert_int_equal(o.balance_abs_threshold, 32);
	assert_true(o.balance_rel_threshold == 1.1 && o.cache_threshold == 0.5);
	assert_true(o.load_ms == 7);	/* only our own rules use it */
	policy_preset(&o, RULE_CACHE_AWARE);
	assert_int_equal(o.balance_abs_threshold, 64);
	assert_true(o.balance_rel_threshold == 1.5 && o.cache_threshold == 0.3);
}

static void defaults_are_those_of_the_header(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	assert_int_equal(o.rule, RULE_COST);
	assert_int_equal(o.balance_abs_threshold, 64);
	assert_true(o.balance_rel_threshold == 1.5 && o.cache_threshold == 0.3);
	assert_int_equal(o.min_match_tokens, 0);
	assert_true(o.prefill_tokens_per_s == 8000 && o.attention_factor == 1.3e-9);
	assert_true(o.load_ms == 30 && o.backlog_floor == 0.3);
	assert_true(o.penalty_half_life_ms == 10000 && o.penalty_failure == 1 && o.penalty_429 == 0.5);
	assert_true(o.sacrifice_min == 0.3 && o.sacrifice_gain == 1 && o.sacrifice_max == 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guard_is_strict_on_both_sides),
		cmocka_unit_test(guard_looks_at_all_candidates),
		cmocka_unit_test(cache_aware_table),
		cmocka_unit_test(one_holder_of_a_prefix),
		cmocka_unit_test(words),
		cmocka_unit_test(a_preset_brings_its_authors_defaults),
		cmocka_unit_test(defaults_are_those_of_the_header),
	};

	return cmocka_run_group_tests_name("policy cache_aware", tests, NULL, NULL);
}

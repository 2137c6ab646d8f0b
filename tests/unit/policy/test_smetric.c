/* test_smetric.c - when a conversation stays, when it moves, and the estimated rate of a server. */
#include "tests/unit/policy/tables.h"

struct stand {
	uint32_t load;
	uint64_t cached, waits;
	uint32_t rate;			/* tokens a second; 0: unknown */
};

/* A prompt of 10000 tokens, whose first token should come within 1 + 0.625 s. */
struct case_of {
	const char *name;
	uint64_t history;
	struct stand at[3];
	int first;
	enum why why;
};

static const struct case_of cases[] = {
	{ "a first turn: least work x load", 0, { { 2, 9000, 0 }, { 1, 0, 0 }, { 3, 9900, 2900 } },
	    0, WHY_CACHED },
	{ "of equal products the lower load", 0, { { 5, 0, 0 }, { 4, 0, 2500 }, { 9, 0, 0 } }, 1,
	    WHY_COLD },
	{ "an idle server has none", 0, { { 1, 9999, 0 }, { 0, 0, 90000 }, { 9, 0, 0 } }, 1,
	    WHY_COLD },
	{ "a later turn: the longest holder", 8000, { { 9, 8000, 5000 }, { 0, 0, 0 }, { 0, 0, 0 } },
	    0, WHY_CACHED },
	{ "half of its history is not enough", 8000, { { 9, 4000, 0 }, { 1, 0, 0 }, { 2, 0, 0 } },
	    1, WHY_COLD },
	{ "one page more is", 8000, { { 9, 4016, 0 }, { 1, 0, 0 }, { 2, 0, 0 } }, 0, WHY_CACHED },
	{ "of equal holders the one with less to do", 8000,
	    { { 0, 8000, 500 }, { 9, 8000, 400 }, { 0 } }, 1, WHY_CACHED },
	/* 1.625 s: 16250 tokens at 10000 a second */
	{ "just in time", 8000, { { 9, 8000, 14250, 10000 }, { 0 }, { 0 } }, 0, WHY_CACHED },
	{ "just too late", 8000, { { 9, 8000, 14251, 10000 }, { 1, 0, 0, 90000 }, { 2, 0, 0 } }, 1,
	    WHY_COLD },
	{ "too late, and so are all", 8000,
	    { { 9, 8000, 14251, 10000 }, { 0, 0, 9000, 10000 }, { 2, 0, 6251, 10000 } }, 0,
	    WHY_CACHED },
	{ "how fast it is, is not known", 8000, { { 9, 8000, 999999 }, { 0, 0, 0, 10000 }, { 0 } },
	    0, WHY_CACHED },
};

static void table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct case_of *t = &cases[i];
		struct policy_prompt p = { .tokens = 10000, .page_tokens = 16, .history = t->history };
		struct candidate c[3];
		struct policy_choice got;
		struct policy_opts o;
		struct rng rng;

		policy_defaults(&o);
		policy_preset(&o, RULE_SMETRIC);
		rng_init(&rng, 1);
		for (size_t k = 0; k < 3; k++)
			c[k] = (struct candidate){
				.id = (server_id)k, .slowness = 1, .load = t->at[k].load, .cached = t->at[k].cached,
				.backlog_tokens = t->at[k].waits, .own = t->at[k].rate,
			};
		policy_choose(&o, NULL, &p, &(struct policy_pressure){ 0 }, &rng, c, 3, &got);
		check_choice(t->name, &got, t->first, got.second, t->why);
		assert_true(got.second >= 0 && got.second != got.first);
	}
}

static void ties_go_round(void **state)
{
	uint64_t last_pick[4] = { 0 };
	unsigned n[4] = { 0 };
	struct policy_opts o;
	struct rng rng;

	(void)state;
	policy_defaults(&o);
	policy_preset(&o, RULE_SMETRIC);
	rng_init(&rng, 1);
	for (uint64_t i = 1; i <= 400; i++) {
		struct seat row[4] = { { 0 } };
		struct policy_prompt p = { .tokens = 100 };
		struct candidate c[4];
		struct policy_choice got;

		for (int k = 0; k < 4; k++)
			row[k].last_pick = last_pick[k];
		row_of(row, 4, c);
		policy_choose(&o, NULL, &p, &(struct policy_pressure){ 0 }, &rng, c, 4, &got);
		last_pick[got.first] = i;
		n[got.first]++;
	}
	for (int k = 0; k < 4; k++)
		assert_int_equal(n[k], 100);
}

/* ---- rates ---- */

static uint32_t rate(struct rig *r, server_id id)
{
	struct policy_prompt p = { .tokens = 1 };

	assert_true(policy_match(r->m, &r->o, &p, r->now, r->tokens));
	return r->tokens[id];
}

static void a_rate_is_the_90th_percentile_of_64(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SMETRIC);
	for (uint64_t i = 1; i <= 7; i++)
		policy_answered(r.m, 3, i * 100, 1000);
	assert_int_equal(rate(&r, 3), 0);
	policy_answered(r.m, 3, 400, 500);			/* 800 a second: the eighth */
	assert_int_equal(rate(&r, 3), 700);			/* 100 .. 800: 6.3 of 0 .. 7 is the seventh */
	assert_int_equal(rate(&r, 2), 0);
	for (uint64_t i = 1; i <= 100; i++)			/* only 37 .. 100 are left */
		policy_answered(r.m, 3, (101 - i) * 1000, 1000);
	assert_int_equal(rate(&r, 3), 58000);			/* 1 .. 64: 56.7 of 0 .. 63 */
	for (uint64_t i = 0; i < 1000; i++)
		policy_answered(r.m, 3, 5000, 1000);
	assert_int_equal(rate(&r, 3), 5000);
	policy_answered(r.m, 3, 0, 1000);			/* these contain no rate */
	policy_answered(r.m, 3, 1000, 0);
	policy_answered(r.m, 3, 1000, -5);
	assert_int_equal(rate(&r, 3), 5000);
	policy_gone(r.m, 3);
	assert_int_equal(rate(&r, 3), 0);
	rig_end(&r);
}

static void rates_of_any_size(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SMETRIC);
	for (int i = 0; i < 8; i++) {
		policy_answered(r.m, 0, UINT64_MAX, 1);
		policy_answered(r.m, 1, 1, INT64_MAX);
		policy_answered(r.m, SERVERS_MAX - 1, 10, 10);
	}
	assert_int_equal(rate(&r, 0), UINT32_MAX);
	assert_int_equal(rate(&r, 1), 1);			/* known, but slow */
	assert_int_equal(rate(&r, SERVERS_MAX - 1), 1000);
	rig_end(&r);
}

static void a_small_memory_knows_the_first_servers(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SMETRIC);
	policy_memory_free(r.m);
	r.o.rule_max_bytes = 64 << 10;
	r.m = policy_memory_new(&r.o);
	for (int i = 0; i < 8; i++) {
		policy_answered(r.m, 200, 10, 10);
		policy_answered(r.m, 1000, 10, 10);
	}
	policy_gone(r.m, 1000);
	assert_int_equal(rate(&r, 200), 1000);
	assert_int_equal(rate(&r, 1000), 0);
	rig_end(&r);
}

static void defaults_are_the_authors(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.ttft_slo_ms = 1;
	o.ttft_slo_per_1k_ms = 1;
	policy_preset(&o, RULE_SMETRIC);
	assert_true(o.ttft_slo_ms == 1000 && o.ttft_slo_per_1k_ms == 62.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(ties_go_round),
		cmocka_unit_test(a_rate_is_the_90th_percentile_of_64),
		cmocka_unit_test(rates_of_any_size),
		cmocka_unit_test(a_small_memory_knows_the_first_servers),
		cmocka_unit_test(defaults_are_the_authors),
	};

	return cmocka_run_group_tests_name("policy smetric", tests, NULL, NULL);
}

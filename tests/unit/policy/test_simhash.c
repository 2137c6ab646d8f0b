/* test_simhash.c - the rule simhash: what is alike from the beginning is found, and nothing else. */
#include "agent/policy/internal.h"
#include "tests/unit/policy/tables.h"

#define LONG	1000

struct long_prompt {
	page_key pages[LONG];
	struct policy_prompt p;
};

/* <common> pages of family <of>, then pages of <own> up to <n>. */
static const struct policy_prompt *grown(struct long_prompt *q, uint64_t of, uint32_t common, uint64_t own, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		q->pages[i] = scatter((i < common ? of : own) * 100000 + i);
	q->p = (struct policy_prompt){
		.pages = q->pages, .n_pages = n, .page_tokens = 16, .tokens = n * 16ull, .space = 1,
	};
	return &q->p;
}

static void the_defaults(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	policy_preset(&o, RULE_SIMHASH);
	assert_true(o.cache_threshold == 0.5 && o.load_factor == 1.25);
	assert_false(policy_rule_guarded(RULE_SIMHASH));
}

/* The estimate is near s / sqrt(n * m); its error is 0.08 in the middle (one deviation) and less where that is large. */
static void likeness_is_what_is_common(void **state)
{
	static const struct { uint32_t common, n, m; double low, high; } cases[] = {
		{ 1000, 1000, 1000, 1, 1 },
		{ 900, 900, 1000, 0.85, 0.99 },		/* a turn more: 0.949 */
		{ 500, 1000, 1000, 0.25, 0.75 },
		{ 300, 300, 1000, 0.3, 0.8 },		/* 0.548 */
		{ 10, 10, 10, 1, 1 },
		{ 9, 9, 10, 0.75, 1 },
		{ 1, 1, 1, 1, 1 },
		{ 0, 1000, 1000, 0, 0.3 },
		{ 0, 1, 1, 0, 0.3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint64_t family = 1; family <= 20; family++) {
			struct long_prompt q;
			struct rig r;
			double share;

			rig_start(&r, RULE_SIMHASH);
			policy_sent(r.m, &r.o, grown(&q, family, cases[i].common, 50 + family, cases[i].n), 3, r.now);
			policy_match(r.m, &r.o, grown(&q, family, cases[i].common, 90 + family, cases[i].m), r.now,
				     r.tokens);
			share = r.tokens[3] / 16.0 / cases[i].m;
			if (share < cases[i].low || share > cases[i].high)
				fail_msg("case %zu, family %u: %.3f", i, (unsigned)family, share);
			assert_int_equal(r.tokens[4], 0);
			rig_end(&r);
		}
	}
}

/* The same pages behind another first one are of no use to a cache. */
static void another_beginning_is_another_prompt(void **state)
{
	struct long_prompt q;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SIMHASH);
	policy_sent(r.m, &r.o, grown(&q, 1, LONG, 0, LONG), 0, r.now);
	grown(&q, 1, LONG, 0, LONG);
	q.pages[0]++;
	policy_match(r.m, &r.o, &q.p, r.now, r.tokens);
	assert_true(r.tokens[0] < LONG * 16 * 3 / 10);
	q.pages[0]--;
	q.p.space = 2;					/* another tenant's */
	policy_match(r.m, &r.o, &q.p, r.now, r.tokens);
	assert_int_equal(r.tokens[0], 0);
	rig_end(&r);
}

static void no_chance_likeness_among_many(void **state)
{
	struct long_prompt q;
	uint32_t most = 0;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SIMHASH);
	for (uint64_t i = 0; i < 2048; i++)
		policy_sent(r.m, &r.o, grown(&q, i + 1, 40, 0, 40), (server_id)(i % 8), r.now);
	for (uint64_t i = 0; i < 50; i++) {
		policy_match(r.m, &r.o, grown(&q, 5000 + i, 40, 0, 40), r.now, r.tokens);
		for (int k = 0; k < 8; k++)
			most = r.tokens[k] > most ? r.tokens[k] : most;
	}
	assert_true(most > 0 && most < 40 * 16 * 45 / 100);
	rig_end(&r);
}

static void only_the_last_are_kept(void **state)
{
	struct long_prompt q;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SIMHASH);
	sends(&r, 1, "abcdefgh", 0);
	for (uint64_t i = 0; i < 2047; i++)
		policy_sent(r.m, &r.o, grown(&q, i + 1, 4, 0, 4), 1, r.now);
	assert_int_equal(holds(&r, 1, "abcdefgh", 0), 8);
	sends(&r, 1, "", 1);				/* no prompt: nothing to keep */
	assert_int_equal(holds(&r, 1, "abcdefgh", 0), 8);
	sends(&r, 1, "x", 1);
	policy_match(r.m, &r.o, prompt_in(&(struct prompt_of){ { 0 } }, 1, "abcdefgh"), r.now, r.tokens);
	assert_int_equal(r.tokens[0], 0);
	policy_gone(r.m, 1);
	assert_int_equal(holds(&r, 1, "x", 1), 0);
	rig_end(&r);

	rig_start(&r, RULE_SIMHASH);
	policy_memory_free(r.m);
	r.o.rule_max_bytes = 64 << 10;
	r.m = policy_memory_new(&r.o);
	assert_non_null(r.m);
	for (uint64_t i = 0; i < 3000; i++)
		policy_sent(r.m, &r.o, grown(&q, i + 1, 2, 0, 2), 1, r.now);
	rig_end(&r);
}

static void the_likest_unless_it_is_loaded(void **state)
{
	struct seat even[3] = { { 2 }, { 2 }, { 2 } }, high[3] = { { 5 }, { 4 }, { 3 } };
	struct policy_choice got;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_SIMHASH);
	got = chooses(&r, "abcdefghij", even, 3);
	assert_true(got.first == 0 && got.why == WHY_COLD);
	sends(&r, 1, "abcdefghij", 0);
	sends(&r, 1, "abcdefg", 1);
	got = chooses(&r, "abcdefghij", even, 3);
	check_choice("likest", &got, 0, 1, WHY_CACHED);
	got = chooses(&r, "abcdefghij", high, 3);	/* 5 is not below 1.25 times 4 */
	check_choice("loaded", &got, 2, 1, WHY_IMBALANCE);
	r.o.cache_threshold = 1;
	got = chooses(&r, "abcdefghij", even, 3);
	assert_true(got.why == WHY_COLD);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_defaults),
		cmocka_unit_test(likeness_is_what_is_common),
		cmocka_unit_test(another_beginning_is_another_prompt),
		cmocka_unit_test(no_chance_likeness_among_many),
		cmocka_unit_test(only_the_last_are_kept),
		cmocka_unit_test(the_likest_unless_it_is_loaded),
	};

	return cmocka_run_group_tests_name("policy simhash", tests, NULL, NULL);
}

/* test_aibrix.c - the rule aibrix, worked out by hand. */
#include "tests/unit/policy/tables.h"
#include "tests/lib/policy/guarded.h"

static void the_defaults_of_its_authors(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	policy_preset(&o, RULE_AIBRIX);
	assert_int_equal(o.max_blocks_per_backend, 200000);
	assert_false(policy_rule_guarded(RULE_AIBRIX));
}

/* Prompts of ten pages, "abcdefghij"; row[].cached is not used here. */
static void by_hand(void **state)
{
	static const struct {
		const char *name, *held[4];
		struct seat row[4];
		size_t n;
		int first, second;
		enum why why;
	} cases[] = {
		{ "the longest", { "abc", "abcd", "" }, { { 2 }, { 2 }, { 2 } }, 3, 1, 0,
		    WHY_CACHED },
		/* mean 2, deviation sqrt(8/3) = 1.63: 3 is within 3.63, 4 is not */
		{ "within one deviation", { "abc", "", "" }, { { 3 }, { 0 }, { 3 } }, 3, 0, 1,
		    WHY_CACHED },
		{ "beyond it", { "abcdefghij", "", "" }, { { 4 }, { 0 }, { 2 } }, 3, 1, 2,
		    WHY_IMBALANCE },
		{ "the next longest then", { "abcdefghij", "", "a" }, { { 4 }, { 0 }, { 2 } }, 3, 2,
		    1, WHY_CACHED },
		/* mean 1, deviation 1: 2 is at the bound */
		{ "at it", { "a", "" }, { { 2 }, { 0 } }, 2, 0, 1, WHY_CACHED },
		{ "equal percents go by requests", { "abcd", "abcd", "" }, { { 2 }, { 1 }, { 2 } },
		    3, 1, 0, WHY_CACHED },
		{ "nobody: the least loaded", { "xyz", "", "bcd" }, { { 3 }, { 1 }, { 2 } }, 3, 1,
		    2, WHY_COLD },
		{ "8 apart is none", { "abc", "" }, { { 8 }, { 0 } }, 2, 0, 1, WHY_CACHED },
		{ "9 apart: only the least", { "abc", "" }, { { 9 }, { 0 } }, 2, 1, 0,
		    WHY_IMBALANCE },
		{ "of those the longest", { "abcdefghij", "ab", "abc", "" },
		    { { 9 }, { 0 }, { 0 }, { 0 } }, 4, 2, 1, WHY_IMBALANCE },
		{ "the longest is among them", { "", "ab", "abc", "" },
		    { { 9 }, { 0 }, { 0 }, { 1 } }, 4, 2, 1, WHY_CACHED },
		{ "9 apart, and cold", { "", "x" }, { { 0 }, { 9 } }, 2, 0, 1, WHY_COLD },
		{ "a failure is a request", { "abc", "abc" }, { { 2, 0, 0, 0, 2 }, { 3 } }, 2, 1, 0,
		    WHY_CACHED },
		{ "one server", { "abc" }, { { 3 } }, 1, 0, -1, WHY_CACHED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_choice got;
		struct rig r;

		rig_start(&r, RULE_AIBRIX);
		for (size_t k = 0; k < cases[i].n; k++)
			sends(&r, 1, cases[i].held[k], (server_id)k);
		got = chooses(&r, "abcdefghij", cases[i].row, cases[i].n);
		check_choice(cases[i].name, &got, cases[i].first, cases[i].second, cases[i].why);
		rig_end(&r);
	}
}

/* 148 and 149 of 150 pages are 98 and 99 percent; 147 are 98 as well, and go by requests. */
static void whole_percents(void **state)
{
	page_key pages[150];
	struct policy_prompt p = { .pages = pages, .page_tokens = 16, .space = 1 };
	struct seat row[2] = { { 2 }, { 1 } };
	struct rig r;

	(void)state;
	for (uint32_t i = 0; i < 150; i++)
		pages[i] = page_of((char)i);
	for (uint32_t most = 148; most <= 149; most++) {
		struct policy_choice out;

		rig_start(&r, RULE_AIBRIX);
		row_of(row, 2, r.c);
		p.n_pages = most;
		policy_sent(r.m, &r.o, &p, 0, r.now);
		p.n_pages = 147;
		policy_sent(r.m, &r.o, &p, 1, r.now);
		p.n_pages = 150;
		policy_match(r.m, &r.o, &p, r.now, r.tokens);
		for (int k = 0; k < 2; k++)
			r.c[k].own = r.tokens[k];
		assert_int_equal(r.tokens[0], most * 16);
		policy_choose(&r.o, r.m, &p, &(struct policy_pressure){ 0 }, &r.rng, r.c, 2, &out);
		assert_int_equal(out.first, most == 148 ? 1 : 0);
		rig_end(&r);
	}
}

static void equals_by_chance(void **state)
{
	static const struct seat row[4] = { { 1 }, { 1 }, { 2 }, { 1 } };
	unsigned often[4];
	struct rig r;

	(void)state;
	rig_start(&r, RULE_AIBRIX);
	choose_often(&r, "abc", row, 4, often);
	assert_int_equal(often[2], 0);
	assert_in_range(often[0], 280, 390);
	assert_in_range(often[1], 280, 390);
	sends(&r, 1, "ab", 0);
	sends(&r, 1, "ab", 3);
	choose_often(&r, "abc", row, 4, often);
	assert_int_equal(often[1] + often[2], 0);
	assert_in_range(often[0], 440, 560);
	rig_end(&r);
}

static void without_a_gap(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_AIBRIX);
	sends(&r, 1, "abcdef", 0);
	sends(&r, 1, "abXY", 1);
	assert_int_equal(holds(&r, 1, "abcdefgh", 0), 6);
	assert_int_equal(r.tokens[1], 2 * 16);
	assert_int_equal(holds(&r, 1, "bcdef", 0), 0);
	assert_int_equal(holds(&r, 2, "abcdef", 0), 0);
	rig_end(&r);
}

static void twenty_minutes(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_AIBRIX);
	sends(&r, 1, "abc", 0);
	sends(&r, 1, "wxyz", 0);
	sends(&r, 1, "abc", 1);
	r.now += 600000;
	sends(&r, 1, "ab", 0);				/* used again; a match alone does not count as a use */
	assert_int_equal(holds(&r, 1, "wxyz", 0), 4);
	r.now += 600000;
	assert_int_equal(holds(&r, 1, "abc", 1), 3);	/* not a tenth of a second later */
	r.now += 100;
	assert_int_equal(holds(&r, 1, "abc", 1), 0);
	assert_int_equal(r.tokens[0], 2 * 16);
	assert_int_equal(holds(&r, 1, "wxyz", 0), 0);
	rig_end(&r);
}

/* More than one step has expired: a server without requests since counts as empty at once. */
static void all_at_once_has_expired(void **state)
{
	struct prompt_of q;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_AIBRIX);
	for (uint64_t i = 0; i < 100; i++)
		policy_sent(r.m, &r.o, prompt_in(&q, i + 2, "abcdefghijklmnopqrst"), 0, r.now);
	sends(&r, 1, "abc", 0);
	assert_int_equal(holds(&r, 1, "abc", 0), 3);
	r.now += 1200100;
	assert_int_equal(holds(&r, 1, "abc", 0), 0);
	rig_end(&r);
}

static void so_many_blocks_of_all_servers(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_AIBRIX);
	r.o.max_blocks_per_backend = 8;
	sends(&r, 1, "abcd", 0);
	r.now += 100;
	sends(&r, 1, "wxyz", 1);
	r.now += 100;
	sends(&r, 1, "abcd", 2);			/* no new blocks */
	assert_int_equal(holds(&r, 1, "wxyz", 1), 4);
	r.now += 100;
	sends(&r, 1, "mn", 1);
	assert_int_equal(holds(&r, 1, "abcd", 2), 4);
	assert_int_equal(r.tokens[0], 0);		/* it used them longest ago */
	assert_int_equal(holds(&r, 1, "wxyz", 1), 0);	/* w and x were evicted */
	assert_int_equal(holds(&r, 1, "mn", 1), 2);
	policy_gone(r.m, 2);
	assert_int_equal(holds(&r, 1, "abcd", 2), 0);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_defaults_of_its_authors),
		cmocka_unit_test(by_hand),
		cmocka_unit_test(whole_percents),
		cmocka_unit_test(equals_by_chance),
		cmocka_unit_test(without_a_gap),
		cmocka_unit_test(twenty_minutes),
		cmocka_unit_test(all_at_once_has_expired),
		cmocka_unit_test(so_many_blocks_of_all_servers),
	};

	return cmocka_run_group_tests_name("policy aibrix", tests, NULL, NULL);
}

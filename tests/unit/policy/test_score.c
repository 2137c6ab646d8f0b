/* test_score.c - rules that score each server: by hand, and the choice among equals. */
#include "tests/unit/policy/tables.h"
#include "tests/lib/policy/guarded.h"

/* ---- by the longest match, and by sums ---- */

/* A prompt of 100 pages of 10 tokens, and three servers. */
struct stand {
	uint32_t load;
	uint64_t cached;
	uint64_t waits, open;			/* tokens */
	uint32_t waiting;
	double kv_used;				/* 0: its engine reports nothing */
};

struct score_case {
	const char *name;
	enum policy_rule rule;
	struct stand at[3];
	int first, second;
	enum why why;
};

static const struct score_case cases[] = {
	{ "smg: the most, whatever its load", RULE_SMG_EVENTS, { { 60, 500 }, { 0, 499 }, { 0 } },
	    0, 1, WHY_CACHED },
	{ "smg: one page is enough", RULE_SMG_EVENTS, { { 5, 10 }, { 0 }, { 1 } }, 0, 1,
	    WHY_CACHED },
	{ "smg: equals by load", RULE_SMG_EVENTS, { { 9, 500 }, { 3, 500 }, { 0, 499 } }, 1, 0,
	    WHY_CACHED },
	{ "smg: nobody", RULE_SMG_EVENTS, { { 9 }, { 3 }, { 4 } }, 1, 2, WHY_COLD },
	{ "smg: 65 apart", RULE_SMG_EVENTS, { { 65, 1000 }, { 1, 10 }, { 0 } }, 2, 1,
	    WHY_IMBALANCE },
	{ "kv: the most", RULE_KV_AWARE, { { 900, 500 }, { 0, 499 }, { 0 } }, 0, 1, WHY_CACHED },
	{ "kv: nobody", RULE_KV_AWARE, { { 9 }, { 3 }, { 4 } }, 1, 2, WHY_COLD },

	/* 2 x prefix + free cache + short queue */
	{ "llm-d: 2+1+0 beats 0+1+1", RULE_LLMD_PRECISE, { { 8, 500 }, { 0 }, { 4 } }, 0, 1,
	    WHY_CACHED },
	{ "llm-d: 2+.2+0 beats 0+1+1 by a little", RULE_LLMD_PRECISE,
	    { { 0, 500, 0, 0, 8, .2 - 1e-9 }, { 0, 0, 0, 0, 0, 1e-9 }, { 0, 0, 0, 0, 8, 1e-9 } }, 0,
	    1, WHY_CACHED },
	{ "llm-d: 2+0+0 does not beat 0+.9+1.2", RULE_LLMD_PRECISE,
	    { { 0, 500, 0, 0, 10, .95 }, { 0, 10, 0, 0, 0, .05 }, { 0, 0, 0, 0, 0, .1 } }, 0, 1,
	    WHY_CACHED },
	{ "llm-d: a full cache costs 1", RULE_LLMD_PRECISE,
	    { { 0, 0, 0, 0, 3, .9 }, { 0, 0, 0, 0, 3, .1 }, { 0, 0, 0, 0, 3, .5 } }, 1, 2,
	    WHY_COLD },
	{ "llm-d: a long queue costs 1", RULE_LLMD_PRECISE,
	    { { 0, 0, 0, 0, 9, .5 }, { 0, 0, 0, 0, 5, .5 }, { 0, 0, 0, 0, 1, .5 } }, 2, 1,
	    WHY_COLD },
	{ "llm-d: loads do not count where engines tell", RULE_LLMD_PRECISE,
	    { { 50, 0, 0, 0, 0, .5 }, { 0, 0, 0, 0, 1, .5 }, { 0, 0, 0, 0, 2, .5 } }, 0, 1,
	    WHY_COLD },
	{ "llm-d: where one does not, none does", RULE_LLMD_PRECISE,
	    { { 50, 0, 0, 0, 0, .5 }, { 1, 0, 0, 0, 9, .9 }, { 2 } }, 1, 2, WHY_COLD },
	{ "llm-d: of two holders the lesser counts as none", RULE_LLMD_PRECISE,
	    { { 5, 400 }, { 5, 900 }, { 4 } }, 1, 2, WHY_CACHED },

	/* matched / prompt - (load - mean) / max(1, mean) */
	{ "loadaware: .5 - .85 against 0 + .54", RULE_LOADAWARE, { { 8, 500 }, { 2 }, { 3 } }, 1, 2,
	    WHY_COLD },
	{ "loadaware: .9 - .2 beats 0 - -.4", RULE_LOADAWARE, { { 6, 900 }, { 3 }, { 6 } }, 0, 1,
	    WHY_CACHED },
	{ "loadaware: a mean below 1 counts as 1", RULE_LOADAWARE, { { 1, 990 }, { 0 }, { 0, 10 } },
	    2, 1, WHY_CACHED },

	/* (waits + 1000 - cached) / 10 + (open + 1000) / 10 */
	{ "dynamo: what waits", RULE_DYNAMO, { { 0, 0, 900 }, { 9, 0, 300 }, { 0, 0, 600 } }, 1, 2,
	    WHY_COLD },
	{ "dynamo: 1000 held are worth 900 waiting", RULE_DYNAMO,
	    { { 0, 1000, 900 }, { 0 }, { 0, 0, 200 } }, 0, 1, WHY_CACHED },
	{ "dynamo: and not 1100", RULE_DYNAMO, { { 0, 1000, 1100 }, { 0 }, { 0, 0, 200 } }, 1, 0,
	    WHY_COLD },
	{ "dynamo: open prompts as well", RULE_DYNAMO,
	    { { 0, 600, 0, 700 }, { 0, 0, 0, 0 }, { 0, 500, 0, 300 } }, 2, 1, WHY_CACHED },

	/* (waits + 1000 - cached) / 10 x ((open + 1000) / 10 + 1) */
	{ "lmetric: 50 x 301 against 100 x 141", RULE_DYNAMO_LMETRIC,
	    { { 0, 500, 0, 2000 }, { 0, 0, 0, 400 }, { 0, 0, 0, 9000 } }, 1, 0, WHY_COLD },
	{ "lmetric: 40 x 301 against 100 x 141", RULE_DYNAMO_LMETRIC,
	    { { 0, 600, 0, 2000 }, { 0, 0, 0, 400 }, { 0, 0, 0, 9000 } }, 0, 1, WHY_CACHED },
	{ "lmetric: nothing left to do beats all", RULE_DYNAMO_LMETRIC,
	    { { 0, 1000, 0, 90000 }, { 0 }, { 0, 0, 0, 10 } }, 0, 1, WHY_CACHED },
};

static struct policy_choice decide(const struct policy_opts *o, const struct stand *at, size_t n,
    struct rng *rng, struct candidate *c)
{
	struct policy_prompt p = { .tokens = 1000, .n_pages = 0, .page_tokens = 10 };
	struct policy_choice out;

	for (size_t i = 0; i < n; i++) {
		c[i] = (struct candidate){
			.id = (server_id)i, .name = 1000 + i, .slowness = 1, .load = at[i].load, .cached = at[i].cached,
			.backlog_tokens = at[i].waits, .open_tokens = at[i].open, .waiting = at[i].waiting,
			.kv_used = at[i].kv_used > 0 ? at[i].kv_used : -1,
		};
		if (at[i].cached > p.matched)
			p.matched = at[i].cached;
	}
	policy_choose(o, NULL, &p, &(struct policy_pressure){ 0 }, rng, c, n, &out);
	return out;
}

static void score_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct score_case *t = &cases[i];
		struct candidate c[3];
		struct policy_opts o;
		struct policy_choice got;
		struct rng rng;

		policy_defaults(&o);
		policy_preset(&o, t->rule);
		rng_init(&rng, i);
		got = decide(&o, t->at, 3, &rng, c);
		check_choice(t->name, &got, t->first, t->second, t->why);
	}
}

/* ---- equals ---- */

static void equals_are_drawn_fairly(void **state)
{
	static const enum policy_rule drawn[] = {
		RULE_LLMD_PRECISE, RULE_LOADAWARE, RULE_DYNAMO, RULE_DYNAMO_LMETRIC,
	};
	const struct stand at[4] = { { 3, 500 }, { 3, 500 }, { 9, 0, 9999, 9999 }, { 3, 500 } };

	(void)state;
	for (size_t i = 0; i < sizeof(drawn) / sizeof(*drawn); i++) {
		unsigned n[4] = { 0 }, second[4] = { 0 };
		struct policy_opts o;
		struct rng rng;

		policy_defaults(&o);
		policy_preset(&o, drawn[i]);
		rng_init(&rng, 5);
		for (int k = 0; k < 3000; k++) {
			struct candidate c[4];
			struct policy_choice got = decide(&o, at, 4, &rng, c);

			n[got.first]++;
			second[got.second]++;
		}
		for (int k = 0; k < 4; k++) {
			assert_in_range(n[k], k == 2 ? 0 : 900, k == 2 ? 0 : 1100);
			assert_in_range(second[k], k == 2 ? 0 : 900, k == 2 ? 0 : 1100);
		}
	}
}

/* ---- what kv_aware expects ---- */

static void what_was_sent_counts_for_its_ttl(void **state)
{
	const struct seat busy[3] = { { 5 }, { 3 }, { 4 } };
	struct policy_choice got;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_KV_AWARE);
	assert_int_equal(r.o.speculative_ttl_ms, 2000);
	got = chooses(&r, "abcd", busy, 3);
	check_choice("nobody knows of any", &got, 1, 2, WHY_COLD);
	sends(&r, 1, "abcd", 0);
	got = chooses(&r, "abcx", busy, 3);
	check_choice("sent a moment ago", &got, 0, 1, WHY_CACHED);
	assert_int_equal(holds(&r, 1, "abcx", 0), 3);
	assert_int_equal(holds(&r, 1, "xbcd", 0), 0);		/* a gap ends it */
	assert_int_equal(holds(&r, 1, "axcd", 0), 1);
	assert_int_equal(holds(&r, 2, "abcd", 0), 0);		/* another space */
	r.now += 1980;
	sends(&r, 1, "ab", 2);
	assert_int_equal(holds(&r, 1, "abcd", 0), 4);
	r.now += 40;
	assert_int_equal(holds(&r, 1, "abcd", 0), 0);
	assert_int_equal(holds(&r, 1, "abcd", 2), 2);
	r.now += 2000;
	assert_int_equal(holds(&r, 1, "abcd", 2), 0);
	sends(&r, 1, "abcd", 2);
	policy_gone(r.m, 2);
	assert_int_equal(holds(&r, 1, "abcd", 2), 0);
	rig_end(&r);
}

/* Two threads: the one that read its clock first came second. */
static void what_is_sent_by_a_clock_that_lags_expires_too(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_KV_AWARE);
	sends(&r, 1, "abcd", 0);
	r.now -= 50;
	sends(&r, 1, "xyz", 0);
	assert_int_equal(holds(&r, 1, "abcd", 0), 4);
	assert_int_equal(holds(&r, 1, "xyz", 0), 3);
	r.now += 2150;
	assert_int_equal(holds(&r, 1, "xyz", 0), 0);
	assert_int_equal(holds(&r, 1, "abcd", 0), 0);
	rig_end(&r);
}

static void the_longer_of_both_counts(void **state)
{
	const struct seat row[2] = { { 0, 32 }, { 9 } };	/* two pages by events at the first */
	struct policy_choice got;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_KV_AWARE);
	sends(&r, 1, "ab", 1);
	got = chooses(&r, "abcd", row, 2);
	check_choice("as long: the less loaded", &got, 0, 1, WHY_CACHED);
	sends(&r, 1, "abc", 1);
	got = chooses(&r, "abcd", row, 2);
	check_choice("longer", &got, 1, 0, WHY_CACHED);
	rig_end(&r);
}

static void guards_are_the_authors(void **state)
{
	(void)state;
	assert_true(policy_rule_guarded(RULE_SMG_EVENTS));
	for (int rule = RULE_STICKY_LEAST_LOADED; rule <= RULE_DYNAMO_LMETRIC; rule++)
		assert_false(policy_rule_guarded((enum policy_rule)rule));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(score_table),
		cmocka_unit_test(equals_are_drawn_fairly),
		cmocka_unit_test(what_was_sent_counts_for_its_ttl),
		cmocka_unit_test(what_is_sent_by_a_clock_that_lags_expires_too),
		cmocka_unit_test(the_longer_of_both_counts),
		cmocka_unit_test(guards_are_the_authors),
	};

	return cmocka_run_group_tests_name("policy score", tests, NULL, NULL);
}

/* test_gaie.c - the rules gaie and gaie_full: scores worked out by hand. */
#include "tests/unit/policy/tables.h"
#include "tests/lib/policy/guarded.h"

static void the_defaults_of_its_authors(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	policy_preset(&o, RULE_GAIE);
	assert_int_equal(o.max_prefix_blocks, 256);
	assert_int_equal(o.max_blocks_per_backend, 31250);
	policy_preset(&o, RULE_GAIE_FULL);
	assert_int_equal(o.max_prefix_blocks, 0);
	assert_int_equal(o.max_blocks_per_backend, 31250);
	policy_preset(&o, RULE_COST);
	assert_int_equal(o.max_prefix_blocks, 0);
	assert_int_equal(o.max_blocks_per_backend, 100000);
	assert_false(policy_rule_guarded(RULE_GAIE) || policy_rule_guarded(RULE_GAIE_FULL));
}

/* The report of a server, and the pages of "abcdefghij" that it was sent. */
struct told {
	const char *held;
	uint32_t queue, waiting;
	double kv_used;			/* negative: unknown */
	uint64_t open_tokens;
};

static struct policy_choice scores(struct rig *r, const struct told *t, size_t n)
{
	struct policy_choice out;
	struct prompt_of q;

	prompt_in(&q, 1, "abcdefghij");
	policy_match(r->m, &r->o, &q.p, r->now, r->tokens);
	for (size_t i = 0; i < n; i++)
		r->c[i] = (struct candidate){
			.id = (server_id)i, .queue = t[i].queue, .waiting = t[i].waiting, .kv_used = t[i].kv_used,
			.open_tokens = t[i].open_tokens, .own = r->tokens[i], .slowness = 1,
		};
	policy_choose(&r->o, r->m, &q.p, &(struct policy_pressure){ 0 }, &r->rng, r->c, n, &out);
	return out;
}

static void scores_by_hand(void **state)
{
	static const struct {
		const char *name;
		struct told t[3];
		size_t n;
		int first, second;
		enum why why;
	} cases[] = {
		/* 3*.5+2+2*1 = 5.5 | 0+2+2 = 4 */
		{ "prefix alone", { { "abcde" }, { "" } }, 2, 0, 1, WHY_CACHED },
		/* 3*1+2*0+2 = 5 | 0+2+2 = 4 */
		{ "a whole prompt beats a queue", { { "abcdefghij", 9 }, { "" } }, 2, 0, 1,
		    WHY_CACHED },
		/* 3*.6+0+2 = 3.8 | 4 */
		{ "six of ten do not", { { "abcdef", 9 }, { "" } }, 2, 1, 0, WHY_COLD },
		/* 3*.7+0+2 = 4.1 | 4 */
		{ "seven do", { { "abcdefg", 1 }, { "" } }, 2, 0, 1, WHY_CACHED },
		/* 3*.7+2+2*.9 = 5.9 | 2+2 = 4 */
		{ "a cache in use", { { "abcdefg", 0, 0, 0.1 }, { "" } }, 2, 0, 1, WHY_CACHED },
		/* 3*.6+2+2*.05 = 3.9 | 4 */
		{ "a cache nearly full", { { "abcdef", 0, 0, 0.95 }, { "" } }, 2, 1, 0, WHY_COLD },
		/* waits 4, 2, 0: 2*0, 2*.5, 2*1 */
		{ "engines' queues count with HAProxy's",
		    { { "", 1, 3 }, { "", 2, 0 }, { "", 0, 0 } }, 3, 2, 1, WHY_COLD },
		/* 3*.3+2*.5+2 = 3.9 | 2+2 = 4 | 3*.4+0+2 = 3.2 */
		{ "three", { { "abc", 1 }, { "" }, { "abcd", 2 } }, 3, 1, 0, WHY_COLD },
		/* 3*.4+2*.5+2 = 4.2 | 4 | 3.2 */
		{ "and a block more", { { "abcd", 1 }, { "" }, { "abcd", 2 } }, 3, 0, 1,
		    WHY_CACHED },
		/* no report: 250000 of 500000 tokens: 2+1 | 240000: 2+1.04 */
		{ "prompts open stand in", { { "", 0, 0, -1, 250000 }, { "", 0, 0, -1, 240000 } },
		    2, 1, 0, WHY_COLD },
		{ "and at most all of it", { { "", 0, 0, -1, 900000 }, { "", 0, 0, 0.99 } }, 2, 1,
		    0, WHY_COLD },
		{ "one server", { { "abc", 5 } }, 1, 0, -1, WHY_CACHED },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int full = 0; full < 2; full++) {
			struct policy_choice got;
			struct rig r;

			rig_start(&r, full ? RULE_GAIE_FULL : RULE_GAIE);
			for (size_t k = 0; k < cases[i].n; k++)
				sends(&r, 1, cases[i].t[k].held, (server_id)k);
			got = scores(&r, cases[i].t, cases[i].n);
			check_choice(cases[i].name, &got, cases[i].first, cases[i].second, cases[i].why);
			rig_end(&r);
		}
	}
}

static void equals_by_chance(void **state)
{
	struct seat row[4] = { { 7 }, { 0 }, { 1 }, { 2 } };	/* loads do not matter to it */
	unsigned often[4];
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE);
	choose_often(&r, "abc", row, 4, often);
	for (int i = 0; i < 4; i++)
		assert_in_range(often[i], 200, 300);
	sends(&r, 1, "abc", 1);
	sends(&r, 1, "abc", 3);
	choose_often(&r, "abcd", row, 4, often);
	assert_int_equal(often[0] + often[2], 0);
	assert_in_range(often[1], 440, 560);
	rig_end(&r);
}

static void only_the_first_blocks(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE);
	r.o.max_prefix_blocks = 4;
	sends(&r, 1, "abcdefgh", 0);
	assert_int_equal(holds(&r, 1, "abcdefgh", 0), 4);
	assert_int_equal(holds(&r, 1, "abcdXXXX", 0), 4);	/* the same prompt to it */
	assert_int_equal(holds(&r, 1, "abc", 0), 3);
	assert_int_equal(holds(&r, 1, "abXdefgh", 0), 2);
	r.o.max_prefix_blocks = 0;
	assert_int_equal(holds(&r, 1, "abcdefgh", 0), 4);
	rig_end(&r);
}

/* With a limit of 4 blocks of "abcdefghij" the share is of 4: 3*.5+0+2 = 3.5 | 4, and 3*1+0+2 = 5 |
 * 4. */
static void the_share_is_of_those(void **state)
{
	static const struct told half[2] = { { "ab", 1 }, { "" } }, whole[2] = { { "abcd", 1 }, { "" } };
	struct policy_choice got;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE);
	r.o.max_prefix_blocks = 4;
	sends(&r, 1, "ab", 0);
	got = scores(&r, half, 2);
	check_choice("half", &got, 1, 0, WHY_COLD);
	sends(&r, 1, "abcd", 0);
	got = scores(&r, whole, 2);
	check_choice("whole", &got, 0, 1, WHY_CACHED);
	rig_end(&r);
}

/* Server 0 has lost the beginning, its oldest; while another server has it, later blocks count. */
static void a_gap_is_counted_over(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE);
	r.o.max_blocks_per_backend = 4;
	sends(&r, 1, "abcdef", 0);
	assert_int_equal(holds(&r, 1, "abcdef", 0), 0);
	r.o.max_blocks_per_backend = 100;
	sends(&r, 1, "abXY", 1);
	assert_int_equal(holds(&r, 1, "abcdef", 0), 4);
	assert_int_equal(r.tokens[1], 32);
	rig_end(&r);
}

static void the_lru_of_each_server(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE);
	r.o.max_blocks_per_backend = 8;
	sends(&r, 1, "abcd", 0);
	sends(&r, 1, "wxyz", 0);
	sends(&r, 1, "qrst", 1);
	sends(&r, 1, "abcd", 0);			/* the other is the oldest now */
	sends(&r, 1, "mn", 0);
	assert_int_equal(holds(&r, 1, "abcd", 0), 4);
	assert_int_equal(holds(&r, 1, "wxyz", 0), 0);	/* w and x are gone */
	assert_int_equal(holds(&r, 1, "mn", 0), 2);
	assert_int_equal(holds(&r, 1, "qrst", 1), 4);
	rig_end(&r);
}

static void the_room_of_a_server_where_it_is_known(void **state)
{
	static const struct told open[2] = { { "", 0, 0, -1, 64 }, { "", 0, 0, -1, 64 } };
	struct policy_choice got;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE);
	policy_room(r.m, 0, 4 * 16 + 5);
	sends(&r, 1, "abcdef", 0);
	sends(&r, 1, "abcdef", 1);
	assert_int_equal(holds(&r, 1, "abcdef", 1), 6);
	assert_int_equal(r.tokens[0], 4 * 16);		/* counted because server 1 has the missing blocks */
	got = scores(&r, open, 2);			/* nearly full | nearly empty */
	check_choice("room", &got, 1, 0, WHY_CACHED);
	policy_room(r.m, 0, 0);
	sends(&r, 1, "abcdef", 0);
	assert_int_equal(holds(&r, 1, "abcdef", 0), 6);
	policy_room(r.m, 1, 16);
	policy_gone(r.m, 1);
	sends(&r, 1, "abcdef", 1);			/* another server, of which nothing is known */
	assert_int_equal(holds(&r, 1, "abcdef", 1), 6);
	rig_end(&r);
}

static void who_is_gone_and_other_spaces(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_GAIE_FULL);
	sends(&r, 1, "abc", 0);
	sends(&r, 1, "abc", 1);
	assert_int_equal(holds(&r, 2, "abc", 0), 0);
	policy_gone(r.m, 0);
	assert_int_equal(holds(&r, 1, "abc", 0), 0);
	assert_int_equal(r.tokens[1], 48);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_defaults_of_its_authors),
		cmocka_unit_test(scores_by_hand),
		cmocka_unit_test(equals_by_chance),
		cmocka_unit_test(only_the_first_blocks),
		cmocka_unit_test(the_share_is_of_those),
		cmocka_unit_test(a_gap_is_counted_over),
		cmocka_unit_test(the_lru_of_each_server),
		cmocka_unit_test(the_room_of_a_server_where_it_is_known),
		cmocka_unit_test(who_is_gone_and_other_spaces),
	};

	return cmocka_run_group_tests_name("policy gaie", tests, NULL, NULL);
}

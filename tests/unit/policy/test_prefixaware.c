/* test_prefixaware.c - the rule prefixaware: chunks of two pages, and any of the longest. */
#include "tests/unit/policy/tables.h"
#include "tests/lib/policy/guarded.h"

static void chunks_of_two_pages(void **state)
{
	static const struct { const char *asked; uint32_t pages; } cases[] = {
		{ "abcdefg", 7 }, { "abcdefgh", 6 }, { "abcdef", 6 }, { "abcde", 4 }, { "abcd", 4 }, { "abX", 2 },
		{ "aX", 0 }, { "a", 0 }, { "", 0 }, { "cdef", 0 },
	};
	struct rig r;

	(void)state;
	rig_start(&r, RULE_PREFIXAWARE);
	assert_false(policy_rule_guarded(RULE_PREFIXAWARE));
	assert_int_equal(r.o.min_match_tokens, 0);
	sends(&r, 1, "abcdefg", 0);			/* ab cd ef g */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (holds(&r, 1, cases[i].asked, 0) != cases[i].pages)
			fail_msg("%s: %u", cases[i].asked, r.tokens[0] / 16);
	}
	assert_int_equal(holds(&r, 2, "abcdefg", 0), 0);
	rig_end(&r);
}

/* Pages of 32 tokens or more are a chunk each. */
static void a_large_page_is_a_chunk(void **state)
{
	static const uint32_t tokens[] = { 32, 64, 512 };
	struct prompt_of q;
	struct rig r;

	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		rig_start(&r, RULE_PREFIXAWARE);
		prompt_in(&q, 1, "abc");
		q.p.page_tokens = tokens[i];
		policy_sent(r.m, &r.o, &q.p, 3, r.now);
		prompt_in(&q, 1, "abX");
		q.p.page_tokens = tokens[i];
		policy_match(r.m, &r.o, &q.p, r.now, r.tokens);
		assert_int_equal(r.tokens[3], 2 * tokens[i]);
		rig_end(&r);
	}
}

/* The walk goes on while one endpoint is left: server 1 was sent the longest part, others end
 * before. */
static void any_of_the_longest(void **state)
{
	static const struct seat row[4] = { { 90 }, { 80 }, { 0 }, { 1 } };	/* loads do not matter */
	struct policy_choice got;
	unsigned often[4];
	struct rig r;

	(void)state;
	rig_start(&r, RULE_PREFIXAWARE);
	choose_often(&r, "abcdef", row, 4, often);
	for (int i = 0; i < 4; i++)
		assert_in_range(often[i], 200, 300);
	got = chooses(&r, "abcdef", row, 4);
	assert_int_equal(got.why, WHY_COLD);
	sends(&r, 1, "abcd", 0);
	sends(&r, 1, "abcdXY", 1);
	sends(&r, 1, "abZZ", 2);
	choose_often(&r, "abcdef", row, 4, often);
	assert_int_equal(often[2] + often[3], 0);
	assert_in_range(often[0], 440, 560);
	sends(&r, 1, "abcdef", 1);
	got = chooses(&r, "abcdef", row, 4);
	check_choice("longest", &got, 1, 0, WHY_CACHED);
	got = chooses(&r, "abZZ", row, 4);
	assert_true(got.first == 2 && got.why == WHY_CACHED);
	rig_end(&r);
}

static void a_short_match_goes_by_load(void **state)
{
	static const struct seat row[3] = { { 9 }, { 2 }, { 1 } };
	struct policy_choice got;
	struct rig r;

	(void)state;
	rig_start(&r, RULE_PREFIXAWARE);
	r.o.min_match_tokens = 65;
	sends(&r, 1, "abcd", 0);			/* 64 tokens */
	got = chooses(&r, "abcdef", row, 3);
	check_choice("short", &got, 2, 1, WHY_COLD);
	r.o.min_match_tokens = 64;
	got = chooses(&r, "abcdef", row, 3);
	assert_true(got.first == 0 && got.why == WHY_CACHED);
	rig_end(&r);
}

/* Nothing expires by age alone; for room the oldest is dropped, from its end. */
static void it_is_bounded_by_bytes_alone(void **state)
{
	struct prompt_of q;
	struct rig r;
	uint32_t left = 6;

	(void)state;
	rig_start(&r, RULE_PREFIXAWARE);
	sends(&r, 1, "abcdef", 0);
	r.now += (msec)365 * 24 * 3600 * 1000;
	assert_int_equal(holds(&r, 1, "abcdef", 0), 6);
	for (uint64_t i = 0; i < 20000; i++) {
		uint32_t now;

		r.now += 100;
		policy_sent(r.m, &r.o, prompt_in(&q, i + 2, "ab"), 1, r.now);
		now = holds(&r, 1, "abcdef", 0);
		assert_true(now <= left && now % 2 == 0);
		left = now;
	}
	assert_int_equal(left, 0);
	policy_gone(r.m, 1);
	policy_match(r.m, &r.o, &q.p, r.now, r.tokens);
	assert_int_equal(r.tokens[1], 0);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_of_two_pages),
		cmocka_unit_test(a_large_page_is_a_chunk),
		cmocka_unit_test(any_of_the_longest),
		cmocka_unit_test(a_short_match_goes_by_load),
		cmocka_unit_test(it_is_bounded_by_bytes_alone),
	};

	return cmocka_run_group_tests_name("policy prefixaware", tests, NULL, NULL);
}

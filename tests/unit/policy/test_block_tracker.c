/* test_block_tracker.c - the rule block_tracker by its design document, and where it is
 * corrected. */
#include "agent/policy/blocks_in.h"
#include "tests/unit/policy/tables.h"
#include "tests/lib/policy/guarded.h"

static void the_defaults_of_its_authors(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.cache_threshold = 0.9;
	o.load_factor = 7;
	o.max_blocks_per_backend = 1;
	o.rule_eviction_interval_ms = 1;
	policy_preset(&o, RULE_BLOCK_TRACKER);
	assert_true(o.cache_threshold == 0.3 && o.load_factor == 1.25);
	assert_int_equal(o.max_blocks_per_backend, 100000);
	assert_int_equal(o.rule_eviction_interval_ms, 60000);
	assert_false(policy_rule_guarded(RULE_BLOCK_TRACKER));
}

static void the_longest_prefix_of_each_server(void **state)
{
	static const struct { const char *asked; uint32_t at0, at1; } cases[] = {
		{ "abcdefghij", 8, 3 }, { "abcdefgh", 8, 3 }, { "abcde", 5, 3 }, { "abcXYZ", 3, 4 },
		{ "abcXefgh", 3, 4 }, { "Xbcdefgh", 0, 0 }, { "a", 1, 1 }, { "", 0, 0 }, { "hgfedcba", 0, 0 },
	};
	struct rig r;

	(void)state;
	rig_start(&r, RULE_BLOCK_TRACKER);
	assert_int_equal(holds(&r, 1, "abc", 0), 0);
	sends(&r, 1, "abcdefgh", 0);
	sends(&r, 1, "abcX", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t at0 = holds(&r, 1, cases[i].asked, 0), at1 = r.tokens[1] / 16;

		if (at0 != cases[i].at0 || at1 != cases[i].at1)
			fail_msg("%s: %u %u", cases[i].asked, at0, at1);
	}
	assert_int_equal(holds(&r, 2, "abcdefgh", 0), 0);	/* another space */
	rig_end(&r);
}

/* Two prompts with the same pages after different ones: by places alone all of it seems to be
 * held. */
static void a_false_length_is_not_believed(void **state)
{
	struct blocks *b = blocks_new(1 << 20);
	uint16_t owner = blocks_join(b, 0, 0);
	struct seat row[2] = { { 1 }, { 0 } };
	struct prompt_of q;
	struct policy_choice got;
	struct rig r;

	(void)state;
	blocks_add(b, walk_places(prompt_in(&q, 1, "Abcdefgh")), owner, 1, true);
	prompt_in(&q, 1, "Bbcdefgh");
	assert_int_equal(blocks_search(b, &q.p, owner), 8);	/* the published search returns this */
	blocks_free(b);

	rig_start(&r, RULE_BLOCK_TRACKER);
	r.o.load_factor = 1000;
	sends(&r, 1, "Abcdefgh", 0);
	assert_int_equal(holds(&r, 1, "Bbcdefgh", 0), 0);
	got = chooses(&r, "Bbcdefgh", row, 2);
	check_choice("false", &got, 1, 0, WHY_COLD);
	sends(&r, 1, "Bb", 0);					/* a beginning of its own, and then the same again */
	assert_int_equal(holds(&r, 1, "Bbcdefgh", 0), 2);
	sends(&r, 1, "Bbcdefgh", 0);				/* neither covers the other */
	assert_int_equal(holds(&r, 1, "Abcdefgh", 0), 8);
	assert_int_equal(holds(&r, 1, "Bbcdefgh", 0), 8);
	rig_end(&r);
}

/* "abcdefghij" has ten pages, of which server 0 holds some. */
static void threshold_and_load(void **state)
{
	static const struct {
		const char *name, *held;
		struct seat row[3];
		int first, second;
		enum why why;
	} cases[] = {
		{ "cold", "x", { { 2 }, { 1 }, { 3 } }, 1, 0, WHY_COLD },
		{ "three of ten is not above 0.3", "abc", { { 1 }, { 1 }, { 0 } }, 2, 0, WHY_COLD },
		{ "four is", "abcd", { { 2 }, { 2 }, { 2 } }, 0, 1, WHY_CACHED },
		{ "nobody has anything to do", "abcdefghij", { { 0 }, { 0 }, { 0 } }, 0, 1, WHY_CACHED },
		{ "5 is 1.25 times the mean: not below", "abcd", { { 5 }, { 4 }, { 3 } }, 2, 1, WHY_IMBALANCE },
		{ "4 is", "abcd", { { 4 }, { 4 }, { 3 } }, 0, 2, WHY_CACHED },
		{ "a failure is a request", "abcd", { { 4, 0, 0, 0, 1 }, { 4 }, { 3 } }, 2, 1, WHY_IMBALANCE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_choice got;
		struct rig r;

		rig_start(&r, RULE_BLOCK_TRACKER);
		sends(&r, 1, cases[i].held, 0);
		got = chooses(&r, "abcdefghij", cases[i].row, 3);
		check_choice(cases[i].name, &got, cases[i].first, cases[i].second, cases[i].why);
		rig_end(&r);
	}
}

/* Of equal holders one is met first, whatever the loads, and the prefix decides which. */
static void the_longest_of_two_and_the_first_of_equals(void **state)
{
	struct seat even[3] = { { 3 }, { 3 }, { 3 } }, one[3] = { { 3 }, { 2 }, { 3 } },
		    two[3] = { { 3 }, { 3 }, { 2 } };
	char prompt[] = "abcdef";
	struct policy_choice got;
	unsigned times[3] = { 0 };
	struct rig r;

	(void)state;
	rig_start(&r, RULE_BLOCK_TRACKER);
	sends(&r, 1, "abcdef", 2);
	sends(&r, 1, "abcde", 0);
	got = chooses(&r, "abcdefghij", even, 3);
	check_choice("longest", &got, 2, 0, WHY_CACHED);
	sends(&r, 1, "abcdef", 1);
	for (char c = 'a'; c <= 'z'; c++) {
		int first;

		prompt[5] = c;
		sends(&r, 1, prompt, 1);
		sends(&r, 1, prompt, 2);
		first = chooses(&r, prompt, even, 3).first;
		assert_int_equal(chooses(&r, prompt, one, 3).first, first);
		assert_int_equal(chooses(&r, prompt, two, 3).first, first);
		times[first]++;
	}
	assert_true(times[0] == 0 && times[1] > 4 && times[2] > 4);
	rig_end(&r);
}

/* A server is trimmed to its limit once an interval, oldest first, the end of a prompt before its
 * beginning. */
static void eviction_by_the_interval(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_BLOCK_TRACKER);
	r.o.max_blocks_per_backend = 6;
	sends(&r, 1, "a", 1);				/* the first interval begins */
	sends(&r, 1, "abcd", 0);
	r.now += 100;
	sends(&r, 1, "wxyz", 0);
	assert_int_equal(holds(&r, 1, "abcd", 0), 4);	/* 8 blocks, until the interval ends */
	r.now += 59899;
	sends(&r, 1, "q", 1);
	assert_int_equal(holds(&r, 1, "abcd", 0), 4);
	r.now += 1;
	sends(&r, 1, "q", 1);
	assert_true(holds(&r, 1, "abcd", 0) < 4);
	assert_int_equal(holds(&r, 1, "wxyz", 0), 4);
	assert_int_equal(holds(&r, 1, "q", 1), 1);
	r.o.rule_eviction_interval_ms = 0;
	r.now += 100;
	sends(&r, 1, "ghijkl", 0);
	assert_int_equal(holds(&r, 1, "wxyz", 0), 0);
	assert_int_equal(holds(&r, 1, "ghijkl", 0), 6);
	rig_end(&r);
}

/* After eight lookups a prompt is touched, and outlives a younger one. */
static void one_lookup_in_eight_touches(void **state)
{
	(void)state;
	for (int lookups = 7; lookups <= 8; lookups++) {
		struct rig r;

		rig_start(&r, RULE_BLOCK_TRACKER);
		r.o.max_blocks_per_backend = 4;
		r.o.rule_eviction_interval_ms = 60000;
		sends(&r, 1, "z", 1);
		sends(&r, 1, "abc", 0);
		sends(&r, 1, "xyz", 0);
		r.now += 1000;
		for (int i = 0; i < lookups; i++)
			assert_int_equal(holds(&r, 1, "abc", 0), 3);
		r.now += 60000;
		sends(&r, 1, "z", 1);
		assert_int_equal(holds(&r, 1, "abc", 0) == 3, lookups == 8);
		assert_int_equal(holds(&r, 1, "xyz", 0) == 3, lookups == 7);
		rig_end(&r);
	}
}

static void a_tracker_for_each_model(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_BLOCK_TRACKER);
	for (uint64_t model = 1; model <= SCOPES_MAX; model++)
		sends(&r, model, "abc", 0);
	sends(&r, 1, "abc", 0);				/* the second is the least recently used now */
	for (uint64_t model = 1; model <= SCOPES_MAX; model++)
		assert_int_equal(holds(&r, model, "abc", 0), 3);
	sends(&r, 100, "abc", 0);
	assert_int_equal(holds(&r, 100, "abc", 0), 3);
	assert_int_equal(holds(&r, 1, "abc", 0), 3);
	assert_int_equal(holds(&r, 2, "abc", 0), 0);
	assert_int_equal(holds(&r, 3, "abc", 0), 3);
	sends(&r, 2, "", 0);				/* an empty prompt takes no scope */
	assert_int_equal(holds(&r, 3, "abc", 0), 3);
	rig_end(&r);
}

static void who_is_gone_is_forgotten(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_BLOCK_TRACKER);
	sends(&r, 1, "abc", 0);
	sends(&r, 2, "abc", 0);
	sends(&r, 1, "abc", 1);
	policy_gone(r.m, 0);
	assert_int_equal(holds(&r, 1, "abc", 0), 0);
	assert_int_equal(r.tokens[1], 48);
	assert_int_equal(holds(&r, 2, "abc", 0), 0);
	sends(&r, 1, "ab", 0);				/* its id comes back as another server */
	assert_int_equal(holds(&r, 1, "abc", 0), 2);
	rig_end(&r);
}

static void memory_is_bounded(void **state)
{
	struct rig r;
	struct prompt_of q;

	(void)state;
	rig_start(&r, RULE_BLOCK_TRACKER);
	for (uint64_t i = 0; i < 2000; i++) {
		prompt_in(&q, 1, "abcdefghijklmnop");
		q.pages[0] = i;
		policy_sent(r.m, &r.o, &q.p, (server_id)(i % 40), r.now);
	}
	assert_int_equal(holds(&r, 1, "aaaa", 0), 0);
	policy_match(r.m, &r.o, &q.p, r.now, r.tokens);
	assert_int_equal(r.tokens[1999 % 40], 256);
	rig_end(&r);
	r.o.rule_max_bytes = 64 << 10;			/* the smallest allowed */
	r.m = policy_memory_new(&r.o);
	assert_non_null(r.m);
	sends(&r, 1, "abc", 0);
	assert_int_equal(holds(&r, 1, "abcd", 0), 3);
	rig_end(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_defaults_of_its_authors),
		cmocka_unit_test(the_longest_prefix_of_each_server),
		cmocka_unit_test(a_false_length_is_not_believed),
		cmocka_unit_test(threshold_and_load),
		cmocka_unit_test(the_longest_of_two_and_the_first_of_equals),
		cmocka_unit_test(eviction_by_the_interval),
		cmocka_unit_test(one_lookup_in_eight_touches),
		cmocka_unit_test(a_tracker_for_each_model),
		cmocka_unit_test(who_is_gone_is_forgotten),
		cmocka_unit_test(memory_is_bounded),
	};

	return cmocka_run_group_tests_name("policy block_tracker", tests, NULL, NULL);
}

/* test_tiers.c - what blocks in slower tiers are worth, and how the cost rule trades them. */
#include <math.h>

#include "tests/unit/policy/candidates.h"

static void tokens_count_by_weight_or_take_time(void **state)
{
	static const struct {
		const char *name;
		enum policy_rule rule;
		double host, disk, remote, host_rate, disk_rate;
		uint64_t tokens[POLICY_TIERS];
		uint64_t cached;
		double load_s;
	} cases[] = {
		{ "nothing held", RULE_COST, .8, .3, 0, 0, 0, { 0 }, 0, 0 },
		{ "the device counts whole", RULE_COST, 0, 0, 0, 0, 0, { 700 }, 700, 0 },
		{ "weights", RULE_COST, .8, .3, 0, 0, 0, { 100, 1000, 1000, 1000 }, 1200, 0 },
		{ "a weight for remote", RULE_COST, .8, .3, .5, 0, 0, { 0, 0, 0, 1000 }, 500, 0 },
		{ "parts of a token are dropped", RULE_COST, .8, .3, 0, 0, 0, { 0, 16, 16, 0 }, 16, 0 },
		{ "1 is exact", RULE_SMG_EVENTS, 1, 1, 1, 0, 0, { 1, 1ull << 50, 3, 5 },
		  (1ull << 50) + 9, 0 },
		{ "a rate for the host", RULE_COST, .8, .3, 0, 50000, 0, { 100, 1000, 1000, 0 }, 1400,
		  .02 },
		{ "rates for both", RULE_COST, .8, .3, 0, 50000, 2000, { 100, 1000, 1000, 9 }, 2100, .52 },
		{ "a rate beats a weight of 0", RULE_COST, 0, 0, 0, 1000, 0, { 0, 500 }, 500, .5 },
		{ "only cost uses rates", RULE_DYNAMO, .75, .25, 0, 50000, 2000, { 0, 1000, 1000, 0 },
		  1000, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct policy_opts o;
		uint64_t cached;
		double load_s;

		policy_defaults(&o);
		o.rule = cases[i].rule;
		o.host_weight = cases[i].host;
		o.disk_weight = cases[i].disk;
		o.remote_weight = cases[i].remote;
		o.host_tokens_per_s = cases[i].host_rate;
		o.disk_tokens_per_s = cases[i].disk_rate;
		policy_tier_credit(&o, cases[i].tokens, &cached, &load_s);
		if (cached != cases[i].cached || fabs(load_s - cases[i].load_s) > 1e-12)
			fail_msg("%s: %llu tokens, %g s", cases[i].name, (unsigned long long)cached, load_s);
	}
}

static void a_preset_brings_its_authors_weights(void **state)
{
	struct policy_opts o;

	policy_defaults(&o);
	for (int r = 0; r < RULE_COUNT; r++) {
		double host = 1, disk = 1, remote = 1;

		if (r == RULE_COST)
			host = 0.8, disk = 0.3, remote = 0;
		else if (r == RULE_DYNAMO || r == RULE_DYNAMO_LMETRIC)
			host = 0.75, disk = 0.25, remote = 0;
		else if (r == RULE_LLMD_PRECISE)
			host = 0.8;
		o.host_tokens_per_s = 1000 + r;
		policy_preset(&o, (enum policy_rule)r);
		if (o.host_weight != host || o.disk_weight != disk || o.remote_weight != remote)
			fail_msg("%s", policy_rule_text((enum policy_rule)r));
		assert_true(o.host_tokens_per_s == 1000 + r);	/* an option that only our rule has */
	}
}

/* 8000 tokens take a second and count twice, because the sacrifice factor is set to 1. Two servers
 * are idle, or have <load> requests of 30 ms each. */
static void cost_trades_tiers(void **state)
{
	static const struct {
		const char *name;
		double host_rate, disk_rate;
		uint64_t held[2][POLICY_TIERS];
		uint32_t load[2];
		int first;
		enum why why;
	} cases[] = {
		{ "device before host", 0, 0, { { 0, 4000 }, { 4000 } }, { 0 }, 1, WHY_CACHED },
		{ "host before disk", 0, 0, { { 0, 0, 4000 }, { 0, 4000 } }, { 0 }, 1, WHY_CACHED },
		{ "disk before nothing", 0, 0, { { 0 }, { 0, 0, 4000 } }, { 0 }, 1, WHY_CACHED },
		{ "remote is nothing: by load", 0, 0, { { 0, 0, 0, 4000 }, { 0 } }, { 1, 0 }, 1, WHY_COLD },
		{ "more in host than in device", 0, 0, { { 3100 }, { 0, 4000 } }, { 0 }, 1, WHY_CACHED },
		{ "but not a little more", 0, 0, { { 3300 }, { 0, 4000 } }, { 0 }, 0, WHY_CACHED },
		{ "a shorter queue beats a nearer tier", 0, 0, { { 4000 }, { 0, 4000 } }, { 7, 0 }, 1,
		  WHY_CACHED },
		{ "but not a little shorter", 0, 0, { { 4000 }, { 0, 4000 } }, { 6, 0 }, 0, WHY_CACHED },
		/* a rate: 4000 tokens of computing are 1 s, of loading 0.1 s or 1.6 s */
		{ "loading takes less than computing", 40000, 0, { { 3500 }, { 0, 4000 } }, { 0 }, 1,
		  WHY_CACHED },
		{ "and some time", 40000, 0, { { 3700 }, { 0, 4000 } }, { 0 }, 0, WHY_CACHED },
		{ "a disk slower than computing", 0, 2500, { { 0 }, { 0, 0, 4000 } }, { 0 }, 0, WHY_COLD },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct candidate c[2] = { { 0 } };
		struct policy_choice got;
		struct policy_opts o;

		policy_defaults(&o);
		o.sacrifice_min = 1;
		o.attention_factor = 0;
		o.host_tokens_per_s = cases[i].host_rate;
		o.disk_tokens_per_s = cases[i].disk_rate;
		for (size_t k = 0; k < 2; k++) {
			c[k] = (struct candidate){ .id = (server_id)k, .load = cases[i].load[k], .slowness = 1 };
			policy_tier_credit(&o, cases[i].held[k], &c[k].cached, &c[k].load_s);
		}
		got = choose(&o, 4000, c, 2);
		if (got.first != cases[i].first || got.why != cases[i].why)
			fail_msg("%s: %d %s", cases[i].name, got.first, why_text(got.why));
	}
}

/* Time to load is in the cost that decisions compare, whatever the rule, but published rules rank
 * as without it. */
static void published_rules_do_not_read_load_s(void **state)
{
	for (int r = 0; r < RULE_COUNT; r++) {
		struct candidate c[2] = {
			{ .id = 0, .name = 1, .cached = 900, .slowness = 1, .load_s = 50 },
			{ .id = 1, .name = 2, .cached = 100, .slowness = 1 },
		}, same[2];
		struct policy_choice with, without;
		struct policy_opts o;
		double cost;

		policy_defaults(&o);
		policy_preset(&o, (enum policy_rule)r);
		memcpy(same, c, sizeof(same));
		same[0].load_s = 0;
		with = choose(&o, 1000, c, 2);
		without = choose(&o, 1000, same, 2);
		cost = c[0].id == 0 ? c[0].cost : c[1].cost;
		assert_true(cost > 50);
		if ((with.first == without.first) == (r == RULE_COST))
			fail_msg("%s", policy_rule_text((enum policy_rule)r));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_count_by_weight_or_take_time),
		cmocka_unit_test(a_preset_brings_its_authors_weights),
		cmocka_unit_test(cost_trades_tiers),
		cmocka_unit_test(published_rules_do_not_read_load_s),
	};

	return cmocka_run_group_tests_name("policy tiers", tests, NULL, NULL);
}

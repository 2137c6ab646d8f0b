/* test_memory_fault.c - the memories of all rules, each allocation failed once. */
#include "tests/unit/fault.h"
#include "tests/unit/policy/tables.h"

#define MEMORY_HEAD	16u	/* struct policy_memory, which the bound does not count */

/* 70 servers: a table that grows with them must do so, or stay as it is. */
static bool a_life(struct rig *r, enum policy_rule rule)
{
	policy_defaults(&r->o);
	policy_preset(&r->o, rule);
	r->o.rule_max_bytes = 1 << 20;
	rng_init(&r->rng, 1);
	r->m = policy_memory_new(&r->o);
	for (int round = 0; round < 2; round++) {
		for (server_id i = 0; i < 70; i++)
			sends(r, 1, "abcd", i);
	}
	if (r->m != NULL) {
		struct prompt_of q;

		policy_match(r->m, &r->o, prompt_in(&q, 1, "abcde"), 0, r->tokens);
	}
	for (server_id i = 0; i < 70; i++)
		policy_gone(r->m, i);
	policy_memory_free(r->m);
	return r->m != NULL;
}

static void each_allocation_fails_once(void **state)
{
	static struct rig r;

	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		unsigned long k;

		if (!a_life(&r, (enum policy_rule)rule))
			continue;			/* it has none */
		for (k = 1; ; k++) {
			fault_begin(k);
			a_life(&r, (enum policy_rule)rule);
			if (!fault_end())
				break;
		}
		assert_true(k > 2);
	}
}

/* A memory takes at most rule_max_bytes. A table that grows replaces its old blocks by new ones
 * within the same bytes. */
static void each_memory_keeps_to_its_bytes(void **state)
{
	static const size_t most[] = { 64 << 10, 1 << 20 };
	static struct rig r;
	unsigned grown = 0;

	(void)state;
	for (unsigned i = 0; i < 2 * RULE_COUNT; i++) {
		policy_defaults(&r.o);
		policy_preset(&r.o, (enum policy_rule)(i / 2));
		r.o.rule_max_bytes = most[i % 2];
		rng_init(&r.rng, 1);
		fault_begin(0);
		r.m = policy_memory_new(&r.o);
		assert_true((fault.bytes > 0) == (r.m != NULL));
		assert_true(fault.bytes <= r.o.rule_max_bytes + MEMORY_HEAD);
		fault_begin(0);
		for (server_id to = 0; r.m != NULL && to < 70; to++)
			sends(&r, 1, "abcd", to);
		assert_true(fault.bytes <= r.o.rule_max_bytes);
		grown += fault.bytes > 0;
		policy_memory_free(r.m);
	}
	assert_true(grown > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_allocation_fails_once),
		cmocka_unit_test(each_memory_keeps_to_its_bytes),
	};

	return cmocka_run_group_tests_name("policy memory_fault", tests, NULL, NULL);
}

/* test_prefill.c - where a prompt is computed: here, or on a prefill server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/policy/prefill.h"

/* Offers take 1 s; the transfer is 20 ms and 10 ms for each 1000 tokens; stall is 0.5. */
static const struct {
	const char *name;
	uint64_t tokens, cached;
	double compute_s, work_s, answers, backlog_s, factor;
	bool split;
	double price;
} table[] = {
	{ "cheaper there", 10000, 0, 2, 1.5, 0, 0, 1, true, 1.12 },
	{ "cheaper here", 10000, 0, 1.1, 1, 0, 0, 1, false, 1.1 },
	{ "the wait here counts", 10000, 0, 1.1, 1, 0, 0.1, 1, true, 1.12 },
	{ "answers here are delayed", 10000, 0, 1.1, 1, 1, 0, 1, true, 1.12 },
	{ "too few tokens", 10000, 9745, 2, 1, 8, 9, 1, false, 15 },
	{ "just enough", 10000, 9744, 2, 1, 8, 0, 1, true, 1.02256 },
	{ "a slow transfer", 10000, 0, 2, 1.5, 0, 0, 10, false, 2 },
	{ "the longer of both waits", 10000, 0, 2, 1.5, 0, 3, 1, true, 3 },
};

static void the_cheaper_way_is_taken(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct prefill_offer f = { .price_s = 1, .transfer_factor = table[i].factor };
		const struct policy_prompt p = { .tokens = table[i].tokens };
		struct candidate c = { .cached = table[i].cached, .backlog_s = table[i].backlog_s };
		double got = prefill_price(
		    &o, &p, &f, table[i].compute_s, table[i].work_s, table[i].answers, &c);

		assert_true(c.split == (c.there_s > 0 && c.there_s < c.here_s));
		if (c.split != table[i].split || got < table[i].price - 1e-9 || got > table[i].price + 1e-9)
			fail_msg("%s: split %d, %f", table[i].name, c.split, got);
	}
}

static void without_an_offer_nothing_changes(void **state)
{
	const struct policy_prompt p = { .tokens = 10000 };
	struct candidate c = { .backlog_s = 1, .load_s = 0.25 };
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	assert_true(prefill_price(&o, &p, NULL, 2, 1, 100, &c) == 3.25);
	assert_false(c.split);
}

/* Computing here delays answers that have begun, not requests that wait for their first token. */
static void only_begun_answers_are_delayed(void **state)
{
	static const struct { uint32_t load, silent; double extra; bool split; } rows[] = {
		{ 0, 0, 0, false }, { 4, 0, 0, true }, { 4, 4, 0, false }, { 4, 3, 0, false },
		{ 4, 1, 0, true }, { 4, 4, 3, true }, { 1, 4, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct prefill_offer f = { .price_s = 2.5, .transfer_factor = 1 };
		const struct policy_prompt p = { .tokens = 10000, .prefill = &f };
		struct candidate c = { .id = 1, .load = rows[i].load, .silent = rows[i].silent,
			.extra = rows[i].extra, .slowness = 1 };
		struct policy_pressure pressure = { .firsts = true };
		struct policy_choice choice;
		struct policy_opts o;
		struct rng rng;

		policy_defaults(&o);
		rng_init(&rng, 1);
		policy_choose(&o, NULL, &p, &pressure, &rng, &c, 1, &choice);
		assert_int_equal(choice.first, 0);
		if (c.split != rows[i].split)
			fail_msg("row %zu: here %f, there %f", i, c.here_s, c.there_s);
		assert_true(c.split == (c.there_s < c.here_s));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cheaper_way_is_taken),
		cmocka_unit_test(without_an_offer_nothing_changes),
		cmocka_unit_test(only_begun_answers_are_delayed),
	};

	return cmocka_run_group_tests_name("policy prefill", tests, NULL, NULL);
}

/* test_responses.c - a bounded table: the oldest responses go, and a server that left has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/fleet/responses.h"

static uint32_t tokens;

static uint64_t key(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

static void a_response_is_found(void **state)
{
	struct responses *t = responses_new(1u << 16);

	(void)state;
	assert_non_null(t);
	assert_int_equal(responses_find(t, key(1), &tokens), SERVER_NONE);
	responses_put(t, key(1), 3, 0);
	responses_put(t, key(2), 4, 0);
	responses_put(t, 0, 4, 0);
	responses_put(t, key(3), SERVER_NONE, 0);
	assert_int_equal(responses_find(t, key(1), &tokens), 3);
	assert_int_equal(responses_find(t, key(2), &tokens), 4);
	assert_int_equal(responses_find(t, key(3), &tokens), SERVER_NONE);
	assert_int_equal(responses_find(t, 0, &tokens), SERVER_NONE);
	responses_put(t, key(1), 5, 0);
	assert_int_equal(responses_find(t, key(1), &tokens), 5);
	assert_int_equal(responses_known(t), 2);
	responses_server_gone(t, 5);
	assert_int_equal(responses_find(t, key(1), &tokens), SERVER_NONE);
	responses_put(t, key(1), 5, 0);
	assert_int_equal(responses_find(t, key(1), &tokens), 5);
	responses_free(t);
}

/* Of many the newest are known, of few all. */
static void the_oldest_go(void **state)
{
	struct responses *t = responses_new(1u << 16);
	unsigned known = 0, old = 0;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		responses_put(t, key(i), (server_id)(i % 8), 0);
	assert_true(responses_known(t) > 1000 && responses_known(t) * 16 < 1u << 16);
	for (uint64_t i = 0; i < 500; i++)
		known += responses_find(t, key(99999 - i), &tokens) == (99999 - i) % 8;
	for (uint64_t i = 0; i < 50000; i++)
		old += responses_find(t, key(i), &tokens) != SERVER_NONE;
	assert_true(known > 450 && old == 0);
	responses_free(t);
}

/* A later report without a number leaves it; another server begins anew. */
static void it_has_a_number_of_tokens(void **state)
{
	struct responses *t = responses_new(1u << 16);

	(void)state;
	responses_put(t, key(1), 3, 700);
	responses_put(t, key(1), 3, 0);
	assert_int_equal(responses_find(t, key(1), &tokens), 3);
	assert_int_equal(tokens, 700);
	responses_put(t, key(1), 3, 900);
	responses_find(t, key(1), &tokens);
	assert_int_equal(tokens, 900);
	responses_put(t, key(1), 4, 0);
	responses_find(t, key(1), &tokens);
	assert_int_equal(tokens, 0);
	tokens = 5;
	responses_find(t, key(2), &tokens);
	assert_int_equal(tokens, 5);
	responses_free(t);
}

/* A table that is filled as another one is read knows the same, and forgets in the same order. */
static void it_is_read_in_order(void **state)
{
	struct responses *a = responses_new(RESPONSES_LEAST), *b = responses_new(RESPONSES_LEAST);
	struct response_saved some[RESPONSES_READ_LEAST + 1];
	uint32_t from = 0, n, all = 0;

	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		responses_put(a, key(i), (server_id)(i % 8), 0);
	responses_server_gone(a, 3);
	while ((n = responses_read(a, &from, some, sizeof(some) / sizeof(some[0]))) > 0) {
		for (uint32_t i = 0; i < n; i++, all++)
			responses_put(b, some[i].key, some[i].at, 0);
	}
	assert_int_equal(responses_known(b), all);
	for (uint64_t i = 5000; i < 5100; i++) {
		responses_put(a, key(i), 1, 0);
		responses_put(b, key(i), 1, 0);
	}
	for (uint64_t i = 0; i < 5100; i++) {
		server_id at = responses_find(a, key(i), &tokens);

		if (at != SERVER_NONE)
			assert_int_equal(responses_find(b, key(i), &tokens), at);
	}
	responses_free(a);
	responses_free(b);
}

static void without_a_table_none_is_known(void **state)
{
	(void)state;
	assert_null(responses_new(RESPONSES_LEAST - 1));
	responses_put(NULL, 1, 1, 0);
	responses_server_gone(NULL, 1);
	assert_int_equal(responses_find(NULL, 1, &tokens), SERVER_NONE);
	assert_int_equal(responses_known(NULL), 0);
	responses_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_response_is_found),
		cmocka_unit_test(the_oldest_go),
		cmocka_unit_test(it_has_a_number_of_tokens),
		cmocka_unit_test(it_is_read_in_order),
		cmocka_unit_test(without_a_table_none_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

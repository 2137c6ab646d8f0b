/* test_responses.c - a bounded table: the oldest responses go, and a server that left has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/fleet/responses.h"

static uint64_t key(uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ull;
}

static void a_response_is_found(void **state)
{
	struct responses *t = responses_new(1u << 16);

	(void)state;
	assert_non_null(t);
	assert_int_equal(responses_find(t, key(1)), SERVER_NONE);
	responses_put(t, key(1), 3);
	responses_put(t, key(2), 4);
	responses_put(t, 0, 4);
	responses_put(t, key(3), SERVER_NONE);
	assert_int_equal(responses_find(t, key(1)), 3);
	assert_int_equal(responses_find(t, key(2)), 4);
	assert_int_equal(responses_find(t, key(3)), SERVER_NONE);
	assert_int_equal(responses_find(t, 0), SERVER_NONE);
	responses_put(t, key(1), 5);
	assert_int_equal(responses_find(t, key(1)), 5);
	assert_int_equal(responses_known(t), 2);
	responses_server_gone(t, 5);
	assert_int_equal(responses_find(t, key(1)), SERVER_NONE);
	responses_put(t, key(1), 5);
	assert_int_equal(responses_find(t, key(1)), 5);
	responses_free(t);
}

/* Of many the newest are known, of few all. */
static void the_oldest_go(void **state)
{
	struct responses *t = responses_new(1u << 16);
	unsigned known = 0, old = 0;

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		responses_put(t, key(i), (server_id)(i % 8));
	assert_true(responses_known(t) > 1000 && responses_known(t) * 16 < 1u << 16);
	for (uint64_t i = 0; i < 500; i++)
		known += responses_find(t, key(99999 - i)) == (99999 - i) % 8;
	for (uint64_t i = 0; i < 50000; i++)
		old += responses_find(t, key(i)) != SERVER_NONE;
	assert_true(known > 450 && old == 0);
	responses_free(t);
}

static void without_a_table_none_is_known(void **state)
{
	(void)state;
	assert_null(responses_new(RESPONSES_LEAST - 1));
	responses_put(NULL, 1, 1);
	responses_server_gone(NULL, 1);
	assert_int_equal(responses_find(NULL, 1), SERVER_NONE);
	assert_int_equal(responses_known(NULL), 0);
	responses_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_response_is_found),
		cmocka_unit_test(the_oldest_go),
		cmocka_unit_test(without_a_table_none_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

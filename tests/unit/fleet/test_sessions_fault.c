/* test_sessions_fault.c - each allocation of the tables fails once: there is no table then, nothing
 * leaks, and all functions take that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/fleet/responses.h"
#include "agent/fleet/sessions.h"
#include "tests/unit/fault.h"

static void story(void)
{
	static const uint32_t depth[] = { 16 };
	static const uint64_t mark[] = { 1 };
	const struct session_turn u = { .key = 7, .tenant = 1, .kind = 5, .tokens = 20000,
		.cut = true, .n = 1, .depth = depth, .mark = mark };
	struct sessions *t = sessions_new(1u << 20);
	struct responses *r = responses_new(1u << 16);
	struct session_saved saved;
	struct session_view v;
	uint32_t from = 0;

	sessions_sent(t, &u, 3, false, 1000, 100);
	sessions_ended(t, 7, &(struct session_end){ .at = 3 }, 200);
	sessions_placed(t, 7, 3, &(struct session_place){ 1, 1, 1 });
	sessions_let_go(t, 7, &(struct session_place){ 1, 1, 1 }, 300);
	sessions_look(t, &u, &v);
	assert_int_equal(v.known, t != NULL);
	assert_int_equal(sessions_read(t, &from, &saved, 1), t != NULL);
	responses_put(r, 9, 4, 0);
	assert_int_equal(responses_find(r, 9, &(uint32_t){ 0 }), r != NULL ? 4 : SERVER_NONE);
	sessions_free(t);
	responses_free(r);
}

static void each_allocation_fails_once(void **state)
{
	unsigned long k;

	(void)state;
	for (k = 1; ; k++) {
		fault_begin(k);
		story();
		if (!fault_end())
			break;
	}
	assert_true(k > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_allocation_fails_once) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_ask.c - what would be chosen is what is chosen then, and asking leaves no trace. */
#include "agent/route/decisions.h"
#include "tests/unit/route/world.h"

static struct world w;

static int setup(void **state)
{
	world_options(&w);
	w.o.decisions_keep = 64;
	world_open(&w);
	return 0;
}

static int teardown(void **state)
{
	world_end(&w);
	return 0;
}

static struct decision asked(const char *turns, uint64_t space[2])
{
	struct route_scratch *s = route_scratch_new(w.r);
	struct route_request q = w.q;
	struct decision x;

	assert_non_null(s);
	chat(&w.body, "", turns, ",\"model\":\"m\"");
	q.body = span_of(w.body.p, w.body.n);
	q.seq = -1;
	route_ask(w.r, s, &q, w.now, &x, space);
	route_scratch_free(s);
	return x;
}

static void test_same_choice_no_trace(void **state)
{
	struct route_stats before, after;
	uint64_t space[2] = { 0 };
	struct decision x, y;
	char uid[8];

	for (unsigned i = 0; i < 6; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		ask(&w, uid, i % 2 ? "ab" : "xy");
		served(&w, uid);
		w.now += 10;
	}
	route_stats(w.r, &before);
	x = asked("abc", space);
	y = asked("abc", space);
	route_stats(w.r, &after);
	assert_int_equal(after.index.matches, before.index.matches + 2);
	after.index.matches = before.index.matches;
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(decisions_read(route_decisions(w.r), INT64_MAX, &y, 1), 1);
	assert_int_equal(y.number, 6);
	assert_true(x.chosen.id != SERVER_NONE && x.n_kept == 4 && x.matched > 0);
	assert_int_equal(x.why, WHY_CACHED);
	assert_true(space[0] != 0);
	ask(&w, "7", "abc");
	assert_true(decisions_find(route_decisions(w.r), route_uid_hash(w.r, SPAN("7")), &y));
	assert_int_equal(y.chosen.id, x.chosen.id);
	assert_int_equal(y.matched, x.matched);
	assert_int_equal(y.tokens, x.tokens);
	assert_true(y.cost_s == x.cost_s);
}

static void test_nothing_known(void **state)
{
	uint64_t space[2] = { 0 };
	struct decision x = asked("a", space);

	assert_int_equal(x.why, WHY_NOLOAD);	/* no request has named the pool */
	w.q.body = SPAN("");
	x = asked("", space);
	assert_true(x.why == WHY_NOPROMPT || x.why == WHY_NOLOAD);
}

static void test_clear_server(void **state)
{
	uint64_t space[2];
	char name[SERVER_NAME_MAX + 1];
	struct decision x;

	ask(&w, "1", "ab");
	served(&w, "1");
	x = asked("ab", space);
	assert_true(x.matched > 0);
	decisions_name_of(route_decisions(w.r), x.chosen, name, sizeof(name));
	assert_false(route_clear_server(w.r, SPAN("pool"), SPAN("other")));
	assert_false(route_clear_server(w.r, SPAN("other"), span_str(name)));
	assert_true(route_clear_server(w.r, SPAN("pool"), span_str(name)));
	while (route_work(w.r))
		;
	assert_int_equal(asked("ab", space).matched, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_same_choice_no_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_known, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clear_server, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_prefill_fault.c - each allocation of a split request fails once: its work always counts at
 * the server that is to compute it, and nothing of it stays. */
#include "tests/unit/fault.h"
#include "tests/unit/route/prefill.h"

static const struct ledger_entry *entry_of(struct world *w, const char *uid)
{
	return ledger_find(&w->r->ledger, route_uid(w->r, span_str(uid)));
}

static bool work_at(struct world *w, struct span name)
{
	const struct server *s = pool_find(pool_named(w, "pool"), name, 0);

	return s != NULL && s->unanswered_s > 0;
}

static void work_counts_where_it_is_done(void **state)
{
	bool alone = false, unheard = false;
	unsigned long k;

	(void)state;
	for (k = 1; ; k++) {
		struct world w;
		char at[SERVER_NAME_MAX + 1] = "";
		bool split, entered, met;

		start(&w);
		row(&w, "p1", HASTATS_UP, "10.0.0.7:8000");
		ask(&w, "u0", "Z");
		served(&w, "u0");
		fault_begin(k);
		ask(&w, "u1", LONG);
		met = fault_end();
		memcpy(at, w.a.server.p, w.a.server.n);
		split = w.a.prefill.n > 0;
		entered = entry_of(&w, "u1") != NULL;
		if (split != (in_pre(&w, "p1")->unanswered_s > 0))
			fail_msg("allocation %lu: split %d, and no work there", k, split);
		if (split && work_at(&w, w.a.server))
			fail_msg("allocation %lu: counted twice", k);
		if (!split && entered && w.a.tokens > 0 && !work_at(&w, w.a.server))
			fail_msg("allocation %lu: counted nowhere", k);
		alone |= !split && entered;
		unheard |= split && !entered;
		w.now += 500;
		tell_done(&w, "u1", at, 200, "--", 500);
		assert_int_equal(in_pre(&w, "p1")->n_open, 0);
		assert_true(in_pre(&w, "p1")->unanswered_s == 0);
		assert_int_equal(w.r->ledger.n, 0);
		end(&w);
		if (!met)
			break;
	}
	assert_true(k > 3);
	assert_true(alone);
	assert_true(unheard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_counts_where_it_is_done),
	};

	return cmocka_run_group_tests_name("route prefill, without memory", tests, NULL, NULL);
}

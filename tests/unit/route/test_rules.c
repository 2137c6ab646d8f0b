/* test_rules.c - the router's inputs to a rule for a request: its session, its user, the length of
 * its last turn. */
#include "tests/unit/route/world.h"

static void start_with(struct world *w, enum policy_rule rule, const char *load)
{
	world_options(w);
	policy_preset(&w->o.pool_default.policy, rule);
	world_open(w);
	w->q.load = span_str(load);
}

/* The number of the server that gets it. */
static int goes_to(struct world *w, const char *session, const char *user, const char *turns)
{
	static unsigned n;
	char uid[16], before[64];

	snprintf(uid, sizeof(uid), "u%u", n++);
	snprintf(before, sizeof(before), "\"%s\":\"%s\",", user[0] ? "user" : "x", user);
	w->q.session = span_str(session);
	chat(&w->body, before, turns, ",\"model\":\"m\"");
	send(w, uid);
	assert_int_equal(w->a.server.n, 2);
	served(w, uid);
	return w->a.server.p[1] - '0';
}

/* The session is the argument, else the body's user, else the whole prompt. */
static void sessions_reach_their_rules(void **state)
{
	static const enum policy_rule rules[] = { RULE_RENDEZVOUS, RULE_STICKY_LEAST_LOADED };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		bool session_counts = false, user_counts = false;
		struct world w;
		int a, b;

		start_with(&w, rules[i], IDLE4);
		a = goes_to(&w, "ann", "", "a");
		b = goes_to(&w, "", "bob", "b");
		for (char c = 'c'; c <= 'm'; c++) {
			char one[2] = { c, '\0' };

			assert_int_equal(goes_to(&w, "ann", "bob", one), a);
			assert_why(&w, WHY_STICKY);
			assert_int_equal(goes_to(&w, "", "bob", one), b);
			session_counts = session_counts || goes_to(&w, one, "", "a") != a;
			user_counts = user_counts || goes_to(&w, "", one, "b") != b;
		}
		assert_true(session_counts && user_counts);
		world_end(&w);
	}
}

/* The client chooses the user, which must not find or move another tenant's session. */
static void tenants_do_not_share_sessions(void **state)
{
	static const char *const named[][2] = { { "ann", "" }, { "", "bob" } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const char *session = named[i][0], *user = named[i][1];
		struct world w;
		int a;

		start_with(&w, RULE_STICKY_LEAST_LOADED, IDLE4);
		w.q.tenant = SPAN("acme");
		a = goes_to(&w, session, user, "a");
		assert_int_equal(goes_to(&w, session, user, "b"), a);
		assert_why(&w, WHY_STICKY);
		w.q.tenant = SPAN("umbrella");
		assert_int_not_equal(goes_to(&w, session, user, "b"), a);	/* where the fewest are */
		assert_why(&w, WHY_COLD);
		w.q.tenant = SPAN("acme");
		assert_int_equal(goes_to(&w, session, user, "c"), a);
		assert_why(&w, WHY_STICKY);
		world_end(&w);

		start_with(&w, RULE_STICKY_LEAST_LOADED, IDLE4);
		w.r->opts.pool_default.isolate_tenants = false;
		w.q.tenant = SPAN("acme");
		a = goes_to(&w, session, user, "a");
		w.q.tenant = SPAN("umbrella");
		assert_int_equal(goes_to(&w, session, user, "b"), a);
		world_end(&w);
	}
}

static void the_last_turn_reaches_its_rule(void **state)
{
	struct world w;

	(void)state;
	start_with(&w, RULE_SMETRIC, "lb1/1;s1=1,0,0,1");
	assert_int_equal(goes_to(&w, "", "", "abc"), 1);
	w.q.load = SPAN("lb1/1;s1=1,9,0,1;s2=1,1,0,1;s3=1,1,0,1");
	assert_int_equal(goes_to(&w, "", "", "abcde"), 1);		/* it has all of the last turn */
	assert_int_not_equal(goes_to(&w, "", "", "abzzzzzde"), 1);	/* and here too little */
	assert_why(&w, WHY_COLD);
	assert_int_not_equal(goes_to(&w, "", "", "q"), 1);		/* a first turn */
	world_end(&w);
}

/* A server that is in no load string answers at once: no known server looks fast from that. */
static void unknown_servers_teach_no_rule(void **state)
{
	static uint32_t rates[SERVERS_MAX];
	struct world w;
	char uid[16];

	(void)state;
	start_with(&w, RULE_SMETRIC, "lb1/1;s1=1,0,0,1");
	for (int i = 0; i < 40; i++) {
		char turns[] = { (char)('a' + i % 26), 'x', 'y', '\0' };
		struct pool *p;

		snprintf(uid, sizeof(uid), "u%d", i);
		ask(&w, uid, turns);
		w.now += 1;
		tell_first(&w, uid, i < 20 ? "s9" : "s1", 200, "text/event-stream");
		tell_done(&w, uid, i < 20 ? "s9" : "s1", 200, "--", 30);
		p = w.r->fleet.pools[0];
		assert_true(policy_match(p->route->memory, &p->opts->policy,
		    &(struct policy_prompt){ 0 }, w.now, rates));
		if (i < 20)
			assert_int_equal(rates[p->servers[0]->id], 0);
	}
	assert_true(rates[w.r->fleet.pools[0]->servers[0]->id] > 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sessions_reach_their_rules),
		cmocka_unit_test(tenants_do_not_share_sessions),
		cmocka_unit_test(the_last_turn_reaches_its_rule),
		cmocka_unit_test(unknown_servers_teach_no_rule),
	};

	return cmocka_run_group_tests_name("route rules", tests, NULL, NULL);
}

/* test_sticky.c - sessions: where they begin, that they stay, and when they are over. */
#include "agent/policy/rules_in.h"
#include "tests/unit/policy/tables.h"
#include "tests/lib/policy/guarded.h"

static struct policy_prompt of_session(uint64_t session)
{
	return (struct policy_prompt){ .session = session, .tokens = 10 };
}

/* As the router does: read the memory, choose, and report the result. */
static struct policy_choice request(
    struct rig *r, const struct policy_prompt *p, const struct seat *row, size_t n)
{
	struct policy_choice got;

	row_of(row, n, r->c);
	policy_match(r->m, &r->o, p, r->now, r->tokens);
	for (size_t i = 0; i < n; i++)
		r->c[i].own = r->tokens[r->c[i].id];
	policy_choose(&r->o, r->m, p, &(struct policy_pressure){ 0 }, &r->rng, r->c, n, &got);
	policy_sent(r->m, &r->o, p, r->c[got.first].id, r->now);
	return got;
}

static void new_sessions_go_where_the_fewest_are(void **state)
{
	const struct seat loads[3] = { { 9 }, { 0 }, { 4 } };	/* loads do not count */
	unsigned n[3] = { 0 };
	struct rig r;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	for (uint64_t s = 1; s <= 30; s++) {
		struct policy_prompt p = of_session(scatter(s));
		struct policy_choice got = request(&r, &p, loads, 3);
		unsigned fewest = n[0] < n[1] ? n[0] : n[1];

		fewest = n[2] < fewest ? n[2] : fewest;
		assert_int_equal(got.why, WHY_COLD);
		assert_int_equal(n[got.first], fewest);
		assert_true(n[got.second] <= n[3 - got.first - got.second]);
		n[got.first]++;
	}
	assert_true(n[0] == 10 && n[1] == 10 && n[2] == 10);
	rig_end(&r);
}

static void equals_go_by_hash(void **state)
{
	const struct seat idle[3] = { { 0 } };
	struct rig r;

	(void)state;
	for (uint64_t s = 1; s <= 50; s++) {
		struct policy_prompt p = of_session(scatter(s));
		uint64_t least = UINT64_MAX;
		struct policy_choice got;
		int best = -1;

		rig_start(&r, RULE_STICKY_LEAST_LOADED);
		got = request(&r, &p, idle, 3);
		for (int i = 0; i < 3; i++) {
			if (rendezvous_far(p.session, &r.c[i]) < least) {
				least = rendezvous_far(p.session, &r.c[i]);
				best = i;
			}
		}
		assert_int_equal(got.first, best);
		rig_end(&r);
	}
}

static void a_session_stays(void **state)
{
	const struct seat loads[3] = { { 0 }, { 0 }, { 0 } }, busy[3] = { { 500 }, { 500 }, { 500 } };
	struct policy_prompt p = of_session(77), user = { .user = 77 },
			     other = { .user = 77, .session = 5 };
	struct policy_choice got;
	struct rig r;
	int home;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	home = request(&r, &p, loads, 3).first;
	for (uint64_t s = 100; s < 104; s++) {		/* others fill the server: it stays all the same */
		struct policy_prompt q = of_session(scatter(s));

		request(&r, &q, loads, 3);
		got = request(&r, &p, busy, 3);
		assert_true(got.first == home && got.why == WHY_STICKY && got.second != home);
	}
	/* the user in the body is the session if there is no argument */
	got = request(&r, &user, loads, 3);
	assert_int_equal(got.why, WHY_STICKY);
	got = request(&r, &other, loads, 3);
	assert_int_equal(got.why, WHY_COLD);
	rig_end(&r);
}

static void a_session_moves_for_good_when_its_server_is_down(void **state)
{
	struct policy_prompt p = of_session(77);
	struct policy_choice got;
	struct candidate left;
	struct rig r;
	int home, next;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	home = request(&r, &p, (struct seat[3]){ { 0 } }, 3).first;
	row_of((struct seat[3]){ { 0 } }, 3, r.c);
	policy_match(r.m, &r.o, &p, r.now, r.tokens);
	left = r.c[(home + 1) % 3];
	left.own = r.tokens[left.id];
	policy_choose(&r.o, r.m, &p, &(struct policy_pressure){ 0 }, &r.rng, &left, 1, &got);
	assert_int_equal(got.why, WHY_COLD);
	policy_sent(r.m, &r.o, &p, left.id, r.now);
	next = left.id;
	got = request(&r, &p, (struct seat[3]){ { 0 } }, 3);
	assert_true(got.first == next && got.why == WHY_STICKY);
	policy_match(r.m, &r.o, &(struct policy_prompt){ 0 }, r.now, r.tokens);
	for (int i = 0; i < 3; i++)
		assert_int_equal(r.tokens[i], i == next);	/* counted at that server only */
	rig_end(&r);
}

static void what_has_no_session_is_not_remembered(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	for (uint64_t i = 1; i <= 50; i++) {
		struct policy_prompt p = { .body = scatter(i) };

		assert_int_equal(request(&r, &p, (struct seat[3]){ { 0 } }, 3).why, WHY_COLD);
	}
	policy_match(r.m, &r.o, &(struct policy_prompt){ 0 }, r.now, r.tokens);
	assert_true(r.tokens[0] == 0 && r.tokens[1] == 0 && r.tokens[2] == 0);
	rig_end(&r);
}

/* Sessions 1 .. n at server 0, one a second. */
static void fill(struct rig *r, uint64_t n)
{
	for (uint64_t s = 1; s <= n; s++) {
		struct policy_prompt p = of_session(s);

		policy_sent(r->m, &r->o, &p, 0, r->now);
		r->now += 1000;
	}
}

static uint32_t at_server(struct rig *r, uint64_t session)
{
	struct policy_prompt p = of_session(session);

	policy_match(r->m, &r->o, &p, r->now, r->tokens);
	return r->tokens[0];
}

#define HOME	(1u << 31)

static void sessions_end_after_their_ttl(void **state)
{
	struct policy_prompt again = of_session(1);
	struct rig r;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	r.o.session_ttl_ms = 10000;
	fill(&r, 5);						/* at 0, 1, 2, 3, 4 s; now 5 */
	assert_int_equal(at_server(&r, 1), HOME | 5);
	policy_sent(r.m, &r.o, &again, 0, r.now);		/* the first is used again */
	r.now += 5999;
	assert_int_equal(at_server(&r, 2), HOME | 5);
	r.now += 1;						/* 11: the second was used at 1 */
	assert_int_equal(at_server(&r, 2), 4);
	assert_int_equal(at_server(&r, 1), HOME | 4);
	r.now += 4000;
	assert_int_equal(at_server(&r, 1), 0);
	rig_end(&r);
}

/* Two threads: the one that read its clock first came second. */
static void a_clock_that_lags_ends_no_session(void **state)
{
	struct rig r;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	fill(&r, 1);
	r.now -= 1001;
	assert_int_equal(at_server(&r, 1), HOME | 1);
	r.now += 1001;
	assert_int_equal(at_server(&r, 1), HOME | 1);
	rig_end(&r);
}

static void a_full_table_forgets_the_oldest(void **state)
{
	struct rig r;
	uint32_t kept;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	policy_memory_free(r.m);
	r.o.rule_max_bytes = 64 << 10;
	r.o.session_ttl_ms = 1000000000;
	r.m = policy_memory_new(&r.o);
	fill(&r, 5000);
	kept = at_server(&r, 0);
	assert_in_range(kept, 1400, 1700);			/* 36 bytes each */
	assert_int_equal(at_server(&r, 5000), HOME | kept);
	assert_int_equal(at_server(&r, 5001 - kept), HOME | kept);
	assert_int_equal(at_server(&r, 5000 - kept), kept);
	rig_end(&r);
}

static void a_server_that_is_gone_takes_its_sessions_along(void **state)
{
	struct policy_prompt p = of_session(3);
	struct rig r;

	(void)state;
	rig_start(&r, RULE_STICKY_LEAST_LOADED);
	fill(&r, 100);
	policy_gone(r.m, 0);
	for (uint64_t s = 0; s <= 100; s++)
		assert_int_equal(at_server(&r, s), 0);
	policy_sent(r.m, &r.o, &p, 0, r.now);			/* another server with that id */
	assert_int_equal(at_server(&r, 3), HOME | 1);
	assert_int_equal(at_server(&r, 4), 1);
	r.now += r.o.session_ttl_ms;
	at_server(&r, 3);					/* one request ends only so many */
	for (int i = 0; i < 10; i++)
		assert_int_equal(at_server(&r, 3), 0);		/* ended once, never below zero */
	rig_end(&r);
}

static void defaults_are_the_authors(void **state)
{
	struct policy_opts o;

	(void)state;
	policy_defaults(&o);
	o.session_ttl_ms = 1;
	policy_preset(&o, RULE_STICKY_LEAST_LOADED);
	assert_int_equal(o.session_ttl_ms, 2 * 3600 * 1000);
	assert_false(policy_rule_guarded(RULE_STICKY_LEAST_LOADED));
	assert_true(policy_wants_body(RULE_STICKY_LEAST_LOADED));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_sessions_go_where_the_fewest_are),
		cmocka_unit_test(equals_go_by_hash),
		cmocka_unit_test(a_session_stays),
		cmocka_unit_test(a_session_moves_for_good_when_its_server_is_down),
		cmocka_unit_test(what_has_no_session_is_not_remembered),
		cmocka_unit_test(sessions_end_after_their_ttl),
		cmocka_unit_test(a_clock_that_lags_ends_no_session),
		cmocka_unit_test(a_full_table_forgets_the_oldest),
		cmocka_unit_test(a_server_that_is_gone_takes_its_sessions_along),
		cmocka_unit_test(defaults_are_the_authors),
	};

	return cmocka_run_group_tests_name("policy sticky", tests, NULL, NULL);
}

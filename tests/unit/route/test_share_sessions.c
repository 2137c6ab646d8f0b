/* test_share_sessions.c - sessions and stored responses of one agent are those of its siblings. */
#include "tests/unit/route/fleet.h"

static struct fleet_world f;
#define A	(&f.a[0].w)
#define B	(&f.a[1].w)

#define S1	"lb1/1;s1=1,0,0,1"

static void over(struct world *w, const char *uid)
{
	char srv[SERVER_NAME_MAX + 1];

	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	tell_done(w, uid, srv, 200, "--", 100);
	pass(&f, 1000);
}

/* Send a turn of <session>, of which the first part is visible and <whole> bytes exist. */
static void cut_turn(struct world *w, const char *session, int64_t whole)
{
	static unsigned n;
	char uid[16];

	snprintf(uid, sizeof(uid), "c%u", n++);
	chat(&w->body, "\"model\":\"m\",", "abc", "");
	w->q.session = span_str(session);
	w->q.visible = (int64_t)w->body.n - 40;
	w->q.whole = whole;
	send_body(w, uid, span_of(w->body.p, w->body.n - 40));
	over(w, uid);
}

static void talk(struct world *w, const char *session, const char *turns)
{
	static unsigned n;
	char uid[16];

	snprintf(uid, sizeof(uid), "u%u", n++);
	w->q.session = span_str(session);
	w->q.visible = w->q.whole = -1;
	ask(w, uid, turns);
	over(w, uid);
}

/* All servers hold the visible part, and the turns come to two agents in no order. */
static void turns_come_to_any_agent(void **state)
{
	static const char *const only[] = { S1, "lb1/1;s2=1,0,0,1", "lb1/1;s3=1,0,0,1",
		"lb1/1;s4=1,0,0,1" };
	static const char *const name[] = { "one", "two", "three", "four", "five", "six" };
	char at[6][16];

	(void)state;
	fleet_new(&f, 2);
	for (unsigned i = 0; i < 4; i++) {
		A->q.load = span_str(only[i]);
		cut_turn(A, "", 0);
	}
	A->q.load = SPAN(IDLE4);
	for (unsigned turn = 0; turn < 6; turn++) {
		for (unsigned i = 0; i < 6; i++) {
			struct world *w = (turn * 5 + i) % 3 ? A : B;

			cut_turn(w, name[i], 200000 + 4000 * turn);
			if (turn > 0)
				assert_span(w->a.server, at[i]);
			snprintf(at[i], sizeof(at[i]), SPAN_FMT, SPAN_ARG(w->a.server));
		}
	}
	assert_int_equal(stats(A).sessions.sessions, 6);
	assert_int_equal(stats(B).sessions.sessions, 6);
	assert_int_equal(stats(A).sessions.mistrusted + stats(B).sessions.mistrusted, 0);
	for (unsigned i = 1; i <= 4; i++) {
		double a, b;
		char s[8];

		snprintf(s, sizeof(s), "s%u", i);
		a = sessions_promise(A->r->sessions, server(A, s).v.id);
		b = sessions_promise(B->r->sessions, server(B, s).v.id);
		if (!(a > 0 && b > 0.8 * a && a > 0.8 * b))	/* rates of servers are learned by each */
			fail_msg("%s: %g and %g", s, a, b);
	}
	fleet_end(&f);
}

static void all_let_an_old_path_go(void **state)
{
	char text[27] = "abcdefghijklmnopqrstuvwxyz";

	(void)state;
	fleet_new(&f, 2);
	A->q.load = B->q.load = SPAN(S1);
	for (int n = 12; n <= 20; n++) {
		char now[27];

		snprintf(now, sizeof(now), "%.*s", n, text);
		talk(n % 2 ? A : B, "one", now);
	}
	talk(A, "two", "abcXY");
	talk(B, "one", "abZ");
	assert_int_equal(stats(A).sessions.compacted, 1);
	assert_int_equal(stats(B).sessions.compacted, 1);
	for (unsigned i = 0; i < 2; i++) {
		struct world *w = &f.a[i].w;

		assert_true(index_server_room(w->r->index, server(w, "s1").v.id) <
		    7 * TURN_PAGES * 16 * ROOM_OF_TOKEN);
	}
	work_for(&f, 20000, 100);
	assert_int_equal(pairs_differing(&f.a[0], &f.a[1], true), 0);
	fleet_end(&f);
}

static void a_stored_response_is_known_to_all(void **state)
{
	struct fact t;

	(void)state;
	fleet_new(&f, 2);
	for (unsigned i = 0; i < 2; i++)
		f.a[i].w.q.path = SPAN("/v1/responses");
	A->q.load = SPAN("lb1/1;s3=1,0,0,1");
	A->body.n = B->body.n = 0;
	say(&A->body, "{\"model\":\"m\",\"input\":\"hello\"}");
	send(A, "r1");
	pass(&f, 10);
	fact_init(&t, FACT_FIRST);
	t.uid = SPAN("r1");
	t.server = SPAN("s3");
	t.status = 200;
	t.type = SPAN(STREAM);
	t.response = SPAN("resp_1");
	route_learn(A->r, &t, f.now);
	pass(&f, 10);
	B->q.load = SPAN(IDLE4);
	say(&B->body, "{\"model\":\"m\",\"input\":\"hi\",\"previous_response_id\":\"resp_1\"}");
	send(B, "r2");
	assert_span(B->a.server, "s3");
	assert_int_equal(stats(B).responses_followed, 1);
	fleet_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_come_to_any_agent),
		cmocka_unit_test(all_let_an_old_path_go),
		cmocka_unit_test(a_stored_response_is_known_to_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

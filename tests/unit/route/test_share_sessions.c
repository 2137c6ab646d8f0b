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

static void respond(struct world *w, const char *uid)
{
	w->q.path = SPAN("/v1/responses");
	w->q.load = SPAN("lb1/1;s3=1,0,0,1");
	w->body.n = 0;
	say(&w->body, "{\"model\":\"m\",\"input\":\"hello\"}");
	send(w, uid);
	w->q.load = SPAN(IDLE4);
}

static void assert_followed(struct world *w, const char *uid)
{
	w->q.path = SPAN("/v1/responses");
	w->body.n = 0;
	say(&w->body, "{\"model\":\"m\",\"input\":\"hi\",\"previous_response_id\":\"resp_1\"}");
	send(w, uid);
	assert_span(w->a.server, "s3");
	assert_int_equal(stats(w).responses_followed, 1);
}

static struct fact stored_line(const char *uid)
{
	struct fact t = served_fact(uid);

	t.server = SPAN("s3");
	t.response = SPAN("resp_1");
	t.line = true;
	return t;
}

/* The log line comes to B alone: after the PLACED, before it, or after a first byte. */
static void a_line_teaches_an_agent_that_did_not_decide(void **state)
{
	(void)state;
	for (unsigned how = 0; how < 3; how++) {
		struct fact t = stored_line("r1");

		fleet_new(&f, 2);
		B->q.load = SPAN(IDLE4);
		ask(B, "other", "x");
		pass(&f, 10);
		f.delay_least = f.delay_most = 10;
		respond(A, "r1");
		if (how != 1)
			pass(&f, 20);
		if (how == 2) {
			struct fact first = t;

			first.kind = FACT_FIRST;
			first.line = false;
			first.response = (struct span){ 0 };
			route_learn(B->r, &first, f.now);
		}
		route_learn(B->r, &t, f.now);
		pass(&f, 100);
		assert_followed(B, "r2");
		fleet_end(&f);
	}
}

/* A guess that may be far too low is told as one: to siblings, too, it proves no summary. */
static void a_rough_guess_is_told(void **state)
{
	(void)state;
	fleet_new(&f, 2);
	A->q.load = B->q.load = SPAN(S1);
	for (unsigned i = 0; i < 3; i++)
		cut_turn(A, "one", 200000 + 4000 * i);
	for (unsigned i = 0; i < 2; i++)	/* the size of the body is not known */
		cut_turn(A, "one", 0);
	for (unsigned i = 0; i < 2; i++) {
		struct sessions *t = f.a[i].w.r->sessions;
		struct session_saved s;
		uint32_t from = 0;
		bool longer = false;

		assert_int_equal(sessions_read(t, &from, &s, 1), 1);
		for (unsigned k = 0; k < SESSION_TAILS; k++)
			longer |= s.tail[k].server != SERVER_NONE && s.tail[k].tokens > 40000;
		assert_true(longer);
	}
	fleet_end(&f);
}

static uint64_t output(struct world *w)
{
	return index_server_output(w->r->index, server(w, "s1").v.id);
}

/* Each agent counts the hidden part of a session once, whoever decides its turns; what the engine
 * counted is taken back as it was counted. */
static void all_count_hidden_tokens_once(void **state)
{
	struct fleet_world *w = &f;

	(void)state;
	for (unsigned with_count = 0; with_count < 2; with_count++) {
		fleet_new(w, 2);
		A->q.load = B->q.load = SPAN(S1);
		for (unsigned turn = 0; turn < 6; turn++) {
			struct world *at = turn % 3 ? A : B;
			struct fact t;
			char uid[16];

			snprintf(uid, sizeof(uid), "h%u", turn);
			t = served_fact(uid);
			chat(&at->body, "\"model\":\"m\",", "abc", "");
			at->q.session = SPAN("one");
			at->q.visible = (int64_t)at->body.n - 40;
			at->q.whole = 200000 + 4000 * turn;
			send_body(at, uid, span_of(at->body.p, at->body.n - 40));
			pass(w, 100);
			t.server = SPAN("s1");
			t.prompt_tokens = with_count ? 6000 : -1;
			route_learn(at->r, &t, w->now);
			pass(w, 1000);
			for (unsigned i = 0; i < 2; i++) {
				uint64_t tokens = output(&w->a[i].w) / ROOM_OF_TOKEN;

				if (with_count)
					assert_in_range(tokens, 4000, 6000);
				else
					assert_in_range(tokens, 40000, 60000);
			}
		}
		fleet_end(w);
	}
}

/* The answer is whole when it is reported, and its log line comes once the next turn was asked, or
 * was answered. */
static void a_late_line_counts_no_hidden_tokens_twice(void **state)
{
	char uid[9][8] = { "" };

	(void)state;
	for (unsigned answered = 0; answered < 2; answered++) {
		fleet_new(&f, 2);
		A->q.load = SPAN(S1);
		for (unsigned turn = 0; turn <= 8; turn++) {
			struct fact line = served_fact(turn > 0 ? uid[turn - 1] : "none");

			snprintf(uid[turn], sizeof(uid[turn]), "l%u", turn);
			chat(&A->body, "\"model\":\"m\",", "abc", "");
			A->q.session = SPAN("one");
			A->q.visible = (int64_t)A->body.n - 40;
			A->q.whole = 200000 + 4000 * turn;
			send_body(A, uid[turn], span_of(A->body.p, A->body.n - 40));
			pass(&f, 100);
			if (answered)
				tell_first(A, uid[turn], "s1", 200, "application/json");
			pass(&f, 100);
			route_learn(A->r, &line, f.now);
			if (!answered)
				tell_first(A, uid[turn], "s1", 200, "application/json");
			pass(&f, 1000);
		}
		tell_done(A, uid[8], "s1", 200, "--", 20);
		pass(&f, 100);
		for (unsigned i = 0; i < 2; i++)
			assert_in_range(output(&f.a[i].w) / ROOM_OF_TOKEN, 40000, 60000);
		fleet_end(&f);
	}
}

/* A turn comes in two slices, or HAProxy asks twice for it, and
 * tells another length: a first turn and later ones. */
static void hidden_tokens_of_a_turn_decided_anew(void **state)
{
	(void)state;
	for (unsigned slices = 0; slices < 2; slices++) {
		fleet_new(&f, 2);
		A->q.load = SPAN(S1);
		for (unsigned turn = 0; turn < 5; turn++) {
			struct route_request q;
			uint64_t a, b;
			char uid[8];
			size_t n;

			snprintf(uid, sizeof(uid), "d%u", turn);
			chat(&A->body, "\"model\":\"m\",", "abcdefgh", "");
			n = A->body.n - 40;
			A->q.session = SPAN("one");
			q = A->q;
			q.uid = span_str(uid);
			q.visible = (int64_t)n;
			for (unsigned k = 0; k < 2; k++) {
				q.seq = slices ? (int64_t)k : -1;
				q.whole = 200000 + 4000 * turn - (slices || k ? 0 : 8000);
				q.body = span_of(A->body.p, n);
				if (slices)
					q.body = k == 0 ? span_of(A->body.p, n / 4 * 3) :
					    span_of(A->body.p + n / 4 * 3, n - n / 4 * 3);
				route_decide(A->r, A->s, &q, A->now, &A->a);
				assert_int_equal(A->a.more, slices && k == 0);
				pass(&f, 100);
			}
			over(A, uid);
			a = output(A) / ROOM_OF_TOKEN;
			b = output(B) / ROOM_OF_TOKEN;
			assert_in_range(a, 40000, 60000);
			assert_int_equal(b, a);
		}
		fleet_end(&f);
	}
}

/* A second decision sends the turn to another server, or finds none: both agents count again at the
 * first one what the turn had taken up. */
static void a_turn_taken_back_gives_back_everywhere(void **state)
{
	static const char *const then[] = { "lb1/1;s2=1,0,0,1", "lb1/1;s1=0,0,0,1" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t room;

		fleet_new(&f, 2);
		A->q.load = SPAN(S1);
		cut_turn(A, "one", 200000);
		room = output(A);
		assert_in_range(room, 40000 * ROOM_OF_TOKEN, 60000 * ROOM_OF_TOKEN);
		assert_int_equal(output(B), room);
		A->q.whole += 4000;
		for (unsigned k = 0; k < 3; k++) {
			A->q.load = span_str(k < 2 ? S1 : then[i]);
			send_body(A, "again", span_of(A->body.p, A->body.n - 40));
			pass(&f, 100);
			assert_int_equal(output(A), k < 2 ? 0 : room);
			assert_int_equal(output(B), k < 2 ? 0 : room);
		}
		fleet_end(&f);
	}
}

static const struct capacity *capacity_at(struct world *w)
{
	return &w->r->fleet.by_id[server(w, "s1").v.id]->capacity;
}

static uint64_t live_tokens(const struct capacity *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < RUNS_MAX; i++)
		n += c->live[i];
	return n;
}

/* First turns of which a tenth is not seen: what is seen counts for siblings, too. */
static void what_is_seen_of_a_cut_body_counts(void **state)
{
	const struct capacity *a, *b;

	(void)state;
	fleet_new(&f, 2);
	A->q.load = SPAN(S1);
	for (unsigned i = 0; i < 40; i++) {
		const char turns[] = { (char)('A' + i), 'b', 'c', '\0' };
		char uid[16];

		snprintf(uid, sizeof(uid), "p%u", i);
		chat(&A->body, "\"model\":\"m\",", turns, "");
		A->q.session = span_str(uid);
		A->q.visible = (int64_t)A->body.n - 40;
		A->q.whole = A->q.visible / 9 * 10;
		send_body(A, uid, span_of(A->body.p, A->body.n - 40));
		over(A, uid);
	}
	a = capacity_at(A);
	b = capacity_at(B);
	assert_false(capacity_is_blind(a));
	assert_false(capacity_is_blind(b));
	assert_true(b->unseen < 1.25f * a->unseen);
	assert_in_range(live_tokens(b), live_tokens(a) / 10 * 8, live_tokens(a) / 10 * 11);
	fleet_end(&f);
}

/* A request that gets its session when it is decided anew is a turn of it, at all agents. */
static void a_session_named_later_has_a_turn(void **state)
{
	(void)state;
	fleet_new(&f, 2);
	A->q.load = SPAN(S1);
	talk(A, "one", "ab");
	A->q.session = SPAN("");
	ask(A, "later", "abc");
	pass(&f, 100);
	A->q.session = SPAN("one");
	ask(A, "later", "abc");
	pass(&f, 100);
	over(A, "later");
	assert_int_equal(stats(A).sessions.turns, 2);
	assert_int_equal(stats(B).sessions.turns, 2);
	fleet_end(&f);
}

/* An agent that was away reads all at once, with what it says about its age. */
static void turns_that_come_late_are_turns(void **state)
{
	struct session_saved a, b;
	uint32_t from = 0;

	(void)state;
	fleet_new(&f, 2);
	f.aged = true;
	f.delay_least = f.delay_most = 60000;
	A->q.load = SPAN(S1);
	for (unsigned turn = 0; turn < 5; turn++) {
		cut_turn(A, "one", 200000 + 4000 * turn);
		pass(&f, 4000);
	}
	assert_int_equal(stats(B).sessions.turns, 0);
	pass(&f, 80000);
	assert_int_equal(stats(A).sessions.turns, 5);
	assert_int_equal(stats(B).sessions.turns, 5);
	assert_int_equal(sessions_read(A->r->sessions, &from, &a, 1), 1);
	from = 0;
	assert_int_equal(sessions_read(B->r->sessions, &from, &b, 1), 1);
	assert_int_equal(b.turns, a.turns);
	assert_int_equal(b.gap_ms, a.gap_ms);
	assert_int_equal(b.seen, a.seen);
	fleet_end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_come_to_any_agent),
		cmocka_unit_test(all_let_an_old_path_go),
		cmocka_unit_test(a_stored_response_is_known_to_all),
		cmocka_unit_test(a_line_teaches_an_agent_that_did_not_decide),
		cmocka_unit_test(a_rough_guess_is_told),
		cmocka_unit_test(all_count_hidden_tokens_once),
		cmocka_unit_test(a_late_line_counts_no_hidden_tokens_twice),
		cmocka_unit_test(turns_that_come_late_are_turns),
		cmocka_unit_test(hidden_tokens_of_a_turn_decided_anew),
		cmocka_unit_test(a_turn_taken_back_gives_back_everywhere),
		cmocka_unit_test(what_is_seen_of_a_cut_body_counts),
		cmocka_unit_test(a_session_named_later_has_a_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

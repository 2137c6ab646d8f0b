/* test_wait.c - what an answer says of the wait and of tokens, and what bodies claim. */
#include <math.h>

#include "tests/unit/route/world.h"

#define LONG	"abcdefghijklmnopqrstuvwxyzABCD"	/* 30 turns of 160 tokens: 0.6 s */
#define LONG_TOKENS	(30 * TURN_PAGES * 16)
#define S1	"lb1/1;s1=1,0,0,1"

/* A prompt that shares nothing with others. */
static const char *fresh(unsigned i)
{
	static char turns[31];

	memset(turns, 'a' + (int)(i % 26), 1);
	memset(turns + 1, 'A' + (int)(i / 26 % 26), 1);
	memcpy(turns + 2, LONG, 28);
	return turns;
}

static void ask_fresh(struct world *w, unsigned i)
{
	char uid[16];

	snprintf(uid, sizeof(uid), "f%u", i);
	ask(w, uid, fresh(i));
}

static void first_of(struct world *w, unsigned i)
{
	char uid[16];

	snprintf(uid, sizeof(uid), "f%u", i);
	tell_first(w, uid, "s1", 200, STREAM);
	tell_done(w, uid, "s1", 200, "--", 20);
}

static void tokens_and_model(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	assert_int_equal(w.a.tokens, 2 * TURN_PAGES * 16);
	assert_int_equal(w.a.hit_tokens, 0);
	assert_int_equal(w.a.wait_ms, -1);	/* no fact has come yet */
	assert_span(w.a.model, "m");
	served(&w, "1");
	ask(&w, "2", "abc");
	assert_int_equal(w.a.tokens, 3 * TURN_PAGES * 16);
	assert_int_equal(w.a.hit_tokens, 2 * TURN_PAGES * 16);
	assert_true(w.a.wait_ms >= 0);
	send_body(&w, "3", SPAN("{\"model\":\"a \\\" b\",\"prompt\":\"hello\"}"));
	assert_span(w.a.model, "");		/* it may go into logs */
	send_body(&w, "4", SPAN("no JSON"));
	assert_int_equal(w.a.tokens, 0);
	assert_int_equal(w.a.wait_ms, -1);
	world_end(&w);
}

/* The wait that a view shows is that of a new request: it shrinks as time goes by. */
static void the_wait_at_a_server(void **state)
{
	double before;
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN(S1);
	ask_fresh(&w, 0);
	assert_true(server(&w, "s1").v.wait_s < 0);	/* no fact has come yet */
	first_of(&w, 0);
	ask_fresh(&w, 1);
	first_of(&w, 1);
	ask_fresh(&w, 2);
	assert_true(server(&w, "s1").v.wait_s > 0.1);
	before = server(&w, "s1").v.wait_s;
	w.now += 300;
	assert_true(server(&w, "s1").v.wait_s < before);
	w.now += 5000;
	assert_true(server(&w, "s1").v.wait_s == 0);
	first_of(&w, 2);
	assert_true(server(&w, "s1").v.wait_s == 0);
	world_end(&w);
}

/* If the engine's counts say that a page of text has twice as many tokens, so do the answers. */
static void tokens_as_the_engine_counts(void **state)
{
	struct world w;
	char uid[16];

	(void)state;
	world_start(&w);
	for (int i = 0; i < 40; i++) {
		struct fact f;

		snprintf(uid, sizeof(uid), "u%d", i);
		ask(&w, uid, "ab");
		f = served_fact(uid);
		f.prompt_tokens = 4 * TURN_PAGES * 16;
		route_learn(w.r, &f, w.now);
	}
	ask(&w, "x", "abab");
	assert_in_range(w.a.tokens, 7 * TURN_PAGES * 16, 9 * TURN_PAGES * 16);
	assert_in_range(w.a.hit_tokens, w.a.tokens / 2 - 16, w.a.tokens / 2 + 16);
	world_end(&w);
}

static void shadow_tells_no_wait(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.mode = MODE_SHADOW;
	world_open(&w);
	ask(&w, "1", "ab");
	tell_first(&w, "1", "s1", 200, STREAM);
	ask(&w, "2", "ab");
	assert_int_equal(w.a.wait_ms, -1);
	assert_int_equal(w.a.hit_tokens, 0);
	assert_int_equal(w.a.tokens, 2 * TURN_PAGES * 16);
	world_end(&w);
}

static void waits_add_up_and_time_counts_off(void **state)
{
	struct world w;
	int64_t one, two;

	(void)state;
	world_start(&w);
	w.q.load = SPAN(S1);
	ask(&w, "0", "z");
	served(&w, "0");
	ask_fresh(&w, 0);
	one = w.a.wait_ms;
	assert_in_range(one, 400, 900);
	ask_fresh(&w, 1);
	two = w.a.wait_ms;
	assert_in_range(two - one, 400, 900);
	w.now += 300;		/* of the work that waits 300 ms are done */
	ask_fresh(&w, 2);
	assert_in_range(w.a.wait_ms - two, 100, 600);
	w.now += 30000;		/* stuck: no more than all of it is done */
	ask_fresh(&w, 3);
	assert_in_range(w.a.wait_ms, 400, 900);
	world_end(&w);
}

struct told { double error; uint64_t count; };

static void look_wait(void *arg, const struct route_pool_view *v)
{
	struct told *t = arg;

	t->error = wait_error(v->wait);
	t->count = v->wait->count;
}

/* An engine that takes 70 ms more than twice what is configured. */
static void expected_times_become_right(void **state)
{
	struct told t = { 0 };
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN(S1);
	for (unsigned i = 0; i < 120; i++) {
		msec real;

		w.now += 5000;
		ask_fresh(&w, i);
		real = 70 + 1200;
		if (i > 60 && fabs((double)(w.a.wait_ms - real)) > 0.15 * (double)real)
			fail_msg("%u: %d ms, not %d", i, (int)w.a.wait_ms, (int)real);
		w.now += real;
		first_of(&w, i);
	}
	route_each_pool(w.r, look_wait, &t);
	assert_int_equal(t.count, 119);		/* the first was not expected at any time */
	assert_true(t.error > 0 && t.error < 0.15);
	world_end(&w);
}

/* With ends alone, the headers of streams teach it, and whole answers do not. */
static void headers_teach_it(void **state)
{
	for (int streams = 0; streams < 2; streams++) {
		struct told t = { 0 };
		struct world w;
		char uid[16];

		(void)state;
		world_start(&w);
		w.q.load = SPAN(S1);
		for (unsigned i = 0; i < 60; i++) {
			w.now += 9000;
			snprintf(uid, sizeof(uid), "f%u", i);
			chat(&w.body, "", fresh(i), streams ? ",\"model\":\"m\",\"stream\":true" : ",\"model\":\"m\"");
			send(&w, uid);
			w.now += 3000;
			tell_done(&w, uid, "s1", 200, "--", 1270);
		}
		route_each_pool(w.r, look_wait, &t);
		assert_int_equal(t.count > 20, streams);
		if (streams)
			assert_true(t.error < 0.25);
		world_end(&w);
	}
}

/* Requests that HAProxy itself answers were never sent, so they do not end the time that the engine
 * needs for others. */
static void what_was_never_sent_ends_no_time(void **state)
{
	struct world w;
	msec voided;

	(void)state;
	world_start_unpunished(&w);
	w.q.load = SPAN(S1);
	ask(&w, "1", "ab");
	ask(&w, "2", "cd");
	ask(&w, "3", "ef");
	voided = w.r->fleet.by_id[0]->rate.voided;
	w.now += 10;
	tell_done(&w, "2", "<NOSRV>", 429, "PR", -1);
	assert_int_equal(w.r->fleet.by_id[0]->rate.voided, voided);
	assert_int_equal(w.r->fleet.by_id[0]->n_unanswered, 2);
	tell_done(&w, "3", "s1", 503, "SH", -1);
	assert_int_equal(w.r->fleet.by_id[0]->rate.voided, w.now);
	world_end(&w);
}

/* ---- what bodies claim --------------------------------------------------------------------- */

static void usual_answers(struct world *w, int64_t tokens)
{
	char uid[16];

	for (unsigned i = 0; i < 20; i++) {
		struct fact f;

		snprintf(uid, sizeof(uid), "a%u", i);
		ask(w, uid, "ab");
		f = served_fact(uid);
		f.output_tokens = tokens;
		route_learn(w->r, &f, w->now);
	}
}

#define HINT(text)	",\"model\":\"m\",\"nvext\":{\"agent_hints\":{" text "}}"

static void an_answer_weighs_by_its_length(void **state)
{
	static const struct { int extra; const char *after; } cases[] = {
		{ 0, ",\"model\":\"m\"" },
		{ 0, ",\"max_tokens\":4096" },
		{ 0, ",\"max_tokens\":0" },
		{ 0, ",\"max_tokens\":\"20\"" },
		{ -8, ",\"max_tokens\":50" },
		{ -12, ",\"max_tokens\":1" },
		{ -8, ",\"max_tokens\":1,\"max_completion_tokens\":50" },
		{ -8, ",\"max_output_tokens\":50" },
		{ -8, HINT("\"osl\":50") },
		{ 8, HINT("\"osl\":150") },
		{ 16, HINT("\"osl\":200") },
		{ 16, HINT("\"osl\":99999999999999999999") },	/* the largest claim: one more request */
		{ 0, HINT("\"osl\":-5") },
		{ 0, HINT("\"osl\":1e9") },
		{ 0, HINT("\"osl\":{\"x\":1},\"other\":7,\"isl\":5") },
		{ 8, HINT("\"osl\":99999999") ",\"max_tokens\":150" },	/* the engine makes no more */
		{ -8, HINT("\"osl\":99999999") ",\"max_tokens\":50" },
	};
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN(S1);
	chat(&w.body, "", "x", HINT("\"osl\":5000"));
	send(&w, "early");
	assert_int_equal(w.r->fleet.by_id[0]->extra, 0);	/* no answer is usual yet */
	tell_done(&w, "early", "s1", 200, "--", 20);
	usual_answers(&w, 100);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		chat(&w.body, "", "x", cases[i].after);
		send(&w, "c");
		if (w.r->fleet.by_id[0]->extra != cases[i].extra)
			fail_msg("%s: %d", cases[i].after, w.r->fleet.by_id[0]->extra);
		send(&w, "c");			/* again: counted once */
		assert_int_equal(w.r->fleet.by_id[0]->extra, cases[i].extra);
		tell_first(&w, "c", "s1", 200, STREAM);
		assert_int_equal(w.r->fleet.by_id[0]->extra, cases[i].extra);
		tell_done(&w, "c", "s1", 200, "--", 20);
		assert_int_equal(w.r->fleet.by_id[0]->extra, 0);
	}
	world_end(&w);
}

/* HAProxy moves a request: its weight goes with it. */
static void a_weight_moves(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,9,0,1");
	usual_answers(&w, 100);
	chat(&w.body, "", "x", HINT("\"osl\":200"));
	send(&w, "c");
	assert_span(w.a.server, "s1");
	tell_first(&w, "c", "s2", 200, STREAM);
	assert_int_equal(w.r->fleet.by_id[0]->extra, 0);
	assert_int_equal(w.r->fleet.by_id[1]->extra, 16);
	tell_done(&w, "c", "s2", 200, "--", 20);
	assert_int_equal(w.r->fleet.by_id[1]->extra, 0);
	world_end(&w);
}

static void patience(void **state)
{
	static const struct { int percent, priority; const char *after; } cases[] = {
		{ 0, 0, ",\"model\":\"m\"" },
		{ 0, 0, ",\"priority\":-8" },			/* urgent to one engine, patient to another */
		{ 100, -8, HINT("\"priority\":-8") },
		{ 100, -8, HINT("\"priority\":-999") },
		{ 50, -4, HINT("\"priority\":-4") },
		{ 0, 5, HINT("\"priority\":5") },
		{ 0, 23, HINT("\"priority\":1000000") },	/* anyone could claim it */
		{ 0, 0, HINT("\"priority\":\"-8\",\"strict_priority\":-8") },
	};
	struct world w;

	(void)state;
	world_start(&w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct decision d;
		double a;

		chat(&w.body, "", "x", cases[i].after);
		send(&w, "c");
		assert_int_equal(w.a.priority, cases[i].priority);
		assert_true(decisions_find(route_decisions(w.r), route_uid_hash(w.r, SPAN("c")), &d));
		a = 0.3 * (1 + cases[i].percent / 100.0);
		if (fabs((double)d.sacrifice - a) > 1e-6)
			fail_msg("%s: %f, not %f", cases[i].after, (double)d.sacrifice, a);
	}
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tokens_and_model),
		cmocka_unit_test(the_wait_at_a_server),
		cmocka_unit_test(tokens_as_the_engine_counts),
		cmocka_unit_test(shadow_tells_no_wait),
		cmocka_unit_test(waits_add_up_and_time_counts_off),
		cmocka_unit_test(expected_times_become_right),
		cmocka_unit_test(headers_teach_it),
		cmocka_unit_test(what_was_never_sent_ends_no_time),
		cmocka_unit_test(an_answer_weighs_by_its_length),
		cmocka_unit_test(a_weight_moves),
		cmocka_unit_test(patience),
	};

	return cmocka_run_group_tests_name("wait", tests, NULL, NULL);
}

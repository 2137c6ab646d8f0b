/* test_times.c - figures for operators: times of requests, reasons by server, tokens found, and in
 * shadow mode HAProxy's own choices. */
#include <math.h>

#include "tests/unit/route/world.h"

#define PROMPT	(2 * TURN_PAGES * 16)	/* tokens of two turns */

static uint64_t count_of(const struct histogram *h)
{
	uint64_t n = 0;

	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
		n += h->bucket[b];
	return n;
}

static void times_of_a_stream(void **state)
{
	struct route_pool_view v;
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	w.now += 250;
	tell_first(&w, "1", "s1", 200, STREAM);
	w.now += 1000;
	tell_done(&w, "1", "s1", 200, "--", 250);
	v = pool(&w);
	assert_int_equal(count_of(v.first), 1);
	assert_int_equal(v.first->sum, 250);
	assert_int_equal(v.first->bucket[5], 1);	/* 200 < 250 <= 300 ms */
	assert_int_equal(count_of(v.request), 1);
	assert_int_equal(v.request->sum, 1250);
	assert_int_equal(v.request->bucket[5], 1);	/* 1 s < 1.25 s <= 2 s */
	assert_int_equal(route_decision_of(w.r, v.request->who[5]), w.a.decision);
	assert_int_equal(route_decision_of(w.r, 12345), 0);
	assert_int_equal(w.a.pool, 0);
	world_end(&w);
}

/* Its first byte closes it, and its log line ends it. */
static void times_of_a_whole_answer(void **state)
{
	struct route_pool_view v;
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	w.now += 70;
	tell_first(&w, "1", "s1", 200, "application/json");
	w.now += 10;
	tell_done(&w, "1", "s1", 200, "--", 70);
	tell_done(&w, "1", "s1", 200, "--", 70);	/* again: unknown by now */
	v = pool(&w);
	assert_int_equal(count_of(v.first), 0);
	assert_int_equal(v.request->bucket[1], 1);
	assert_int_equal(v.request->sum, 80);
	world_end(&w);
}

static void choices_by_reason_and_the_best_holder(void **state)
{
	struct server_find s;
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	served(&w, "1");
	ask(&w, "2", "abc");
	s = server(&w, "s1");
	assert_int_equal(s.v.picked, 2);
	assert_int_equal(s.v.picked_why[WHY_COLD], 1);
	assert_int_equal(s.v.picked_why[WHY_CACHED], 1);
	assert_int_equal(stats(&w).hit_tokens, PROMPT);
	assert_int_equal(stats(&w).best_hit_tokens, PROMPT);
	served(&w, "2");
	w.q.load = SPAN("lb1/1;s1=0,0,0,1;s2=1,0,0,1");		/* the holder is down */
	ask(&w, "3", "abc");
	assert_span(w.a.server, "s2");
	assert_int_equal(stats(&w).best_hit_tokens, PROMPT);
	world_end(&w);
}

/* A holder that is too busy is not chosen; what it has is the best all the same. */
static void the_best_holder_is_not_chosen(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	served(&w, "1");
	w.q.load = SPAN("lb1/1;s1=1,900,0,1;s2=1,0,0,1");
	ask(&w, "2", "ab");
	assert_span(w.a.server, "s2");
	assert_int_equal(stats(&w).hit_tokens, 0);
	assert_true(stats(&w).best_hit_tokens >= PROMPT - 16 * TURN_PAGES);
	world_end(&w);
}

static void tokens_that_engines_report(void **state)
{
	struct route_stats s;
	struct world w;
	struct fact f;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	served(&w, "1");
	ask(&w, "2", "abc");
	f = served_fact("2");
	f.prompt_tokens = 500;
	f.cached_tokens = 320;
	route_learn(w.r, &f, w.now);
	ask(&w, "3", "abcd");
	f = served_fact("3");
	f.prompt_tokens = 600;
	f.cached_tokens = 601;			/* more than there are: not counted */
	route_learn(w.r, &f, w.now);
	s = stats(&w);
	assert_int_equal(s.told_hit_tokens, 320);
	assert_int_equal(s.told_prompt_tokens, 500);
	assert_int_equal(s.told_expected_tokens, PROMPT);
	world_end(&w);
}

static void asked_and_not(void **state)
{
	static const struct { const char *srv, *why; int error; } lines[] = {
		{ "s1", "cold", 0 }, { "s1", "-", 0 }, { "s2", "-", 257 }, { "s2", "-", 0 },
		{ "<NOSRV>", "-", 0 },
	};
	struct world w;

	(void)state;
	world_start(&w);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct fact f = served_fact("x");

		f.line = f.has_why = true;
		f.server = span_str(lines[i].srv);
		f.why = span_str(lines[i].why);
		f.error = lines[i].error;
		route_learn(w.r, &f, w.now);
	}
	assert_int_equal(stats(&w).asked[ASKED_YES], 1);
	assert_int_equal(stats(&w).asked[ASKED_FAILED], 1);
	assert_int_equal(stats(&w).asked[ASKED_NO], 2);
	world_end(&w);
}

/* ---- shadow mode ------------------------------------------------------------------------- */

static void send_to(struct world *w, const char *uid, const char *turns, const char *srv)
{
	ask(w, uid, turns);
	assert_int_equal(w->a.server.n, 0);
	tell_first(w, uid, srv, 200, STREAM);
	tell_done(w, uid, srv, 200, "--", 20);
}

static void the_baseline_in_shadow_mode(void **state)
{
	struct shadow_sums s;
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.mode = MODE_SHADOW;
	world_open(&w);
	send_to(&w, "1", "ab", "s1");
	send_to(&w, "2", "ab", "s2");		/* the agent would have taken s1 */
	send_to(&w, "3", "ab", "s1");
	s = pool(&w).shadow;
	assert_int_equal(s.requests, 3);
	assert_true(s.same >= 1);
	assert_int_equal(s.prompt_tokens, 3 * PROMPT);
	assert_true(s.hit_tokens > s.haproxy_hit_tokens);
	assert_int_equal(s.haproxy_hit_tokens, s.hit_tokens / 2);
	assert_true(s.haproxy_first_s > s.first_s && s.first_s > 0);
	assert_int_equal(pool(&w).first->bucket[0], 3);
	world_end(&w);
}

/* Until speeds are learned, seconds are guesses and are not counted. */
static void seconds_count_once_speeds_are_learned(void **state)
{
	struct shadow_sums s;
	struct world w;
	char uid[16];

	(void)state;
	for (int learn = 0; learn < 2; learn++) {
		world_options(&w);
		w.o.pool_default.mode = MODE_SHADOW;
		w.o.pool_default.policy.learn_rate = learn;
		world_open(&w);
		for (int i = 0; i < 3; i++) {
			snprintf(uid, sizeof(uid), "%d", i);
			send_to(&w, uid, "ab", i % 2 ? "s1" : "s2");
		}
		s = pool(&w).shadow;
		assert_int_equal(s.requests, 3);
		assert_int_equal(s.timed, learn ? 0 : 3);
		assert_true(learn ? s.timed_s == 0 : s.timed_s > 0 && s.timed_s == s.first_s);
		assert_int_equal(server(&w, "s1").v.speed, learn ? SPEED_GUESS : SPEED_CONFIGURED);
		world_end(&w);
	}
}

static void not_compared_when_on(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	served(&w, "1");
	assert_int_equal(pool(&w).shadow.requests, 0);
	world_end(&w);
}

/* Of more servers than are kept, those with the most tokens are; others count as their mean. */
static void more_servers_than_are_kept(void **state)
{
	struct policy_opts o;
	struct policy_prompt p = { .tokens = 1000 };
	struct candidate c[SHADOW_KEPT + 5];
	struct shadow_choice choice = {
		.from = c, .n = SHADOW_KEPT + 5, .chosen = 3, .tokens = 1000, .prompt = &p, .opts = &o,
	};
	struct shadow *s = NULL;

	(void)state;
	policy_defaults(&o);
	memset(c, 0, sizeof(c));
	for (unsigned i = 0; i < SHADOW_KEPT + 5; i++) {
		c[i].id = (server_id)i;
		c[i].cached = 10 * i;
		c[i].slowness = 1;
	}
	for (choice.uid = 1; choice.uid <= SHADOW_KEPT + 5; choice.uid++) {
		shadow_chose(&s, &choice);
		shadow_went(s, choice.uid, (server_id)(choice.uid - 1));
		shadow_went(s, choice.uid, (server_id)(choice.uid - 1));	/* counts once */
	}
	assert_int_equal(shadow_sums(s).requests, SHADOW_KEPT + 5);
	assert_int_equal(shadow_sums(s).same, 1);
	assert_int_equal(shadow_sums(s).hit_tokens, 30 * (SHADOW_KEPT + 5));
	/* 0 .. 4 have 20 in the mean, as each of them counts */
	assert_int_equal(shadow_sums(s).haproxy_hit_tokens, 10 * (19 * 20 / 2));
	shadow_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_of_a_stream),
		cmocka_unit_test(times_of_a_whole_answer),
		cmocka_unit_test(choices_by_reason_and_the_best_holder),
		cmocka_unit_test(the_best_holder_is_not_chosen),
		cmocka_unit_test(tokens_that_engines_report),
		cmocka_unit_test(asked_and_not),
		cmocka_unit_test(the_baseline_in_shadow_mode),
		cmocka_unit_test(seconds_count_once_speeds_are_learned),
		cmocka_unit_test(not_compared_when_on),
		cmocka_unit_test(more_servers_than_are_kept),
	};

	return cmocka_run_group_tests_name("route/times", tests, NULL, NULL);
}

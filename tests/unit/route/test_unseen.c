/* test_unseen.c - the part of a body that HAProxy does not send. Only the client states its length.
 * So it counts at most like a prompt that fills a cache, and nothing is learned from it about
 * servers. */
#include <math.h>

#include "tests/unit/route/world.h"

#define ONE	"lb1/1;s1=1,0,0,1"
#define GUESS	400000		/* pool_opts.capacity_guess */

/* Send the first <n> bytes of w->body, as HAProxy does if its buffer is full. */
static void send_cut(struct world *w, const char *uid, size_t n, int64_t whole)
{
	w->q.visible = (int64_t)n;
	w->q.whole = whole;
	send_body(w, uid, span_of(w->body.p, n));
	w->q.visible = w->q.whole = -1;
}

static void ask_cut(struct world *w, const char *uid, const char *turns, int64_t whole)
{
	chat(&w->body, "\"model\":\"m\",", turns, "");
	send_cut(w, uid, w->body.n - 40, whole);
}

static struct decision decision_of(struct world *w, const char *uid)
{
	struct decision x;

	assert_true(decisions_find(w->r->decisions, route_uid(w->r, span_str(uid)), &x));
	return x;
}

static double backlog(struct world *w)
{
	return server_backlog(w->r->fleet.pools[0]->servers[0], STEP_FIRST, 0, w->now);
}

static double prefill_s(struct world *w, uint64_t tokens)
{
	return policy_prefill_s(&w->o.pool_default.policy, tokens, 0);
}

/* Report first tokens from now on, so that the backlog is the requests without one. */
static void report_firsts(struct world *w)
{
	ask(w, "report", "z");
	served(w, "report");
}

static void its_length_is_bounded(void **state)
{
	static const struct { int64_t whole; uint64_t capacity, tokens; } cases[] = {
		{ 0, 0, 0 }, { INT64_MAX, 0, GUESS }, { (int64_t)1 << 40, 0, GUESS }, { 1 << 24, 0, GUESS },
		{ (int64_t)1 << 40, 100000, 100000 }, { (int64_t)1 << 40, 1u << 30, UNSEEN_TOKENS_MAX },
		{ (int64_t)1 << 40, 100, 0 },
	};
	struct world w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct decision x;

		world_options(&w);
		w.o.pool_default.capacity = cases[i].capacity;
		world_open(&w);
		w.q.load = SPAN(ONE);
		report_firsts(&w);
		ask_cut(&w, "cut", "abc", cases[i].whole);
		x = decision_of(&w, "cut");
		assert_in_range(x.tokens - x.unseen, 400, 600);
		if (cases[i].tokens == UNSEEN_TOKENS_MAX)
			assert_int_equal(x.unseen, UNSEEN_TOKENS_MAX);
		else if (cases[i].tokens > 0)
			assert_int_equal(x.tokens, cases[i].tokens);
		else
			assert_int_equal(x.unseen, 0);
		assert_true(fabs(backlog(&w) - prefill_s(&w, x.tokens)) < 1e-6);
		world_end(&w);
	}
}

/* A body of twice the bytes has twice the tokens. */
static void unseen_bytes_are_like_seen_ones(void **state)
{
	struct world w;
	struct decision x;

	world_start(&w);
	ask_cut(&w, "cut", "abc", 0);
	ask_cut(&w, "cut", "abc", 2 * (int64_t)(w.body.n - 40));
	x = decision_of(&w, "cut");
	assert_int_equal(x.unseen, x.tokens / 2);
	world_end(&w);
}

/* An image of megabytes is a page. */
static void an_image_has_no_unseen_tokens(void **state)
{
	struct world w;

	world_start(&w);
	w.body.n = 0;
	say(&w.body, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"");
	say_turn(&w.body, 'a');
	say(&w.body, "\"},{\"type\":\"image_url\",\"image_url\":{\"url\":"
	    "\"data:image/png;base64,AAAAAAAAAAAA");
	send_cut(&w, "image", w.body.n, 8000000);
	assert_true(w.a.cut);
	assert_int_equal(decision_of(&w, "image").unseen, 0);
	world_end(&w);
}

/* If the bytes never come, the request is open, and others are routed by the real backlog again. */
static void it_waits_no_longer_than_it_would_take(void **state)
{
	struct decision x;
	struct world w;
	double seen_s, all_s;

	world_start(&w);
	w.q.load = SPAN(ONE);
	report_firsts(&w);
	ask_cut(&w, "cut", "abc", (int64_t)1 << 40);
	seen_s = prefill_s(&w, decision_of(&w, "cut").tokens - decision_of(&w, "cut").unseen);
	all_s = prefill_s(&w, GUESS);
	w.now += (msec)(1000 * all_s / 2);
	report_firsts(&w);
	assert_in_range(backlog(&w), 0.49 * all_s, 0.51 * all_s);
	w.now += (msec)(1000 * all_s / 2) + 1;
	report_firsts(&w);
	assert_true(fabs(backlog(&w) - seen_s) < 1e-6);
	x = decision_of(&w, "cut");
	assert_int_equal(w.r->fleet.pools[0]->servers[0]->open_tokens, 2 * (x.tokens - x.unseen));
	assert_int_equal(w.r->fleet.pools[0]->servers[0]->unanswered_tokens, 2 * (x.tokens - x.unseen));
	tell_done(&w, "cut", "s1", 400, "--", 1);
	assert_true(backlog(&w) == 0);
	assert_int_equal(server(&w, "s1").v.open, 0);
	world_end(&w);
}

/* Nothing of a server is learned from a prompt of which most was not seen: a tenant could make any
 * server look fast by bytes that are no text. */
static void its_time_teaches_nothing(void **state)
{
	char uid[16];
	struct world w;
	double mean, as_configured;

	world_options(&w);
	w.o.pool_default.compare[0] = RULE_CACHE_AWARE + 1;
	world_open(&w);
	w.q.load = SPAN(ONE);
	for (int i = 0; i < 40; i++) {
		snprintf(uid, sizeof(uid), "w%d", i);
		ask(&w, uid, "abc");
		w.now += 100;
		served(&w, uid);
	}
	as_configured = server(&w, "s1").v.tokens_per_s;
	mean = w.r->fleet.pools[0]->mean_work_s;
	for (int i = 0; i < 40; i++) {
		snprintf(uid, sizeof(uid), "c%d", i);
		ask_cut(&w, uid, "xyz", 8000000);
		w.now += 200;
		if (i % 2)
			tell_first(&w, uid, "s1", 200, STREAM);
		tell_done(&w, uid, "s1", 200, "--", 200);
	}
	assert_true(server(&w, "s1").v.tokens_per_s == as_configured);
	assert_true(w.r->fleet.pools[0]->mean_work_s <= mean);
	assert_int_equal(w.r->fleet.pools[0]->servers[0]->rate.headers, 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_length_is_bounded),
		cmocka_unit_test(unseen_bytes_are_like_seen_ones),
		cmocka_unit_test(an_image_has_no_unseen_tokens),
		cmocka_unit_test(it_waits_no_longer_than_it_would_take),
		cmocka_unit_test(its_time_teaches_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

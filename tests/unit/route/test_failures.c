/* test_failures.c - facts that raise a penalty, each request once, and the effect of a penalty
 * on the choice: under both rules, for new prompts and for those whose beginning the server
 * holds. */
#include "tests/unit/route/world.h"
#include "tests/lib/policy/guarded.h"

#define EACH(i, table)	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)

static double penalty(struct world *w, const char *name)
{
	return server(w, name).v.penalty;
}

static unsigned failures(struct world *w)
{
	struct route_stats s = stats(w);
	unsigned n = 0;

	for (int v = 0; v < VERDICT_COUNT; v++)
		n += (unsigned)s.failures[v];
	return n;
}

/* The log line of a redispatched request: %rc is "+1" or "+0". */
static void tell_moved(struct world *w, const char *uid, const char *srv, int st, const char *ts,
		       int32_t retries)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.server = span_str(srv);
	f.status = st;
	f.end = fact_end_of(span_str(ts));
	f.response_ms = 5;
	f.retries = retries;
	f.redispatched = true;
	route_learn(w->r, &f, w->now);
}

/* ---- facts that count, each request once -------------------------------------------------- */

struct told { const char *srv; int st; const char *word; };	/* type of first, ts of done */

static void each_request_counts_once(void **state)
{
	static const struct {
		const char *name;
		struct told first, done;	/* srv NULL: not told */
		int32_t moved;			/* retries of a redispatched one; -1: not redispatched */
		double s1, s2;			/* penalties; "s1" was chosen */
		unsigned failures;
	} cases[] = {
		{ "served", { "s1", 200, STREAM }, { "s1", 200, "--" }, -1, 0, 0, 0 },
		{ "failed, both told", { "s1", 500, "text/html" }, { "s1", 500, "--" }, -1, 1, 0, 1 },
		{ "failed, log line only", { NULL }, { "s1", 500, "--" }, -1, 1, 0, 1 },
		{ "failed, no log line", { "s1", 500, "" }, { NULL }, -1, 1, 0, 1 },
		{ "503 in a stream", { "s1", 503, STREAM }, { "s1", 503, "--" }, -1, 1, 0, 1 },
		{ "429", { "s1", 429, "" }, { "s1", 429, "--" }, -1, 0.5, 0, 1 },
		{ "429, log line only", { NULL }, { "s1", 429, "--" }, -1, 0.5, 0, 1 },
		{ "bad request", { "s1", 400, "" }, { "s1", 400, "--" }, -1, 0, 0, 0 },
		{ "refused", { NULL }, { "s1", 503, "SC" }, -1, 1, 0, 1 },
		{ "died", { NULL }, { "s1", 502, "SH" }, -1, 1, 0, 1 },
		{ "too late", { NULL }, { "s1", 504, "sH" }, -1, 1, 0, 1 },
		{ "nobody to go to", { NULL }, { "<NOSRV>", 503, "SC" }, -1, 0, 0, 0 },
		{ "queue", { NULL }, { "s1", 503, "sQ" }, -1, 0, 0, 0 },
		{ "client left", { NULL }, { "s1", -1, "CH" }, -1, 0, 0, 0 },
		{ "client left a stream", { "s1", 200, STREAM }, { "s1", 200, "CD" }, -1, 0, 0, 0 },
		{ "stream broke off", { "s1", 200, STREAM }, { "s1", 200, "SD" }, -1, 1, 0, 1 },
		{ "stream stood still", { "s1", 200, STREAM }, { "s1", 200, "sD" }, -1, 1, 0, 1 },
		{ "answer broke off", { "s1", 200, "application/json" }, { "s1", 200, "SD" }, -1, 1, 0, 1 },
		{ "elsewhere by other rules", { "s2", 200, STREAM }, { "s2", 200, "--" }, -1, 0, 0, 0 },
		{ "failed there", { "s2", 500, "" }, { "s2", 500, "--" }, -1, 0, 1, 1 },
		{ "s1 refused, s2 served", { NULL }, { "s2", 200, "--" }, 1, 1, 0, 1 },
		{ "s1 refused, s2 streamed", { "s2", 200, STREAM }, { "s2", 200, "--" }, 1, 1, 0, 1 },
		{ "s1 refused, s2 answered", { "s2", 200, "" }, { "s2", 200, "--" }, 1, 1, 0, 1 },
		{ "both refused", { NULL }, { "s2", 503, "SC" }, 2, 1, 1, 2 },
		{ "s1 refused, s2 failed", { "s2", 500, "" }, { "s2", 500, "--" }, 1, 1, 1, 2 },
		{ "s1 was full", { "s2", 200, "" }, { "s2", 200, "--" }, 0, 0, 0, 0 },
		{ "s1 was full, log line only", { NULL }, { "s2", 200, "--" }, 0, 0, 0, 0 },
		{ "s1 refused, a stranger served", { NULL }, { "s9", 200, "--" }, 1, 1, 0, 1 },
		{ "s1 refused, a stranger failed", { "s9", 500, "" }, { "s9", 500, "--" }, 1, 1, 0, 1 },
	};
	struct world w;

	(void)state;
	EACH(i, cases) {
		world_start(&w);
		ask(&w, "1", "ab");
		assert_span(w.a.server, "s1");
		if (cases[i].first.srv != NULL)
			tell_first(&w, "1", cases[i].first.srv, cases[i].first.st, cases[i].first.word);
		for (int twice = 0; twice < 2 && cases[i].done.srv != NULL; twice++) {
			const struct told *d = &cases[i].done;

			if (cases[i].moved >= 0)
				tell_moved(&w, "1", d->srv, d->st, d->word, cases[i].moved);
			else
				tell_done(&w, "1", d->srv, d->st, d->word, 5);
		}
		if (penalty(&w, "s1") != cases[i].s1 || penalty(&w, "s2") != cases[i].s2 ||
		    failures(&w) != cases[i].failures)
			fail_msg("%s: s1 %g s2 %g, %u failures", cases[i].name, penalty(&w, "s1"),
				 penalty(&w, "s2"), failures(&w));
		assert_int_equal(server(&w, "s1").v.failures + server(&w, "s2").v.failures,
				 cases[i].failures);
		assert_int_equal(stats(&w).open, 0);
		world_end(&w);
	}
	print_message("%zu ways a request can end\n", sizeof(cases) / sizeof(cases[0]));
}

static void kinds_are_counted(void **state)
{
	struct world w;
	struct route_stats s;

	(void)state;
	world_start(&w);
	ask(&w, "1", "a"), tell_done(&w, "1", "s1", 503, "SC", -1);
	ask(&w, "2", "b"), tell_done(&w, "2", "s2", 502, "SH", -1);
	ask(&w, "3", "c"), tell_done(&w, "3", "s3", 200, "SD", 5);
	ask(&w, "4", "d"), tell_done(&w, "4", "s4", 500, "--", 5);
	ask(&w, "5", "e"), tell_done(&w, "5", "s4", 429, "--", 5);
	s = stats(&w);
	assert_int_equal(s.failures[VERDICT_CONNECT], 1);
	assert_int_equal(s.failures[VERDICT_BROKEN], 2);
	assert_int_equal(s.failures[VERDICT_5XX], 1);
	assert_int_equal(s.failures[VERDICT_429], 1);
	assert_int_equal(s.failures[VERDICT_NONE] + s.failures[VERDICT_WORKED], 0);
	world_end(&w);
}

/* An answered request waits for its log line in a slot that another request takes. */
static void late_lines_of_others_teach_nothing(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "1", "ab");
	tell_first(&w, "1", "s2", 200, "");
	for (int i = 0; i < 3000; i++) {
		char uid[16];

		snprintf(uid, sizeof(uid), "other %d", i);
		tell_done(&w, uid, "s1", 500, "--", 5);
	}
	assert_int_equal(failures(&w), 0);
	tell_moved(&w, "1", "s2", 200, "--", 1);
	assert_int_equal(failures(&w), 1);
	assert_true(penalty(&w, "s1") == 1);
	world_end(&w);
}

static void weights_and_half_life_are_options(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.pool_default.policy.penalty_failure = 0;
	w.o.pool_default.policy.penalty_429 = 2;
	w.o.pool_default.policy.penalty_half_life_ms = 500;
	world_open(&w);
	ask(&w, "1", "a"), tell_done(&w, "1", "s1", 500, "--", 5);
	assert_true(penalty(&w, "s1") == 0);
	ask(&w, "2", "b"), tell_done(&w, "2", "s2", 429, "--", 5);
	assert_true(penalty(&w, "s2") == 2);
	assert_int_equal(failures(&w), 2);
	w.now += 500;
	assert_true(penalty(&w, "s2") == 1);
	w.o.pool_default.policy.penalty_half_life_ms = 1000;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	w.now += 500;
	assert_true(penalty(&w, "s2") == 1);	/* from 2, half of it in the new time */
	world_end(&w);
}

/* ---- effect on the choice ----------------------------------------------------------- */

#define BUSY4	"lb1/1;s1=1,0,0,1;s2=1,5,0,1;s3=1,5,0,1;s4=1,5,0,1"	/* s1 fails: it is always idle */

static const char *rule_name(int rule)
{
	return policy_rule_text((enum policy_rule)rule);
}

static void start_with(struct world *w, int rule, const char *load)
{
	world_options(w);
	policy_preset(&w->o.pool_default.policy, (enum policy_rule)rule);
	world_open(w);
	w->q.load = span_str(load);
}

static void ask_something_new(struct world *w, const char *uid)
{
	struct span path = w->q.path;

	w->q.path = SPAN("/v1/completions");
	w->body.n = 0;
	say(&w->body, "{\"model\":\"m\",\"prompt\":\"%lld %0600d\"}", (long long)w->now, 0);
	send(w, uid);
	assert_true(w->a.server.n > 0 && w->a.hit == 0);
	w->q.path = path;
}

/* Send <turns> repeatedly for <ms>, one every 100 ms; NULL: a new prompt each time. s1 fails unless
 * <well>. Returns the number of requests that s1 got. */
static unsigned drawn(struct world *w, const char *turns, msec ms, bool well, unsigned *sent)
{
	unsigned n = 0;

	for (msec end = w->now + ms; w->now < end; w->now += 100, ++*sent) {
		char uid[32];

		snprintf(uid, sizeof(uid), "%lld", (long long)w->now);
		if (turns != NULL)
			ask(w, uid, turns);
		else
			ask_something_new(w, uid);
		if (is(w->a.server, "s1") && !well) {
			tell_first(w, uid, "s1", 500, "application/json");
			tell_done(w, uid, "s1", 500, "--", 1);
			n++;
		} else {
			n += is(w->a.server, "s1");
			served(w, uid);
		}
	}
	return n;
}

/* These rules send a repeated prompt to the server of its hash, even if others are idle. */
static bool by_hash(int rule)
{
	return rule == RULE_PREFIX_HASH || rule == RULE_CONSISTENT_HASH || rule == RULE_CHWBL ||
		rule == RULE_RENDEZVOUS || rule == RULE_STICKY_LEAST_LOADED;
}

/* Under these rules a prefix has one holder. A recovered server that is not the only holder any
 * more may get no request. */
static bool by_one_holder(int rule)
{
	return rule == RULE_CACHE_AWARE || rule == RULE_CACHE_AWARE_LIB || rule == RULE_BLOCK_TRACKER;
}

static void fails_at_once_and_draws_little(void **state)
{
	struct world w;

	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		for (int hot = 0; hot < 2; hot++) {
			unsigned sent = 0, later = 0, n, back;

			if (hot && by_hash(rule))
				continue;
			start_with(&w, rule, IDLE4);
			if (hot) {
				w.q.load = SPAN("lb1/1;s1=1,0,0,1");	/* not all rules begin with the first */
				ask(&w, "hot", "hot prefix");
				assert_span(w.a.server, "s1");
				served(&w, "hot");
			}
			w.q.load = SPAN(BUSY4);
			n = drawn(&w, hot ? "hot prefix" : NULL, 60000, false, &sent);
			w.now += 50000;		/* the pool is idle now: it takes the longest then */
			w.q.load = SPAN(IDLE4);
			back = drawn(&w, hot ? "hot prefix" : NULL, 20000, true, &later);
			print_message("%-11s %s: %u of %u while it fails, %u of %u healed\n", rule_name(rule),
				      hot ? "a prefix it holds" : "new prompts", n, sent, back, later);
			assert_true(n <= 20);	/* some before it is learned, and one in ten seconds */
			assert_true(back * 8 >= later || (hot && by_one_holder(rule)));
			world_end(&w);
		}
	}
}

static void one_failure_keeps_a_prefix(void **state)
{
	struct world w;

	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		if (!policy_rule_guarded((enum policy_rule)rule))	/* not all of these rules use prefixes */
			continue;
		start_with(&w, rule, IDLE4);
		ask(&w, "1", "abcd");
		served(&w, "1");
		ask(&w, "2", "abcd");
		tell_done(&w, "2", "s1", 500, "--", 1);
		ask(&w, "3", "abcd");
		assert_span(w.a.server, "s1");
		assert_why(&w, WHY_CACHED);
		assert_true(w.a.hit > 950);
		tell_done(&w, "3", "s1", 500, "--", 1);
		ask(&w, "4", "abcd");
		tell_done(&w, "4", "s1", 500, "--", 1);
		ask(&w, "5", "abcd");		/* after three in a row */
		assert_false(is(w.a.server, "s1"));
		assert_why(&w, WHY_COLD);
		assert_int_equal(w.a.hit, 0);
		refused(&w, "5");
		w.now += 10000;			/* 7 requests of penalty have become 3.5: not yet */
		ask(&w, "6", "abcd");
		assert_false(is(w.a.server, "s1"));
		refused(&w, "6");
		w.now += 100;
		ask(&w, "7", "abcd");
		if (rule == RULE_CACHE_AWARE)
			assert_span(w.a.server, "s1");
		world_end(&w);
	}
}

/* The other servers have so much more load that the guard would trip. */
static void the_guard_is_not_fooled_by_an_idle_failure(void **state)
{
	struct world w;

	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		unsigned sent = 0, n;

		start_with(&w, rule, "lb1/1;s1=1,0,0,1;s2=1,90,0,1;s3=1,92,0,1;s4=1,94,0,1");
		n = drawn(&w, NULL, 30000, false, &sent);
		print_message("%-11s others have 90 open: %u of %u\n", rule_name(rule), n, sent);
		assert_true(n <= 15);
		assert_false(pool(&w).imbalanced);
		world_end(&w);
	}
}

static void all_fail_alike(void **state)
{
	struct world w;

	(void)state;
	for (int rule = 0; rule < RULE_COUNT; rule++) {
		unsigned n[4] = { 0 };

		if (by_hash(rule))
			continue;
		start_with(&w, rule, IDLE4);
		for (int i = 0; i < 400; i++, w.now += 50) {
			char uid[16], srv[16];

			snprintf(uid, sizeof(uid), "%d", i);
			ask(&w, uid, "same");
			snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w.a.server));
			assert_true(srv[0] == 's');
			n[srv[1] - '1']++;
			tell_done(&w, uid, srv, 500, "--", 1);
		}
		print_message("%-11s all fail: %u %u %u %u\n", rule_name(rule), n[0], n[1], n[2], n[3]);
		for (int i = 0; i < 4; i++)
			assert_true(n[i] >= 80 && n[i] <= 120);
		world_end(&w);
	}
}

/* The log line of a stream that ended normally. */
static void tell_stream(struct world *w, const char *uid, const char *srv, int64_t bytes)
{
	struct fact f = served_fact(uid);

	f.server = span_str(srv);
	f.bytes_out = bytes;
	route_learn(w->r, &f, w->now);
}

#define ERROR_EVENT	380	/* headers, and an event that reports a dead engine */
#define ANSWER		20000

/* s1 answers each stream at once with status 200 and an error, as an engine with a dead core does.
 * Requests come in a closed loop, so it has nothing open and looks like the fastest. */
static void fails_inside_a_stream_and_draws_little(void **state)
{
	enum { USERS = 16, REQUESTS = 2000 };
	static const bool firsts[] = { true, false };

	EACH(k, firsts) {
		struct { char uid[16], srv[8]; msec first, end; } user[USERS];
		unsigned n = 0, at_s1 = 0;
		struct world w;

		world_start(&w);
		for (int u = 0; u < USERS; u++)
			user[u].end = 0;
		while (n < REQUESTS) {
			for (int u = 0; u < USERS; u++) {
				bool fails = user[u].end != 0 && strcmp(user[u].srv, "s1") == 0;

				if (firsts[k] && user[u].first == w.now)
					tell_first(&w, user[u].uid, user[u].srv, 200, STREAM);
				if (user[u].end > w.now)
					continue;
				if (user[u].end != 0)
					tell_stream(&w, user[u].uid, user[u].srv,
						    fails ? ERROR_EVENT : ANSWER);
				snprintf(user[u].uid, sizeof(user[u].uid), "%u", n++);
				chat(&w.body, "\"stream\":true,", (char[]){ (char)('A' + n % 50), 'x', 0 },
				     ",\"model\":\"m\"");
				send(&w, user[u].uid);
				snprintf(user[u].srv, sizeof(user[u].srv), SPAN_FMT,
					 SPAN_ARG(w.a.server));
				fails = is(w.a.server, "s1");
				at_s1 += fails;
				user[u].first = w.now + (fails ? 3 : 250);
				user[u].end = w.now + (fails ? 5 : 600);
			}
			w.now++;
		}
		print_message("%u of %u to the server whose streams fail\n", at_s1, n);
		assert_true(at_s1 < n / 10);
		assert_true(stats(&w).failures[VERDICT_BROKEN] > at_s1 / 2);
		assert_true(server(&w, "s1").v.tokens_per_s < 2 * server(&w, "s2").v.tokens_per_s);
		world_end(&w);
	}
}

/* A prompt that it received but did not compute is not cached there. */
static void an_empty_stream_leaves_no_pages(void **state)
{
	struct world w;

	world_start_unpunished(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,9,0,1");
	for (int i = 0; i < 4; i++) {
		ask(&w, "u", i < 3 ? "x" : "abc");
		assert_span(w.a.server, "s1");
		tell_first(&w, "u", "s1", 200, STREAM);
		tell_stream(&w, "u", "s1", ERROR_EVENT);
	}
	ask(&w, "v", "abcde");
	assert_int_equal(w.a.pages, 0);
	tell_first(&w, "v", "s1", 200, STREAM);
	tell_stream(&w, "v", "s1", ANSWER);
	ask(&w, "v", "abcdefg");
	assert_true(w.a.pages >= 5 * TURN_PAGES);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_counts_once),
		cmocka_unit_test(kinds_are_counted),
		cmocka_unit_test(late_lines_of_others_teach_nothing),
		cmocka_unit_test(weights_and_half_life_are_options),
		cmocka_unit_test(fails_at_once_and_draws_little),
		cmocka_unit_test(one_failure_keeps_a_prefix),
		cmocka_unit_test(the_guard_is_not_fooled_by_an_idle_failure),
		cmocka_unit_test(all_fail_alike),
		cmocka_unit_test(fails_inside_a_stream_and_draws_little),
		cmocka_unit_test(an_empty_stream_leaves_no_pages),
	};

	return cmocka_run_group_tests_name("route failures", tests, NULL, NULL);
}

/* test_shadow.c - in shadow mode HAProxy chooses, and the speeds of the engines are learned from
 * its choices. */
#include <math.h>

#include "agent/ctl/trial.h"
#include "tests/unit/route/world.h"

#define TOKENS_PER_S	1000.0	/* of an engine with slowness 1 */
#define TURN_S		(TURN_PAGES * 16 / TOKENS_PER_S)
#define SERVERS		2
#define REQUESTS	600
#define TURNS		4

/* Engines that compute one prompt after another, and keep all. */
struct engines {
	struct world w;
	struct rng rng;
	double slowness[SERVERS], free_at[SERVERS];	/* seconds */
	unsigned n, told;
	struct request_at {
		char turns[TURNS + 1];
		unsigned server;
		double first;
		bool told, retried;
	} at[REQUESTS];
	unsigned elsewhere;	/* went to another server than the choice */
};

static void engines_start(struct engines *e, double one, double other)
{
	memset(e, 0, sizeof(*e));
	world_options(&e->w);
	e->w.o.pool_default.mode = MODE_SHADOW;
	e->w.o.pool_default.policy.prefill_tokens_per_s = TOKENS_PER_S;
	e->w.o.pool_default.policy.attention_factor = 0;
	world_open(&e->w);
	e->w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	rng_init(&e->rng, 7);
	e->slowness[0] = one;
	e->slowness[1] = other;
}

/* Return the turns of <turns> that the engine has not computed yet. */
static unsigned new_turns(const struct engines *e, const char *turns, unsigned server)
{
	size_t most = 0;

	for (unsigned i = 0; i < e->n; i++) {
		size_t same = 0;

		while (e->at[i].server == server && turns[same] != '\0' && turns[same] == e->at[i].turns[same])
			same++;
		most = same > most ? same : most;
	}
	return (unsigned)(strlen(turns) - most);
}

/* Send the facts that are due by the clock, in order. */
static void tell_due(struct engines *e, double until)
{
	char uid[16];

	for (;;) {
		struct request_at *next = NULL;
		struct fact f;

		for (unsigned i = e->n > 100 ? e->n - 100 : 0; i < e->n; i++)
			if (!e->at[i].told && (next == NULL || e->at[i].first < next->first))
				next = &e->at[i];
		if (next == NULL || next->first > until)
			return;
		next->told = true;
		e->w.now = 1000000 + (msec)(next->first * 1000);
		snprintf(uid, sizeof(uid), "%u", (unsigned)(next - e->at));
		if (!next->retried)
			tell_first(&e->w, uid, next->server == 0 ? "s1" : "s2", 200, STREAM);
		f = served_fact(uid);
		f.server = next->server == 0 ? SPAN("s1") : SPAN("s2");
		f.redispatched = next->retried;
		f.retries = next->retried;
		route_learn(e->w.r, &f, e->w.now);
	}
}

/* HAProxy balances <n> requests at random; some of them wait for others. */
static void requests(struct engines *e, unsigned n, bool retried)
{
	double at = (double)(e->w.now - 1000000) / 1000;
	char uid[16];

	for (unsigned i = 0; i < n; i++) {
		struct request_at q = { .server = (unsigned)rng_below(&e->rng, SERVERS), .retried = retried };
		unsigned turns = 2 + (unsigned)rng_below(&e->rng, TURNS - 1);
		double start;

		for (unsigned k = 0; k < turns; k++)
			q.turns[k] = (char)(k == 0 ? 'a' + rng_below(&e->rng, 6) : 128 + rng_below(&e->rng, 100));
		at += 1.4 * (double)rng_below(&e->rng, 1000) / 1000;
		tell_due(e, at);
		e->w.now = 1000000 + (msec)(at * 1000);
		snprintf(uid, sizeof(uid), "%u", e->n);
		ask(&e->w, uid, q.turns);
		assert_int_equal(e->w.a.server.n, 0);
		start = e->free_at[q.server] > at ? e->free_at[q.server] : at;
		q.first = start + e->slowness[q.server] * TURN_S * new_turns(e, q.turns, q.server);
		e->free_at[q.server] = q.first;
		e->at[e->n++] = q;
	}
	tell_due(e, 1e9);
}

static double learned(const struct engines *e, const char *name)
{
	const struct pool *p = fleet_find(&e->w.r->fleet, SPAN("pool"));
	const struct server *s = pool_find(p, span_str(name), SIZE_MAX);

	assert_non_null(s);
	assert_true(rate_first_known(&s->rate, e->w.now));
	return rate_by_first(&s->rate);
}

#define assert_about(value, wanted) assert_about_((value), (wanted), __FILE__, __LINE__)
static void assert_about_(double value, double wanted, const char *file, int line)
{
	if (!(fabs(value - wanted) <= 0.25 * wanted)) {
		print_error("%g is not about %g\n", value, wanted);
		_fail(file, line);
	}
}

static void speeds_are_learned_from_haproxys_choices(void **state)
{
	static const double slow[][SERVERS] = { { 1, 3 }, { 0.4, 0.4 }, { 2.5, 1 } };
	struct shadow_sums s;
	struct engines e;

	(void)state;
	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++) {
		engines_start(&e, slow[i][0], slow[i][1]);
		requests(&e, 200, false);
		assert_about(learned(&e, "s1"), slow[i][0]);
		assert_about(learned(&e, "s2"), slow[i][1]);
		assert_int_equal(server(&e.w, "s1").v.speed, SPEED_LEARNED);
		assert_int_equal(server(&e.w, "s1").v.open, 0);
		s = pool(&e.w).shadow;
		assert_in_range(s.requests, 190, 200);	/* some share a place */
		assert_in_range(s.same, 50, 150);
		requests(&e, 200, false);
		assert_true(pool(&e.w).shadow.timed >= TRIAL_ENOUGH);
		world_end(&e.w);
	}
}

/* Servers beside s1 and s2 that get no requests, by the load string or by a stats row. */
static const struct idle {
	const char *load;
	struct hastats_row row;		/* of s4; no name: none */
	bool waited_for;
} idle[] = {
	{ .load = "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1", .waited_for = true },
	{ .load = "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=b1,0,0,1" },
	{ .load = "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=B1,0,0,1;s4=B1,0,0,1" },
	{ .load = "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,0" },
	{ .load = "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=0,0,0,1" },
	{ .load = "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s4=1,0,0,1", .waited_for = true },
	{ "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s4=1,0,0,1", { .server = SPAN("s4"), .weight = 1,
	    .state = HASTATS_UP, .backup = true }, false },
	{ "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s4=1,0,0,1", { .server = SPAN("s4"), .weight = 1,
	    .state = HASTATS_MAINT }, false },
	{ "lb1/1;s1=1,0,0,1;s2=1,0,0,1;s4=1,0,0,1", { .server = SPAN("s4"), .weight = 1,
	    .state = HASTATS_DRAIN }, false },
};

static void servers_without_requests_are_not_waited_for(void **state)
{
	struct engines e;

	(void)state;
	for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
		struct hastats_row row = idle[i].row;
		double timed;

		engines_start(&e, 1, 3);
		e.w.q.load = span_str(idle[i].load);
		row.pool = SPAN("pool");
		requests(&e, 1, false);		/* rows of a pool that had none are dropped */
		if (row.server.n > 0)
			route_observe_server(e.w.r, SPAN("a"), &row, e.w.now, INT64_MAX);
		requests(&e, 400, false);
		timed = pool(&e.w).shadow.timed;
		if ((timed >= TRIAL_ENOUGH) == idle[i].waited_for)
			fail_msg("%zu: %g requests with learned speeds", i, timed);
		world_end(&e.w);
	}
}

/* The wait of a request that HAProxy sent elsewhere first did not begin at the server that served
 * it. */
static void retried_requests_teach_no_speed(void **state)
{
	struct engines e;

	(void)state;
	engines_start(&e, 3, 3);
	requests(&e, 100, true);
	assert_int_equal(server(&e.w, "s1").v.speed, SPEED_GUESS);
	assert_int_equal(server(&e.w, "s2").v.speed, SPEED_GUESS);
	assert_int_equal(pool(&e.w).shadow.timed, 0);
	world_end(&e.w);
}

/* Of a server that was no candidate, nothing is known. */
static void work_is_known_of_candidates_only(void **state)
{
	struct policy_opts o;
	struct policy_prompt p = { .tokens = 1000 };
	struct candidate c[SHADOW_KEPT + 1];
	struct shadow_choice choice = {
		.uid = 9, .from = c, .n = 2, .tokens = 1000, .prompt = &p, .opts = &o,
	};
	struct shadow *s = NULL;
	struct shadow_work w;

	(void)state;
	policy_defaults(&o);
	memset(c, 0, sizeof(c));
	for (unsigned i = 0; i <= SHADOW_KEPT; i++) {
		c[i].id = (server_id)i;
		c[i].cached = 100 + 10 * i;
		c[i].slowness = 1;
	}
	assert_false(shadow_work_at(s, 9, 1, &w));
	shadow_chose(&s, &choice);
	assert_true(shadow_work_at(s, 9, 1, &w));
	assert_int_equal(w.tokens, 1000);
	assert_int_equal(w.cached, 110);
	assert_false(w.untimed);
	assert_false(shadow_work_at(s, 9, 2, &w));
	assert_false(shadow_work_at(s, 9 + SHADOW_OPEN, 1, &w));
	choice.n = SHADOW_KEPT + 1;
	choice.untimed = true;
	shadow_chose(&s, &choice);
	assert_true(shadow_work_at(s, 9, 0, &w));	/* not kept: the mean of such */
	assert_int_equal(w.cached, 100);
	assert_true(w.untimed);
	shadow_went(s, 9, 0);
	assert_false(shadow_work_at(s, 9, 0, &w));
	assert_int_equal(shadow_sums(s).requests, 1);
	shadow_free(s);
}

/* Nothing is known of a server that was down or closed when the request was decided: with 0 tokens
 * there the agent's own choice would always look better. */
static void servers_that_were_no_candidate_are_not_compared(void **state)
{
	struct policy_opts o;
	struct policy_prompt p = { .tokens = 1000 };
	struct candidate c[2] = { { .id = 0, .cached = 800, .slowness = 1 },
		{ .id = 1, .cached = 100, .slowness = 1 } };
	struct shadow_choice choice = { .from = c, .n = 2, .tokens = 1000, .learned = true,
		.prompt = &p, .opts = &o };
	struct shadow *s = NULL;
	struct shadow_sums sums;

	(void)state;
	policy_defaults(&o);
	for (server_id to = 1; to <= 2; to++) {
		choice.uid = to;
		shadow_chose(&s, &choice);
		shadow_went(s, to, to);
		assert_false(shadow_work_at(s, to, 1, &(struct shadow_work){ 0 }));
		sums = shadow_sums(s);
		assert_int_equal(sums.requests, 1);
		assert_int_equal(sums.timed, 1);
		assert_int_equal(sums.prompt_tokens, 1000);
		assert_int_equal(sums.hit_tokens, 800);
		assert_int_equal(sums.haproxy_hit_tokens, 100);
		assert_true(sums.gain_tokens2 == 700.0 * 700.0);
	}
	shadow_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speeds_are_learned_from_haproxys_choices),
		cmocka_unit_test(servers_without_requests_are_not_waited_for),
		cmocka_unit_test(retried_requests_teach_no_speed),
		cmocka_unit_test(work_is_known_of_candidates_only),
		cmocka_unit_test(servers_that_were_no_candidate_are_not_compared),
	};

	return cmocka_run_group_tests_name("route/shadow", tests, NULL, NULL);
}

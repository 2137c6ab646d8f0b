/* test_outcomes.c - compared rules judged by measured first tokens. */
#include <math.h>

#include "tests/unit/route/world.h"

static struct outcome_guess guess(server_id at, double s)
{
	return (struct outcome_guess){ .at = at, .s = (float)s };
}

/* Server 1 takes twice our estimate, server 2 our estimate, and both 50 ms more. */
static double truth(server_id at, double s)
{
	return 0.05 + (at == 1 ? 2 : 1) * s;
}

static uint64_t uids = 1;

/* One request to <at> that the rule would have sent to <rule>, with the same estimate; noise of at
 * most <noise> s. */
static void one(struct outcomes *o, struct rng *rng, server_id at, server_id rule, double s,
    double noise, struct outcome_rule *r)
{
	struct outcome_guess taken = guess(at, s), its = guess(rule, s);
	double off = noise * ((double)rng_below(rng, 2001) / 1000 - 1);
	uint64_t uid = uids++;

	outcomes_expect(o, uid, 1000, &taken, &its, 1);
	outcomes_came(o, uid, at, 1000 + (msec)lround(1000 * (truth(at, s) + off)), -1, &r, 1);
}

static void learn(struct outcomes *o, struct rng *rng, double noise, struct outcome_rule *r)
{
	for (int i = 0; i < 200; i++)
		one(o, rng, 1 + (server_id)(i % 2), 1 + (server_id)(i % 2), 0.1 + 0.01 * (i % 40), noise, r);
}

/* By our estimate both servers are equal; by measured times, server 2 is faster by the estimate. */
static void estimates_are_corrected(void **state)
{
	struct outcomes *o = outcomes_new();
	struct outcome_rule learned = { 0 }, sooner = { 0 }, later = { 0 };
	double gain, error;
	struct rng rng;

	rng_init(&rng, 1);
	learn(o, &rng, 0, &learned);
	assert_true(learned.same.n >= 160 && learned.other.n == 0);
	assert_false(outcomes_gain(o, &sooner, &gain, &error));
	for (int i = 0; i < 30; i++)
		one(o, &rng, 1, 2, 0.3, 0, &sooner);
	assert_int_equal(sooner.other.n, 30);
	assert_int_equal(sooner.same.n, 0);
	assert_true(outcomes_gain(o, &sooner, &gain, &error));
	assert_true(fabs(gain - 0.3) < 0.02);
	assert_true(fabs(sooner.other.measured_s / 30 - 0.65) < 0.002);
	assert_true(fabs(sooner.other.judged_s / 30 - 0.35) < 0.02);
	for (int i = 0; i < 30; i++)
		one(o, &rng, 2, 1, 0.3, 0, &later);
	assert_true(outcomes_gain(o, &later, &gain, &error));
	assert_true(fabs(gain + 0.3) < 0.03);
	outcomes_free(o);
}

/* The true gain is within four errors of the shown one at any noise; more requests make a smaller
 * error. */
static void the_error_covers_chance(void **state)
{
	double gain, error, before;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct outcomes *o = outcomes_new();
		struct outcome_rule learned = { 0 }, r = { 0 };
		struct rng rng;

		rng_init(&rng, seed);
		learn(o, &rng, 0.2, &learned);
		for (int i = 0; i < 50; i++)
			one(o, &rng, 1 + (server_id)(i % 2), 2, 0.3, 0.2, &r);
		assert_true(outcomes_gain(o, &r, &gain, &before));
		for (int i = 0; i < 450; i++)
			one(o, &rng, 1 + (server_id)(i % 2), 2, 0.3, 0.2, &r);
		assert_true(outcomes_gain(o, &r, &gain, &error));
		assert_int_equal(r.same.n, 250);
		assert_int_equal(r.other.n, 250);
		if (fabs(gain - 0.3) > 4 * error)
			fail_msg("seed %d: %f, not 0.3, with an error of %f", (int)seed, gain, error);
		assert_true(error < before && error > 0.005 && error < 0.05);
		outcomes_free(o);
	}
}

/* A cached prompt at an idle server: the estimate is near 0, but the measured time is not. */
static void little_estimates_have_a_floor(void **state)
{
	struct outcomes *o = outcomes_new();
	struct outcome_rule r = { 0 };
	struct rng rng;

	rng_init(&rng, 3);
	for (int i = 0; i < 60; i++)
		one(o, &rng, 2, 2, i % 2 ? 0.5 : 0, 0, &r);
	one(o, &rng, 2, 2, 0, 0, &r);
	assert_true(fabs(outcomes_checked(o).judged_s - outcomes_checked(o).measured_s) < 0.05);
	assert_int_equal(outcomes_checked(o).n, 61 - 16);
	outcomes_free(o);
}

static void requests_that_do_not_count(void **state)
{
	struct outcomes *o = outcomes_new();
	struct outcome_guess a = guess(1, 0.1), b = guess(SERVER_NONE, 0);
	struct outcome_rule r = { 0 }, *to = &r;
	struct rng rng;

	rng_init(&rng, 1);
	learn(o, &rng, 0, &r);
	memset(&r, 0, sizeof(r));
	outcomes_came(o, 999999, 1, 5, -1, &to, 1);		/* unknown uid */
	outcomes_expect(o, 7, 0, &a, &a, 1);
	/* from a server without an estimate */
	outcomes_came(o, 7, 5, 100, -1, &to, 1);
	outcomes_expect(o, 7, 0, &a, &a, 1);
	outcomes_expect(o, 7 + OUTCOMES_OPEN, 0, &a, &a, 1);	/* at the same place */
	outcomes_came(o, 7, 1, 100, -1, &to, 1);
	outcomes_expect(o, 8, 0, &a, &b, 1);			/* the rule had no choice */
	outcomes_came(o, 8, 1, 100, -1, &to, 1);
	outcomes_expect(o, 9, 0, &a, &a, 1);
	outcomes_forget(o);
	outcomes_came(o, 9, 1, 100, -1, &to, 1);
	outcomes_expect(o, 10, 0, &a, &a, 1);
	outcomes_came(o, 10, 1, 100, -1, &to, 0);		/* of other rules */
	assert_int_equal(r.same.n + r.other.n, 0);
	outcomes_expect(o, 11, 0, &a, &a, 1);
	outcomes_came(o, 11, 1, 100, 250, &to, 1);		/* by headers, and once */
	outcomes_came(o, 11, 1, 100, 250, &to, 1);
	assert_int_equal(r.same.n, 1);
	assert_true(fabs(r.same.measured_s - 0.25) < 1e-6);
	outcomes_gone(o, 1);
	outcomes_expect(o, 12, 0, &a, &a, 1);
	outcomes_came(o, 12, 1, 100, -1, &to, 1);		/* judged by all servers together */
	assert_int_equal(r.same.n, 2);
	outcomes_free(o);
	outcomes_expect(NULL, 1, 0, &a, &a, 1);
	outcomes_came(NULL, 1, 1, 0, -1, &to, 1);
	outcomes_forget(NULL);
	outcomes_gone(NULL, 1);
	outcomes_free(NULL);
}

/* ---- of a route ------------------------------------------------------------------------------ */

static void keep_view(void *arg, const struct route_compare_view *v)
{
	*(struct route_compare_view *)arg = *v;
}

#define TOOK_MS	250
#define JSON	"application/json"

/* The first token came TOOK_MS after the request, and its log line a second later. <type> NULL:
 * only the log line came. */
static void answered(struct world *w, const char *uid, const char *type)
{
	char srv[SERVER_NAME_MAX + 1];

	ask(w, uid, uid[1] % 2 ? "ab" : "a");
	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	w->now += TOOK_MS;
	if (type != NULL)
		tell_first(w, uid, srv, 200, type);
	w->now += 1000;
	tell_done(w, uid, srv, 200, "--", TOOK_MS);
}

static void open_compared(struct world *w, const char *type)
{
	char uid[16];

	world_options(w);
	w->o.pool_default.compare[0] = RULE_ROUND_ROBIN + 1;
	world_open(w);
	for (int i = 0; i < 80; i++) {
		snprintf(uid, sizeof(uid), "u%d_%d", i % 2, i);
		answered(w, uid, type);
	}
}

static void judged_by(const char *type)
{
	struct route_compare_view v = { 0 };
	struct world w;

	open_compared(&w, type);
	route_each_compared(w.r, keep_view, &v);
	assert_string_equal(v.rule, "round_robin");
	assert_int_equal(v.same_as.n + v.other.n, v.checked.n);
	assert_true(v.checked.n >= 48 && v.other.n > 10);
	assert_true(fabs(v.other.measured_s / (double)v.other.n - 0.25) < 1e-6);
	assert_true(fabs(v.other.judged_s / (double)v.other.n - 0.25) < 0.05);
	assert_true(v.gain_known && fabs(v.gain_s) < 0.05);
	world_end(&w);
}

static void first_tokens_judge_rules(void **state)
{
	judged_by(STREAM);
}

/* %Tr is used, both if the message "first" has closed the request before its log line and if none
 * came. */
static void headers_judge_rules(void **state)
{
	judged_by(JSON);
	judged_by(NULL);
}

static void headers_do_not_beside_first_tokens(void **state)
{
	struct route_compare_view v = { 0 }, later = { 0 };
	struct world w;

	open_compared(&w, STREAM);
	route_each_compared(w.r, keep_view, &v);
	answered(&w, "u0_json", JSON);
	answered(&w, "u0_line", NULL);
	route_each_compared(w.r, keep_view, &later);
	assert_int_equal(later.checked.n, v.checked.n);
	answered(&w, "u0_stream", STREAM);
	route_each_compared(w.r, keep_view, &later);
	assert_int_equal(later.checked.n, v.checked.n + 1);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_are_corrected),
		cmocka_unit_test(the_error_covers_chance),
		cmocka_unit_test(little_estimates_have_a_floor),
		cmocka_unit_test(requests_that_do_not_count),
		cmocka_unit_test(first_tokens_judge_rules),
		cmocka_unit_test(headers_judge_rules),
		cmocka_unit_test(headers_do_not_beside_first_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_penalty.c - the arithmetic of the penalty: growth, decay, bound; and its effect in a pool
 * where some servers fail, simulated with only this arithmetic and "least load". */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/fleet/penalty.h"

#define HALF	10000		/* ms */
#define NEAR(a, b)	(fabs((a) - (b)) < 1e-9)

static void fails(struct penalty *p, msec sent, msec now)
{
	penalty_failure(p, 1, 1e6, HALF, sent, now);
}

static void works(struct penalty *p, msec sent, msec now)
{
	penalty_success(p, HALF, sent, now);
}

/* ---- arithmetic --------------------------------------------------------------------------- */

static void one_after_the_other_doubles(void **state)
{
	struct penalty p = { 0 };

	(void)state;
	assert_int_equal(penalty_weight(&p, HALF, 5000), 0);
	for (int i = 1; i <= 9; i++) {
		fails(&p, 5000, 5000);
		assert_true(NEAR(penalty_now(&p, HALF, 5000), (1 << i) - 1));
	}
	for (int i = 1; i <= 9; i++)
		works(&p, 5000, 5000);
	assert_true(NEAR(penalty_now(&p, HALF, 5000), 511.0 / 512));
}

static void many_at_once_add_up(void **state)
{
	struct penalty p = { 0 };

	(void)state;
	fails(&p, 5000, 6000);
	for (int i = 0; i < 9; i++)
		fails(&p, 5999, 6000);		/* sent before anything was known */
	assert_true(NEAR(penalty_now(&p, HALF, 6000), 10));
	works(&p, 5999, 6000);
	assert_true(NEAR(penalty_now(&p, HALF, 6000), 9));
	works(&p, 6000, 6000);
	assert_true(NEAR(penalty_now(&p, HALF, 6000), 4.5));
	for (int i = 0; i < 9; i++)
		works(&p, 5999, 6000);
	assert_true(penalty_now(&p, HALF, 6000) == 0);
}

static void weights(void **state)
{
	struct penalty p = { 0 };

	(void)state;
	penalty_failure(&p, 0, 0, HALF, 1000, 1000);
	assert_true(p.p == 0 && p.failed == 0);		/* teaches nothing */
	penalty_failure(&p, 0.5, 0, HALF, 1000, 1000);
	assert_true(NEAR(p.p, 0.5));
	penalty_failure(&p, 0.5, 0, HALF, 1000, 1000);
	assert_true(NEAR(p.p, 1.25));
	penalty_failure(&p, 0.5, 0, HALF, 999, 1000);
	assert_true(NEAR(p.p, 1.75));
}

static void decays_to_nothing(void **state)
{
	struct penalty p = { 0 };

	(void)state;
	fails(&p, 1000, 1000);
	fails(&p, 1000, 1000);
	fails(&p, 1000, 1000);
	assert_true(NEAR(penalty_now(&p, HALF, 1000 + HALF), 3.5));
	assert_true(NEAR(penalty_now(&p, HALF, 1000 + 2 * HALF), 1.75));
	assert_true(NEAR(penalty_now(&p, 2 * HALF, 1000 + 2 * HALF), 3.5));
	assert_int_equal(penalty_weight(&p, HALF, 1000 + 3 * HALF), 1);
	assert_int_equal(penalty_weight(&p, HALF, 1000 + 4 * HALF), 0);
	assert_true(NEAR(penalty_now(&p, HALF, 500), 7));	/* a clock that lags */
	fails(&p, 400, 500);
	assert_true(NEAR(penalty_now(&p, HALF, 1000), 8));
	assert_int_equal(p.failed, 1000);
	assert_int_equal(penalty_weight(&p, HALF, (msec)1 << 60), 0);
	fails(&p, (msec)1 << 60, (msec)1 << 60);
	assert_true(NEAR(p.p, 1));
}

static void has_a_cap(void **state)
{
	static const struct { double busiest, cap; } cases[] = {
		{ 0, 8 }, { 1, 10 }, { 16, 40 }, { 200.5, 409 }, { 1e9, PENALTY_MAX },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct penalty p = { 0 };

		for (int k = 0; k < 70000; k++)		/* all at once */
			penalty_failure(&p, 1, cases[i].busiest, HALF, 0, 1000);
		assert_true(NEAR(p.p, cases[i].cap));
		penalty_failure(&p, 1, cases[i].busiest, HALF, 1000, 1000);
		penalty_failure(&p, 16, cases[i].busiest, HALF, 1000, 1000);
		assert_true(NEAR(p.p, cases[i].cap));
		penalty_failure(&p, 1, 0, HALF, 1000, 1000);	/* the pool is idle: no more, no less */
		assert_true(NEAR(p.p, cases[i].cap));
		penalty_failure(&p, 1, 1e9, HALF, 1000, 1000);
		assert_true(NEAR(p.p, cases[i].cap == PENALTY_MAX ? PENALTY_MAX : 2 * cases[i].cap + 1));
	}
}

/* ---- a pool ------------------------------------------------------------------------------- */

#define SERVERS	4
#define CLIENTS	64

/* <CLIENTS> send the next request after each answer. A request goes to the least load with penalty;
 * a failure takes a millisecond, an answer <answer_ms>. */
struct fleet {
	struct penalty p[SERVERS];
	double broken[SERVERS];		/* share of requests that fail */
	uint64_t turn[SERVERS], turns;
	unsigned load[SERVERS], picked[SERVERS];
	struct { int at; bool fails; msec sent, ends; } client[CLIENTS];
	unsigned n_clients;
	msec now, answer_ms;
	struct rng rng;
	bool with_penalty;
};

static int least(const struct fleet *f)
{
	int best = 0;
	uint32_t least = UINT32_MAX;

	for (int i = 0; i < SERVERS; i++) {
		uint32_t load = f->load[i];

		if (f->with_penalty)
			load += penalty_weight(&f->p[i], HALF, f->now);
		if (load < least || (load == least && f->turn[i] < f->turn[best])) {
			best = i;
			least = load;
		}
	}
	return best;
}

static double busiest(const struct fleet *f)
{
	unsigned most = 0;

	for (int i = 0; i < SERVERS; i++)
		most = f->load[i] > most ? f->load[i] : most;
	return most;
}

static void send(struct fleet *f, unsigned c)
{
	int at = least(f);

	f->turn[at] = ++f->turns;
	f->load[at]++;
	f->picked[at]++;
	f->client[c].at = at;
	f->client[c].fails = rng_below(&f->rng, 1000) < f->broken[at] * 1000;
	f->client[c].sent = f->now;
	f->client[c].ends = f->now + (f->client[c].fails ? 1 : f->answer_ms / 2 +
				      (msec)rng_below(&f->rng, (uint32_t)f->answer_ms));
}

static void start(struct fleet *f, unsigned clients, msec answer_ms, bool with_penalty)
{
	*f = (struct fleet){ .n_clients = clients, .answer_ms = answer_ms, .now = 1000,
			     .with_penalty = with_penalty };
	rng_init(&f->rng, 7);
}

static void answered(struct fleet *f, unsigned c)
{
	struct penalty *p = &f->p[f->client[c].at];

	if (f->client[c].fails)
		penalty_failure(p, 1, busiest(f), HALF, f->client[c].sent, f->now);
	else
		penalty_success(p, HALF, f->client[c].sent, f->now);
	f->load[f->client[c].at]--;
}

static void run(struct fleet *f, msec ms)
{
	msec end = f->now + ms;

	memset(f->picked, 0, sizeof(f->picked));
	for (; f->now < end; f->now++) {
		for (unsigned c = 0; c < f->n_clients; c++) {
			if (f->client[c].sent > 0 && f->client[c].ends > f->now)
				continue;
			if (f->client[c].sent > 0)
				answered(f, c);
			send(f, c);
		}
	}
}

static double share(const struct fleet *f, int i)
{
	return (double)f->picked[i] / (f->picked[0] + f->picked[1] + f->picked[2] + f->picked[3]);
}

/* A fair share is a quarter. If answers take minutes, there are so few requests that one in a
 * half-life is a large share: then that is the bound. */
static void a_server_that_fails_draws_little(void **state)
{
	static const struct { unsigned clients; msec answer_ms; double broken; } cases[] = {
		{ 4, 50, 1 }, { 64, 50, 1 }, { 4, 1000, 1 }, { 64, 1000, 1 }, { 16, 10000, 1 },
		{ 64, 10000, 1 }, { 64, 30000, 1 }, { 64, 1000, 0.9 }, { 64, 1000, 0.7 },
		{ 64, 1000, 0.5 }, { 4, 1000, 0.5 }, { 64, 10000, 0.5 }, { 64, 1000, 0.1 },
		{ 64, 10000, 0.05 }, { 64, 100, 0.02 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fleet f;
		double without, with;
		unsigned n;

		start(&f, cases[i].clients, cases[i].answer_ms, false);
		f.broken[0] = cases[i].broken;
		run(&f, 20 * HALF);
		without = share(&f, 0);
		start(&f, cases[i].clients, cases[i].answer_ms, true);
		f.broken[0] = cases[i].broken;
		run(&f, 20 * HALF);
		n = f.picked[0];
		with = share(&f, 0);
		f.broken[0] = 0;
		run(&f, 3 * HALF);
		run(&f, 5 * HALF);
		print_message("%2u clients, answers of %5lld ms, fails %3.0f %%: share %.3f (%u requests), "
			      "without a penalty %.3f; healed for 30 s: %.3f\n", cases[i].clients,
			      (long long)cases[i].answer_ms, cases[i].broken * 100, with, n, without,
			      share(&f, 0));
		assert_true(with < 0.5);
		assert_true(share(&f, 0) >= 0.125);
		if (cases[i].broken == 1)
			assert_true(without > 0.5 && n <= 20 * 2 + 20);
		if (cases[i].broken <= 0.05)	/* few failures move little */
			assert_true(with > 0.15);
	}
}

static void all_that_fail_share_evenly(void **state)
{
	struct fleet f;

	(void)state;
	start(&f, 8, 100, true);
	for (int i = 0; i < SERVERS; i++)
		f.broken[i] = 1;
	run(&f, 2 * HALF);
	print_message("all fail: shares %.3f %.3f %.3f %.3f\n", share(&f, 0), share(&f, 1), share(&f, 2),
		      share(&f, 3));
	for (int i = 0; i < SERVERS; i++)
		assert_true(share(&f, i) > 0.2 && share(&f, i) < 0.3);
	for (int i = 1; i < SERVERS; i++)
		f.broken[i] = 0;
	run(&f, 2 * HALF);
	run(&f, HALF);
	print_message("three of them healed, after 20 s: shares %.3f %.3f %.3f %.3f\n", share(&f, 0),
		      share(&f, 1), share(&f, 2), share(&f, 3));
	assert_true(share(&f, 0) < 0.05);
	for (int i = 1; i < SERVERS; i++)
		assert_true(share(&f, i) > 0.25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_after_the_other_doubles),
		cmocka_unit_test(many_at_once_add_up),
		cmocka_unit_test(weights),
		cmocka_unit_test(decays_to_nothing),
		cmocka_unit_test(has_a_cap),
		cmocka_unit_test(a_server_that_fails_draws_little),
		cmocka_unit_test(all_that_fail_share_evenly),
	};

	return cmocka_run_group_tests_name("route penalty", tests, NULL, NULL);
}

/* test_rate.c - the slowness of a server, inferred from times alone. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/fleet/rate.h"

#define NEAR(a, b, share)	(fabs((a) - (b)) <= (share) * (b))

/* Simulate an engine that computes one prompt after the other: <n> are sent, <gap> ms apart, and
 * take <slow> times their work. */
static void serve(struct rate *r, struct rng *rng, double slow, unsigned n, msec gap, msec *now)
{
	double free_at = (double)*now;
	msec sent[256];
	double done[256], work[256];
	unsigned first = 0, last = 0, i = 0;

	while (i < n || first < last) {
		msec next = *now + gap;

		if (first < last && (i == n || done[first % 256] <= (double)next)) {
			rate_answered(r, work[first % 256], sent[first % 256], (msec)done[first % 256]);
			first++;
			continue;
		}
		*now = next;
		if (first == last)
			rate_begin(r, *now);
		work[last % 256] = 0.05 + rng_below(rng, 1000) / 1000.0;
		if (free_at < (double)*now)
			free_at = (double)*now;
		free_at += work[last % 256] * slow * 1000;
		sent[last % 256] = *now;
		done[last % 256] = free_at;
		last++;
		i++;
	}
	*now = (msec)free_at + 1000;
}

static void learns_from_first_tokens(void **state)
{
	static const struct { double guess, slow; msec gap; } cases[] = {
		{ 1, 0.3, 1000 }, { 1, 0.3, 200 }, { 1, 2, 5000 }, { 1, 2, 1300 }, { 0.1, 1, 700 }, { 4, 1, 900 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rng rng;
		struct rate r;
		msec now = 1000;

		rng_init(&rng, i);
		rate_init(&r, cases[i].guess);
		assert_true(NEAR(rate_by_first(&r), cases[i].guess, 0.001));
		assert_false(rate_first_known(&r, now));
		serve(&r, &rng, cases[i].slow, 300, cases[i].gap, &now);
		assert_true(rate_first_known(&r, now));
		assert_false(rate_first_known(&r, now + 700000));	/* no request since */
		if (!NEAR(rate_by_first(&r), cases[i].slow, 0.15))
			fail_msg("case %zu: %.3f, not %.3f", i, rate_by_first(&r), cases[i].slow);
	}
}

static void follows_a_server_that_changes(void **state)
{
	struct rng rng;
	struct rate r;
	msec now = 0;

	(void)state;
	rng_init(&rng, 1);
	rate_init(&r, 1);
	serve(&r, &rng, 0.5, 500, 600, &now);
	assert_true(NEAR(rate_by_first(&r), 0.5, 0.1));
	serve(&r, &rng, 1.5, 2000, 2000, &now);
	assert_true(NEAR(rate_by_first(&r), 1.5, 0.15));
}

/* Two requests wait; one is aborted after 9 s of computing. So nothing is learned from the first
 * token of the other. */
static void work_without_a_first_token_teaches_nothing(void **state)
{
	struct rate r;

	(void)state;
	rate_init(&r, 1);
	rate_begin(&r, 1000);
	rate_void(&r, 10000);
	rate_answered(&r, 5, 1500, 10010);
	assert_true(NEAR(rate_by_first(&r), 1, 0.001));
	rate_answered(&r, 1, 10005, 11010);		/* sent after it */
	assert_true(NEAR(rate_by_first(&r), 1, 0.05));
}

/* Requests that are known only by their first tokens: each second counts once, in
 * whatever order they end, and from 16 s to 20 s there was no work. */
static void busy_time_that_is_known_late(void **state)
{
	struct rate r;

	(void)state;
	rate_init(&r, 1);
	rate_begin_late(&r, 1000);
	assert_true(NEAR(rate_answered(&r, 1, 1000, 3000).busy_s, 2, 1e-9));
	rate_begin_late(&r, 8000);
	assert_true(NEAR(rate_answered(&r, 1, 8000, 10000).busy_s, 2, 1e-9));
	rate_begin_late(&r, 6000);		/* sent before, answered after it */
	assert_true(NEAR(rate_answered(&r, 1, 6000, 11000).busy_s, 3, 1e-9));
	rate_begin_late(&r, 2000);		/* the server was idle from 3 s on, as far as was known */
	assert_true(NEAR(rate_answered(&r, 1, 2000, 12000).busy_s, 4, 1e-9));
	rate_begin_late(&r, 11000);
	assert_true(NEAR(rate_answered(&r, 1, 11000, 16000).busy_s, 4, 1e-9));
	rate_begin_late(&r, 20000);
	assert_true(NEAR(rate_answered(&r, 1, 20000, 21000).busy_s, 1, 1e-9));
}

/* The apparent first token was an error. */
static void added_work_can_be_removed(void **state)
{
	struct rate_added added[2];
	struct rng rng;
	struct rate r;
	msec now = 0;
	double before;

	rng_init(&rng, 2);
	rate_init(&r, 1);
	rate_take_back(&r, (struct rate_added){ .busy_s = 0.1, .work_s = 0.4 });	/* no guess is lost */
	assert_true(NEAR(rate_by_first(&r), 1, 1e-9));
	serve(&r, &rng, 1, 100, 1000, &now);
	before = rate_by_first(&r);
	rate_begin(&r, now);
	added[0] = rate_answered(&r, 20, now, now + 5);
	added[1] = rate_answered(&r, 20, now, now + 10);
	assert_true(rate_by_first(&r) < 0.8 * before);
	rate_take_back(&r, added[0]);
	rate_take_back(&r, added[1]);
	assert_true(NEAR(rate_by_first(&r), before, 0.1));
	rate_void(&r, now + 10);
	added[0] = rate_answered(&r, 20, now, now + 20);	/* nothing was added */
	assert_true(added[0].work_s == 0);
	rate_take_back(&r, added[0]);
	assert_true(NEAR(rate_by_first(&r), before, 0.1));
}

static void one_stall_does_not_teach_much(void **state)
{
	struct rng rng;
	struct rate r;
	msec now = 0;

	(void)state;
	rng_init(&rng, 2);
	rate_init(&r, 1);
	serve(&r, &rng, 1, 100, 1000, &now);
	rate_begin(&r, now);
	rate_answered(&r, 0.1, now, now + 3600 * 1000);
	assert_true(rate_by_first(&r) < 1.3);
	rate_init(&r, 1);
	rate_begin(&r, 0);
	rate_answered(&r, 0.1, 0, 3600 * 1000);
	assert_false(rate_first_known(&r, 3600 * 1000));	/* one is none */
}

static void a_clock_that_lags_is_no_time(void **state)
{
	struct rate r;

	(void)state;
	rate_init(&r, 1);
	rate_begin(&r, 1000);
	rate_answered(&r, 1, 1000, 900);
	assert_true(rate_by_first(&r) > 0 && rate_by_first(&r) <= 1);
	assert_int_equal(r.since, 1000);
}

/* Headers come with the first token; two of three waited for others, up to ten times their own
 * time. */
static void learns_from_headers(void **state)
{
	static const double slow[] = { 0.25, 1, 3 };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct rng rng;
		struct rate r;

		rng_init(&rng, i);
		rate_init(&r, 1);
		assert_false(rate_headers_known(&r, 1000));
		for (unsigned k = 0; k < 300; k++) {
			double work = 0.1 + rng_below(&rng, 2000) / 1000.0;
			double wait = rng_below(&rng, 3) ? rng_below(&rng, 10000) / 1000.0 : 0;

			rate_headers(&r, work, (msec)(work * slow[i] * (1 + wait) * 1000), 900);
		}
		assert_true(rate_headers_known(&r, 1000));
		if (rate_by_headers(&r) < slow[i] || rate_by_headers(&r) > 1.6 * slow[i])
			fail_msg("%.2f: %.3f", slow[i], rate_by_headers(&r));
	}
}

/* 5 ms for any prompt: the engine has computed nothing by then. */
static void early_headers_teach_nothing(void **state)
{
	struct rng rng;
	struct rate r;

	(void)state;
	rng_init(&rng, 3);
	rate_init(&r, 1);
	for (unsigned k = 0; k < 300; k++)
		rate_headers(&r, 0.3 + rng_below(&rng, 2000) / 1000.0, 5, 900);
	assert_false(rate_headers_known(&r, 1000));
}

static void small_prompts_and_missing_times_are_left_out(void **state)
{
	struct rate r;

	(void)state;
	rate_init(&r, 1);
	for (unsigned k = 0; k < 300; k++) {
		rate_headers(&r, 0.01, 500, 900);
		rate_headers(&r, 1, -1, 900);
	}
	assert_false(rate_headers_known(&r, 1000));
}

/* The server becomes ten times as fast. While it counted as slow it got no requests. */
static void an_idle_server_is_learned_again(void **state)
{
	struct rng rng;
	struct rate r;
	msec now = 1000;

	(void)state;
	rng_init(&rng, 5);
	rate_init(&r, 1);
	serve(&r, &rng, 10, 500, 11000, &now);
	for (unsigned k = 0; k < 100; k++)
		rate_headers(&r, 1, 10000, now);
	now += 700000;
	assert_false(rate_first_known(&r, now) || rate_headers_known(&r, now));
	rate_begin(&r, now);
	rate_answered(&r, 1, now, now + 1000);
	assert_false(rate_first_known(&r, now + 1000));		/* the first since */
	serve(&r, &rng, 1, 40, 1300, &now);
	assert_true(rate_first_known(&r, now) && rate_by_first(&r) < 1.5);
	for (unsigned k = 0; k < 40; k++)
		rate_headers(&r, 1, 1000, now);
	assert_true(rate_headers_known(&r, now) && rate_by_headers(&r) < 2);
}

static void a_server_known_by_headers_is_learned_anew(void **state)
{
	struct rate r;

	(void)state;
	rate_init(&r, 1);
	for (unsigned k = 0; k < 300; k++)
		rate_headers(&r, 1, 10000, 1000);
	rate_headers(&r, 1, 1000, 701000);
	assert_false(rate_headers_known(&r, 701000));
	for (unsigned k = 0; k < 40; k++)
		rate_headers(&r, 1, 1000, 701000);
	assert_true(rate_headers_known(&r, 701000) && rate_by_headers(&r) < 1.5);
}

static void is_kept_over_a_restart(void **state)
{
	struct rng rng;
	struct rate r, next;
	msec now = 0;

	(void)state;
	rng_init(&rng, 4);
	rate_init(&r, 1);
	assert_int_equal(rate_keep(&r, now).first + rate_keep(&r, now).headers, 0);
	serve(&r, &rng, 0.4, 200, 700, &now);
	rate_init(&next, 1);
	rate_recall(&next, rate_keep(&r, now), 5);
	assert_true(rate_first_known(&next, 5) && !rate_headers_known(&next, 5));
	assert_true(NEAR(rate_by_first(&next), rate_by_first(&r), 0.001));
	rate_recall(&next, (struct rate_kept){ UINT32_MAX, UINT32_MAX }, 5);
	assert_true(rate_by_first(&next) <= SLOWNESS_MAX && rate_by_headers(&next) <= SLOWNESS_MAX);
	rate_recall(&next, (struct rate_kept){ 1, 1 }, 5);
	assert_true(rate_by_first(&next) >= SLOWNESS_MIN && rate_by_headers(&next) >= SLOWNESS_MIN);
}

/* Four servers with five first tokens each: none is known, all together are. */
static void servers_that_answered_little_teach_together(void **state)
{
	struct rate r[4];
	struct rate_sum few = { 0 }, sum = { 0 }, late = { 0 };
	struct rng rng;
	msec now = 1000;

	(void)state;
	rng_init(&rng, 7);
	for (unsigned i = 0; i < 4; i++) {
		rate_init(&r[i], 1);
		serve(&r[i], &rng, 0.25, 5, 1500, &now);
		assert_false(rate_first_known(&r[i], now));
		rate_sum_add(&sum, &r[i], now);
		if (i < 3)
			rate_sum_add(&few, &r[i], now);
		rate_sum_add(&late, &r[i], now + 600000);
	}
	assert_true(rate_sum_slowness(&few) == 0);
	assert_true(rate_sum_slowness(&late) == 0);
	assert_true(rate_sum_slowness(&sum) > 0.25 && rate_sum_slowness(&sum) < 0.6);	/* has the guess */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(learns_from_first_tokens),
		cmocka_unit_test(follows_a_server_that_changes),
		cmocka_unit_test(work_without_a_first_token_teaches_nothing),
		cmocka_unit_test(busy_time_that_is_known_late),
		cmocka_unit_test(added_work_can_be_removed),
		cmocka_unit_test(one_stall_does_not_teach_much),
		cmocka_unit_test(a_clock_that_lags_is_no_time),
		cmocka_unit_test(learns_from_headers),
		cmocka_unit_test(early_headers_teach_nothing),
		cmocka_unit_test(an_idle_server_is_learned_again),
		cmocka_unit_test(a_server_known_by_headers_is_learned_anew),
		cmocka_unit_test(is_kept_over_a_restart),
		cmocka_unit_test(servers_that_answered_little_teach_together),
		cmocka_unit_test(small_prompts_and_missing_times_are_left_out),
	};

	return cmocka_run_group_tests_name("route rate", tests, NULL, NULL);
}

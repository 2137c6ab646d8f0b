/* test_engine.c - steps of an engine computed by hand on a profile of round numbers, and its
 * cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/sim/engine.h"

/* 1 s a step, 10 ms a prompt token, 0.5 s an answer in a step. */
static const struct engine_profile round_numbers = {
	.name = "round", .kv_tokens = 160, .budget = 300, .max_seqs = 4, .t0 = 1, .b = 0.01, .d = 0.5,
};

#define BLOCK	10

static const uint32_t up[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
	19 };

static struct sim_request request(uint32_t n_in, uint32_t n_out)
{
	return (struct sim_request){ .n_in = n_in, .n_out = n_out, .n_full = n_in / BLOCK,
				     .n_ids = (n_in + BLOCK - 1) / BLOCK, .max_hit = (n_in - 1) / BLOCK };
}

static void engine_of(struct engine *e, double speed)
{
	assert_int_equal(engine_init(e, &round_numbers, BLOCK, 64, speed), 0);
}

/* Run until no event is left. */
static void run_out(struct engine *e)
{
	for (int i = 0; e->next < INFINITY; i++) {
		assert_true(i < 1000);
		engine_event(e, e->next);
	}
}

static void close_to(double is, double want)
{
	if (fabs(is - want) > 1e-9)
		fail_msg("%.9f instead of %.9f", is, want);
}

static void one_request(void **state)
{
	struct sim_request q = request(50, 4);
	struct sim_job j = { .q = &q, .ids = up };
	double own;
	struct engine e;

	engine_of(&e, 1);
	close_to(engine_predict(&e, &j, 7, &own), 1.5);
	close_to(own, 1.5);
	engine_arrive(&e, &j, 7);
	run_out(&e);
	close_to(j.t_first, 7 + 1 + 0.5);
	close_to(j.t_done, j.t_first + 3 * 1.5);	/* three more tokens, a step each */
	close_to(e.busy_s, 1.5);
	assert_int_equal(j.hit, 0);
	engine_fini(&e);
}

static void half_as_fast(void **state)
{
	struct sim_request q = request(50, 4);
	struct sim_job j = { .q = &q, .ids = up };
	struct engine e;

	engine_of(&e, 0.5);
	engine_arrive(&e, &j, 0);
	run_out(&e);
	close_to(j.t_first, 3);
	close_to(j.t_done, 3 + 3 * 3);
	engine_fini(&e);
}

/* The same prompt again: all but its last block is cached. */
static void what_was_served_is_cached(void **state)
{
	struct sim_request q = request(50, 1);
	struct sim_job a = { .q = &q, .ids = up }, b = a;
	double own;
	struct engine e;

	engine_of(&e, 1);
	engine_arrive(&e, &a, 0);
	run_out(&e);
	close_to(a.t_done, a.t_first);
	close_to(engine_predict(&e, &b, 10, &own), 1.1);
	engine_arrive(&e, &b, 10);
	run_out(&e);
	assert_int_equal(b.hit, 4);
	close_to(b.t_first, 10 + 1 + 10 * 0.01);
	engine_fini(&e);
}

/* Two that arrive together share a step, and the second finds the blocks that the first
 * computes. */
static void one_step_for_two(void **state)
{
	struct sim_request q = request(50, 1);
	struct sim_job a = { .q = &q, .ids = up }, b = a, c = { .q = &q, .ids = up + 10 };
	struct engine e;

	engine_of(&e, 1);
	engine_arrive(&e, &c, 0);	/* the current step: 0 .. 1.5 */
	engine_arrive(&e, &a, 0.2);
	engine_arrive(&e, &b, 0.3);
	run_out(&e);
	close_to(c.t_first, 1.5);
	close_to(a.t_first, 1.5 + 1 + (50 + 10) * 0.01);
	close_to(b.t_first, a.t_first);
	assert_int_equal(b.hit, 4);
	engine_fini(&e);
}

/* A prompt above the budget takes two steps; a waiting one gets the rest of the second. */
static void chunks(void **state)
{
	struct engine_profile p = round_numbers;
	struct sim_request q = request(100, 1), small = request(20, 1);
	struct sim_job a = { .q = &q, .ids = up }, b = { .q = &small, .ids = up + 12 };
	struct engine e;

	p.budget = 256 + 4;	/* a step has at least 256 for prefill */
	p.kv_tokens = 800;
	q.n_in = 300;
	q.n_full = q.n_ids = 0;
	q.max_hit = 0;
	assert_int_equal(engine_init(&e, &p, BLOCK, 64, 1), 0);
	engine_arrive(&e, &a, 0);
	engine_arrive(&e, &b, 0);
	run_out(&e);
	close_to(a.t_first, 1 + 2.6 + 1 + (40 + 20) * 0.01);
	close_to(b.t_first, a.t_first);
	engine_fini(&e);
}

/* Room for sixteen blocks: the second does not fit beside the first, and waits for its end. */
static void waits_for_room(void **state)
{
	struct sim_request q = request(80, 20), r = request(60, 10);
	struct sim_job a = { .q = &q, .ids = up }, b = { .q = &r, .ids = up + 10 };
	double own, foreseen;
	struct engine e;

	engine_of(&e, 1);
	engine_arrive(&e, &a, 0);
	engine_event(&e, e.next);
	foreseen = engine_predict(&e, &b, 2, &own);
	engine_arrive(&e, &b, 2);
	run_out(&e);
	close_to(a.t_first, 1.8);
	close_to(a.t_done, 1.8 + 19 * 1.5);
	close_to(b.t_first, a.t_done + 1 + 0.6);
	assert_true(fabs(2 + foreseen - b.t_first) < 2);	/* except for the effect of decode */
	engine_fini(&e);
}

/* An answer under way slows a prefill that joins it, and is slowed by it. */
static void decode_and_prefill(void **state)
{
	struct sim_request q = request(50, 3);
	struct sim_job a = { .q = &q, .ids = up }, b = { .q = &q, .ids = up + 10 };
	struct engine e;

	engine_of(&e, 1);
	engine_arrive(&e, &a, 0);
	engine_event(&e, e.next);	/* 1.5: its first token */
	engine_arrive(&e, &b, 2);	/* in the middle of a step that ends at 3 */
	run_out(&e);
	close_to(b.t_first, 3 + 1 + 0.5 + 0.5);
	close_to(a.t_done, b.t_first);
	engine_fini(&e);
}

/* ---- the cache --------------------------------------------------------------------------------
 */

static void deepest_of_equal_age_goes_first(void **state)
{
	const uint32_t other[] = { 20, 21, 22, 23, 24, 25, 26, 27, 28 };
	struct cache c;

	assert_int_equal(cache_init(&c, 64, 10, NULL), 0);
	assert_int_equal(cache_admit(&c, up, 4, 4, 1), 0);
	assert_int_equal(c.used, 5);
	cache_release(&c, up, 4, 1, 1);		/* its answer was a whole block: kept, and oldest */
	assert_int_equal(c.used, 0);
	assert_int_equal(c.kept, 5);
	assert_int_equal(cache_match(&c, up, 4), 4);
	assert_int_equal(cache_admit(&c, other, 7, 0, 0), 0);
	assert_int_equal(cache_match(&c, up, 4), 3);
	assert_int_equal(c.used + c.kept, 10);
	cache_release(&c, other, 7, 0, 0);
	cache_fini(&c);
}

static void what_does_not_fit_changes_nothing(void **state)
{
	struct cache c;

	assert_int_equal(cache_init(&c, 64, 10, NULL), 0);
	assert_int_equal(cache_admit(&c, up, 6, 6, 0), 0);
	assert_int_equal(cache_admit(&c, up + 6, 4, 4, 1), -1);
	assert_int_equal(c.used, 6);
	assert_int_equal(cache_admit(&c, up, 6, 6, 4), 6);	/* shared blocks count once */
	assert_int_equal(c.used, 10);
	cache_release(&c, up, 6, 4, 0);
	cache_release(&c, up, 6, 0, 0);
	assert_int_equal(c.used, 0);
	cache_fini(&c);
}

static void what_waits_is_foreseen(void **state)
{
	struct cache c;

	assert_int_equal(cache_init(&c, 64, 10, NULL), 0);
	cache_want(&c, up, 3, 1);
	assert_int_equal(cache_match(&c, up, 5), 0);
	assert_int_equal(cache_match_wanted(&c, up, 5), 3);
	cache_want(&c, up, 3, -1);
	assert_int_equal(cache_match_wanted(&c, up, 5), 0);
	cache_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_request),
		cmocka_unit_test(half_as_fast),
		cmocka_unit_test(what_was_served_is_cached),
		cmocka_unit_test(one_step_for_two),
		cmocka_unit_test(chunks),
		cmocka_unit_test(waits_for_room),
		cmocka_unit_test(decode_and_prefill),
		cmocka_unit_test(deepest_of_equal_age_goes_first),
		cmocka_unit_test(what_does_not_fit_changes_nothing),
		cmocka_unit_test(what_waits_is_foreseen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

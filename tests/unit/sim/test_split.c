/* test_split.c - engines that compute prompts for others. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "agent/sim/sim.h"

#define BLOCK	512u

/* Splits the requests whose number is set in <mask>; engine 0 answers all. */
struct fixed {
	unsigned mask, first, done;
};

static int pick(void *state, const struct sim *f, struct sim_job *j, double now)
{
	const struct fixed *x = state;

	(void)now;
	j->prefill = x->mask >> j->q->number & 1 ? (int)sim_decodes(f->opts) : -1;
	return 0;
}

static void first(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct fixed *x = state;

	(void)f;
	(void)now;
	assert_int_equal(j->engine, 0);
	x->first++;
}

static void done(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct fixed *x = state;

	(void)f;
	(void)j;
	(void)now;
	x->done++;
}

/* Two prompts of 4096 tokens, 3072 of them equal, 10 s apart; answers of 11 tokens. */
static void make(struct sim_trace *t)
{
	static const uint32_t a[] = { 1, 2, 3, 4, 5, 6, 7, 8 }, b[] = { 1, 2, 3, 4, 5, 6, 9, 10 };

	trace_init(t, BLOCK);
	assert_int_equal(trace_add(t, 0, 4096, 11, a, 8, 0), 0);
	assert_int_equal(trace_add(t, 10, 4096, 11, b, 8, 1), 0);
	trace_finish(t);
}

static void run(unsigned mask, struct sim *f, struct sim_opts *o, struct sim_trace *t)
{
	static struct fixed x;
	static struct chooser c;
	struct err e;

	x = (struct fixed){ .mask = mask };
	c = (struct chooser){ .name = "fixed", .state = &x, .pick = pick, .first = first, .done = done };
	make(t);
	sim_defaults(o);
	o->n = 2;
	o->prefills = 1;
	o->transfer_ms = 30;
	o->transfer_1k_ms = 100;
	if (sim_run(f, o, t, &c, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(x.first, 2);
	assert_int_equal(x.done, 2);
}

static double took(const struct sim *f, int i)
{
	return f->jobs[i].t_first - f->jobs[i].t_arrived;
}

static void a_prompt_is_computed_moved_and_decoded(void **state)
{
	struct sim_result r;
	struct sim_trace t;
	struct sim_opts o;
	double whole, last;
	struct sim f;

	(void)state;
	run(3, &f, &o, &t);
	whole = engine_work_s(&f.engines[1], 0, 4096);
	last = engine_work_s(&f.engines[0], 4095, 4096);
	assert_true(fabs(took(&f, 0) - (whole + 0.030 + 0.4096 + last)) < 1e-6);
	/* six of eight blocks are cached at both */
	assert_int_equal(f.jobs[1].hit, 6);
	assert_true(fabs(took(&f, 1) - (engine_work_s(&f.engines[1], 3072, 4096) + 0.030 + 0.1024 +
	    last)) < 1e-6);
	assert_int_equal(cache_match(&f.engines[0].cache, f.jobs[1].ids, 8), 8);
	assert_int_equal(cache_match(&f.engines[1].cache, f.jobs[1].ids, 8), 8);
	assert_int_equal(f.engines[0].cache.used + f.engines[1].cache.used, 0);
	assert_int_equal(sim_result(&f, 0, 2, &r), 0);
	assert_int_equal(r.split, 2);
	assert_true(fabs(r.itl_mean * 10 - (f.jobs[0].t_done - f.jobs[0].t_first)) < 1e-3);
	assert_true(fabs(r.e2e_mean - r.ttft_mean - r.itl_mean * 10) < 1e-9);
	sim_fini(&f);
	trace_free(&t);
}

static void others_are_computed_where_they_are_decoded(void **state)
{
	struct sim_result r;
	struct sim_trace t;
	struct sim_opts o;
	struct sim f;

	(void)state;
	run(0, &f, &o, &t);
	assert_true(fabs(took(&f, 0) - engine_work_s(&f.engines[0], 0, 4096)) < 1e-6);
	assert_int_equal(cache_match(&f.engines[1].cache, f.jobs[1].ids, 8), 0);
	assert_int_equal(sim_result(&f, 0, 2, &r), 0);
	assert_int_equal(r.split, 0);
	sim_fini(&f);
	trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_prompt_is_computed_moved_and_decoded),
		cmocka_unit_test(others_are_computed_where_they_are_decoded),
	};

	return cmocka_run_group_tests_name("sim split", tests, NULL, NULL);
}

/* test_agents.c - several agents for one fleet of engines: one of several is the router alone, and
 * agents that know nothing of each other scatter conversations; those that share do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/sim/agents.h"
#include "agent/sim/workload.h"

#define REQUESTS	700

static struct workload w;

static void options(struct agents_opts *o, unsigned n)
{
	*o = (struct agents_opts){ .n = n };
	o->router = (struct router_opts){ .name = "rule", .text = SIM_TEXT_CHAT, .seed = 1 };
	route_defaults(&o->router.route);
	o->router.route.index.max_bytes = 16u << 20;
}

static void engines(struct sim_opts *o, unsigned n)
{
	sim_defaults(o);
	o->n = n;
}

static void run(struct sim *s, const struct sim_opts *so, struct chooser *c, struct sim_result *r)
{
	struct err e;

	if (sim_run(s, so, &w.trace, c, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(sim_result(s, 0, w.trace.n, r), 0);
}

static void run_agents(const struct agents_opts *o, struct sim_result *r, struct agents_result *ar)
{
	struct sim_opts so;
	struct chooser c;
	struct agents *a;
	struct sim s;

	engines(&so, 4);
	assert_non_null(a = agents_new(o, &w.trace, &c));
	run(&s, &so, &c, r);
	if (o->share)
		assert_int_equal(agents_settle(a, 2), 0);
	assert_int_equal(agents_result(a, ar), 0);
	sim_fini(&s);
	agents_free(a);
}

static int make_chat(void **state)
{
	struct err e;

	return workload_make(&w, SPAN("chat"), REQUESTS, 4, 3, &e);
}

static int free_chat(void **state)
{
	workload_free(&w);
	return 0;
}

/* ---- stories ---- */

static void one_of_several_is_the_router_alone(void **state)
{
	struct sim_result alone, one;
	struct agents_result ar;
	struct agents_opts o;
	struct router *x;
	struct sim_opts so;
	struct chooser c;
	struct sim s;

	options(&o, 1);
	engines(&so, 4);
	assert_non_null(x = router_new(&o.router, &w.trace, &c));
	run(&s, &so, &c, &alone);
	sim_fini(&s);
	router_free(x);
	for (int k = 0; k < 2; k++) {
		o.one_haproxy = k == 1;
		run_agents(&o, &one, &ar);
		assert_memory_equal(&alone, &one, sizeof(one));
	}
}

static void strangers_scatter_conversations(void **state)
{
	struct sim_result one, four, again;
	struct agents_result ar;
	struct agents_opts o;

	options(&o, 1);
	run_agents(&o, &one, &ar);
	options(&o, 4);
	for (int k = 0; k < 4; k++) {
		o.one_haproxy = k % 2 == 1;
		o.spread = k / 2 == 1 ? AGENTS_BY_CHANCE : AGENTS_IN_TURN;
		run_agents(&o, &four, &ar);
		assert_true(four.hit < one.hit - 0.15);
		assert_int_equal(four.fallback, 0);
		run_agents(&o, &again, &ar);
		assert_memory_equal(&four, &again, sizeof(four));
	}
}

static void a_fresh_agent_knows_nothing(void **state)
{
	struct sim_result r;
	struct agents_result ar;
	struct agents_opts o;

	options(&o, 2);
	o.restart_at = 0.5;
	run_agents(&o, &r, &ar);
	assert_int_equal(r.fallback, 0);	/* the other one decides meanwhile */
	assert_true(ar.fresh_requests > REQUESTS / 6);
	assert_true(ar.fresh_hit < ar.others_hit - 0.05);
	options(&o, 1);
	o.restart_at = 0.5;
	run_agents(&o, &r, &ar);
	assert_true(r.fallback > 2);		/* HAProxy balances meanwhile */
	assert_true(ar.fresh_requests > REQUESTS / 3);
}

static void sharing(struct agents_opts *o, unsigned n)
{
	options(o, n);
	o->share = true;
	o->delay_s = 0.001;
}

static void friends_are_as_good_as_one(void **state)
{
	struct sim_result one, four, again;
	struct agents_result ar, ar2;
	struct agents_opts o;

	options(&o, 1);
	run_agents(&o, &one, &ar);
	sharing(&o, 4);
	for (int k = 0; k < 2; k++) {
		o.one_haproxy = k == 1;
		run_agents(&o, &four, &ar);
		assert_true(four.hit > one.hit - 0.02);
		assert_true(four.ttft_mean < 1.1 * one.ttft_mean);
		assert_true(ar.pairs > 10000);
		assert_int_equal(ar.differing, 0);
		assert_int_equal(ar.open, 0);
		assert_int_equal(ar.share.put[SHARE_PLACED], w.trace.n);
		assert_int_equal(ar.share.applied[SHARE_PLACED], 3 * w.trace.n);
		assert_true(ar.entries_median == 3 && ar.bytes_median > 300 && ar.bytes_median < 3000);
		assert_true(ar.alone_median > ar.bytes_median && ar.bytes_mean < ar.wire_mean);
		run_agents(&o, &again, &ar2);
		assert_memory_equal(&four, &again, sizeof(four));
		assert_memory_equal(&ar, &ar2, sizeof(ar));
	}
}

static void what_is_lost_is_seen(void **state)
{
	struct sim_result r;
	struct agents_result ar;
	struct agents_opts o;

	sharing(&o, 4);
	o.loss = 0.1;
	run_agents(&o, &r, &ar);
	assert_true(ar.lost > ar.copies / 15 && ar.lost < ar.copies / 7);
	assert_true(ar.resyncs > ar.lost / 4 && ar.resyncs <= ar.lost);
	sharing(&o, 4);
	o.cut_from = 0.4;
	o.cut_to = 0.6;
	run_agents(&o, &r, &ar);
	assert_int_equal(ar.lost, 0);
	assert_true(ar.cut > ar.copies / 10 && ar.cut < ar.copies / 5);
	assert_int_equal(ar.resyncs, 8);	/* each of the four, of two siblings */
	assert_true(ar.share.closed_by_lease > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_of_several_is_the_router_alone),
		cmocka_unit_test(strangers_scatter_conversations),
		cmocka_unit_test(a_fresh_agent_knows_nothing),
		cmocka_unit_test(friends_are_as_good_as_one),
		cmocka_unit_test(what_is_lost_is_seen),
	};

	return cmocka_run_group_tests(tests, make_chat, free_chat);
}

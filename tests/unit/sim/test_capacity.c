/* test_capacity.c - the router's estimate of the engines' caches in whole runs with reports of
 * first tokens and ends only. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/sim/router.h"
#include "agent/sim/workload.h"

#define ENGINES	8u

struct seen {
	unsigned known, within, wrong;
	double truth;
};

static void look(void *arg, const struct route_server_view *v)
{
	struct seen *s = arg;

	if (v->capacity_source != CAPACITY_INFERRED)
		return;
	s->known++;
	if (fabs((double)v->capacity_tokens / s->truth - 1) <= .25)
		s->within++;
	else
		s->wrong++;
}

static struct seen infer(const char *workload, uint32_t kv_tokens, enum router_facts facts)
{
	struct router_opts ro = { .name = "cost", .facts = facts, .text = SIM_TEXT_CHAT, .seed = 1 };
	struct seen seen = { .truth = kv_tokens };
	struct workload w;
	struct sim_opts o;
	struct chooser c;
	struct router *x;
	struct sim s;
	struct err e;

	assert_int_equal(workload_make(&w, span_str(workload), 2000, ENGINES, 3, &e), 0);
	sim_defaults(&o);
	o.n = ENGINES;
	o.profile.kv_tokens = kv_tokens;
	route_defaults(&ro.route);
	ro.route.index.max_bytes = 32u << 20;
	assert_non_null(x = router_new(&ro, &w.trace, &c));
	if (sim_run(&s, &o, &w.trace, &c, &e) < 0)
		fail_msg("%s", e.text);
	router_each_server(x, look, &seen);
	sim_fini(&s);
	router_free(x);
	workload_free(&w);
	return seen;
}

static void sizes_are_found(void **state)
{
	static const uint32_t sizes[] = { 160000, 200000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct seen s = infer("chat", sizes[i], ROUTER_FIRST);

		if (s.within < ENGINES)
			fail_msg("%u tokens: %u known, %u within a quarter", sizes[i], s.known, s.within);
	}
}

/* A cache that never fills is unknown, and so is every cache without first tokens. */
static void what_does_not_show_is_not_said(void **state)
{
	assert_int_equal(infer("chat", 4000000, ROUTER_FIRST).known, 0);
	assert_int_equal(infer("chat", 120000, ROUTER_END).known, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_found),
		cmocka_unit_test(what_does_not_show_is_not_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

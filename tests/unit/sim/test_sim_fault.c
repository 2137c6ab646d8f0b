/* test_sim_fault.c - each allocation of a story fails once: then there is no workload, no trace or
 * no run, and no leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/sim/reference.h"
#include "agent/sim/router.h"
#include "agent/sim/workload.h"
#include "tests/unit/fault.h"

static const char text[] =
    "{\"timestamp\":1,\"input_length\":900,\"output_length\":2,\"hash_ids\":[1,2],"
    "\"session\":\"a\"}\n"
    "{\"timestamp\":2,\"input_length\":900,\"output_length\":2,\"hash_ids\":[1,3],"
    "\"session\":\"b\"}\n";

static void a_trace(bool *good)
{
	struct trace_opts o = { .block = 512 };
	struct sim_trace t;
	struct err e;

	*good = trace_read(&t, SPAN(""), &o, &e) == 0;
	*good = trace_read(&t, span_str(text), &o, &e) == 0;
	if (!*good)
		assert_non_null(strstr(e.text, "memory"));
	trace_free(&t);
}

static void a_run(bool *good)
{
	struct router_opts ro = { .name = "cost", .text = SIM_TEXT_IDS, .events = true };
	struct chooser plain, core;
	struct reference ref;
	struct sim_result r;
	struct router *x;
	struct workload w;
	struct sim_opts o;
	struct sim s;
	struct err e;

	*good = workload_make(&w, SPAN("siblings"), 20, 2, 1, &e) == 0;
	if (!*good)
		return;
	sim_defaults(&o);
	o.n = o.kv.publishers = 2;
	reference_init(&ref, &plain, SPAN("leastconn"), 1);
	*good = sim_run(&s, &o, &w.trace, &plain, &e) == 0;
	if (*good) {
		*good = sim_result(&s, 0, 20, &r) == 0;
		sim_fini(&s);
	}
	route_defaults(&ro.route);
	ro.route.index.max_bytes = 1u << 20;
	ro.route.events_max_bytes = 1u << 18;
	ro.route.heads.max_bytes = 1u << 16;
	o.prefills = 1;
	ro.prefills = true;
	x = *good ? router_new(&ro, &w.trace, &core) : NULL;
	if (x != NULL && (*good = sim_run(&s, &o, &w.trace, &core, &e) == 0))
		sim_fini(&s);
	else
		*good = false;
	router_free(x);
	workload_free(&w);
}

static void story(void (*what)(bool *good), unsigned long least)
{
	unsigned long k;
	bool good;

	for (k = 1; ; k++) {
		fault_begin(k);
		what(&good);
		if (!fault_end())
			break;
	}
	assert_true(good);
	assert_true(k > least);
}

static void traces(void **state)
{
	story(a_trace, 8);
}

static void runs(void **state)
{
	story(a_run, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(traces),
		cmocka_unit_test(runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_ladder.c - the kinds of facts: the wait of a server with each kind, its effect on the next
 * request, and that each pool has its own kind, which can be read.
 *
 *      first + end       all that is not answered yet
 *      end only          the same, drained one second a second, at least a share until it has ended
 *      connections only  the same, until load strings show that it is gone
 *      no load           no server, why=noload
 *
 * The story: s1 gets 8000 tokens, a second of work; some time later a small request may choose
 * between s1 and s2, which is busy. */
#include <math.h>

#include "tests/unit/route/world.h"

#define BOTH	SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1")
#define BUSY2	SPAN("lb1/1;s1=1,0,0,1;s2=1,12,0,1")	/* 0.36 s; the open request at s1 is 0.03 s */
#define ONLY1	SPAN("lb1/1;s1=1,0,0,1")
#define ONLY2	SPAN("lb1/1;s2=1,0,0,1")

static void start(struct world *w)
{
	world_options(w);
	w->o.pool_default.policy.attention_factor = 0;
	w->o.pool_default.policy.learn_rate = false;
	world_open(w);
}

static void small(struct world *w, const char *uid, const char *turns)
{
	w->q.path = SPAN("/v1/chat/completions");
	ask(w, uid, turns);
}

static void large(struct world *w, const char *uid)
{
	w->q.path = SPAN("/v1/completions");
	ids(&w->body, 8000);
	send(w, uid);
}

/* A small request at s2 ends, which sets the pool's step. */
static void reach(struct world *w, enum fact_step step)
{
	w->q.load = ONLY2;
	small(w, "before", "q");
	if (step == STEP_FIRST)
		served(w, "before");
	else if (step == STEP_END)
		tell_done(w, "before", "s2", 200, "--", 20);
	w->now += 10;
}

static const struct candidate *candidate(struct world *w, const char *name)
{
	server_id id = server(w, name).v.id;

	for (int i = 0; i < 2; i++)
		if (w->s->candidates[i].id == id)
			return &w->s->candidates[i];
	fail_msg("%s is no candidate", name);
	return NULL;
}

enum event { NOTHING, HEADERS, ENDED };

static void waits(void **state)
{
	static const struct {
		enum fact_step step;
		const char *facts;
		msec after;
		enum event event;
		double wait_s;
		const char *to;
	} rows[] = {
		{ STEP_FIRST, "first", 0, NOTHING, 1, "s2" },
		{ STEP_FIRST, "first", 400, NOTHING, 1, "s2" },
		{ STEP_FIRST, "first", 5000, NOTHING, 1, "s2" },		/* exact waits do not drain */
		{ STEP_FIRST, "first", 400, HEADERS, 0, "s1" },
		{ STEP_FIRST, "first", 400, ENDED, 0, "s1" },
		{ STEP_END, "end", 0, NOTHING, 1, "s2" },
		{ STEP_END, "end", 400, NOTHING, .6, "s2" },
		{ STEP_END, "end", 650, NOTHING, .35, "s2" },
		{ STEP_END, "end", 900, NOTHING, .3, "s1" },			/* the floor */
		{ STEP_END, "end", 5000, NOTHING, .3, "s1" },
		{ STEP_END, "end", 400, ENDED, 0, "s1" },
		{ STEP_END, "first", 400, HEADERS, 0, "s1" },			/* one first token: a step up */
		{ STEP_LOAD, "load", 0, NOTHING, 1, "s2" },
		{ STEP_LOAD, "load", 400, NOTHING, .6, "s2" },
		{ STEP_LOAD, "load", 650, NOTHING, .35, "s2" },
		{ STEP_LOAD, "load", 5000, NOTHING, .3, "s1" },
		{ STEP_LOAD, "end", 400, ENDED, 0, "s1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world w;
		double got;

		start(&w);
		if (rows[i].step != STEP_LOAD)
			reach(&w, rows[i].step);
		w.q.load = ONLY1;
		large(&w, "large");
		assert_span(w.a.server, "s1");
		w.now += rows[i].after;
		if (rows[i].event == HEADERS)
			tell_first(&w, "large", "s1", 200, STREAM);
		else if (rows[i].event == ENDED)
			tell_done(&w, "large", "s1", 200, "--", 400);
		w.q.load = BUSY2;
		small(&w, "next", "a");
		got = candidate(&w, "s1")->backlog_s;
		if (fabs(got - rows[i].wait_s) > 1e-9 || !is(w.a.server, rows[i].to) ||
		    strcmp(pool(&w).facts, rows[i].facts) != 0)
			fail_msg("row %zu: waits %.3f, to " SPAN_FMT ", by %s", i, got,
			    SPAN_ARG(w.a.server), pool(&w).facts);
		assert_why(&w, WHY_COLD);
		world_end(&w);
	}
}

/* Without log lines, a load string with fewer requests closes some, once it must include all marked
 * requests and the ended ones were reported. */
static void connections_only(void **state)
{
	struct world w;

	(void)state;
	start(&w);
	w.q.load = ONLY1;
	large(&w, "large");
	assert_string_equal(pool(&w).facts, "load");
	for (int i = 0; i < 3; i++) {
		char uid[] = { 'n', (char)('0' + i), 0 }, turns[] = { (char)('a' + i), 0 };

		w.now += 1100;
		w.q.load = BOTH;		/* no connection there */
		small(&w, uid, turns);
		assert_int_equal(candidate(&w, "s1")->load, i < 2);
		assert_true((candidate(&w, "s1")->backlog_s > 0) == (i < 2));
	}
	w.q.load = SPAN("lb1/1;s1=1,3,1,1;s2=1,9,0,1");	/* connections still count as load */
	small(&w, "last", "x");
	assert_int_equal(candidate(&w, "s1")->load, 4);
	assert_int_equal(candidate(&w, "s2")->load, 9);
	assert_span(w.a.server, "s1");
	world_end(&w);
}

static void no_load(void **state)
{
	struct world w;

	(void)state;
	start(&w);
	w.q.load = (struct span){ 0 };
	small(&w, "1", "a");
	assert_why(&w, WHY_NOLOAD);
	assert_span(w.a.server, "");
	assert_string_equal(pool(&w).facts, "none");
	assert_int_equal(stats(&w).why[WHY_NOLOAD], 1);
	w.q.load = BOTH;
	small(&w, "2", "a");
	assert_why(&w, WHY_COLD);
	assert_string_equal(pool(&w).facts, "load");
	w.q.load = (struct span){ 0 };		/* an earlier string does not hold for a new request */
	small(&w, "3", "a");
	assert_why(&w, WHY_NOLOAD);
	world_end(&w);
}

struct facts { const char *a, *b; };

static void look(void *arg, const struct route_pool_view *v)
{
	struct facts *f = arg;

	if (strcmp(v->name, "a") == 0)
		f->a = v->facts;
	else
		f->b = v->facts;
}

static void each_pool_its_own(void **state)
{
	struct facts f = { NULL, NULL };
	struct world w;

	(void)state;
	start(&w);
	w.q.load = ONLY1;
	w.q.pool = SPAN("a");
	small(&w, "1", "a");
	served(&w, "1");
	w.q.pool = SPAN("b");
	small(&w, "2", "a");
	tell_done(&w, "2", "s1", 200, "--", 20);
	for (int i = 0; i < 2; i++) {
		w.q.pool = i ? SPAN("a") : SPAN("b");
		small(&w, i ? "4" : "3", "b");
	}
	route_each_pool(w.r, look, &f);
	assert_string_equal(f.a, "first");
	assert_string_equal(f.b, "end");
	w.now += 60000;				/* and down again */
	for (int i = 0; i < 2; i++) {
		w.q.pool = i ? SPAN("a") : SPAN("b");
		small(&w, i ? "6" : "5", "c");
	}
	route_each_pool(w.r, look, &f);
	assert_string_equal(f.a, "load");
	assert_string_equal(f.b, "load");
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits),
		cmocka_unit_test(connections_only),
		cmocka_unit_test(no_load),
		cmocka_unit_test(each_pool_its_own),
	};

	return cmocka_run_group_tests_name("route ladder", tests, NULL, NULL);
}

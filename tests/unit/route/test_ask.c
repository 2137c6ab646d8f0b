/* test_ask.c - what would be chosen is what is chosen then, and asking leaves no trace. */
#include "agent/route/decisions.h"
#include "tests/unit/route/prefill.h"

static struct world w;

static int setup(void **state)
{
	world_options(&w);
	w.o.decisions_keep = 64;
	world_open(&w);
	return 0;
}

static int teardown(void **state)
{
	world_end(&w);
	return 0;
}

static struct decision asked(const char *turns, uint64_t space[2])
{
	struct route_scratch *s = route_scratch_new(w.r);
	struct route_request q = w.q;
	struct decision x;

	assert_non_null(s);
	chat(&w.body, "", turns, ",\"model\":\"m\"");
	q.body = span_of(w.body.p, w.body.n);
	q.seq = -1;
	route_ask(w.r, s, &q, w.now, &x, space);
	route_scratch_free(s);
	return x;
}

static void test_same_choice_no_trace(void **state)
{
	struct route_stats before, after;
	uint64_t space[2] = { 0 };
	struct decision x, y;
	char uid[8];

	for (unsigned i = 0; i < 6; i++) {
		snprintf(uid, sizeof(uid), "%u", i);
		ask(&w, uid, i % 2 ? "ab" : "xy");
		served(&w, uid);
		w.now += 10;
	}
	route_stats(w.r, &before);
	x = asked("abc", space);
	y = asked("abc", space);
	route_stats(w.r, &after);
	assert_int_equal(after.index.matches, before.index.matches + 2);
	after.index.matches = before.index.matches;
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(decisions_read(route_decisions(w.r), INT64_MAX, &y, 1), 1);
	assert_int_equal(y.number, 6);
	assert_true(x.chosen.id != SERVER_NONE && x.n_kept == 4 && x.matched > 0);
	assert_int_equal(x.why, WHY_CACHED);
	assert_true(space[0] != 0);
	ask(&w, "7", "abc");
	assert_true(decisions_find(route_decisions(w.r), route_uid_hash(w.r, SPAN("7")), &y));
	assert_int_equal(y.chosen.id, x.chosen.id);
	assert_int_equal(y.matched, x.matched);
	assert_int_equal(y.tokens, x.tokens);
	assert_true(y.cost_s == x.cost_s);
}

/* Return what would be chosen for the body in w.body. */
static struct decision asked_body(struct world *v)
{
	struct route_scratch *s = route_scratch_new(v->r);
	struct route_request q = v->q;
	struct decision x;
	uint64_t space[2];

	assert_non_null(s);
	q.body = span_of(v->body.p, v->body.n);
	q.seq = -1;
	route_ask(v->r, s, &q, v->now, &x, space);
	route_scratch_free(s);
	return x;
}

static void test_stored_response(void **state)
{
	struct fact f = served_fact("r");
	struct decision x;

	w.q.path = SPAN("/v1/responses");
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	w.body.n = 0;
	say(&w.body, "{\"model\":\"m\",\"input\":\"hello\"}");
	send(&w, "r");
	f.server = SPAN("s3");
	f.response = SPAN("resp_1");
	route_learn(w.r, &f, w.now);
	w.q.load = SPAN(IDLE4);
	w.body.n = 0;
	say(&w.body, "{\"model\":\"m\",\"input\":\"other\",\"previous_response_id\":\"resp_1\"}");
	send(&w, "r2");			/* names all servers, and goes to s3 */
	assert_span(w.a.server, "s3");
	x = asked_body(&w);
	assert_int_equal(x.chosen.id, server(&w, "s3").v.id);
	assert_int_equal(x.why, WHY_STICKY);
	assert_int_equal(stats(&w).responses_followed, 1);
}

/* The same prompt, asked and sent. */
static void test_prefill_pool(void **state)
{
	struct decision x, y;
	struct world v;

	world_options(&v);
	options_split(&v);
	v.o.decisions_keep = 64;
	world_open(&v);
	row(&v, "p1", HASTATS_UP, "10.0.0.7:8000");
	ask(&v, "1", "a");
	tell_done(&v, "1", "s1", 200, "--", 100);
	chat(&v.body, "", LONG, ",\"model\":\"m\"");
	x = asked_body(&v);
	assert_int_equal(v.r->ledger.n, 0);
	ask(&v, "2", LONG);
	assert_true(v.a.prefill.n > 0);
	assert_true(decisions_find(route_decisions(v.r), route_uid_hash(v.r, SPAN("2")), &y));
	assert_int_equal(x.prefill.id, in_pre(&v, "p1")->id);
	assert_int_equal(x.prefill.id, y.prefill.id);
	assert_int_equal(x.chosen.id, y.chosen.id);
	end(&v);
}

static void test_nothing_known(void **state)
{
	uint64_t space[2] = { 0 };
	struct decision x = asked("a", space);

	assert_int_equal(x.why, WHY_NOLOAD);	/* no request has named the pool */
	w.q.body = SPAN("");
	x = asked("", space);
	assert_true(x.why == WHY_NOPROMPT || x.why == WHY_NOLOAD);
}

/* Tell if the last prompt has a distance at <name>. */
static bool was_used(const char *name)
{
	const struct server *s = pool_find(w.r->fleet.pools[0], span_str(name), 0);
	const struct marks *m = &w.s->marks;
	uint64_t far;

	assert_true(m->n > 0);
	return capacity_far(&s->capacity, w.r->marks, m->key[m->n - 1], &far);
}

static void test_clear_server(void **state)
{
	uint64_t space[2];
	char name[SERVER_NAME_MAX + 1];
	struct decision x;

	ask(&w, "1", "ab");
	served(&w, "1");
	x = asked("ab", space);
	assert_true(x.matched > 0);
	decisions_name_of(route_decisions(w.r), x.chosen, name, sizeof(name));
	assert_false(route_clear_server(w.r, SPAN("pool"), SPAN("other")));
	assert_false(route_clear_server(w.r, SPAN("other"), span_str(name)));
	assert_true(was_used(name));
	assert_true(route_clear_server(w.r, SPAN("pool"), span_str(name)));
	assert_false(was_used(name));
	while (route_work(w.r))
		;
	assert_int_equal(asked("ab", space).matched, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_same_choice_no_trace, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stored_response, setup, teardown),
		cmocka_unit_test(test_prefill_pool),
		cmocka_unit_test_setup_teardown(test_nothing_known, setup, teardown),
		cmocka_unit_test_setup_teardown(test_clear_server, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

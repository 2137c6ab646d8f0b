/* test_engine_load.c - load that engines tell in passing: in a header of their answers, which log
 * lines bring, and on a socket; and what it changes. */
#include "tests/unit/route/world.h"

#define FULL	"TEXT named_metrics.kv_cache_usage_perc=0.99, named_metrics.num_requests_waiting=3.0"
#define EMPTY	"{\"named_metrics\":{\"kv_cache_usage_perc\":0,\"num_requests_waiting\":0}}"

/* The log line of a request at <srv>, with the load header <orca>; <td>: time from the headers to
 * the end. */
static void line(struct world *w, const char *uid, const char *srv, const char *orca, int64_t td)
{
	struct fact f = served_fact(uid);

	f.server = span_str(srv);
	f.queue_ms = 5;
	f.connect_ms = 1;
	f.total_ms = 26 + td;
	f.orca = span_str(orca);
	route_learn(w->r, &f, w->now);
}

static uint64_t results(struct world *w, enum orca_result r)
{
	return stats(w).orca[r];
}

static const struct candidate *candidate_at(const struct world *w, const char *name)
{
	server_id id = server((struct world *)(uintptr_t)w, name).v.id;

	for (int i = 0; i < 4; i++)
		if (w->s->candidates[i].id == id)
			return &w->s->candidates[i];
	fail_msg("%s is no candidate", name);
	return NULL;
}

static void a_header_is_a_report(void **state)
{
	struct world w;

	world_start(&w);
	ask(&w, "a", "a");
	line(&w, "a", "s2", FULL, 0);
	assert_int_equal(results(&w, ORCA_TAKEN), 1);
	assert_true(server(&w, "s2").v.engine && !server(&w, "s1").v.engine);
	assert_true(server(&w, "s2").v.waiting == 3 && server(&w, "s2").v.kv_used == 0.99);
	assert_true(server(&w, "s2").v.running < 0);
	ask(&w, "b", "b");
	assert_int_equal(candidate_at(&w, "s2")->waiting, 3);
	w.now += 2999;
	assert_true(server(&w, "s2").v.engine);
	w.now++;
	assert_false(server(&w, "s2").v.engine);
	ask(&w, "c", "c");
	assert_true(candidate_at(&w, "s2")->kv_used < 0);
	world_end(&w);
}

/* "first" has closed the request already; the line is of the same server. */
static void after_a_whole_answer(void **state)
{
	struct world w;

	world_start(&w);
	ask(&w, "a", "a");
	tell_first(&w, "a", "s3", 200, "application/json");
	line(&w, "a", "s3", FULL, 0);
	assert_true(server(&w, "s3").v.kv_used == 0.99);
	assert_int_equal(results(&w, ORCA_TAKEN), 1);
	line(&w, "a", "s3", EMPTY, 0);			/* the line a second time */
	assert_true(server(&w, "s3").v.kv_used == 0.99);
	assert_int_equal(results(&w, ORCA_UNKNOWN), 1);
	world_end(&w);
}

/* A header is as old as the response's headers. */
static void a_report_has_the_age_of_its_headers(void **state)
{
	struct world w;

	world_start(&w);
	ask(&w, "a", "a");
	line(&w, "a", "s1", FULL, 2999);
	assert_int_equal(results(&w, ORCA_TAKEN), 1);
	assert_true(server(&w, "s1").v.engine);
	w.now++;
	assert_false(server(&w, "s1").v.engine);
	ask(&w, "b", "b");
	line(&w, "b", "s1", FULL, 3000);
	assert_int_equal(results(&w, ORCA_LATE), 1);
	ask(&w, "c", "c");
	ask(&w, "d", "d");
	line(&w, "c", "s1", EMPTY, 100);
	line(&w, "d", "s1", FULL, 200);			/* ended later, but is older */
	assert_int_equal(results(&w, ORCA_LATE), 2);
	assert_true(server(&w, "s1").v.kv_used == 0);
	world_end(&w);
}

static void no_report(void **state)
{
	static const struct {
		const char *name, *server, *orca;
		int64_t tr, ta;
		enum orca_result want;
	} cases[] = {
		{ "garbage", "s1", "\x01 {{{", 20, 26, ORCA_BAD },
		{ "nothing known", "s1", "TEXT x=1", 20, 26, ORCA_BAD },
		{ "an answer of HAProxy", "<NOSRV>", FULL, 20, 26, ORCA_UNKNOWN },
		{ "a server that no load string named", "s9", FULL, 20, 26, ORCA_UNKNOWN },
		{ "no headers", "s1", FULL, -1, 26, ORCA_LATE },
		{ "no total time", "s1", FULL, 20, -1, ORCA_LATE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fact f = served_fact("a");
		struct world w;

		world_start_unpunished(&w);
		ask(&w, "a", "a");
		f.server = span_str(cases[i].server);
		f.response_ms = cases[i].tr;
		f.total_ms = cases[i].ta;
		f.orca = span_str(cases[i].orca);
		route_learn(w.r, &f, w.now);
		for (int k = 0; k < ORCA_RESULTS; k++)
			if (stats(&w).orca[k] != (k == (int)cases[i].want))
				fail_msg("%s", cases[i].name);
		for (int k = 1; k <= 4; k++)
			assert_false(server(&w, (char[]){ 's', (char)('0' + k), 0 }).v.engine);
		world_end(&w);
	}
}

/* A request that the agent never saw, or that ended long ago. */
static void lines_of_unknown_requests(void **state)
{
	struct world w;

	world_start(&w);
	ask(&w, "a", "a");
	line(&w, "other", "s1", FULL, 0);
	assert_int_equal(results(&w, ORCA_UNKNOWN), 1);
	assert_false(server(&w, "s1").v.engine);
	world_end(&w);
}

/* Caches of unknown size. The server that holds the prompt is full: 0.29 x 2 s, or 580 ms, against
 * 32 for computing the prompt elsewhere. */
static void a_full_cache_is_avoided(void **state)
{
	struct world w;

	for (int told = 0; told < 2; told++) {
		world_start(&w);
		ask(&w, "a", "a");
		served(&w, "a");
		ask(&w, "b", "z");
		line(&w, "b", "s1", told ? FULL : "", 0);
		ask(&w, "c", "a");
		assert_int_equal(span_eq(w.a.server, SPAN("s1")), !told);
		assert_true((candidate_at(&w, "s1")->kv_s > 0.5) == told);
		assert_true(candidate_at(&w, "s2")->kv_s == 0);
		w.now += 3000;
		ask(&w, "d", "a");			/* the report has expired */
		assert_true(candidate_at(&w, "s1")->kv_s == 0);
		world_end(&w);
	}
}

/* Our sum of open prompts is that of a full cache. The engine has ended them: a line was lost. */
static void requests_that_ended_unseen(void **state)
{
	struct world w;
	char uid[8];

	for (int told = 0; told < 2; told++) {
		world_options(&w);
		w.o.pool_default.capacity = 1000;
		world_open(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=0,0,0,1");
		for (int i = 0; i < 8; i++) {
			snprintf(uid, sizeof(uid), "a%d", i);
			ask(&w, uid, (char[]){ (char)('a' + i), 0 });
		}
		if (told)
			route_observe_load(w.r, SPAN("pool"), SPAN("s1"),
			    &(struct engine_load){ .waiting = 0, .running = 0, .kv_used = 0 }, w.now);
		w.q.load = SPAN(IDLE4);
		ask(&w, "b", "x");
		assert_true((candidate_at(&w, "s1")->kv_s > 0) == !told);
		ask(&w, "c", "y");			/* sent since then: counts again */
		if (told && strncmp(w.a.server.p, "s1", 2) == 0)
			assert_true(candidate_at(&w, "s1")->kv_tokens > 0);
		world_end(&w);
	}
}

static void a_socket_tells_too(void **state)
{
	struct engine_load l = { .waiting = 2, .running = 7, .kv_used = 0.25, .capacity = 2048 };
	struct world w;

	world_start(&w);
	route_observe_load(w.r, SPAN("pool"), SPAN("s1"), &l, w.now);	/* not met yet */
	ask(&w, "a", "a");
	route_observe_load(w.r, SPAN("other"), SPAN("s1"), &l, w.now);
	route_observe_load(w.r, SPAN("pool"), SPAN("s9"), &l, w.now);
	assert_false(server(&w, "s1").v.engine);
	route_observe_load(w.r, SPAN("pool"), SPAN("s1"), &l, w.now);
	assert_true(server(&w, "s1").v.running == 7 && server(&w, "s1").v.kv_used == 0.25);
	assert_int_equal(server(&w, "s1").v.capacity_tokens, 2048);
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_REPORTED);
	route_forget_engine(w.r, SPAN("pool"), SPAN("s1"));
	assert_false(server(&w, "s1").v.engine);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_header_is_a_report),
		cmocka_unit_test(after_a_whole_answer),
		cmocka_unit_test(a_report_has_the_age_of_its_headers),
		cmocka_unit_test(no_report),
		cmocka_unit_test(lines_of_unknown_requests),
		cmocka_unit_test(a_full_cache_is_avoided),
		cmocka_unit_test(requests_that_ended_unseen),
		cmocka_unit_test(a_socket_tells_too),
	};

	return cmocka_run_group_tests_name("route engine load", tests, NULL, NULL);
}

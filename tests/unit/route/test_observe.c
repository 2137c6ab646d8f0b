/* test_observe.c - stats rows of HAProxy and reports of engines, and their effect. */
#include "tests/unit/route/world.h"

#define HOLDS	1500

static void row(struct world *w, const char *process, const char *name, enum hastats_state state,
    uint32_t weight, uint32_t sessions, uint32_t queue)
{
	struct hastats_row r = {
		.pool = SPAN("pool"), .server = span_str(name), .state = state, .weight = weight,
		.sessions = sessions, .queue = queue,
	};

	route_observe_server(w->r, span_str(process), &r, w->now, w->now + HOLDS);
}

static void rows_up(struct world *w, unsigned n)
{
	char name[16];

	for (unsigned i = 1; i <= n; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		row(w, "a", name, HASTATS_UP, 1, 0, 0);
	}
}

static const struct {
	const char *name;
	enum hastats_state state;
	uint32_t weight;
	const char *want;
} states[] = {
	{ "up", HASTATS_UP, 1, "1234" },
	{ "drain", HASTATS_DRAIN, 1, "134" },
	{ "maintenance", HASTATS_MAINT, 1, "134" },
	{ "weight 0", HASTATS_UP, 0, "134" },
	{ "down, for that process", HASTATS_DOWN, 1, "1234" },
};

/* The load string reports the server as up for the whole time that the row is valid. */
static void rows_override_load_strings(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		struct world w;

		world_start_unpunished(&w);
		assert_string_equal(named(&w, 20), "1234");
		row(&w, "a", "s1", HASTATS_UP, 1, 0, 0);
		row(&w, "a", "s2", states[i].state, states[i].weight, 0, 0);
		row(&w, "b", "s2", HASTATS_UP, 1, 0, 0);
		if (strcmp(named(&w, 20), states[i].want) != 0)
			fail_msg("%s: not %s", states[i].name, states[i].want);
		assert_int_equal(server(&w, "s2").v.closed, strcmp(states[i].want, "134") == 0);
		assert_int_equal(server(&w, "s2").v.watchers, 2);
		w.now += HOLDS;
		assert_string_equal(named(&w, 20), "1234");
		assert_int_equal(server(&w, "s2").v.watchers, 0);
		world_end(&w);
	}
}

static void no_server_is_left(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "a", "a");
	for (int i = 1; i <= 4; i++)
		row(&w, "a", (const char *[]){ "s1", "s2", "s3", "s4" }[i - 1], HASTATS_DRAIN, 1, 0, 0);
	ask(&w, "b", "b");
	assert_why(&w, WHY_NOSERVER);
	assert_int_equal(w.a.server.n, 0);
	world_end(&w);
}

static void without_a_load_string(void **state)
{
	struct world w;

	(void)state;
	world_start_unpunished(&w);
	w.q.load = SPAN("");
	rows_up(&w, 4);			/* of a pool that no request has named */
	assert_false(server(&w, "s1").found);
	ask(&w, "a", "a");
	assert_why(&w, WHY_NOLOAD);
	rows_up(&w, 4);
	row(&w, "a", "s3", HASTATS_DOWN, 1, 0, 0);
	row(&w, "a", "s4", HASTATS_DRAIN, 1, 0, 0);
	row(&w, "a", "s5", HASTATS_MAINT, 1, 0, 0);	/* an empty place of a server-template */
	assert_false(server(&w, "s5").found);
	assert_string_equal(named(&w, 20), "12");
	ask(&w, "b", "xyz");
	assert_why(&w, WHY_COLD);
	served(&w, "b");
	ask(&w, "c", "xyzv");
	assert_why(&w, WHY_CACHED);
	served(&w, "c");
	assert_string_equal(pool(&w).facts, "first");
	row(&w, "b", "s3", HASTATS_UP, 1, 0, 0);	/* one process reaches it */
	assert_string_equal(named(&w, 20), "123");
	w.now += HOLDS;
	ask(&w, "d", "d");
	assert_why(&w, WHY_NOLOAD);
	world_end(&w);
}

/* A pool in the configuration exists before its first request. */
static void a_pool_that_is_named(void **state)
{
	struct pool_opts own;
	struct world w;

	(void)state;
	world_options(&w);
	own = w.o.pool_default;
	strcpy(own.name, "pool");
	w.o.pools = &own;
	w.o.n_pools = 1;
	world_open(&w);
	w.q.load = SPAN("");
	rows_up(&w, 2);
	assert_true(server(&w, "s2").found && server(&w, "s2").v.up);
	ask(&w, "a", "a");
	assert_why(&w, WHY_COLD);
	assert_string_equal(pool(&w).facts, "load");
	world_end(&w);
}

/* Loads far above any load string's: those of the rows count. */
static void many_servers(void **state)
{
	struct world w;
	char name[16], uid[16];
	bool hit[300] = { false };
	unsigned n = 0;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("");
	ask(&w, "x", "x");
	for (int round = 0; round < 2; round++)
		for (unsigned i = 0; i < 300; i++) {
			snprintf(name, sizeof(name), "gpu-%u", i);
			row(&w, "a", name, HASTATS_UP, 1, i < 250 ? 40 : 1, i < 250 ? 2 : 0);
		}
	assert_int_equal(server(&w, "gpu-3").v.conn, 40);
	assert_int_equal(server(&w, "gpu-3").v.queue, 2);
	for (unsigned i = 0; i < 50; i++) {
		snprintf(uid, sizeof(uid), "r%u", i);
		ask(&w, uid, (char[]){ (char)('A' + i), 0 });
		assert_true(w.a.server.n > 4);
		hit[atoi(w.a.server.p + 4)] = true;
	}
	for (unsigned i = 250; i < 300; i++)
		n += hit[i];
	assert_int_equal(n, 50);
	world_end(&w);
}

/* Slices after the first never bring a load string. */
static void a_body_in_slices(void **state)
{
	struct world w;
	size_t half;
	char *whole;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("");
	ask(&w, "x", "x");
	rows_up(&w, 3);
	chat(&w.body, "", "abc", ",\"model\":\"m\"");
	whole = w.body.p;
	half = w.body.n / 2;
	w.q.uid = SPAN("u");
	w.q.visible = w.q.whole = (int64_t)w.body.n;
	for (int i = 0; i < 2; i++) {
		w.q.seq = i;
		w.q.body = span_of(whole + (i ? half : 0), i ? w.body.n - half : half);
		route_decide(w.r, w.s, &w.q, w.now, &w.a);
		assert_true(w.a.server.n > 0);
	}
	world_end(&w);
}

/* Each of two processes counts its own requests, so the load string of one is not the whole load.
 */
static void several_processes_add_up(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "a", "a");
	for (int i = 0; i < 3; i++) {
		row(&w, "a", (const char *[]){ "s1", "s2", "s3" }[i], HASTATS_UP, 1, 50, 5);
		row(&w, "b", (const char *[]){ "s1", "s2", "s3" }[i], HASTATS_UP, 1, 0, 0);
	}
	for (int i = 0; i < 4; i++) {
		ask(&w, (char[]){ (char)('b' + i), 0 }, (char[]){ (char)('B' + i), 0 });
		assert_span(w.a.server, "s4");
	}
	world_end(&w);
}

/* Without log feed and load string, requests that HAProxy has ended still leave the ledger. */
static void unreported_ends(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("");
	ask(&w, "x", "x");
	rows_up(&w, 1);
	for (int i = 0; i < 5; i++)
		ask(&w, (char[]){ (char)('a' + i), 0 }, (char[]){ (char)('B' + i), 0 });
	assert_int_equal(stats(&w).open, 5);
	for (int i = 0; i < 8; i++) {
		w.now += 500;
		row(&w, "a", "s1", HASTATS_UP, 1, 2, 0);
	}
	assert_int_equal(stats(&w).open, 2);
	assert_int_equal(stats(&w).closed_by_load, 3);
	world_end(&w);
}

static void a_server_that_rows_leave_out_is_gone(void **state)
{
	struct world w;

	(void)state;
	world_options(&w);
	w.o.server_max_age_ms = 10000;
	world_open(&w);
	w.q.load = SPAN("");
	ask(&w, "x", "x");
	rows_up(&w, 3);
	for (int i = 0; i < 12; i++) {
		w.now += 1000;
		rows_up(&w, 2);
		route_tick(w.r, w.now);
	}
	assert_true(server(&w, "s2").found);
	assert_false(server(&w, "s3").found);
	for (int i = 0; i < 12; i++) {		/* no report is no sign of a removed server */
		w.now += 10000;
		route_tick(w.r, w.now);
	}
	assert_true(server(&w, "s2").found);
	world_end(&w);
}

/* ---- engines ------------------------------------------------------------------------------- */

static struct engine_report report(int64_t waiting, int64_t running, uint64_t capacity)
{
	return (struct engine_report){ .waiting = waiting,
		.running = running,
		.kv_used = 0.5,
		.block_size = 16,
		.capacity = capacity };
}

static void tell(struct world *w, const char *name, const struct engine_report *e)
{
	route_observe_engine(w->r, SPAN("pool"), span_str(name), e, w->now, w->now + HOLDS);
}

static void work_it_off(struct world *w)
{
	for (int i = 0; route_work(w->r); i++)
		assert_true(i < 100000);
}

static void fill(struct world *w, unsigned n)
{
	char uid[16];

	w->q.load = SPAN("lb1/1;s1=1,0,0,1");
	for (unsigned i = 0; i < n; i++) {
		snprintf(uid, sizeof(uid), "f%u", i);
		w->now += 100;
		ask(w, uid, (char[]){ (char)('A' + i), 0 });
		served(w, uid);
	}
	work_it_off(w);
}

static void a_capacity_is_learned(void **state)
{
	struct engine_report e = report(0, 0, 40 * 16);		/* four prompts */
	struct world w;

	(void)state;
	world_start(&w);
	tell(&w, "s1", &e);			/* unknown server */
	fill(&w, 20);
	assert_true(server(&w, "s1").v.held_tokens > 100 * 16);
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_GUESS);
	tell(&w, "s1", &e);
	work_it_off(&w);
	assert_int_equal(server(&w, "s1").v.room_tokens, 40 * 16);
	assert_true(server(&w, "s1").v.held_tokens > 20 * 16 && server(&w, "s1").v.held_tokens <= 40 * 16);
	w.now += 100 * HOLDS;			/* the engine stopped answering; its size stays */
	fill(&w, 20);
	assert_true(server(&w, "s1").v.held_tokens <= 40 * 16);
	e.capacity = 0;
	tell(&w, "s1", &e);
	assert_int_equal(server(&w, "s1").v.room_tokens, 40 * 16);
	e.capacity = 80 * 16;
	tell(&w, "s1", &e);
	assert_int_equal(server(&w, "s1").v.room_tokens, 80 * 16);
	w.o.pool_default.capacity = 20 * 16;	/* the configuration comes first */
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	assert_int_equal(server(&w, "s1").v.room_tokens, 20 * 16);
	tell(&w, "s1", &e);
	assert_int_equal(server(&w, "s1").v.room_tokens, 20 * 16);
	assert_int_equal(server(&w, "s1").v.engine_capacity, 80 * 16);
	world_end(&w);
}

static const struct candidate *candidate(struct world *w, const char *name)
{
	server_id id = server(w, name).v.id;

	for (size_t i = 0; i < 4; i++)
		if (w->s->candidates[i].id == id)
			return &w->s->candidates[i];
	fail_msg("%s is no candidate", name);
	return NULL;
}

/* An engine that is not polled any more: only its reports are forgotten. */
static void an_engine_is_forgotten(void **state)
{
	struct engine_report e = report(3, 8, 40 * 16);
	struct world w;

	(void)state;
	world_start(&w);
	fill(&w, 1);
	tell(&w, "s1", &e);
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_REPORTED);
	route_forget_engine(w.r, SPAN("pool"), SPAN("s9"));
	route_forget_engine(w.r, SPAN("other"), SPAN("s1"));
	assert_int_equal(server(&w, "s1").v.capacity_tokens, 40 * 16);
	route_forget_engine(w.r, SPAN("pool"), SPAN("s1"));
	assert_int_equal(server(&w, "s1").v.capacity_source, CAPACITY_GUESS);
	assert_int_equal(server(&w, "s1").v.block_size, 0);
	assert_false(server(&w, "s1").v.engine);
	ask(&w, "again", "A");
	assert_why(&w, WHY_CACHED);
	world_end(&w);
}

static void inputs_of_a_rule(void **state)
{
	struct engine_report e = report(3, 8, 0), none = report(-1, -1, 0);
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "a", "a");
	assert_true(candidate(&w, "s1")->kv_used < 0);
	none.kv_used = -1;
	tell(&w, "s1", &e);
	tell(&w, "s2", &none);
	ask(&w, "b", "b");
	assert_int_equal(candidate(&w, "s1")->waiting, 3);
	assert_int_equal(candidate(&w, "s1")->running, 8);
	assert_true(candidate(&w, "s1")->kv_used == 0.5);
	assert_int_equal(candidate(&w, "s2")->waiting, 0);
	assert_true(candidate(&w, "s2")->kv_used < 0 && candidate(&w, "s3")->kv_used < 0);
	assert_true(server(&w, "s1").v.engine && !server(&w, "s3").v.engine);
	w.now += HOLDS;
	ask(&w, "c", "c");
	assert_int_equal(candidate(&w, "s1")->waiting, 0);
	assert_true(candidate(&w, "s1")->kv_used < 0);
	assert_false(server(&w, "s1").v.engine);
	world_end(&w);
}

/* Requests that neither HAProxy nor the agent sent there. */
static void requests_from_elsewhere(void **state)
{
	struct engine_report e = report(2, 30, 0);
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,10,2,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1");
	ask(&w, "a", "a");
	tell(&w, "s1", &e);
	ask(&w, "b", "b");
	assert_int_equal(candidate(&w, "s1")->load, 12);	/* a single report may be a matter of timing */
	tell(&w, "s1", &e);
	ask(&w, "c", "c");
	assert_int_equal(candidate(&w, "s1")->load, 12 + 20);
	assert_int_equal(server(&w, "s1").v.foreign, 20);
	e.running = 12;
	tell(&w, "s1", &e);
	ask(&w, "d", "d");
	assert_int_equal(candidate(&w, "s1")->load, 12 + 2);
	tell(&w, "s1", &e);
	w.now += HOLDS;
	ask(&w, "e", "e");
	assert_int_equal(candidate(&w, "s1")->load, 12);
	tell(&w, "s1", &e);		/* after a pause it is the first again */
	assert_int_equal(server(&w, "s1").v.foreign, 0);
	world_end(&w);
}

static void adapters(void **state)
{
	struct engine_report e = report(0, 1, 0);
	struct world w;

	(void)state;
	e.n_adapters = 3;
	strcpy(e.adapter[0].name, "sql");
	e.adapter[0].running = true;
	strcpy(e.adapter[1].name, "poem");
	e.adapter[1].waiting = true;
	strcpy(e.adapter[2].name, "mail");
	world_start(&w);
	ask(&w, "a", "a");
	tell(&w, "s2", &e);
	ask(&w, "b", "b");
	assert_false(candidate(&w, "s2")->has_adapter);
	for (int i = 0; i < 3; i++) {		/* by the model's name, as vLLM has it; by lora_path, as SGLang */
		char tail[64];

		snprintf(tail, sizeof(tail),
		    i == 1 ? ",\"model\":\"m\",\"lora_path\":\"%s\"" : ",\"model\":\"%s\"",
		    e.adapter[i].name);
		chat(&w.body, "", "c", tail);
		send(&w, "c");
		assert_span(w.a.server, "s2");
		assert_true(candidate(&w, "s2")->has_adapter);
		assert_false(candidate(&w, "s1")->has_adapter);
	}
	w.q.model = SPAN("mail");		/* by the argument */
	ask(&w, "d", "d");
	assert_true(candidate(&w, "s2")->has_adapter);
	assert_int_equal(server(&w, "s2").v.adapters_running, 1);
	assert_int_equal(server(&w, "s2").v.adapters_waiting, 1);
	assert_int_equal(server(&w, "s2").v.adapters_loaded, 2);
	w.now += HOLDS;
	ask(&w, "e", "e");
	assert_false(candidate(&w, "s2")->has_adapter);
	world_end(&w);
}

static void unknown_names(void **state)
{
	struct engine_report e = report(1, 1, 1);
	struct world w;

	(void)state;
	world_start(&w);
	tell(&w, "s1", &e);
	ask(&w, "a", "a");
	tell(&w, "s9", &e);
	route_observe_engine(w.r, SPAN("other"), SPAN("s1"), &e, w.now, w.now + HOLDS);
	assert_false(server(&w, "s9").found);
	assert_false(server(&w, "s1").v.engine);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_override_load_strings),
		cmocka_unit_test(no_server_is_left),
		cmocka_unit_test(without_a_load_string),
		cmocka_unit_test(a_pool_that_is_named),
		cmocka_unit_test(many_servers),
		cmocka_unit_test(a_body_in_slices),
		cmocka_unit_test(several_processes_add_up),
		cmocka_unit_test(unreported_ends),
		cmocka_unit_test(a_server_that_rows_leave_out_is_gone),
		cmocka_unit_test(a_capacity_is_learned),
		cmocka_unit_test(an_engine_is_forgotten),
		cmocka_unit_test(inputs_of_a_rule),
		cmocka_unit_test(requests_from_elsewhere),
		cmocka_unit_test(adapters),
		cmocka_unit_test(unknown_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

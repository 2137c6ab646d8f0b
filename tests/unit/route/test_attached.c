/* test_attached.c - each fault in how HAProxy is attached is raised from requests and log lines
 * that show it, and none is raised by a sound configuration. A round is a request and its log
 * line, repeated as often as needed. */
#include "tests/unit/route/world.h"
#include "agent/route/job_in.h"

#define ROUNDS		40
#define ROUND_MS	1000

static void name(void *arg, const struct problem_view *v)
{
	char *to = arg;

	if (v->raised)
		sprintf(to + strlen(to), "%s%s@%s", to[0] ? " " : "", v->word, v->pool);
}

/* Look as the side thread does. */
static void look(struct world *w)
{
	struct problem_event e;

	while (route_problem_next(w->r, w->now, &e))
		;
}

static void assert_problems(struct world *w, const char *want)
{
	char got[4096] = "";

	route_each_problem(w->r, w->now, name, got);
	assert_string_equal(got, want);
}

/* The line of a request that HAProxy sent where it was told to. */
static struct fact line_of(const struct world *w, const char *uid)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.pool = w->q.pool;
	f.server = f.wanted = w->a.server;
	f.why = span_str(why_text(w->a.why));
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 5;
	f.bytes_in = 3000;
	f.retries = 0;
	f.error = 0;
	f.line = f.has_why = true;
	if (f.server.n == 0) {
		f.server = SPAN("s2");
		f.wanted = SPAN("-");
	}
	return f;
}

struct fault {
	const char *want;	/* the problem that must be raised in the end */
	void (*request)(struct world *w, unsigned round);	/* changes w->q; NULL: sound */
	bool (*line)(struct world *w, unsigned round,
		     struct fact *f);	/* returns false for no line; NULL: sound */
	bool unasked;		/* the agent gets no request */
};

static void play_round(struct world *w, const struct fault *x, unsigned i)
{
	char uid[32];
	struct fact f;

	snprintf(uid, sizeof(uid), "u%u", i);
	if (x->request != NULL)
		x->request(w, i);
	w->a = (struct route_answer){ .why = WHY_COLD };
	if (!x->unasked) {
		chat(&w->body, "", (char[]){ (char)('a' + i % 20), '\0' }, ",\"model\":\"m\"");
		w->q.uid = span_str(uid);
		w->q.seq = -1;
		w->q.body = span_of(w->body.p, w->body.n);
		if (x->request != NULL)
			x->request(w, i);
		route_decide(w->r, w->s, &w->q, w->now, &w->a);
	}
	f = line_of(w, uid);
	w->now += 50;
	if (x->line == NULL || x->line(w, i, &f))
		route_learn(w->r, &f, w->now);
	w->now += ROUND_MS - 50;
	look(w);
}

static void play(struct world *w, const struct fault *x, unsigned n)
{
	look(w);
	w->now += 20000;		/* settled */
	for (unsigned i = 0; i < n; i++)
		play_round(w, x, i);
}

/* ---- requests ------------------------------------------------------------------------------- */

static void no_load(struct world *w, unsigned i)
{
	w->q.load = (struct span){ 0 };
}

static void empty_load(struct world *w, unsigned i)
{
	w->q.load = SPAN("");
}

static void odd_load(struct world *w, unsigned i)
{
	w->q.load = SPAN("lb1/1;s1=1,0,0,1;s2=,0,0,1");
}

static void no_pool(struct world *w, unsigned i)
{
	w->q.pool = SPAN("");
}

static void no_uid(struct world *w, unsigned i)
{
	w->q.uid = SPAN("");
}

static void small_buffer(struct world *w, unsigned i)
{
	w->q.frame_size = 16380;
	w->q.visible = 15200 - i % 40;
	w->q.whole = 40000;
}

static void small_buffer_named(struct world *w, unsigned i)
{
	small_buffer(w, i);
	w->q.session = SPAN("a conversation");
}

/* Each third request has no name. */
static void small_buffer_often_named(struct world *w, unsigned i)
{
	small_buffer(w, i);
	w->q.session = i % 3 ? SPAN("a conversation") : SPAN("");
}

/* The client leaves before the first message of the body has come. */
static void left_while_sending(struct world *w, unsigned i)
{
	small_buffer(w, i);
	w->q.body = i % 2 ? SPAN("{\"model\":\"m\",\"tools\":[{\"name\":\"f") : SPAN("{\"model\":{]");
}

static void bound_body(struct world *w, unsigned i)
{
	w->q.frame_size = 262140;
	w->q.visible = w->q.whole = 50000;
}

/* As "kvroutectl doctor --write" bounds it, for the headers and the load string. */
static void bound_with_room(struct world *w, unsigned i)
{
	w->q.frame_size = (uint32_t)w->q.body.n + 5116;
	w->q.visible = w->q.whole = (int64_t)w->q.body.n + 3000;
}

static void two_tenants(struct world *w, unsigned i)
{
	w->q.tenant = span_str(i / 2 % 2 ? "acme" : "umbrella");
}

static void early_body(struct world *w, unsigned i)
{
	two_tenants(w, i);
	w->q.frame_size = 262140;
	w->q.visible = i % 2 ? 0 : 1400;
	w->q.whole = 40000;
}

/* One of two tenants sends its bodies slowly: no problem of the configuration. */
static void early_body_of_one(struct world *w, unsigned i)
{
	early_body(w, i);
	if (i / 2 % 2)
		w->q.visible = w->q.whole = 400;
}

/* The requests name no tenant. */
static void early_body_of_nobody(struct world *w, unsigned i)
{
	early_body(w, i);
	w->q.tenant = SPAN("");
}

/* One body in twenty is longer than the buffer; the others are whole. */
static void now_and_then_long(struct world *w, unsigned i)
{
	w->q.frame_size = 262140;
	w->q.visible = w->q.whole = (int64_t)w->q.body.n;
	if (i % 20 == 7) {
		w->q.visible = 255000;
		w->q.whole = 400000;
	}
}

static void whole_body(struct world *w, unsigned i)
{
	w->q.frame_size = 262140;
	w->q.visible = w->q.whole = (int64_t)w->q.body.n;
}

static void a_body_in_slices(struct world *w, unsigned i)
{
	small_buffer(w, i);
	w->q.seq = 0;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static bool no_line(struct world *w, unsigned i, struct fact *f)
{
	return false;
}

static bool other_pool(struct world *w, unsigned i, struct fact *f)
{
	f->pool = SPAN("backend");
	return true;
}

static bool unknown_server(struct world *w, unsigned i, struct fact *f)
{
	if (i == 11 || i == 15 || i == 22)
		f->server = SPAN("s9");
	f->redispatched = true;
	return true;
}

static bool dashed_uid(struct world *w, unsigned i, struct fact *f)
{
	f->uid = SPAN("-");
	return true;
}

static bool no_field(struct world *w, unsigned i, struct fact *f)
{
	f->lacks = "ts";
	return true;
}

static bool not_asked(struct world *w, unsigned i, struct fact *f)
{
	f->why = f->wanted = SPAN("-");
	f->server = SPAN("s2");
	return true;
}

static bool not_asked_small(struct world *w, unsigned i, struct fact *f)
{
	f->bytes_in = 300;
	return not_asked(w, i, f);
}

static bool of_haproxy(struct world *w, unsigned i, struct fact *f)
{
	not_asked(w, i, f);
	f->server = SPAN("<NOSRV>");
	f->status = 403;
	return true;
}

static bool elsewhere(struct world *w, unsigned i, struct fact *f)
{
	f->server = span_eq(f->wanted, SPAN("s1")) ? SPAN("s2") : SPAN("s1");
	return true;
}

static bool full(struct world *w, unsigned i, struct fact *f)
{
	f->redispatched = true;		/* "+0" */
	return elsewhere(w, i, f);
}

static bool refused_there(struct world *w, unsigned i, struct fact *f)
{
	f->redispatched = true;
	f->retries = 1;
	return elsewhere(w, i, f);
}

static bool rarely_elsewhere(struct world *w, unsigned i, struct fact *f)
{
	return i % 10 == 3 ? elsewhere(w, i, f) : true;
}

static bool timed_out(struct world *w, unsigned i, struct fact *f)
{
	f->error = 1;
	return not_asked(w, i, f);
}

static bool too_big(struct world *w, unsigned i, struct fact *f)
{
	f->error = i % 5 == 0 ? 3 : 0;
	return i % 5 == 0 ? not_asked(w, i, f) : true;
}

static bool failed_codes(struct world *w, unsigned i, struct fact *f)
{
	static const int codes[] = { 257, 2, 400 };

	f->error = codes[i % 3];
	return not_asked(w, i, f);
}

static bool one_error(struct world *w, unsigned i, struct fact *f)
{
	f->error = i == 20 ? 257 : 0;
	return i == 20 ? not_asked(w, i, f) : true;
}

static bool not_a_line(struct world *w, unsigned i, struct fact *f)
{
	f->line = f->has_why = false;	/* the message done */
	f->error = -1;
	return true;
}

static void each_fault_has_its_problem(void **state)
{
	static const struct fault faults[] = {
		{ "", NULL, NULL },
		{ "load_missing@pool", no_load, NULL },
		{ "load_unset@pool", empty_load, NULL },
		{ "load_bad@pool", odd_load, NULL },
		{ "server_unnamed@pool", NULL, unknown_server },
		{ "pool_unset@", no_pool, NULL },
		{ "pool_differs@pool", NULL, other_pool },
		{ "uid_missing@pool", no_uid, NULL },
		{ "uid_missing@pool", NULL, dashed_uid },
		{ "feed_missing@pool", NULL, no_line },
		{ "feed_fields@pool", NULL, no_field },
		{ "body_buffer@pool", small_buffer, NULL },
		{ "body_buffer@pool", small_buffer_often_named, NULL },
		{ "body_bound@pool", bound_body, NULL },
		{ "body_early@pool", early_body, NULL },
		{ "not_asked@pool", NULL, not_asked, true },
		{ "answer_lost@pool", NULL, not_asked },
		{ "not_followed@pool", NULL, elsewhere },
		{ "spoe_timeout@pool", NULL, timed_out },
		{ "spoe_too_big@pool", NULL, too_big },
		{ "spoe_failed@pool", NULL, failed_codes },
		/* and those that are no problem */
		{ "", now_and_then_long, NULL },
		{ "", bound_with_room, NULL },
		{ "", early_body_of_one, NULL },
		{ "", early_body_of_nobody, NULL },
		{ "", a_body_in_slices, NULL },
		{ "", small_buffer_named, NULL },
		{ "", left_while_sending, NULL },
		{ "", NULL, not_asked_small, true },
		{ "", NULL, of_haproxy, true },
		{ "", NULL, full },
		{ "", NULL, refused_there },
		{ "", NULL, rarely_elsewhere },
		{ "", NULL, one_error },
		{ "", NULL, not_a_line },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		char got[4096] = "";
		struct world w;

		world_start(&w);
		play(&w, &faults[i], ROUNDS);
		route_each_problem(w.r, w.now, name, got);
		if (strcmp(got, faults[i].want) != 0)
			fail_msg("%zu: \"%s\", expected \"%s\"", i, got, faults[i].want);
		world_end(&w);
	}
}

/* In mode off the agent reads no body, so only the arguments name a session. */
static void mode_off_knows_names(void **state)
{
	static const struct fault faults[] = {
		{ "body_buffer@pool", small_buffer, NULL }, { "", small_buffer_named, NULL },
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		char got[4096] = "";
		struct world w;

		world_start(&w);
		w.o.pool_default.mode = MODE_OFF;
		assert_int_equal(route_reconfigure(w.r, &w.o), 0);
		play(&w, &faults[i], ROUNDS);
		route_each_problem(w.r, w.now, name, got);
		assert_string_equal(got, faults[i].want);
		world_end(&w);
	}
}

/* A problem that was corrected is over, and stays over. */
static void each_ends_when_it_is_mended(void **state)
{
	static const struct fault faults[] = {
		{ "load_unset@pool", empty_load, NULL }, { "pool_differs@pool", NULL, other_pool },
		{ "uid_missing@pool", NULL, dashed_uid }, { "feed_missing@pool", NULL, no_line },
		{ "body_buffer@pool", small_buffer, NULL }, { "answer_lost@pool", NULL, not_asked },
		{ "not_followed@pool", NULL, elsewhere }, { "spoe_timeout@pool", NULL, timed_out },
	}, sound = { "", whole_body, NULL };

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct route_request q;
		struct world w;

		world_start(&w);
		q = w.q;
		play(&w, &faults[i], ROUNDS);
		assert_problems(&w, faults[i].want);
		w.q = q;
		play(&w, &sound, 60);
		assert_problems(&w, "");
		world_end(&w);
	}
}

static void all_five(struct world *w, unsigned i)
{
	w->q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1;s9=1,0,0,1");
}

/* Nothing proves that no server is missing, but the one of the example is named now. */
static void ends_when_load_names_the_server(void **state)
{
	static const struct fault fault = { "", NULL, unknown_server }, cured = { "", all_five, NULL };
	struct world w;

	world_start(&w);
	play(&w, &fault, ROUNDS);
	assert_problems(&w, "server_unnamed@pool");
	play(&w, &cured, 2);
	assert_problems(&w, "");
	world_end(&w);
}

static void an_operator_clears_all(void **state)
{
	static const struct fault fault = { "", empty_load, NULL };
	struct world w;

	world_start(&w);
	play(&w, &fault, ROUNDS);
	assert_problems(&w, "load_unset@pool");
	route_clear_problems(w.r);
	assert_problems(&w, "");
	world_end(&w);
}

/* ---- days of a pool ------------------------------------------------------------------------- */

static void servers_come_and_go(struct world *w, unsigned i)
{
	static const char *const loads[] = {
		IDLE4,
		"lb1/1;s1=0,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1",
		"lb1/1;s1=1,0,0,0;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1",
		"lb2/7;s1=1,0,0,1;s2=1,0,0,1;s3=1,0,0,1;s4=1,0,0,1;s5=1,0,0,1",
	};

	w->q.load = span_str(loads[i / 10 % 4]);
}

/* The chosen server is down when the line comes: HAProxy balanced the request. */
static bool down_meanwhile(struct world *w, unsigned i, struct fact *f)
{
	static const char *const names[] = { "s1", "s2", "s3", "s4" };

	for (unsigned k = 0; k < 4; k++) {
		struct server_find s = server(w, names[k]);

		if (s.found && (!s.v.up || s.v.weight == 0)) {
			f->wanted = span_str(names[k]);
			f->server = SPAN("s3");
		}
	}
	return true;
}

static void a_mixed_day_has_none(void **state)
{
	static const struct fault day = { "", servers_come_and_go, down_meanwhile };
	struct world w;

	world_start(&w);
	play(&w, &day, 200);
	assert_problems(&w, "");
	world_end(&w);
}

/* HAProxy kept lines while no agent ran: they come all at once, for requests that no agent saw. */
static void lines_from_before_the_start_are_ignored(void **state)
{
	static const struct fault sound = { "", NULL, NULL };
	struct world w;

	world_start(&w);
	look(&w);
	for (unsigned i = 0; i < 5000; i++) {
		struct fact f = line_of(&w, "old");

		not_asked(&w, i, &f);
		f.error = i % 3 == 0 ? 3 : 0;	/* one window of these is a problem */
		route_learn(w.r, &f, w.now);
	}
	play(&w, &sound, 15);		/* the window that they would be in is over */
	assert_problems(&w, "");
	play(&w, &sound, 60);
	assert_problems(&w, "");
	world_end(&w);
}

/* While the agent hung, HAProxy routed without it, and reports that in many lines at once. */
static void an_outage_that_is_over_is_none(void **state)
{
	static const struct fault sound = { "", NULL, NULL };
	struct world w;

	world_start(&w);
	play(&w, &sound, 30);
	for (unsigned i = 0; i < 300; i++) {
		struct fact f = line_of(&w, "missed");

		not_asked(&w, i, &f);
		f.error = i % 2 ? 1 : 0;
		route_learn(w.r, &f, w.now);
	}
	play(&w, &sound, 60);
	assert_problems(&w, "");
	world_end(&w);
}

/* Lines that name backends before the first request take no place of a pool. */
static void invented_backends_hide_no_pool(void **state)
{
	static const struct fault no_loads = { "", no_load, NULL };
	struct world w;
	char name[20];

	world_start(&w);
	look(&w);
	w.now += 20000;
	for (unsigned i = 0; i < 400; i++) {
		struct fact f = line_of(&w, "unknown");

		snprintf(name, sizeof(name), "b%u", i);
		f.server = f.wanted = SPAN("s9");
		f.pool = span_str(name);
		route_learn(w.r, &f, w.now += 100);
		look(&w);
	}
	play(&w, &no_loads, ROUNDS);
	assert_problems(&w, "load_missing@pool");
	world_end(&w);
}

/* An agent in reserve gets the log feed of requests that another one decided. */
static void an_agent_in_reserve_has_none(void **state)
{
	static const struct fault decided_elsewhere = { "", NULL, NULL, true };
	struct world w;

	world_start(&w);
	w.a.why = WHY_CACHED;
	play(&w, &decided_elsewhere, 60);
	assert_problems(&w, "");
	world_end(&w);
}

/* With answers that are whole at once, the log line comes after "first" has closed the request. */
static void whole_answers_and_their_lines(void **state)
{
	for (int lines = 0; lines < 2; lines++) {
		struct world w;

		world_start(&w);
		look(&w);
		for (unsigned i = 0; i < 60; i++) {
			char uid[32];

			snprintf(uid, sizeof(uid), "u%u", i);
			ask(&w, uid, "ab");
			tell_first(&w, uid, "s1", 200, "application/json");
			if (lines) {
				struct fact f = line_of(&w, uid);

				f.server = f.wanted = SPAN("s1");
				route_learn(w.r, &f, w.now);
			}
			w.now += ROUND_MS;
			look(&w);
		}
		assert_problems(&w, lines ? "" : "feed_missing@pool");
		world_end(&w);
	}
}

/* Write to <other> a uid that shares its place among the answered requests with <uid>. */
static void share_place(const struct world *w, const char *uid, char other[32])
{
	uint64_t place = route_uid(w->r, span_str(uid)) % ANSWERED_MAX;
	unsigned i = 0;

	do
		snprintf(other, 32, "other-%u", i++);
	while (route_uid(w->r, span_str(other)) % ANSWERED_MAX != place);
}

/* The lines are of another backend, whose requests another agent answered. Requests of this agent
 * that hold the same place say nothing about them. */
static void a_line_of_another_request_in_the_same_place(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	look(&w);
	for (unsigned i = 0; i < 60; i++) {
		char uid[32], other[32];
		struct fact f;

		snprintf(uid, sizeof(uid), "u%u", i);
		share_place(&w, uid, other);
		ask(&w, uid, "ab");
		tell_first(&w, uid, "s1", 200, "application/json");
		f = line_of(&w, other);
		f.pool = SPAN("elsewhere");
		f.server = f.wanted = SPAN("e1");
		route_learn(w.r, &f, w.now);
		w.now += ROUND_MS;
		look(&w);
	}
	assert_problems(&w, "feed_missing@pool");
	world_end(&w);
}

static void no_line_is_missed_where_none_is_expected(void **state)
{
	static const struct fault silent = { "", NULL, no_line };
	struct world w;

	world_start(&w);
	route_without_feed(w.r);
	play(&w, &silent, 100);
	assert_problems(&w, "");
	world_end(&w);
}

static void lines_without_json_are_named(void **state)
{
	static const struct fault silent = { "", NULL, no_line };
	struct world w;

	world_start(&w);
	look(&w);
	for (unsigned i = 0; i < 60; i++) {
		play_round(&w, &silent, i);
		route_line_plain(w.r);
	}
	assert_problems(&w, "feed_plain@pool");
	world_end(&w);
}

/* ---- stats sockets, models, strange bytes --------------------------------------------------- */

static void row(struct world *w, const char *srv, enum hastats_state state)
{
	struct hastats_row r = { .pool = SPAN("pool"), .server = span_str(srv), .state = state,
				 .weight = 1 };

	route_observe_server(w->r, SPAN("sock"), &r, w->now, w->now + 3000);
}

static void a_row_of_a_server_that_load_does_not_name(void **state)
{
	static const enum hastats_state states[] = { HASTATS_UP, HASTATS_MAINT, HASTATS_DOWN };

	for (unsigned k = 0; k < 3; k++) {
		struct world w;

		world_start(&w);
		look(&w);
		for (unsigned i = 0; i < 40; i++) {
			static const struct fault sound = { "", NULL, NULL };

			play_round(&w, &sound, i);
			row(&w, "s1", HASTATS_UP);
			row(&w, "s7", states[k]);
		}
		assert_problems(&w, k == 0 ? "server_unnamed@pool" : "");
		world_end(&w);
	}
}

/* An engine under a name that no load string has is a mistake. */
static void an_engine_that_load_does_not_name(void **state)
{
	static const char *const names[] = { "s7", "s1" };
	static const struct fault sound = { "", NULL, NULL };

	for (unsigned k = 0; k < 2; k++) {
		struct engine_report e = { .running = 1 };
		struct world w;

		world_start(&w);
		look(&w);
		for (unsigned i = 0; i < 40; i++) {
			play_round(&w, &sound, i);
			route_observe_engine(
			    w.r, SPAN("pool"), span_str(names[k]), &e, w.now, w.now + 3000);
		}
		assert_problems(&w, k == 0 ? "engine_unnamed@pool" : "");
		world_end(&w);
	}
}

/* The list of servers comes from stats sockets alone: there need be no load. */
static void no_load_is_none_with_stats(void **state)
{
	static const struct fault silent_load = { "", empty_load, NULL };
	struct world w;

	world_start(&w);
	look(&w);
	w.q.load = SPAN(IDLE4);
	for (unsigned i = 0; i < 40; i++) {
		row(&w, "s1", HASTATS_UP);
		row(&w, "s2", HASTATS_UP);
		play_round(&w, &silent_load, i);
	}
	/* the first request made the pool known */
	assert_problems(&w, "");
	world_end(&w);
}

/* A single client can cause that, so the problem begins a minute later. */
static void of_one_tenant_it_takes_longer(void **state)
{
	static const struct fault fault = { "", early_body_of_nobody, NULL };
	struct world w;

	world_start(&w);
	play(&w, &fault, ROUNDS);
	assert_problems(&w, "");
	play(&w, &fault, 4 * ROUNDS);
	assert_problems(&w, "body_early@pool");
	world_end(&w);
}

static void models_without_requests(void **state)
{
	static const struct { const char *models[2], *want; } cases[] = {
		{ { "llama", NULL }, "model_unasked@" },
		{ { "m", NULL }, "" },
		{ { "m", "llama" }, "" },
		{ { "*", NULL }, "" },
		{ { "llama", "*" }, "model_unasked@" },
		{ { NULL, NULL }, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static const struct fault sound = { "", two_tenants, NULL };
		struct model_opts m[2];
		struct world w;

		world_options(&w);
		for (w.o.n_models = 0; w.o.n_models < 2 &&
		     cases[i].models[w.o.n_models] != NULL; w.o.n_models++) {
			m[w.o.n_models] = w.o.model_default;
			strcpy(m[w.o.n_models].name, cases[i].models[w.o.n_models]);
		}
		w.o.models = m;
		world_open(&w);
		play(&w, &sound, 60);
		assert_problems(&w, cases[i].want);
		world_end(&w);
	}
}

static void strange_bytes_are_named(void **state)
{
	struct problem_event e;
	struct world w;

	world_start(&w);
	look(&w);
	for (int i = 0; i < 3; i++)
		route_stray(w.r, PROBLEM_PROXY_ON_SPOP, SPAN("10.0.0.1:5\n\"x"));
	w.now += 2000;
	assert_true(route_problem_next(w.r, w.now, &e));
	assert_int_equal(e.what, PROBLEM_PROXY_ON_SPOP);
	assert_string_equal(e.example.text[0], "10.0.0.1:5\n\"x");
	assert_false(route_problem_next(w.r, w.now, &e));
	assert_problems(&w, "proxy_on_spop@");
	world_end(&w);
}

static void lines_that_have_no_uid(void **state)
{
	static const struct fault sound = { "", NULL, NULL };
	struct world w;

	world_start(&w);
	look(&w);
	for (unsigned i = 0; i < 60; i++) {
		struct fact f;

		play_round(&w, &sound, i);
		fact_init(&f, FACT_DONE);
		f.pool = SPAN("pool");
		for (int k = 0; k < 3; k++)
			route_line_nameless(w.r, &f);
	}
	assert_problems(&w, "uid_missing@pool");
	world_end(&w);
}

static void errors_are_counted_by_code(void **state)
{
	static const struct fault x = { "", NULL, failed_codes };
	struct world w;
	struct route_stats s;

	world_start(&w);
	play(&w, &x, 30);
	s = stats(&w);
	assert_int_equal(s.haproxy_errors[haproxy_error_index(257)], 10);
	assert_int_equal(s.haproxy_errors[haproxy_error_index(2)], 10);
	assert_int_equal(s.haproxy_errors[HAPROXY_ERRORS], 10);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_has_its_problem),
		cmocka_unit_test(mode_off_knows_names),
		cmocka_unit_test(each_ends_when_it_is_mended),
		cmocka_unit_test(ends_when_load_names_the_server),
		cmocka_unit_test(an_operator_clears_all),
		cmocka_unit_test(a_mixed_day_has_none),
		cmocka_unit_test(lines_from_before_the_start_are_ignored),
		cmocka_unit_test(an_outage_that_is_over_is_none),
		cmocka_unit_test(invented_backends_hide_no_pool),
		cmocka_unit_test(an_agent_in_reserve_has_none),
		cmocka_unit_test(whole_answers_and_their_lines),
		cmocka_unit_test(a_line_of_another_request_in_the_same_place),
		cmocka_unit_test(no_line_is_missed_where_none_is_expected),
		cmocka_unit_test(lines_without_json_are_named),
		cmocka_unit_test(a_row_of_a_server_that_load_does_not_name),
		cmocka_unit_test(an_engine_that_load_does_not_name),
		cmocka_unit_test(no_load_is_none_with_stats),
		cmocka_unit_test(models_without_requests),
		cmocka_unit_test(of_one_tenant_it_takes_longer),
		cmocka_unit_test(strange_bytes_are_named),
		cmocka_unit_test(lines_that_have_no_uid),
		cmocka_unit_test(errors_are_counted_by_code),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

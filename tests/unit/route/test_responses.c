/* test_responses.c - a request that continues a stored response goes to the server that has it. */
#include "tests/unit/route/world.h"

static unsigned n;

/* Ask with the id of an earlier response; "": none. */
static void continue_response(struct world *w, const char *id, const char *input)
{
	static char uid[16];		/* of the last request: <w->q.uid> borrows from it */

	snprintf(uid, sizeof(uid), "u%u", n++);
	w->body.n = 0;
	w->q.path = SPAN("/v1/responses");
	say(&w->body, "{\"model\":\"m\",\"input\":\"%s\"", input);
	if (id[0] != '\0')
		say(&w->body, ",\"previous_response_id\":\"%s\"", id);
	say(&w->body, "}");
	send(w, uid);
	w->now += 100;
}

/* The last request was answered with the response <id>: by its first bytes, or its log line. */
static void stored(struct world *w, enum fact_kind kind, const char *id)
{
	char uid[16], srv[SERVER_NAME_MAX + 1];
	struct fact f;

	snprintf(uid, sizeof(uid), "u%u", n - 1);
	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	fact_init(&f, kind);
	f.uid = span_str(uid);
	f.server = span_str(srv);
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 20;
	f.type = kind == FACT_FIRST ? SPAN(STREAM) : SPAN("");
	f.response = span_str(id);
	route_learn(w->r, &f, w->now);
	if (kind == FACT_FIRST)
		tell_done(w, uid, srv, 200, "--", 20);
}

/* Start with one response, "resp_1", which s3 has stored. */
static void world_with_response(struct world *w)
{
	world_start(w);
	w->q.load = SPAN("lb1/1;s3=1,0,0,1");
	continue_response(w, "", "hello");
	stored(w, FACT_FIRST, "resp_1");
}

static void it_goes_to_its_server(void **state)
{
	struct world w;

	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		world_start(&w);
		w.q.load = SPAN("lb1/1;s3=1,0,0,1");
		continue_response(&w, "", "hello");
		stored(&w, kind ? FACT_DONE : FACT_FIRST, "resp_1");
		assert_int_equal(stats(&w).responses, 1);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=1,50,9,1;s4=1,0,0,1");
		continue_response(&w, "resp_1", "go on");		/* however busy it is */
		assert_span(w.a.server, "s3");
		assert_why(&w, WHY_STICKY);
		assert_int_equal(w.a.alt.n, 0);
		assert_int_equal(stats(&w).responses_followed, 1);
		continue_response(&w, "resp_2", "go on");
		assert_span(w.a.server, "s1");
		assert_int_equal(stats(&w).responses_unknown, 1);
		world_end(&w);
	}
}

/* A request counts once, also if HAProxy sends it twice. */
static void a_repeated_request_counts_once(void **state)
{
	struct world w;

	(void)state;
	world_with_response(&w);
	for (unsigned i = 0; i < 2; i++) {
		continue_response(&w, i ? "resp_2" : "resp_1", "go on");
		n--;
		continue_response(&w, i ? "resp_2" : "resp_1", "go on");
	}
	assert_int_equal(stats(&w).responses_followed, 1);
	assert_int_equal(stats(&w).responses_unknown, 1);
	world_end(&w);
}

/* Little memory has few sessions, or none, and then no responses before them. */
static void any_memory_will_do(void **state)
{
	static const size_t bytes[] = { 0, 1, RESPONSES_LEAST, SESSIONS_LEAST - 1, SESSIONS_LEAST,
		SESSIONS_LEAST + RESPONSES_LEAST, SESSIONS_LEAST * 8 / 7 + 8, SESSIONS_LEAST * 2 };
	struct world w;

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		world_options(&w);
		w.o.sessions_max_bytes = bytes[i];
		world_open(&w);
		w.q.load = SPAN("lb1/1;s3=1,0,0,1");
		w.q.session = SPAN("one");
		ask(&w, "a", "abc");
		assert_int_equal(stats(&w).sessions.sessions, bytes[i] >= SESSIONS_LEAST);
		continue_response(&w, "", "hello");
		stored(&w, FACT_FIRST, "resp_1");
		assert_int_equal(stats(&w).responses, bytes[i] >= SESSIONS_LEAST * 8 / 7 + 8);
		world_end(&w);
	}
}

/* A server that is down, or that is not of the pool, cannot be named. */
static void its_server_is_down(void **state)
{
	struct world w;

	(void)state;
	world_with_response(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1;s3=0,0,0,1;s4=1,0,0,1");
	continue_response(&w, "resp_1", "go on");
	assert_false(is(w.a.server, "s3"));
	w.q.load = SPAN(IDLE4);
	w.q.pool = SPAN("other");
	continue_response(&w, "resp_1", "go on");
	assert_int_equal(stats(&w).responses_followed, 0);
	assert_int_equal(stats(&w).responses_unknown, 2);
	world_end(&w);
}

/* Return some pages of text. */
static const char *long_input(void)
{
	static char text[400];

	memset(text, 'x', sizeof(text) - 1);
	return text;
}

/* The engine puts what it has stored before the input, so it is no beginning of a prompt: neither
 * of one with the same text, nor of one that continues another response. */
static void its_input_begins_no_prompt(void **state)
{
	struct world w;

	(void)state;
	world_with_response(&w);
	continue_response(&w, "resp_1", long_input());
	assert_span(w.a.server, "s3");
	continue_response(&w, "", long_input());
	assert_int_equal(w.a.hit, 0);
	continue_response(&w, "", long_input());
	assert_true(w.a.hit > 500);
	continue_response(&w, "resp_2", long_input());
	assert_int_equal(w.a.hit, 0);
	continue_response(&w, "resp_2", long_input());
	assert_true(w.a.hit > 500);
	world_end(&w);
}

/* What is bound to a server that is drained ends there; new work goes elsewhere. */
static const struct { const char *name, *load; bool reached; } strings[] = {
	{ "up", "lb1/1;s1=1,0,0,1;s3=1,0,0,1", true },
	{ "without weight", "lb1/1;s1=1,0,0,1;s3=1,0,0,0", true },
	{ "none has weight", "lb1/1;s1=1,0,0,0;s3=1,0,0,0", true },
	{ "down without weight", "lb1/1;s1=1,0,0,1;s3=0,0,0,0", false },
	{ "down", "lb1/1;s1=1,0,0,1;s3=0,0,0,1", false },
	{ "not named", "lb1/1;s1=1,0,0,1", false },
};

static void its_server_has_no_weight(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		struct world w;

		world_with_response(&w);
		w.q.load = span_str(strings[i].load);
		continue_response(&w, "resp_1", "go on");
		if (is(w.a.server, "s3") != strings[i].reached ||
		    stats(&w).responses_followed != strings[i].reached)
			fail_msg("%s", strings[i].name);
		continue_response(&w, "", "something new");
		if (is(w.a.server, "s3") && i > 0)
			fail_msg("%s: new work", strings[i].name);
		world_end(&w);
	}
}

static const struct {
	enum hastats_state state;
	unsigned weight;
	bool by_string, by_rows;
} rows[] = {
	{ HASTATS_UP, 1, true, true }, { HASTATS_UP, 0, true, true }, { HASTATS_DRAIN, 1, true, true },
	{ HASTATS_MAINT, 1, false, false }, { HASTATS_DOWN, 1, true, false },
};

/* Rows of the stats socket, with load strings and without. */
static void its_server_is_drained(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		struct hastats_row row = {
			.pool = SPAN("pool"), .state = rows[i / 2].state, .weight = rows[i / 2].weight,
		};
		bool by_string = i % 2;
		struct world w;

		world_with_response(&w);
		row.server = SPAN("s3");
		route_observe_server(w.r, SPAN("lb"), &row, w.now, w.now + 10000);
		row = (struct hastats_row){
			.pool = SPAN("pool"), .server = SPAN("s1"), .state = HASTATS_UP, .weight = 1,
		};
		route_observe_server(w.r, SPAN("lb"), &row, w.now, w.now + 10000);
		w.q.load = by_string ? SPAN("lb1/1;s1=1,0,0,1;s3=1,0,0,1") : SPAN("");
		continue_response(&w, "resp_1", "go on");
		if (is(w.a.server, "s3") != (by_string ? rows[i / 2].by_string : rows[i / 2].by_rows))
			fail_msg("row %u, %s", (unsigned)i / 2, by_string ? "load string" : "rows alone");
		world_end(&w);
	}
}

/* ---- by the path ---------------------------------------------------------------------------- */

static const struct { const char *path; const char *body; bool found; } paths[] = {
	{ "/v1/responses/resp_1", "", true },
	{ "/v1/responses/resp_1?stream=true&starting_after=3", "", true },
	{ "/v1/responses/resp_1/", "", true },
	{ "/v1/responses/resp_1/cancel", "", true },
	{ "/v1/responses/resp_1/cancel", "{}", true },
	{ "/v1/responses/resp_1/cancel", "no JSON", true },
	{ "/v1/responses/resp_1/input_items?limit=2", "", true },
	{ "/openai/v1/responses/resp_1", "", true },
	{ "/v1/responses/resp_2", "", false },
	{ "/v1/responses/resp_1/other", "", false },
	{ "/v1/responses/resp_1/cancel/cancel", "", false },
	{ "/v1/responses/resp%5f1", "", false },
	{ "/v1/responses//resp_1", "", false },
	{ "/v1/other/resp_1", "", false },
	{ "/v1/responses/?x=/v1/responses/resp_1", "", false },
	{ "/v1/responses/", "", false },
	{ "resp_1", "", false },
	{ "", "", false },
};

static void a_path_names_it(void **state)
{
	struct decision d;
	struct world w;

	(void)state;
	world_with_response(&w);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		uint64_t followed = stats(&w).responses_followed;

		w.q.load = SPAN("lb1/1;s1=1,0,0,1;s3=1,50,9,0");
		w.q.path = span_str(paths[i].path);
		send_body(&w, "get", span_str(paths[i].body));
		if (is(w.a.server, "s3") != paths[i].found || stats(&w).responses_followed - followed !=
		    paths[i].found || (w.a.why == WHY_STICKY) != paths[i].found)
			fail_msg("%s with %s: %s", paths[i].path, paths[i].body, why_text(w.a.why));
		assert_int_equal(w.a.alt.n, 0);
		assert_int_equal(decisions_read(w.r->decisions, UINT64_MAX, &d, 1), 1);
		assert_int_equal(d.chosen.id != SERVER_NONE, paths[i].found);
	}
	assert_int_equal(w.r->ledger.n, 0);
	world_end(&w);
}

/* One of each thing that must keep a request from the server of "resp_1". */
static void a_path_is_no_more_than_a_name(void **state)
{
	static char big[1 << 15];
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	w.q.tenant = SPAN("acme");
	continue_response(&w, "", "hello");
	stored(&w, FACT_FIRST, "resp_1");
	w.q.path = SPAN("/v1/responses/resp_1");
	send_body(&w, "get", SPAN(""));
	assert_span(w.a.server, "s3");
	w.q.tenant = SPAN("umbrella");
	send_body(&w, "get", SPAN(""));
	assert_int_equal(w.a.server.n, 0);
	w.q.tenant = SPAN("acme");
	w.q.load = SPAN("lb1/1;s3=0,0,0,1");
	send_body(&w, "get", SPAN(""));
	assert_int_equal(w.a.server.n, 0);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	send_body(&w, "get", SPAN(""));
	assert_span(w.a.server, "s3");
	w.q.load = SPAN("lb1/1;s3=?");		/* whether it is up is not known any more */
	send_body(&w, "get", SPAN(""));
	assert_int_equal(w.a.server.n, 0);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	memset(big, 'x', sizeof(big));
	memcpy(big, "/v1/responses/", 14);
	w.q.path = span_of(big, sizeof(big));
	send_body(&w, "get", SPAN(""));
	assert_int_equal(w.a.server.n, 0);
	memset(big, '/', sizeof(big));
	send_body(&w, "get", SPAN(""));
	assert_int_equal(w.a.server.n, 0);
	w.o.pool_default.mode = MODE_SHADOW;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	w.q.path = SPAN("/v1/responses/resp_1");
	send_body(&w, "get", SPAN(""));
	assert_int_equal(w.a.server.n, 0);
	world_end(&w);
}

/* ---- its tokens ----------------------------------------------------------------------------- */

static void finished(struct world *w, int64_t prompt_tokens, int64_t output_tokens, const char *id)
{
	char uid[16], srv[SERVER_NAME_MAX + 1];
	struct fact f;

	snprintf(uid, sizeof(uid), "u%u", n - 1);
	snprintf(srv, sizeof(srv), SPAN_FMT, SPAN_ARG(w->a.server));
	f = served_fact(uid);
	f.server = span_str(srv);
	f.prompt_tokens = prompt_tokens;
	f.output_tokens = output_tokens;
	f.response = span_str(id);
	route_learn(w->r, &f, w->now);
}

/* What the engine has stored is part of the prompt, and in its cache. */
static void its_prompt_counts(void **state)
{
	struct world w;
	uint64_t new;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	continue_response(&w, "", "hello");
	new = w.a.tokens;
	finished(&w, 5000, 300, "resp_1");
	continue_response(&w, "resp_1", "go on");
	assert_int_equal(w.a.tokens, 5300 + new);
	assert_int_equal(w.a.hit_tokens, 5300);
	assert_int_equal(ledger_find(&w.r->ledger, route_uid(w.r, w.q.uid))->prompt_tokens, 5300 + new);
	assert_int_equal(ledger_find(&w.r->ledger, route_uid(w.r, w.q.uid))->work.tokens, new);
	finished(&w, -1, -1, "resp_2");		/* without a count: what was expected, and an answer */
	continue_response(&w, "resp_2", "go on");
	assert_true(w.a.hit_tokens >= 5300 + new && w.a.hit_tokens < 5300 + new + 2000);
	continue_response(&w, "resp_3", "go on");
	assert_true(w.a.tokens < 100);
	world_end(&w);
}

/* Nor is it taken for a part of the body that was not seen: that is new, and in doubt. */
static void what_is_stored_is_not_the_unseen_part(void **state)
{
	const struct open_request *o;
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	continue_response(&w, "", "hello");
	finished(&w, 5000, 300, "resp_1");
	w.q.session = SPAN("a");
	w.body.n = 0;
	say(&w.body, "{\"model\":\"m\",\"previous_response_id\":\"resp_1\",\"input\":\"");
	for (unsigned i = 0; i < 2000; i++)
		say(&w.body, "word %u; ", i);
	w.q.visible = (int64_t)w.body.n;
	w.q.whole = w.q.visible + 40000;
	send(&w, "cut");
	assert_int_equal(w.a.hit_tokens, 5300);
	o = open_of(ledger_find(&w.r->ledger, route_uid(w.r, SPAN("cut"))));
	assert_int_equal(o->lesson.hidden, w.s->job.rq.unseen_tokens);
	assert_true(o->lesson.hidden > 9000);
	assert_in_range(1000 * o->doubt.least_s / o->doubt.most_s, 100, 500);
	world_end(&w);
}

/* A stream tells the id first and its tokens at the end, in a line without the id. */
static void a_stream_tells_them_later(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.load = SPAN("lb1/1;s3=1,0,0,1");
	continue_response(&w, "", "hello");
	{
		struct fact f;
		char uid[16];

		snprintf(uid, sizeof(uid), "u%u", n - 1);
		fact_init(&f, FACT_FIRST);
		f.uid = span_str(uid);
		f.server = SPAN("s3");
		f.status = 200;
		f.type = SPAN(STREAM);
		f.response = SPAN("resp_1");
		route_learn(w.r, &f, w.now);
	}
	finished(&w, 5000, 300, "");
	continue_response(&w, "resp_1", "go on");
	assert_int_equal(w.a.hit_tokens, 5300);
	world_end(&w);
}

static void tenants_have_their_own(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	w.q.tenant = SPAN("acme");
	continue_response(&w, "", "hello");
	stored(&w, FACT_FIRST, "resp_1");
	w.q.tenant = SPAN("umbrella");
	continue_response(&w, "resp_1", "go on");
	assert_int_equal(stats(&w).responses_followed, 0);
	w.q.tenant = SPAN("acme");
	continue_response(&w, "resp_1", "go on");
	assert_int_equal(stats(&w).responses_followed, 1);
	world_end(&w);
}

/* Only answers of that API have ids of responses, and only served ones. */
static void other_answers_store_nothing(void **state)
{
	struct world w;

	(void)state;
	world_start(&w);
	ask(&w, "chat", "ab");
	{
		struct fact f = served_fact("chat");

		f.response = SPAN("chatcmpl-1");
		route_learn(w.r, &f, w.now);
	}
	continue_response(&w, "", "hello");
	{
		struct fact f = served_fact("");
		char uid[16];

		snprintf(uid, sizeof(uid), "u%u", n - 1);
		f.uid = span_str(uid);
		f.status = 500;
		f.response = SPAN("resp_1");
		route_learn(w.r, &f, w.now);
	}
	continue_response(&w, "", "hello");
	stored(&w, FACT_FIRST, "no id\"");
	assert_int_equal(stats(&w).responses, 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_goes_to_its_server),
		cmocka_unit_test(a_repeated_request_counts_once),
		cmocka_unit_test(any_memory_will_do),
		cmocka_unit_test(its_input_begins_no_prompt),
		cmocka_unit_test(its_server_is_down),
		cmocka_unit_test(its_server_has_no_weight),
		cmocka_unit_test(its_server_is_drained),
		cmocka_unit_test(a_path_names_it),
		cmocka_unit_test(a_path_is_no_more_than_a_name),
		cmocka_unit_test(its_prompt_counts),
		cmocka_unit_test(what_is_stored_is_not_the_unseen_part),
		cmocka_unit_test(a_stream_tells_them_later),
		cmocka_unit_test(tenants_have_their_own),
		cmocka_unit_test(other_answers_store_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

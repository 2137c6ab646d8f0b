/* test_serve.c - the bytes of a connection in, the answers out. Every NOTIFY gets exactly one ACK
 * with an action. */
#include "tests/unit/serve/peer.h"

/* ---- time from messages -------------------------------------------------------------------- */

static void tell_now(struct peer *p, const char *uid, int64_t now)
{
	notify_begin(p, 3, 1);
	message(p, "route");
	arg_str(p, "uid", span_str(uid));
	arg(p, "now_ms", &(struct spop_data){ .type = SPOP_T_INT64, .i = now });
	frame_end(p);
	deliver(p);
}

static void time_comes_from_messages_and_never_goes_back(void **state)
{
	struct message_clock clock = { 0 };
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	p.env.message_clock = &clock;
	tell_now(&p, "a", 5000);
	assert_int_equal(clock.now, 5000);
	assert_int_equal(clock.ticked, 5000);
	tell_now(&p, "b", 5099);
	assert_int_equal(clock.now, 5099);
	assert_int_equal(clock.ticked, 5000);
	tell_now(&p, "c", 4000);
	tell_now(&p, "d", -1);
	assert_int_equal(clock.now, 5099);
	tell_now(&p, "e", 5100);
	assert_int_equal(clock.ticked, 5100);
	tell_now(&p, "f", INT64_MAX);		/* limited, so that sums cannot overflow */
	assert_int_equal(clock.now, (int64_t)1 << 52);
	tell_now(&p, "g", INT64_MAX - 1);
	assert_int_equal(clock.now, (int64_t)1 << 52);
	peer_end(&p);
	world_end(&w);
}

/* ---- the content of an ACK ---------------------------------------------------------------- */

static void a_decision(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	p.step = 7;
	notify_route(&p, 3, "u", "ab");
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=3 frame=1 fin"
			    " set txn.server=\"s1\" set txn.more=int64:0 set txn.why=\"cold\""
			    " set txn.alt=\"s2\" set txn.tokens=int64:320 set txn.hit_tokens=int64:0"
			    " set txn.hit=int64:0 set txn.pages=int64:0"
			    " set txn.prompt_pages=int64:20 set txn.cut=int64:0 set txn.us=int64:7"
			    " set txn.model=\"m\"");
	notify_first(&p, 3, "u", "s1", 200);
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=3 frame=2 fin set txn.more=int64:0");
	notify_done(&p, 3, "u", "s1", 200);
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=3 frame=3 fin set txn.more=int64:0");
	notify_route(&p, 0, "v", "abcd");	/* stream 0 is valid, too */
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=0 frame=1 fin"
			    " set txn.server=\"s1\" set txn.more=int64:0 set txn.why=\"cached\""
			    " set txn.alt=\"s2\" set txn.wait=int64:40 set txn.tokens=int64:640"
			    " set txn.hit_tokens=int64:320 set txn.hit=int64:500 set txn.pages=int64:20"
			    " set txn.prompt_pages=int64:40 set txn.cut=int64:0 set txn.us=int64:7"
			    " set txn.model=\"m\"");
	assert_int_equal(p.count.us_count, 2);
	assert_int_equal(p.count.us_sum, 2 * (7 + 7));	/* to the ACK, and to finish after it */
	assert_int_equal(p.count.us_bucket[2], 2);	/* 10 < 14 <= 20 */
	peer_end(&p);
	world_end(&w);
}

/* A process stopped for hours within a request counts in the last bucket, which has no bound. */
static void stopped_for_hours(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	p.step = 6 * 3600 * (usec)1000000;
	notify_route(&p, 3, "u", "ab");
	deliver(&p);
	assert_int_equal(p.count.us_count, 1);
	assert_int_equal(p.count.us_sum, 2 * p.step);
	assert_int_equal(p.count.us_bucket[SERVE_SECONDS_BUCKETS - 1], 1);
	peer_end(&p);
	world_end(&w);
}

static void no_server(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	notify_begin(&p, 1, 1);
	message_route(&p, "u", SPAN("no JSON"));
	frame_end(&p);
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=1 frame=1 fin"
			    " set txn.more=int64:0 set txn.why=\"badbody\" set txn.hit=int64:0"
			    " set txn.pages=int64:0 set txn.prompt_pages=int64:0"
			    " set txn.cut=int64:0 set txn.us=int64:0");
	peer_end(&p);
	world_end(&w);
}

/* An ACK has an action even if no variable is wanted. */
static void only_wanted_variables(void **state)
{
	static const struct { struct span vars; const char *expect; } cases[] = {
		{ SPAN("server+hit+why"), "fin set txn.why=\"badbody\" set txn.hit=int64:0" },
		{ SPAN("server"), "fin set txn.more=int64:0" },
		{ SPAN("nothing"), "fin set txn.more=int64:0" },
		{ SPAN("why"), "fin set txn.why=\"badbody\"" },
		{ SPAN("hit"), "fin set txn.hit=int64:0" },
		{ SPAN("hit"), "fin set txn.hit=int64:0" },
		{ SPAN("server+alt+prefill+wait+tokens+hit_tokens+prompt_pages+rank+priority+model+prefill"
		    "+wait+tokens+hit_tokens+prompt_pages+why+us"),
		    "fin set txn.why=\"badbody\" set txn.prompt_pages=int64:0 set txn.us=int64:0" },
		{ SPAN("why"), "fin set txn.why=\"badbody\"" },
	};
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		notify_begin(&p, 1, 1);
		message(&p, "route");
		arg_str(&p, "uid", SPAN("u"));
		arg_str(&p, "vars", cases[i].vars);
		arg_bin(&p, "body", SPAN("no JSON"));
		frame_end(&p);
		deliver(&p);
		assert_string_equal(strstr(last_answer(&p), "fin"), cases[i].expect);
	}
	peer_end(&p);
	world_end(&w);
}

/* ---- one ACK each ------------------------------------------------------------------------- */

static const struct { const char *name, *payload, *expect;
} notifies[] = {
	{ "no message", "", "fin set txn.more=int64:0" },
	{ "an unknown message", "05 \"other\" 00", "fin set txn.more=int64:0" },
	{ "an unknown message with arguments", "05 \"other\" 02 01 \"a\" 00 01 \"b\" 11",
	    "fin set txn.more=int64:0" },
	{ "route without arguments", "05 \"route\" 00", "set txn.why=\"noprompt\"" },
	{ "first without arguments", "05 \"first\" 00", "fin set txn.more=int64:0" },
	{ "done without arguments", "04 \"done\" 00", "fin set txn.more=int64:0" },
	{ "a later slice without arguments", "07 \"route-3\" 00", "fin set txn.more=int64:0" },
	{ "fewer arguments than announced", "05 \"route\" ff 03 \"uid\" 00",
	    "fin set txn.more=int64:0" },
	{ "more arguments than announced", "05 \"route\" 00 03 \"uid\" 00",
	    "set txn.why=\"noprompt\"" },
	{ "a name longer than the frame", "f0 00", "fin set txn.more=int64:0" },
	{ "a length of more than 64 bits", "ff ff ff ff ff ff ff ff ff ff ff ff",
	    "fin set txn.more=int64:0" },
	{ "a value longer than the frame", "05 \"route\" 01 03 \"uid\" 08 40 \"u\"",
	    "fin set txn.more=int64:0" },
	{ "an unknown type", "05 \"route\" 01 03 \"uid\" 0f", "fin set txn.more=int64:0" },
	{ "half a message after a good one", "05 \"route\" 00 05 \"rou\"",
	    "set txn.why=\"noprompt\"" },
	{ "a bad one before a good one", "05 \"route\" 01 00 0f 05 \"route\" 00",
	    "fin set txn.more=int64:0" },
	{ "all arguments of wrong types",
	    "05 \"route\" 06 03 \"uid\" 11 04 \"load\" 02 05 04 \"path\" 06 01020304"
	    " 04 \"body\" 02 07 03 \"seq\" 08 01 \"x\" 04 \"blen\" 00",
	    "set txn.why=\"noprompt\"" },
	{ "an empty name", "00 00", "fin set txn.more=int64:0" },
	{ "a name with zeros", "05 00*5 00", "fin set txn.more=int64:0" },
	{ "three facts", "05 \"first\" 00 04 \"done\" 00 04 \"done\" 00",
	    "fin set txn.more=int64:0" },
	{ "two routes: the last one counts",
	    "05 \"route\" 01 04 \"body\" 08 02 \"{]\" 05 \"route\" 00",
	    "set txn.why=\"noprompt\"" },
};

static void every_notify_is_acked_once(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	for (size_t i = 0; i < sizeof(notifies) / sizeof(notifies[0]); i++) {
		forget(&p);
		notify_begin(&p, 100 + i, 1);
		frame_hex(&p, notifies[i].payload);
		frame_end(&p);
		deliver(&p);
		if (count_acks(&p) != 1 || !answered(&p, notifies[i].expect))
			fail_msg("%s: %s", notifies[i].name, last_answer(&p));
		assert_false(p.serve.closing);
		assert_int_equal(p.count.notifies, i + 1);
		assert_int_equal(p.count.acks, i + 1);
	}
	assert_true(p.count.args_bad >= 6);
	assert_true(p.count.messages_unknown >= 4);
	peer_end(&p);
	world_end(&w);
}

static void several_messages_in_one_notify(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	chat(&w.body, "", "a", "");
	notify_begin(&p, 1, 1);
	message(&p, "what");
	message_route(&p, "u", span_of(w.body.p, w.body.n));
	message_done(&p, "u", "s1", 200);
	frame_end(&p);
	deliver(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_true(answered(&p, "set txn.server=\"s1\""));
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).index.confirmed, 1);
	assert_int_equal(p.count.messages, 3);
	assert_int_equal(p.count.messages_unknown, 1);
	peer_end(&p);
	world_end(&w);
}

static void too_many_messages_in_one_notify(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	for (unsigned i = 0; i < 2; i++) {
		forget(&p);
		notify_begin(&p, 1 + i, 1);
		for (unsigned n = 0; n < SERVE_MESSAGES_MAX + i; n++)
			message(&p, "what");
		frame_end(&p);
		deliver(&p);
		assert_int_equal(count_acks(&p), 1);
		assert_int_equal(p.count.messages, (1 + i) * SERVE_MESSAGES_MAX);
		assert_int_equal(p.count.args_bad, i);
	}
	peer_end(&p);
	world_end(&w);
}

/* ---- pieces and buffers ------------------------------------------------------------------- */

static void write_stream(struct peer *p)
{
	static const char *const turns[] = { "a", "ab", "c", "abc", "d" };

	say_hello(p, 16380);
	for (unsigned i = 0; i < 20; i++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%u", i);
		notify_route(p, i, uid, turns[i % 5]);
		if (i % 3 == 0)
			notify_first(p, i, uid, "s1", 200);
		if (i % 4 == 0)
			notify_done(p, i, uid, "s2", i % 8 ? 200 : 503);
		if (i % 7 == 0) {
			notify_begin(p, i, 9);
			frame_end(p);
		}
	}
	frame_begin(p, "02 00000001 00 00");	/* HAPROXY-DISCONNECT */
	frame_hex(p, "0b \"status-code\" 03 00 07 \"message\" 08 06 \"normal\"");
	frame_end(p);
}

static void any_split_gives_the_same_bytes(void **state)
{
	static const size_t pieces[] = { SIZE_MAX, 1, 2, 3, 7, 64, 1000, 4096, 16384 };
	struct hex want = { NULL, 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		struct world w;
		struct peer p;

		world_start(&w);
		peer_connect(&p, &w);
		write_stream(&p);
		deliver_pieces(&p, pieces[i]);
		assert_int_equal(count_acks(&p), 20 + 7 + 5 + 3);
		assert_true(p.serve.closing);
		assert_int_equal(p.count.closed_by_peer, 1);
		if (i == 0)
			hex_add(&want, p.out.p, p.out.n);
		assert_int_equal(p.out.n, want.n);
		assert_memory_equal(p.out.p, want.p, want.n);
		peer_end(&p);
		world_end(&w);
	}
	free(want.p);
}

/* If answers fill the buffer, the rest of the input waits and nothing is lost. */
static void a_short_output_buffer(void **state)
{
	struct world w;
	struct peer p;
	unsigned acks = 0, calls = 0;
	size_t used = 0, n;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	for (unsigned i = 0; i < 200; i++) {
		notify_begin(&p, i, 1);
		message(&p, "route");
		frame_end(&p);
	}
	p.out.cap = SERVE_OUT_MIN;
	for (; used < p.in.n; calls++) {
		n = serve_feed(&p.serve, p.in.p + used, p.in.n - used, &p.out);
		serve_finish(p.serve.env);
		assert_true(n > 0);
		used += n;
		assert_false(p.out.full);
		acks += count_acks(&p);
		forget(&p);
	}
	assert_int_equal(acks, 200);
	assert_true(calls > 2);
	peer_end(&p);
	world_end(&w);
}

/* 256 bytes is the smallest max-frame-size that HAProxy can send. The ACK fits even with the
 * longest server name. */
static void the_smallest_frame(void **state)
{
	char load[200], name[SERVER_NAME_MAX + 1];
	struct world w;
	struct peer p;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[SERVER_NAME_MAX] = '\0';
	snprintf(load, sizeof(load), "%s=1,0,0,1", name);
	world_start(&w);
	peer_hello(&p, &w, 256);
	notify_begin(&p, UINT64_MAX, UINT64_MAX);
	message(&p, "route");
	arg_str(&p, "pool", SPAN("pool"));
	arg_str(&p, "load", SPAN("s1=1,0,0,1"));
	arg_str(&p, "body", SPAN("{\"messages\":[{\"content\":\"hi\"}]}"));
	frame_end(&p);
	deliver(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_true(answered(&p, "set txn.server=\"s1\" set txn.more=int64:0 set txn.why=\"cold\""));
	forget(&p);
	notify_begin(&p, UINT64_MAX, UINT64_MAX);
	message(&p, "route");
	arg_str(&p, "pool", SPAN("pool"));
	arg_str(&p, "load", span_str(load));
	arg_str(&p, "body", SPAN("{\"messages\":[{\"content\":\"hi\"}]}"));
	frame_end(&p);
	deliver(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_true(p.out.n <= 256 + 4);
	assert_true(answered(&p, "set txn.server=str:127 set txn.more=int64:0 set txn.why=\"cold\""));
	peer_end(&p);
	world_end(&w);
}

/* ---- the model, before a pool is chosen --------------------------------------------------- */

static void notify_model(struct peer *p, const char *argument, const char *tenant, struct span body)
{
	notify_begin(p, 4, 1);
	message(p, "model");
	arg_str(p, "uid", SPAN("u"));
	arg_str(p, "tenant", span_str(tenant));
	arg_str(p, "model", span_str(argument));
	arg_bin(p, "body", body);
	frame_end(p);
	deliver(p);
	assert_int_equal(count_acks(p), 1);
}

static void a_model(void **state)
{
	struct world w;
	struct peer p;
	struct span b;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	chat(&w.body, "", "ab", ",\"model\":\"llama\"");
	b = span_of(w.body.p, w.body.n);
	notify_model(&p, "", "t", span_of(b.p, 900));
	assert_string_equal(last_answer(&p),
	    "ACK stream=4 frame=1 fin unset txn.model set txn.model_from=\"none\"");
	forget(&p);
	notify_model(&p, "", "t", b);
	assert_string_equal(last_answer(&p),
	    "ACK stream=4 frame=1 fin set txn.model=\"llama\" set txn.model_from=\"body\"");
	forget(&p);
	notify_model(&p, "", "t", span_of(b.p, 900));
	assert_string_equal(last_answer(&p),
	    "ACK stream=4 frame=1 fin set txn.model=\"llama\" set txn.model_from=\"head\"");
	forget(&p);
	notify_model(&p, "", "another", span_of(b.p, 900));
	assert_string_equal(last_answer(&p),
	    "ACK stream=4 frame=1 fin unset txn.model set txn.model_from=\"none\"");
	forget(&p);
	notify_model(&p, "qwen", "t", b);
	assert_string_equal(last_answer(&p),
	    "ACK stream=4 frame=1 fin set txn.model=\"qwen\" set txn.model_from=\"argument\"");
	forget(&p);
	p.wait = SERVE_LATE;
	notify_model(&p, "", "t", b);
	assert_string_equal(last_answer(&p),
	    "ACK stream=4 frame=1 fin unset txn.model set txn.model_from=\"overload\"");
	assert_int_equal(stats(&w).requests, 0);
	assert_int_equal(stats(&w).models[MODEL_FROM_OVERLOAD], 1);
	assert_int_equal(p.count.us_count, 0);
	peer_end(&p);
	world_end(&w);
}

/* A model name of 255 bytes does not fit into a frame of 256, but the ACK still has an action. One
 * NOTIFY with a "model" and a "route" message gets the answers to both. */
static void a_long_model_and_two_messages(void **state)
{
	struct model_opts model;
	struct world w;
	struct peer p;

	(void)state;
	world_options(&w);
	model = w.o.model_default;
	memset(model.name, 'n', PROMPT_NAME_MAX);
	model.name[PROMPT_NAME_MAX] = '\0';
	strcpy(model.aliases[0], "short");
	w.o.models = &model;
	w.o.n_models = 1;
	world_open(&w);
	peer_hello(&p, &w, 256);
	notify_model(&p, "short", "", SPAN("{}"));
	assert_true(p.out.n <= 256 + 4);
	assert_string_equal(last_answer(&p), "ACK stream=4 frame=1 fin set txn.model_from=\"argument\"");
	peer_end(&p);
	peer_hello(&p, &w, 16380);
	notify_begin(&p, 5, 1);
	message(&p, "model");
	arg_str(&p, "model", SPAN("short"));
	message(&p, "route");
	arg_str(&p, "pool", SPAN("pool"));
	arg_str(&p, "load", SPAN("s1=1,0,0,1"));
	arg_str(&p, "body", SPAN("{\"messages\":[{\"content\":\"hi\"}]}"));
	frame_end(&p);
	deliver(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_true(answered(
	    &p, "set txn.model=str:255 set txn.model_from=\"argument\" set txn.server=\"s1\""));
	peer_end(&p);
	world_end(&w);
}

/* ---- slices ------------------------------------------------------------------------------- */

static void notify_slice(struct peer *p, const char *name, const char *uid, struct span body)
{
	notify_begin(p, 5, 1);
	message(p, name);
	arg_str(p, "uid", span_str(uid));
	if (strcmp(name, "route") == 0) {
		arg_str(p, "pool", SPAN("pool"));
		arg_str(p, "load", p->w->q.load);
		arg_int(p, "seq", 0);
		arg_int(p, "blen", 4000);
	}
	arg_bin(p, "body", body);
	frame_end(p);
}

static void slices_by_their_names(void **state)
{
	struct world w;
	struct peer p, q;
	struct span b;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	peer_hello(&q, &w, 16380);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	b = span_of(w.body.p, w.body.n);
	notify_slice(&p, "route", "u", span_of(b.p, 700));
	deliver(&p);
	assert_true(answered(&p, "set txn.server=\"s1\" set txn.more=int64:1 set txn.why=\"cold\""));
	notify_slice(&q, "route-1", "u", span_of(b.p + 700, 300));	/* on another connection */
	deliver(&q);
	assert_true(answered(&q, "set txn.server=\"s1\" set txn.more=int64:1 set txn.why=\"cold\""));
	/* a repeated slice: the next one is still wanted */
	notify_slice(&p, "route-1", "u", span_of(b.p + 700, 300));
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=5 frame=1 fin set txn.more=int64:1");
	notify_slice(&p, "route-2", "u", span_of(b.p + 1000, b.n - 1000));
	deliver(&p);
	assert_true(answered(&p, "set txn.server=\"s1\" set txn.more=int64:0 set txn.why=\"cold\""));
	assert_true(answered(&p, "set txn.prompt_pages=int64:30 set txn.cut=int64:0"));
	notify_slice(&p, "route-3", "u", span_of(b.p, 10));		/* no body is pending */
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=5 frame=1 fin set txn.more=int64:0");
	peer_end(&p);
	peer_end(&q);
	world_end(&w);
}

/* If the whole body is not JSON, the server that an earlier slice set is unset. */
static void a_later_slice_takes_the_server_back(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	notify_slice(&p, "route", "u", span_of(w.body.p, 700));
	deliver(&p);
	assert_true(answered(&p, "set txn.server=\"s1\""));
	notify_slice(&p, "route-1", "u", SPAN("\"} and so on"));
	deliver(&p);
	assert_true(answered(&p, "fin unset txn.server set txn.more=int64:0 set txn.why=\"badbody\""
			     " unset txn.alt"));
	assert_int_equal(stats(&w).open, 0);
	assert_int_equal(stats(&w).index.pages, 0);
	peer_end(&p);
	world_end(&w);
}

/* ---- overload ----------------------------------------------------------------------------- */

static void overloaded(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	p.wait = SERVE_LATE;
	notify_route(&p, 1, "u", "a");
	deliver(&p);
	assert_true(answered(&p, "fin set txn.more=int64:0 set txn.why=\"overload\""));
	assert_false(answered(&p, "txn.server"));
	assert_int_equal(stats(&w).requests, 1);
	assert_int_equal(stats(&w).why[WHY_OVERLOAD], 1);
	p.wait = SERVE_IN_TIME;
	chat(&w.body, "\"model\":\"m\",", "abc", "");
	notify_slice(&p, "route", "v", span_of(w.body.p, 700));
	deliver(&p);
	assert_true(answered(&p, "set txn.server=\"s1\" set txn.more=int64:1"));
	p.wait = SERVE_LATE;			/* the answer to the first slice stays valid */
	notify_slice(&p, "route-1", "v", span_of(w.body.p + 700, 300));
	deliver(&p);
	assert_string_equal(last_answer(&p), "ACK stream=5 frame=1 fin set txn.more=int64:0");
	notify_done(&p, 5, "v", "s1", 200);	/* facts are learned in overload, too */
	deliver(&p);
	assert_int_equal(stats(&w).open, 0);
	peer_end(&p);
	world_end(&w);
}

static void count_choices(void *arg, const struct route_compare_view *v)
{
	*(uint64_t *)arg += v->choices;
}

/* The rules of policy.compare change no answer, so load drops them first. */
static void compared_rules_are_dropped_first(void **state)
{
	static const struct { enum serve_wait wait; uint64_t compared, uncompared, hurried;
	} cases[] = {
		{ SERVE_IN_TIME, 1, 0, 0 },
		{ SERVE_BUSY, 1, 1, 0 },
		{ SERVE_HURRY, 1, 1, 1 },
		{ SERVE_LATE, 1, 1, 1 },
		{ SERVE_IN_TIME, 2, 1, 1 },
	};
	uint64_t choices;
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	w.o.pool_default.compare[0] = RULE_AIBRIX + 1;
	assert_int_equal(route_reconfigure(w.r, &w.o), 0);
	peer_hello(&p, &w, 16380);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		p.wait = cases[i].wait;
		notify_route(&p, i, "u", "a");
		deliver(&p);
		assert_int_equal(answered(&p, "txn.server"), p.wait != SERVE_LATE);
		choices = 0;
		route_each_compared(w.r, count_choices, &choices);
		assert_int_equal(choices, cases[i].compared);
		assert_int_equal(p.count.uncompared, cases[i].uncompared);
		assert_int_equal(p.count.hurried, cases[i].hurried);
	}
	peer_end(&p);
	world_end(&w);
}

/* Start a world with one peer that has sent its HELLO and one request. */
static void start_with_request(struct world *w, struct peer *p)
{
	world_start(w);
	peer_hello(p, w, 16380);
	notify_route(p, 1, "u", "a");
	deliver(p);
}

static void asked_ms_reaches_the_wait_callback(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	start_with_request(&w, &p);
	assert_int_equal(p.asked, -1);
	for (unsigned i = 0; i < 2; i++) {
		notify_begin(&p, 2, 1);
		message(&p, i == 0 ? "route" : "model");
		arg_str(&p, "uid", SPAN("v"));
		arg(&p, "asked_ms", &(struct spop_data){ .type = SPOP_T_INT64, .i = 1790000000000 + i });
		frame_end(&p);
		deliver(&p);
		assert_int_equal(p.asked, 1790000000000 + i);
	}
	peer_end(&p);
	world_end(&w);
}

/* ---- connections: start, end, fragments --------------------------------------------------- */

static void a_health_check(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_connect(&p, &w);
	frame_begin(&p, "01 00000001 00 00");
	frame_hex(&p, "12 \"supported-versions\" 08 03 \"2.0\" 0e \"max-frame-size\" 03 fc f0 06"
		  " 0c \"capabilities\" 08 00 0b \"healthcheck\" 11");
	frame_end(&p);
	deliver(&p);
	assert_true(answered(&p, "AGENT-HELLO"));
	assert_true(p.serve.closing);
	assert_int_equal(p.count.healthchecks, 1);
	assert_int_equal(p.count.closed_by_peer, 0);
	peer_end(&p);
	world_end(&w);
}

static void a_stray_http_request(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_connect(&p, &w);
	frame_bytes(&p, text, sizeof(text) - 1);
	deliver(&p);
	assert_true(p.serve.closing);
	assert_true(answered(&p, "AGENT-DISCONNECT"));
	assert_int_equal(p.count.closed_bad[SPOP_STATUS_TOO_BIG], 1);
	assert_int_equal(serve_feed(&p.serve, p.in.p, 1, &p.out), 0);	/* it accepts no more bytes */
	peer_end(&p);
	world_end(&w);
}

/* The last ACK and the AGENT-DISCONNECT are in one buffer, for one write. */
static void draining(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	start_with_request(&w, &p);
	serve_stop(&p.serve, SPOP_STATUS_NORMAL, &p.out);
	assert_true(p.serve.closing);
	assert_int_equal(count_acks(&p), 1);
	assert_true(answered(&p, "AGENT-DISCONNECT"));
	peer_end(&p);
	world_end(&w);
}

static void fragments(void **state)
{
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	frame_begin(&p, "03 00000000 08 01");		/* NOTIFY, to be continued */
	message(&p, "route");
	arg_str(&p, "pool", SPAN("pool"));
	arg_str(&p, "load", SPAN("s1=1,0,0,1"));
	p.in.p[p.count_at]++;				/* an argument that the next frame continues */
	frame_hex(&p, "04 \"body\" 09 1f \"{\"");
	frame_end(&p);
	deliver(&p);
	assert_int_equal(p.out.n, 0);
	frame_begin(&p, "00 00000001 08 01");		/* UNSET, the last one */
	frame_bytes(&p, "\"messages\":[{\"content\":\"hi\"}]}", 30);
	frame_end(&p);
	deliver(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_true(answered(&p, "ACK stream=8 frame=1 fin set txn.server=\"s1\""));
	assert_int_equal(p.count.fragments, 2);
	frame_begin(&p, "03 00000000 09 01");
	frame_end(&p);
	frame_begin(&p, "00 00000003 09 01");		/* aborted: HAProxy expects no ACK */
	frame_end(&p);
	deliver(&p);
	assert_int_equal(count_acks(&p), 1);
	assert_int_equal(p.count.aborts, 1);
	peer_end(&p);
	world_end(&w);
}

/* ---- garbage ------------------------------------------------------------------------------ */

/* Valid frames with changed bytes: the connection may be closed, but every frame counted as a
 * NOTIFY gets an ACK. */
static void damaged_streams(void **state)
{
	struct rng rng;
	struct world w;
	unsigned closed = 0;

	(void)state;
	world_start(&w);
	rng_init(&rng, 11);
	for (unsigned i = 0; i < 2000; i++) {
		struct peer p;
		unsigned n = 1 + rng_below(&rng, 4);

		peer_connect(&p, &w);
		say_hello(&p, 16380);
		for (unsigned k = 0; k < 4; k++) {
			notify_route(&p, k, "u", k % 2 ? "a" : "ab");
			notify_done(&p, k, "u", "s1", 200);
		}
		while (n-- > 0) {
			uint32_t at = rng_below(&rng, (uint32_t)p.in.n);

			p.in.p[rng_below(&rng, 2) ? at : at % 300] = (uint8_t)rng_next(&rng);
		}
		deliver_pieces(&p, 1 + rng_below(&rng, 3000));
		assert_int_equal(count_acks(&p), p.count.notifies);
		closed += p.serve.closing;
		peer_end(&p);
	}
	assert_true(closed > 100 && closed < 2000);
	world_end(&w);
}

/* NOTIFYs with a valid frame and a random payload. */
static void random_payloads(void **state)
{
	struct rng rng;
	struct world w;
	struct peer p;

	(void)state;
	world_start(&w);
	peer_hello(&p, &w, 16380);
	rng_init(&rng, 12);
	for (unsigned i = 0; i < 20000; i++) {
		size_t n = rng_below(&rng, 60);

		forget(&p);
		notify_begin(&p, i, 1);
		frame_hex(&p, rng_below(&rng, 2) ? "05 \"route\" 03 03 \"uid\" 08" : "07 \"route-1\" 02");
		while (n-- > 0) {
			uint8_t b = (uint8_t)(rng_below(&rng, 3) ? rng_below(&rng, 16) : rng_next(&rng));

			frame_bytes(&p, &b, 1);
		}
		frame_end(&p);
		deliver(&p);
		assert_int_equal(count_acks(&p), 1);
		assert_false(p.serve.closing);
	}
	peer_end(&p);
	world_end(&w);
}

/* A long frame without memory for it: the head is enough for an ACK. */
static void a_frame_without_memory(void **state)
{
	struct world w;
	struct peer p;

	world_start(&w);
	peer_hello(&p, &w, 16380);
	notify_route(&p, 7, "a", "abcdefgh");
	serve_lose(&p.serve, p.in.p, SPOP_HEAD_MAX, &p.out);
	p.in.n = 0;
	assert_int_equal(count_acks(&p), 1);
	assert_true(answered(&p, "stream=7"));
	assert_true(answered(&p, "set txn.more=int32:0") || answered(&p, "set txn.more=int64:0"));
	assert_false(answered(&p, "txn.server"));
	assert_int_equal(p.count.notifies, 1);
	assert_int_equal(p.count.acks, 1);
	assert_int_equal(p.count.lost, 1);
	forget(&p);
	notify_route(&p, 9, "b", "ab");		/* the next frame is served as usual */
	deliver(&p);
	assert_true(answered(&p, "txn.server"));
	assert_int_equal(p.count.lost, 1);
	peer_end(&p);
	world_end(&w);
}

/* Requests are in the histograms of their pool, with the numbers of their decisions. */
static void histograms_of_pools(void **state)
{
	static struct serve_pools pools;
	const struct serve_pool *one;
	struct world w;
	struct peer p;
	uint64_t n = 0, tokens = 0;

	(void)state;
	world_options(&w);
	w.o.decisions_keep = 8;
	world_open(&w);
	peer_hello(&p, &w, 16380);
	p.env.pools = &pools;
	p.step = 7;
	notify_route(&p, 3, "u", "ab");
	notify_route(&p, 4, "v", "abc");
	deliver(&p);
	one = pools.of[0];
	assert_non_null(one);
	assert_null(pools.of[1]);
	for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
		n += one->us.bucket[b];
		tokens += one->tokens.bucket[b];
	}
	assert_int_equal(n, 2);
	assert_int_equal(tokens, 2);
	assert_int_equal(one->tokens.sum, 5 * TURN_PAGES * 16);
	assert_int_equal(one->tokens.who[4], 2);	/* 256 < 480 <= 512 */
	assert_int_equal(one->tokens.value[4], 3 * TURN_PAGES * 16);
	serve_pools_free(&pools);
	peer_end(&p);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_comes_from_messages_and_never_goes_back),
		cmocka_unit_test(a_decision),
		cmocka_unit_test(stopped_for_hours),
		cmocka_unit_test(no_server),
		cmocka_unit_test(only_wanted_variables),
		cmocka_unit_test(every_notify_is_acked_once),
		cmocka_unit_test(several_messages_in_one_notify),
		cmocka_unit_test(too_many_messages_in_one_notify),
		cmocka_unit_test(any_split_gives_the_same_bytes),
		cmocka_unit_test(a_short_output_buffer),
		cmocka_unit_test(the_smallest_frame),
		cmocka_unit_test(slices_by_their_names),
		cmocka_unit_test(a_later_slice_takes_the_server_back),
		cmocka_unit_test(a_model),
		cmocka_unit_test(a_long_model_and_two_messages),
		cmocka_unit_test(overloaded),
		cmocka_unit_test(histograms_of_pools),
		cmocka_unit_test(a_health_check),
		cmocka_unit_test(a_stray_http_request),
		cmocka_unit_test(draining),
		cmocka_unit_test(fragments),
		cmocka_unit_test(damaged_streams),
		cmocka_unit_test(random_payloads),
		cmocka_unit_test(a_frame_without_memory),
		cmocka_unit_test(compared_rules_are_dropped_first),
		cmocka_unit_test(asked_ms_reaches_the_wait_callback),
	};

	return cmocka_run_group_tests_name("serve", tests, NULL, NULL);
}

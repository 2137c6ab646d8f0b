/* test_answer.c - tokens of an answer: the engine's count, else an estimate from its bytes. */
#include "tests/unit/route/world.h"

static struct fact ended(int64_t bytes, int64_t tokens)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.bytes_out = bytes;
	f.output_tokens = tokens;
	return f;
}

static uint32_t tokens(const struct answer_size *a, int64_t bytes, int64_t told, bool whole)
{
	struct fact f = ended(bytes, told);

	return answer_tokens(a, &f, whole);
}

static void reported_else_by_bytes(void **state)
{
	struct answer_size a = { 0 };

	assert_int_equal(tokens(&a, 1200, 40, true), 40);
	assert_int_equal(tokens(&a, 1200, 40, false), 40);
	assert_int_equal(tokens(&a, 1200, 0, true), 0);		/* an embedding */
	assert_int_equal(tokens(&a, 600 + 160, -1, true), 40);
	assert_int_equal(tokens(&a, 600 + 40 * 256, -1, false), 40);
	assert_int_equal(tokens(&a, 600, -1, true), 0);
	assert_int_equal(tokens(&a, -1, -1, true), 0);
	assert_int_equal(tokens(&a, INT64_MAX, -1, true), 0);
	assert_int_equal(tokens(&a, INT64_MAX, -1, false), ANSWER_TOKENS_MAX);
	assert_int_equal(tokens(&a, 700, FACT_TOKENS_MAX, true), ANSWER_TOKENS_MAX);
}

/* Whole answers of eight bytes a token are seen: the next, without a count, is taken to be like
 * them. */
static void bytes_of_a_token_are_learned(void **state)
{
	struct answer_size a = { 0 };
	struct fact f = ended(600 + 320, 40), stream = ended(600 + 40 * 256, 40),
		    vectors = ended(600 + 40000, 40), none = ended(5000, 0);

	answer_learn(&a, &stream, false);
	answer_learn(&a, &vectors, true);
	answer_learn(&a, &none, true);
	assert_int_equal(tokens(&a, 600 + 160, -1, true), 40);
	for (int i = 0; i < 10000; i++)
		answer_learn(&a, &f, true);
	assert_int_equal(tokens(&a, 600 + 320, -1, true), 40);
	assert_int_equal(tokens(&a, 600 + 40 * 256, -1, false), 40);
	f = ended(600 + 80, 40);
	for (int i = 0; i < 10000; i++)
		answer_learn(&a, &f, true);
	assert_in_range(tokens(&a, 600 + 80, -1, true), 35, 40);
}

/* Streams whose tokens the next turn showed. */
static void bytes_of_an_event_are_learned(void **state)
{
	struct answer_size a = { 0 };

	answer_learn_stream(&a, 100, 0);
	answer_learn_stream(&a, 40 * 63, 40);		/* no stream has so few, */
	answer_learn_stream(&a, 40 * 1024, 40);		/* or so many */
	assert_int_equal(tokens(&a, 600 + 40 * 256, -1, false), 40);
	answer_learn_stream(&a, 8 * 64, 8);		/* one is not typical */
	assert_in_range(tokens(&a, 600 + 40 * 256, -1, false), 40, 42);
	for (int i = 0; i < 100; i++)
		answer_learn_stream(&a, 40 * 200, 40);
	assert_in_range(tokens(&a, 600 + 1000 * 200, -1, false), 990, 1005);
	assert_int_equal(tokens(&a, 600 + 160, -1, true), 40);
	for (int i = 0; i < 10000; i++)
		answer_learn_stream(&a, 40 * 300, 40);
	assert_in_range(tokens(&a, 600 + 1000 * 300, -1, false), 995, 1005);
}

/* Without a count an answer has no more tokens than its time allows, and a whole one with far more
 * bytes than their text is none: it has log probabilities, or vectors. */
static void an_estimate_takes_its_time(void **state)
{
	static const struct { int64_t bytes, ms; bool whole; uint32_t want; } cases[] = {
		{ 2000000, 9000, true, 0 }, { 2000000, 9000, false, 2000000 / 256 - 2 },
		{ 20000000, 9000, false, 9000 + 1024 }, { 200000, 9000, true, 9000 + 1024 },
		{ 200000, -1, true, 49850 }, { 4600, 0, true, 1000 }, { 4600, INT64_MAX, true, 1000 },
		{ 30600, 3, true, 1024 + 3 },
	};
	struct answer_size a = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fact f = ended(cases[i].bytes, -1);

		f.total_ms = cases[i].ms;
		assert_in_range(answer_tokens(&a, &f, cases[i].whole), cases[i].want, cases[i].want + 1);
		f.output_tokens = 77777;
		assert_int_equal(answer_tokens(&a, &f, cases[i].whole), 77777);
	}
}

static uint64_t said_of(struct world *w, const char *uid)
{
	struct decision x;

	assert_true(decisions_find(w->r->decisions, route_uid(w->r, span_str(uid)), &x));
	return x.output_tokens;
}

static void tell_bytes(struct world *w, const char *uid, int64_t bytes, int64_t tokens)
{
	struct fact f = ended(bytes, tokens);

	f.uid = span_str(uid);
	f.server = w->a.server;
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 5;
	route_learn(w->r, &f, w->now);
}

/* Without first-token reports: a body that does not ask for a stream gets a whole answer. */
static void the_body_says_whether_it_is_a_stream(void **state)
{
	static const struct { const char *after; uint64_t want; } cases[] = {
		{ "", 150 }, { ",\"stream\":false", 150 }, { ",\"stream\":null", 150 }, { ",\"stream\":true", 2 },
		{ ",\"stream\":true,\"stream\":false", 150 }, { ",\"stream\":1", 150 },
	};
	struct world w;
	char uid[8];

	world_start(&w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(uid, sizeof(uid), "%zu", i);
		chat(&w.body, "", "a", cases[i].after);
		send_body(&w, uid, span_of(w.body.p, w.body.n));
		tell_bytes(&w, uid, 1200, -1);
		assert_int_equal(said_of(&w, uid), cases[i].want);
	}
	send_body(&w, "told", span_of(w.body.p, w.body.n));
	tell_bytes(&w, "told", 1200, 40);
	assert_int_equal(said_of(&w, "told"), 40);
	w.q.visible = (int64_t)w.body.n - 5;			/* cut: "stream" may be in the unseen part */
	w.q.whole = (int64_t)w.body.n;
	send_body(&w, "cut", span_of(w.body.p, w.body.n - 5));
	tell_bytes(&w, "cut", 1200, -1);
	assert_int_equal(said_of(&w, "cut"), 2);
	world_end(&w);
}

/* A tenant's batch of vectors is not text, and must not evict the pages of others. */
static void vectors_are_no_tokens(void **state)
{
	struct world w;

	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	w.q.path = SPAN("/v1/embeddings");
	w.body.n = 0;
	say(&w.body, "{\"model\":\"m\",\"input\":\"");
	say_turn(&w.body, 'a');
	say(&w.body, "\"}");
	for (int first = 0; first < 2; first++) {
		send(&w, "batch");
		assert_true(w.a.server.n > 0);
		if (first)
			tell_first(&w, "batch", "s1", 200, "application/json");
		tell_bytes(&w, "batch", 20000, -1);
		assert_int_equal(said_of(&w, "batch"), 0);
	}
	assert_int_equal(server(&w, "s1").v.output_tokens, 0);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reported_else_by_bytes),
		cmocka_unit_test(bytes_of_a_token_are_learned),
		cmocka_unit_test(bytes_of_an_event_are_learned),
		cmocka_unit_test(an_estimate_takes_its_time),
		cmocka_unit_test(the_body_says_whether_it_is_a_stream),
		cmocka_unit_test(vectors_are_no_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

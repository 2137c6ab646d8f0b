/* test_grown.c - the next turn is expected to hit the generated tokens before any commit stores
 * them. */
#include <errno.h>

#include "tests/unit/route/tokens.h"

static void over(struct world *w, const char *uid, const char *server, int64_t told, int64_t bytes)
{
	struct fact f;

	fact_init(&f, FACT_DONE);
	f.uid = span_str(uid);
	f.server = span_str(server);
	f.status = 200;
	f.end = END_OK;
	f.response_ms = 5;
	f.output_tokens = told;
	f.bytes_out = bytes;
	route_learn(w->r, &f, w->now);
}

/* Write a prompt of the <n> ids 1000, 1001, ...; the id at place <odd> is another. */
static void say_ids(struct world *w, unsigned n, unsigned odd)
{
	w->body.n = 0;
	say(&w->body, "{\"prompt\":[");
	for (unsigned i = 0; i < n; i++)
		say(&w->body, "%s%u", i ? "," : "", i == odd ? 7 : 1000 + i);
	say(&w->body, "]}");
}

#define NONE	UINT32_MAX

/* Blocks of 32: 100 ids are 3 and a tail of 4; with 40 more, of which the engine has computed 39,
 * it holds 4. */
static void ids_that_were_generated(void **state)
{
	static const struct {
		const char *name;
		unsigned first, odd, second;
		int64_t told;
		const char *at;
		uint32_t want;
	} cases[] = {
		{ "as told", 100, NONE, 170, 40, "s1", 4 },
		{ "the last one is not computed", 100, NONE, 170, 28, "s1", 3 },
		{ "one more", 100, NONE, 170, 29, "s1", 4 },
		{ "the tail is another", 100, 98, 170, 40, "s1", 3 },
		{ "what was generated is another: nobody sees that", 100, 130, 170, 40, "s1", 4 },
		{ "the prompt is another", 100, 5, 170, 40, "s1", 0 },
		{ "no more than the prompt has", 100, NONE, 150, 100000, "s1", 4 },
		{ "nothing", 100, NONE, 170, 0, "s1", 3 },
		{ "no tail", 96, NONE, 170, 40, "s1", 4 },
		{ "less than a block", 20, NONE, 170, 100, "s1", 0 },
	};
	struct world w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		token_world(&w, NULL, 32);
		world_open(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1");
		say_ids(&w, cases[i].first, NONE);
		send(&w, "1");
		over(&w, "1", cases[i].at, cases[i].told, -1);
		say_ids(&w, cases[i].second, cases[i].odd);
		send(&w, "2");
		if (w.a.pages != cases[i].want)
			fail_msg("%s: %u pages, not %u", cases[i].name, w.a.pages, cases[i].want);
		over(&w, "2", "s1", 0, -1);
		send(&w, "3");
		assert_in_range(w.a.pages, (cases[i].second - 1) / 32, (cases[i].second - 1) / 32);
		world_end(&w);
	}
}

/* The other server has the prompt too, but did not answer it. */
static void only_at_the_server_that_answered(void **state)
{
	struct world w;

	token_world(&w, NULL, 32);
	world_open(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	say_ids(&w, 100, NONE);
	send(&w, "1");
	over(&w, "1", "s1", 40, -1);
	w.q.load = SPAN("lb1/1;s2=1,0,0,1");
	send(&w, "2");
	over(&w, "2", "s2", 0, -1);
	say_ids(&w, 170, NONE);
	send(&w, "3");
	assert_int_equal(w.a.pages, 3);
	refused(&w, "3");
	w.q.load = SPAN("lb1/1;s1=1,0,0,1;s2=1,0,0,1");
	send(&w, "4");
	assert_span(w.a.server, "s1");
	assert_int_equal(w.a.pages, 4);
	world_end(&w);
}

#define TEMPLATE \
	"<|begin|>{% for m in messages %}{{ m.role }}:{{ m.content }}<|end|>{% endfor %}" \
	"{% if add_generation_prompt %}assistant:{% endif %}"
#define ANSWER		" the server has pages and that is"

static const struct hash_key chat_key = { { 1 } };

static void say_talk(struct text *t, unsigned words, bool again)
{
	t->n = 0;
	say(t, "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (unsigned i = 0; i < words; i++)
		say(t, " the");
	if (again) {
		say(t, "\"},{\"role\":\"assistant\",\"content\":\"" ANSWER);
		say(t, "\"},{\"role\":\"user\",\"content\":\"");
		say_words(t, 5, 400);
	}
	say(t, "\"}]}");
}

static uint32_t n_ids_of(struct tok *t, const char *text)
{
	struct tok_scratch *c = tok_scratch_new();
	struct ids out = { 0 };
	uint32_t n;

	assert_int_equal(tok_encode(t, c, span_str(text), 0, &out), 0);
	n = (uint32_t)out.n;
	ids_free(&out);
	tok_scratch_free(c);
	return n;
}

static void chat_world(struct world *w, struct tok *t)
{
	const struct chat_source src = { .template = span_str(TEMPLATE) };

	token_world(w, t, 32);
	assert_non_null(token_models[0].chat = chat_load(&src, &chat_key, NULL));
	w->q.path = SPAN("/v1/chat/completions");
	w->o.pool_default.capacity = 4096;
	world_open(w);
	w->q.load = SPAN("lb1/1;s1=1,0,0,1");
}

static void chat_world_end(struct world *w)
{
	world_end(w);
	chat_unref(token_models[0].chat);
}

/* A short streamed answer to a prompt that ends anywhere in a block. The text in the next turn is
 * longer or shorter than estimated from the bytes: its ids count. The tail of the prompt counts in
 * full. */
static void a_short_answer_after_any_tail(void **state)
{
	static const int64_t event_bytes[] = { 200, 256, 400 };
	struct tok *t = tok_with(NULL, NULL);
	uint32_t answer = n_ids_of(t, ANSWER);
	unsigned more = 0;
	struct world w;

	for (unsigned i = 0; i < 32 * 3; i++) {
		unsigned words = 100 + i % 32;
		uint32_t tokens, pages;

		chat_world(&w, t);
		say_talk(&w.body, words, false);
		tokens = (uint32_t)preview(&w).units;
		pages = (tokens + answer - 1) / 32;
		more += pages > tokens / 32;
		send(&w, "1");
		over(&w, "1", "s1", -1, 600 + answer * event_bytes[i / 32]);
		say_talk(&w.body, words, true);
		send(&w, "2");
		if (w.a.pages != pages)
			fail_msg("%u tokens: %u pages, not %u", tokens, w.a.pages, pages);
		chat_world_end(&w);
	}
	assert_int_equal(more, 3 * (answer - 1));
	tok_unref(t);
}

/* The pages of the next turn hold the generated tokens, so these count once. The bytes of the
 * stream give the tokens of the next answer. */
static void it_counts_once_and_teaches(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	uint32_t answer = n_ids_of(t, ANSWER), tokens, words = 100;
	struct decision x;
	struct world w;

	chat_world(&w, t);
	do
		say_talk(&w.body, words++, false);
	while ((tokens = (uint32_t)preview(&w).units) % 32 != 31);
	words--;
	send(&w, "1");
	over(&w, "1", "s1", -1, 600 + answer * 400);
	assert_int_equal(index_server_output(w.r->index, 0), 32 * ROOM_OF_TOKEN);
	say_talk(&w.body, words, true);
	send(&w, "2");
	assert_int_equal(w.a.pages, tokens / 32 + 1);
	assert_int_equal(index_server_output(w.r->index, 0), 0);
	over(&w, "2", "s1", -1, 600 + 256 * 1000);
	assert_true(decisions_find(w.r->decisions, route_uid(w.r, SPAN("2")), &x));
	assert_in_range(x.output_tokens, 900, 990);
	chat_world_end(&w);
	tok_unref(t);
}

/* The end of an answer is evicted before its prompt, and then it is not expected any more. */
static void evicted_pages_are_not_expected(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	uint32_t answer = n_ids_of(t, ANSWER), tokens, words = 1000, held;
	struct world w;

	chat_world(&w, t);
	do
		say_talk(&w.body, words++, false);
	while ((tokens = (uint32_t)preview(&w).units) % 32 != 31);
	words--;
	send(&w, "1");
	over(&w, "1", "s1", -1, 600 + answer * 256);
	held = tokens / 32;
	w.body.n = 0;
	say(&w.body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (unsigned i = 0; i < (4096 / 32 - held) * 32 - 20; i++)
		say(&w.body, " is");
	say(&w.body, "\"}]}");
	send(&w, "2");
	served(&w, "2");
	say_talk(&w.body, words, true);
	send(&w, "3");
	assert_int_equal(index_server_output(w.r->index, 0), 0);
	assert_int_equal(w.a.pages, held);
	chat_world_end(&w);
	tok_unref(t);
}

/* A letter is ten pages of 16 tokens. The message in the next turn bounds the expected tokens, and
 * shows whether it is the answer. */
static void text_that_was_generated(void **state)
{
	static const struct {
		const char *name, *first, *second;
		int64_t told, bytes;
		uint32_t want;
	} cases[] = {
		{ "as told", "a", "abc", 155, -1, 10 + 9 },
		{ "more than came back", "a", "abc", 200, -1, 10 + 10 },
		{ "far more: thoughts were dropped", "a", "abc", 400, -1, 10 },
		{ "by its bytes", "a", "abc", -1, 600 + 620, 10 + 9 },
		{ "the next question is no answer", "a", "ab", 155, -1, 10 + 9 },
		{ "later turns", "abc", "abcde", 155, -1, 30 + 9 },
		{ "another first message", "x", "abc", 155, -1, 0 },
		{ "the last answer is not the one that follows", "a", "abcde", 155, -1, 10 },
	};
	struct world w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		world_start(&w);
		w.q.load = SPAN("lb1/1;s1=1,0,0,1");
		ask(&w, "1", cases[i].first);
		over(&w, "1", "s1", cases[i].told, cases[i].bytes);
		ask(&w, "2", cases[i].second);
		if (w.a.pages != cases[i].want)
			fail_msg("%s: %u pages, not %u", cases[i].name, w.a.pages, cases[i].want);
		world_end(&w);
	}
}

/* A prompt of text in one piece has no page for its end. */
static void a_text_that_goes_on(void **state)
{
	struct world w;

	world_start(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	w.q.path = SPAN("/v1/completions");
	for (int i = 0; i < 2; i++) {
		w.body.n = 0;
		say(&w.body, "{\"prompt\":\"");
		say_turn(&w.body, 'a');			/* 620 bytes: nine pages and 44 bytes */
		if (i > 0) {
			say_turn(&w.body, 'b');
			say_turn(&w.body, 'c');
		}
		say(&w.body, "\"}");
		send(&w, i ? "2" : "1");
		assert_int_equal(w.a.pages, i ? 9 + 9 : 0);
		over(&w, i ? "2" : "1", "s1", 155, -1);
	}
	world_end(&w);
}

/* ---- a recorded engine --------------------------------------------------------------------- */

#define TRUTH	"../shared/data/vllm/truth-qwen3-b32-sha256cbor.requests.jsonl"
#define TALKS	64
#define IDS_MAX	20000
#define BLOCK	32

struct talk_so_far { unsigned n, ids[IDS_MAX]; };

static struct talk_so_far talks[TALKS];

static const char *after(const char *line, const char *key)
{
	const char *at = strstr(line, key);

	assert_non_null(at);
	return at + strlen(key);
}

static unsigned add_ids(struct talk_so_far *t, const char *at)
{
	unsigned n = 0;
	char *end;

	while (*at != ']') {
		assert_true(t->n < IDS_MAX);
		t->ids[t->n++] = (unsigned)strtoul(at, &end, 10);
		at = end + strspn(end, ", ");
		n++;
	}
	return n;
}

static void body_of(char *out, size_t cap, const struct talk_so_far *t, const char *salt)
{
	size_t n = (size_t)snprintf(out, cap, "{");

	if (*salt == '"')
		n += (size_t)snprintf(out + n, cap - n, "\"cache_salt\":%.*s,", (int)strcspn(salt, ",}"), salt);
	n += (size_t)snprintf(out + n, cap - n, "\"prompt\":[");
	for (unsigned i = 0; i < t->n; i++)
		n += (size_t)snprintf(out + n, cap - n, "%s%u", i ? "," : "", t->ids[i]);
	n += (size_t)snprintf(out + n, cap - n, "]}");
	assert_true(n < cap);
}

/* 320 requests of a real vLLM, one after the other: its cached tokens, and those expected. */
static void equals_a_real_engine(void **state)
{
	static char line[1 << 20], body[1 << 20];
	unsigned equal = 0, low = 0, high = 0, all = 0, turns = 0, equal_turns = 0;
	FILE *f = fopen(TRUTH, "r");
	struct world w;
	char uid[16];

	if (f == NULL) {
		printf("skipped: equals_a_real_engine: %s: %s\n", TRUTH, strerror(errno));
		return;
	}
	token_world(&w, NULL, BLOCK);
	w.o.index.max_bytes = 64u << 20;
	w.o.pool_default.capacity_guess = 0;	/* eviction is not tested here */
	world_open(&w);
	w.q.load = SPAN("lb1/1;s1=1,0,0,1");
	while (fgets(line, sizeof(line), f) != NULL) {
		struct talk_so_far *t = &talks[strtoul(after(line, "\"conv\": "), NULL, 10) % TALKS];
		unsigned cached = (unsigned)strtoul(after(line, "\"cached\": "), NULL, 10), out, said;
		bool goes_on = strncmp(after(line, "\"new\": "), "false", 5) == 0;

		t->n = goes_on ? t->n : 0;
		add_ids(t, after(line, "\"add\": ["));
		body_of(body, sizeof(body), t, after(line, "\"salt\": "));
		snprintf(uid, sizeof(uid), "%u", ++all);
		send_body(&w, uid, span_of(body, strlen(body)));
		said = w.a.pages * BLOCK;
		out = add_ids(t, after(line, "\"out\": ["));
		over(&w, uid, "s1", out, -1);
		w.now += 1000;
		equal += said == cached;
		high += said > cached;
		low += said < cached;
		turns += goes_on;
		equal_turns += goes_on && said == cached;
	}
	fclose(f);
	print_message(
	    "%u requests: %u equal, %u too high (evicted), %u too low; of %u later turns %u equal\n",
	    all, equal, high, low, turns, equal_turns);
	assert_int_equal(all, 320);
	assert_in_range(low, 0, 1);		/* 82 if nothing generated were known */
	assert_in_range(equal_turns, 225, turns);
	world_end(&w);
}

/* Of the two places of a prompt each server has one, by the highest bit of its hash. */
static void two_servers_have_places(void **state)
{
	const uint64_t high = 1ull << 63;
	const struct grown_end e = { .key = 12345, .tokens = 100 };
	const struct grown_answer a = { .tokens = 10 };
	struct grown_table *t = grown_table_new();

	(void)state;
	assert_non_null(t);
	grown_put(t, &e, 1, &a);
	grown_put(t, &e, high | 1, &a);
	assert_non_null(grown_find(t, e.key, 1));
	assert_non_null(grown_find(t, e.key, high | 1));
	grown_put(t, &e, 2, &a);
	assert_null(grown_find(t, e.key, 1));
	assert_non_null(grown_find(t, e.key, 2));
	assert_non_null(grown_find(t, e.key, high | 1));
	grown_table_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_that_were_generated),
		cmocka_unit_test(only_at_the_server_that_answered),
		cmocka_unit_test(a_short_answer_after_any_tail),
		cmocka_unit_test(it_counts_once_and_teaches),
		cmocka_unit_test(evicted_pages_are_not_expected),
		cmocka_unit_test(text_that_was_generated),
		cmocka_unit_test(a_text_that_goes_on),
		cmocka_unit_test(equals_a_real_engine),
		cmocka_unit_test(two_servers_have_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

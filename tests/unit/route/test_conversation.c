/* test_conversation.c - conversations of a model with a template: pages of the ids that its
 * engine computes. */
#include "tests/unit/route/tokens.h"

#define TEMPLATE \
	"<|begin|>{% if tools %}tools {{ tools | length }}<|end|>{% endif %}{% for m in messages %}" \
	"{% if m.role == 'nobody' %}" \
	"{{ raise_exception('who') }}{% endif %}{{ m.role }} {{ m.content }}<|end|>{% endfor %}{% if " \
	"add_generation_prompt %}assistant {% endif %}"

static const struct hash_key key = { { 1 } };

static void conversation_world_of(struct world *w, struct tok *t, const char *template)
{
	struct chat_source src = { .template = span_str(template) };

	token_world(w, t, 16);
	assert_non_null(token_models[0].chat = chat_load(&src, &key, NULL));
	w->q.path = SPAN("/v1/chat/completions");
	world_open(w);
}

static void conversation_world(struct world *w, struct tok *t)
{
	conversation_world_of(w, t, TEMPLATE);
}

static void conversation_end(struct world *w)
{
	world_end(w);
	chat_unref(token_models[0].chat);
	token_models[0].chat = NULL;
}

/* {"messages":[user, assistant, ...]<after>}, of <n> messages, words by <seed>. */
static void talk(struct text *t, uint64_t seed, unsigned n, const char *after)
{
	t->n = 0;
	say(t, "{\"messages\":[");
	for (unsigned i = 0; i < n; i++) {
		say(t, "%s{\"role\":\"%s\",\"content\":\"", i > 0 ? "," : "", i % 2 == 0 ? "user" : "assistant");
		say_words(t, seed + i, 300);
		say(t, "\"}");
	}
	say(t, "]%s}", after);
}

/* The same text as a prompt of completions. */
static void as_text(struct text *t, uint64_t seed, unsigned n)
{
	t->n = 0;
	say(t, "{\"add_special_tokens\":false,\"prompt\":\"<|begin|>");
	for (unsigned i = 0; i < n; i++) {
		say(t, "%s ", i % 2 == 0 ? "user" : "assistant");
		say_words(t, seed + i, 300);
		say(t, "<|end|>");
	}
	say(t, "assistant \"}");
}

static void pages_are_those_of_the_text(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct request_preview v;
	struct space_key space;
	struct world w;
	page_key keys[512];
	uint32_t n;

	conversation_world(&w, t);
	talk(&w.body, 3, 5, "");
	v = preview(&w);
	assert_int_equal(v.mode, PROMPT_TOKENS);
	assert_in_range(v.pages, 20, 512);
	n = v.pages;
	memcpy(keys, v.keys, n * sizeof(*keys));
	space = v.space;
	w.q.path = SPAN("/v1/completions");
	as_text(&w.body, 3, 5);
	v = preview(&w);
	assert_int_equal(v.pages, n);
	assert_memory_equal(v.keys, keys, n * sizeof(*keys));
	assert_memory_equal(&v.space, &space, sizeof(space));
	conversation_end(&w);
	tok_unref(t);
}

static void the_next_turn_is_cached(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct route_stats st;
	struct world w;
	uint32_t n;

	conversation_world(&w, t);
	talk(&w.body, 3, 3, "");
	send(&w, "1");
	n = w.a.prompt_pages;
	served(&w, "1");
	talk(&w.body, 3, 5, "");
	send(&w, "2");
	assert_int_equal(w.a.why, WHY_CACHED);
	assert_in_range(w.a.pages, n - 1, n);	/* the last one holds where an answer began */
	route_stats(w.r, &st);
	assert_int_equal(st.tokenized, 2);
	conversation_end(&w);
	tok_unref(t);
}

static void invalid_roles_have_no_server(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct route_stats st;
	struct world w;

	conversation_world(&w, t);
	w.body.n = 0;
	say(&w.body, "{\"messages\":[{\"role\":\"nobody\",\"content\":\"x\"}]}");
	send(&w, "1");
	assert_int_equal(w.a.why, WHY_BADBODY);
	assert_int_equal(w.a.server.n, 0);
	route_stats(w.r, &st);
	assert_int_equal(st.chat_refused, 1);
	assert_int_equal(st.chat_unknown, 0);
	assert_int_equal(st.open, 0);
	conversation_end(&w);
	tok_unref(t);
}

static void unsupported_parts_stay_text(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct route_stats st;
	struct world w;

	conversation_world(&w, t);
	w.body.n = 0;
	say(&w.body,
	    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\","
	    "\"image_url\":{\"url\":\"u\"}}]}]}");
	send(&w, "1");
	assert_int_equal(w.a.why, WHY_COLD);
	assert_true(w.a.server.n > 0);
	assert_int_equal(preview(&w).mode, PROMPT_TEXT);
	route_stats(w.r, &st);
	assert_int_equal(st.chat_unknown, 1);
	conversation_end(&w);
	tok_unref(t);
}

/* For any slices, the last answer equals that of the whole body, and each has its beginning. */
static void in_slices(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;
	uint32_t whole;

	conversation_world(&w, t);
	talk(&w.body, 3, 5, "");
	send(&w, "whole");
	whole = w.a.prompt_pages;
	served(&w, "whole");
	for (size_t step = 97; step < w.body.n; step = step * 2 + 1) {
		uint32_t before = 0;
		int64_t seq = 0;
		char uid[32];

		snprintf(uid, sizeof(uid), "s%zu", step);
		for (size_t at = 0; at < w.body.n; at += step, seq++) {
			slice_at(&w, w.s, uid, seq, at, at + step < w.body.n ? at + step : w.body.n);
			if (w.a.why == WHY_NOPROMPT || w.a.stands)
				continue;
			assert_true(w.a.prompt_pages >= before || before == 0 || w.a.prompt_pages > 0);
			before = w.a.prompt_pages;
		}
		assert_int_equal(w.a.prompt_pages, whole);
		assert_int_equal(w.a.more, 0);
		assert_true(w.a.pages >= whole - 1);
		served(&w, uid);
	}
	conversation_end(&w);
	tok_unref(t);
}

/* Two thirds of a body are seen. */
static void show_part(struct world *w)
{
	w->q.visible = w->q.whole = (int64_t)w->body.n;
	w->body.n = w->body.n * 2 / 3;
}

/* A cut body has the first pages of the whole one. It is in the same space if its tools were seen
 * and no message changes the beginning. */
static void cut(void **state)
{
	struct tok *t = tok_with(NULL, NULL);
	struct request_preview v;
	struct space_key space;
	struct world w;
	page_key keys[512];
	uint32_t n;

	conversation_world_of(&w, t, TEMPLATE "{# 'developer' #}");
	w.body.n = 0;
	say(&w.body, "{\"tools\":null,");
	talk(&w.body, 3, 5, "");
	memmove(w.body.p + 14, w.body.p + 1, w.body.n - 1);
	memcpy(w.body.p, "{\"tools\":null,", 14);
	w.body.n += 13;
	v = preview(&w);
	n = v.pages;
	memcpy(keys, v.keys, n * sizeof(*keys));
	space = v.space;
	show_part(&w);
	v = preview(&w);
	assert_true(v.cut);
	assert_int_equal(v.mode, PROMPT_TOKENS);
	assert_in_range(v.pages, n / 3, n - 1);
	assert_memory_equal(v.keys, keys, v.pages * sizeof(*keys));
	assert_memory_equal(&v.space, &space, sizeof(space));
	talk(&w.body, 3, 5, "");
	show_part(&w);
	v = preview(&w);
	assert_int_equal(v.mode, PROMPT_TOKENS);
	assert_memory_not_equal(&v.space, &space, sizeof(space));
	conversation_end(&w);
	tok_unref(t);
}

/* Send a whole turn with a message of <role>, then a part of the next one. Returns the pages found
 * for that. */
static uint32_t found_of_cut(const char *role)
{
	struct tok *t = tok_with(NULL, NULL);
	struct world w;
	uint32_t pages;

	conversation_world(&w, t);
	for (unsigned turn = 0; turn < 2; turn++) {
		w.body.n = 0;
		say(&w.body, "{\"messages\":[");
		for (unsigned i = 0; i < 5 + 4 * turn; i++) {
			say(&w.body, "%s{\"role\":\"%s\",\"content\":\"", i > 0 ? "," : "",
			    i == 4           ? role
				: i % 2 == 0 ? "user"
					     : "assistant");
			say_words(&w.body, i, 300);
			say(&w.body, "\"}");
		}
		say(&w.body, "]}");
		if (turn == 1)
			show_part(&w);
		send(&w, turn == 0 ? "1" : "2");
		served(&w, turn == 0 ? "1" : "2");
	}
	assert_true(w.a.cut);
	assert_in_range(w.a.prompt_pages, 10, 512);
	pages = w.a.pages;
	send(&w, "3");
	/* among themselves, such bodies find their pages */
	assert_true(w.a.pages >= w.a.prompt_pages - 1);
	conversation_end(&w);
	tok_unref(t);
	return pages;
}

/* If the same opening was seen before, it is known whether a developer message follows, which the
 * template would put first. */
static void cut_where_the_front_may_change(void **state)
{
	assert_true(found_of_cut("user") > 10);
	assert_int_equal(found_of_cut("developer"), 0);
}

/* "truncate_prompt_tokens" keeps the right or the named end; if unknown, the prompt stays text. */
static void truncated(void **state)
{
	static const struct { const char *more; bool known; int64_t from; uint64_t tokens; } cases[] = {
		{ ",\"truncate_prompt_tokens\":64,\"truncation_side\":\"right\"", true, 0, 64 },
		{ ",\"truncate_prompt_tokens\":64", true, -1, 64 },
		{ ",\"truncate_prompt_tokens\":64,\"truncation_side\":\"left\"", true, -1, 64 },
		{ ",\"truncate_prompt_tokens\":1000000", true, 0, 0 },
		{ ",\"truncate_prompt_tokens\":64,\"add_special_tokens\":true", false, 0, 0 },
		{ ",\"truncate_prompt_tokens\":-1", false, 0, 0 },
	};
	struct tok *t = tok_with(NULL, NULL);
	struct request_preview v;
	struct world w;
	page_key keys[512];
	uint64_t all;

	conversation_world(&w, t);
	talk(&w.body, 3, 5, "");
	v = preview(&w);
	all = v.units;
	memcpy(keys, v.keys, v.pages * sizeof(*keys));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		talk(&w.body, 3, 5, cases[i].more);
		v = preview(&w);
		assert_int_equal(v.mode, cases[i].known ? PROMPT_TOKENS : PROMPT_TEXT);
		if (!cases[i].known)
			continue;
		assert_int_equal(v.units, cases[i].tokens > 0 ? cases[i].tokens : all);
		assert_int_equal(v.pages, v.units / 16);
		if (cases[i].from == 0)
			assert_memory_equal(v.keys, keys, v.pages * sizeof(*keys));
		else
			assert_memory_not_equal(v.keys, keys, sizeof(*keys));
	}
	conversation_end(&w);
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_are_those_of_the_text),
		cmocka_unit_test(the_next_turn_is_cached),
		cmocka_unit_test(invalid_roles_have_no_server),
		cmocka_unit_test(unsupported_parts_stay_text),
		cmocka_unit_test(in_slices),
		cmocka_unit_test(cut),
		cmocka_unit_test(cut_where_the_front_may_change),
		cmocka_unit_test(truncated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

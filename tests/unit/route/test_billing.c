/* test_billing.c - conversations of Claude Code, whose system prompt begins with a text that
 * differs in each request (agent/base/billing.h), and whose markers of caches move: they are
 * cached, and of one session. */
#include "tests/unit/route/tokens.h"

#define TEMPLATE \
	"{% if tools %}tools {{ tools | length }}<|end|>{% endif %}{% for m in messages %}{{ m.role }} " \
	"{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}assistant {% endif %}"

enum shape { MESSAGES_LAST, MESSAGES_FIRST, CHAT_PARTS, CHAT_LINE, SHAPES };

static const struct hash_key key = { { 1 } };

static void say_billing(struct text *t, unsigned turn)
{
	say(t, "x-anthropic-billing-header: cc_version=2.1.120.%03x; cc_entrypoint=cli; cch=%05x;",
	    turn * 77 % 4096, turn * 7919 % 1048576);
}

static void say_system(struct text *t, enum shape shape, unsigned turn)
{
	say(t, shape == CHAT_LINE ? "\"" : "[{\"type\":\"text\",\"text\":\"");
	say_billing(t, turn);
	say(t, shape == CHAT_LINE ? "\\n" : "\"},{\"type\":\"text\",\"text\":\"");
	say_words(t, 1, 600);
	say(t, shape == CHAT_LINE ? "\"" : "\",\"cache_control\":{\"type\":\"ephemeral\"}}]");
}

/* Of the last message the end is marked, as in "content":[{...,"cache_control":...}]. */
static void say_messages(struct text *t, unsigned turn)
{
	unsigned n = 2 * turn + 1;

	for (unsigned i = 0; i < n; i++) {
		say(t, "%s{\"role\":\"%s\",\"content\":[{\"type\":\"text\",\"text\":\"", i > 0 ? "," : "",
		    i % 2 == 0 ? "user" : "assistant");
		say_words(t, 10 + i, 1500);
		say(t, "\"%s}]}", i == n - 1 ? ",\"cache_control\":{\"type\":\"ephemeral\"}" : "");
	}
}

static void say_body(struct text *t, enum shape shape, unsigned turn)
{
	t->n = 0;
	say(t, "{\"model\":\"m\",");
	if (shape == MESSAGES_LAST) {
		say(t, "\"system\":");
		say_system(t, shape, turn);
		say(t, ",");
	}
	say(t, "\"messages\":[");
	if (shape >= CHAT_PARTS) {
		say(t, "{\"role\":\"system\",\"content\":");
		say_system(t, shape, turn);
		say(t, "},");
	}
	say_messages(t, turn);
	say(t, "]");
	if (shape == MESSAGES_FIRST) {
		say(t, ",\"system\":");
		say_system(t, shape, turn);
	}
	say(t, ",\"metadata\":{\"user_id\":\"user_1_account__session_a\"}}");
}

/* Send turns of one conversation, of which the agent makes pages in mode <want>. */
static void converse(struct world *w, enum shape shape, enum prompt_mode want)
{
	uint32_t had = 0;

	w->q.path = shape >= CHAT_PARTS ? SPAN("/v1/chat/completions") : SPAN("/v1/messages");
	if (shape >= CHAT_PARTS)
		w->q.session = SPAN("a");
	for (unsigned turn = 1; turn <= 4; turn++) {
		char uid[8];

		snprintf(uid, sizeof(uid), "%u", turn);
		say_body(&w->body, shape, turn);
		assert_int_equal(preview(w).mode, want);
		send(w, uid);
		assert_int_equal(w->a.why, turn > 1 ? WHY_CACHED : WHY_COLD);
		if (turn > 1)
			assert_in_range(w->a.pages, had - 1, had);
		had = w->a.prompt_pages;
		served(w, uid);
		w->now += 2000;
	}
	assert_int_equal(stats(w).sessions.sessions, 1);
	assert_int_equal(stats(w).sessions.turns, 4);
	assert_int_equal(stats(w).sessions.mistrusted, 0);
}

static void in_text_mode(void **state)
{
	(void)state;
	for (enum shape shape = 0; shape < SHAPES; shape++) {
		struct world w;

		world_start(&w);
		converse(&w, shape, PROMPT_TEXT);
		world_end(&w);
	}
}

static void in_token_mode(void **state)
{
	struct chat_source src = { .template = SPAN(TEMPLATE) };
	struct tok *t = tok_with(NULL, NULL);
	struct chat *c = chat_load(&src, &key, NULL);

	(void)state;
	assert_non_null(c);
	for (enum shape shape = 0; shape < SHAPES; shape++) {
		struct world w;

		token_world(&w, t, 16);
		token_models[0].chat = c;
		world_open(&w);
		converse(&w, shape, PROMPT_TOKENS);
		world_end(&w);
	}
	chat_unref(c);
	token_models[0].chat = NULL;
	tok_unref(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_text_mode),
		cmocka_unit_test(in_token_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

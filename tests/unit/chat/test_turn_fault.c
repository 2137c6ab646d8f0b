/* test_turn_fault.c - each allocation of a turn that goes on fails once, in turn: its text is that
 * of a whole rendering or there is none, and what it leaves serves the turn after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/chat/chat.h"
#include "tests/unit/fault.h"

static const struct hash_key key = { { 9, 8, 7 } };

static const char template[] =
    "{% set ns = namespace(q=messages | length, was='none', n=0) %}"
    "{% macro say(m) %}<{{ m.role }}>{{ m.content }}"
    "{{ m.tool_calls | tojson if m.tool_calls }}{% endmacro %}"
    "{{ bos_token }}{% for m in messages %}{{ ns.was }}{{ say(m) }}"
    "{% if loop.index0 > ns.q %}late{% endif %}{% set ns.was = m.role %}{% set ns.n = ns.n + 1 %}"
    "{% set ns.seen = true %}{% endfor %}{% if add_generation_prompt %}A{% endif %}";

#define OLD	"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}," \
		"{\"role\":\"assistant\",\"content\":\"b\",\"tool_calls\":[{\"function\":" \
		"{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]}"
#define NEW	OLD ",{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]}," \
		"{\"role\":\"assistant\",\"content\":\"d\"}"

#define OLD_CALL	"{\"messages\":[{\"role\":\"system\",\"content\":\"s\"}," \
			"{\"role\":\"assistant\",\"reasoning\":\"b\",\"tool_calls\":[{\"id\":\"1\"," \
			"\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}," \
			"{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"r\"}"
#define NEW_CALL	OLD_CALL ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"2\"," \
			"\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}," \
			"{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":\"r\"}"

#define OLD_ITEMS	"{\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":\"a\"}," \
			"{\"role\":\"assistant\",\"content\":\"b\"},{\"type\":\"function_call\"," \
			"\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}"
#define NEW_ITEMS	OLD_ITEMS ",{\"type\":\"function_call_output\",\"call_id\":\"1\"," \
			"\"output\":\"c\"}," \
			"{\"type\":\"reasoning\",\"summary\":[{\"text\":\"r\"}]}," \
			"{\"role\":\"assistant\",\"content\":\"d\"}"

#define OLD_STEP	"{\"instructions\":\"i\",\"input\":[{\"role\":\"user\",\"content\":\"a\"}," \
			"{\"type\":\"reasoning\",\"content\":[{\"text\":\"b\"}]},{\"type\":" \
			"\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{}\"}," \
			"{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"c\"}"
#define NEW_STEP	OLD_STEP ",{\"type\":\"function_call\",\"call_id\":\"2\",\"name\":\"f\"," \
			"\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"2\"," \
			"\"output\":\"d\"}"

static const struct talk {
	enum chat_format format;
	enum chat_api api;
	const char *bodies[3];
} talks[] = {
	{ CHAT_TEMPLATE, CHAT_COMPLETIONS,
	    { OLD "]}", NEW "]}", NEW ",{\"role\":\"user\",\"content\":\"e\"}]}" } },
	{ CHAT_HARMONY, CHAT_COMPLETIONS,
	    { OLD "]}", NEW "]}", NEW ",{\"role\":\"user\",\"content\":\"e\"}]}" } },
	{ CHAT_HARMONY, CHAT_COMPLETIONS,
	    { OLD_CALL "]}", NEW_CALL "]}", NEW_CALL ",{\"role\":\"user\",\"content\":\"e\"}]}" } },
	{ CHAT_TEMPLATE, CHAT_RESPONSES, { OLD_ITEMS "]}", NEW_ITEMS "]}",
			      NEW_ITEMS ",{\"role\":\"user\",\"content\":\"e\"}]}" } },
	{ CHAT_HARMONY, CHAT_RESPONSES, { OLD_STEP "]}", NEW_STEP "]}",
			      NEW_STEP ",{\"role\":\"user\",\"content\":\"e\"}]}" } },
};

static const struct talk *talk;

/* What a body left, and the text before it. */
struct left {
	char memo[4096], text[4096];
	size_t n_memo, n_text, at;
};

static enum chat_result render(const struct chat *c, struct chat_scratch *s, size_t which,
    struct chat_turn *turn, struct chat_text *out)
{
	const struct chat_body b = {
		.api = talk->api, .raw = span_str(talk->bodies[which]),
		.now = { .year = 2026, .month = 1, .day = 1 }, .turn = turn
	};

	return chat_render(c, s, &b, out);
}

/* Render a body on from <was>; check its whole text. <was> becomes what it left. */
static bool go_on(const struct chat *c, struct chat_scratch *s, size_t which, struct left *was,
    const char *whole)
{
	struct chat_turn turn = {
		.key = &key, .memo = span_of(was->memo, was->n_memo), .at = was->at
	};
	struct chat_text out;
	size_t n = 0;
	enum chat_result got = render(c, s, which, &turn, &out);

	assert_true(got == CHAT_DONE || got == CHAT_NO_MEMORY);
	if (got != CHAT_DONE)
		return false;
	if (turn.resumed)
		n = was->n_text;
	assert_int_equal(n + out.n, strlen(whole));
	assert_memory_equal(out.p, whole + n, out.n);
	if (!turn.good)
		return turn.resumed;
	assert_true(turn.left.n <= sizeof(was->memo));
	memcpy(was->memo, turn.left.p, turn.left.n);
	was->n_memo = turn.left.n;
	was->n_text = n + turn.text_at;
	was->at = (size_t)turn.left_at;
	return turn.resumed;
}

static void one_talk(void)
{
	struct chat_source src = {
		.format = talk->format, .template = span_str(template),
		.config = SPAN("{\"bos_token\":\"B\"}")
	};
	struct chat *c = chat_load(&src, &key, NULL);
	struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
	struct left first = { .at = 0 };
	char *whole[3];
	unsigned long k, on = 0;

	assert_true(c != NULL && s != NULL);
	for (size_t i = 0; i < 3; i++) {
		struct chat_text out;

		assert_int_equal(render(c, s, i, NULL, &out), CHAT_DONE);
		whole[i] = strndup(out.p, out.n);
	}
	assert_false(go_on(c, s, 0, &first, whole[0]));
	assert_true(first.n_memo > 0);
	chat_scratch_free(s);
	for (k = 1;; k++) {
		struct left l = first;

		s = chat_scratch_new(1 << 20, &key);
		fault_begin(k);
		on += go_on(c, s, 1, &l, whole[1]);
		if (!fault_end())
			break;
		assert_true(go_on(c, s, 2, &l, whole[2]));
		chat_scratch_free(s);
	}
	assert_true(k > 3 && on > 0);
	chat_scratch_free(s);
	chat_unref(c);
	for (size_t i = 0; i < 3; i++)
		free(whole[i]);
}

static void without_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(talks) / sizeof(talks[0]); i++) {
		talk = &talks[i];
		one_talk();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(without_memory) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

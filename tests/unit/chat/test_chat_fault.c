/* Each allocation of loading and rendering fails once, in turn: the call returns an error, and
 * nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/chat/chat.h"
#include "tests/unit/fault.h"

static const struct hash_key key = { { 9, 8, 7 } };

struct tale {
	const char *template, *body;
	enum chat_format format;
	enum chat_api api;
	bool cut;
};

static const struct tale tales[] = {
	{ "{% for m in messages %}<{{ m | tojson }}>{% for p in m.content %}{{ p.text | upper }}{% "
	  "endfor %}{% endfor %}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
	  "\"tool_calls\":[{\"function\":{\"arguments\":\"{}\"}}]}],"
	  "\"tools\":[{\"function\":{\"name\":\"f\"}}]}" },
	{ "{% for m in messages %}{{ m.content }}{% endfor %}",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role", .cut = true },
	{ "{{ messages }}", "{\"system\":\"s\",\"messages\":[{\"role\":\"user\","
	  "\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}]}",
	  .api = CHAT_MESSAGES },
	{ "{{ messages }}", "{\"input\":[{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}"
	  "\"}]}", .api = CHAT_RESPONSES },
	{ "", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", .format = CHAT_HARMONY },
	{ "", "{\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],\"input\":[{\"role\":\"developer\","
	  "\"content\":[{\"text\":\"d\"},{\"text\":\"e\"}]},{\"role\":\"user\",\"content\":\"a\"},"
	  "{\"type\":\"reasoning\",\"content\":[{\"text\":\"a\"},{\"text\":\"b\"}]},"
	  "{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{}\"},"
	  "{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"c\"}]}",
	  .format = CHAT_HARMONY, .api = CHAT_RESPONSES },
};

static bool story(const struct tale *t, size_t *n)
{
	struct chat_source src = {
		.format = t->format, .template = span_str(t->template), .config = SPAN("{\"bos_token\":\"B\"}"),
	};
	struct chat *c = chat_load(&src, &key, NULL);
	struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
	struct chat_body b = { .api = t->api,
		.raw = span_str(t->body),
		.cut = t->cut,
		.now = { .year = 2026, .month = 1, .day = 1 } };
	enum chat_result r = CHAT_NO_MEMORY;
	struct chat_text out = { .n = 0 };

	if (c != NULL && s != NULL)
		r = chat_render(c, s, &b, &out);
	assert_true(r == CHAT_DONE || r == CHAT_NO_MEMORY);
	*n = out.n;
	chat_scratch_free(s);
	chat_unref(c);
	return r == CHAT_DONE;
}

static void without_memory(void **state)
{
	for (size_t i = 0; i < sizeof(tales) / sizeof(tales[0]); i++) {
		size_t n, whole;
		unsigned long k;

		assert_true(story(&tales[i], &whole));
		for (k = 1; ; k++) {
			bool done;

			fault_begin(k);
			done = story(&tales[i], &n);
			if (!fault_end())
				break;
			if (done)
				assert_int_equal(n, whole);
		}
		assert_true(k > 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(without_memory) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Crafted bodies: they reach the memory bound at any place, hold numbers out of range, long lists
 * that refer to each other, or texts of one letter. The long ones would take minutes if the work
 * were the product of two lengths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/chat/chat.h"

static const struct hash_key key = { { 9, 8, 7 } };
static const struct jinja_time now = { .year = 2026, .month = 11, .day = 21, .hour = 12 };

static struct chat *load(const char *template)
{
	struct chat_source src = { .format = template == NULL ? CHAT_HARMONY : CHAT_TEMPLATE };
	struct chat *c;

	if (template != NULL)
		src.template = span_str(template);
	assert_non_null(c = chat_load(&src, &key, NULL));
	return c;
}

static enum chat_result render(const struct chat *c, size_t max_bytes, struct span body, bool cut,
    enum chat_api api, struct chat_text *t)
{
	struct chat_body b = { .api = api, .raw = body, .cut = cut, .now = now };
	struct chat_scratch *s = chat_scratch_new(max_bytes, &key);
	enum chat_result r;

	assert_non_null(s);
	r = chat_render(c, s, &b, t);
	chat_scratch_free(s);
	return r;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A body may reach the memory bound at any place, and each place returns CHAT_LIMIT. */
static void the_memory_bound_at_any_place(void **state)
{
	static const struct { const char *template, *body; bool cut; enum chat_api api; } cases[] = {
		{ "{% for m in messages %}{{ m.content }}{% endfor %}",
		  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"ro", true },
		{ "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}",
		  "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
		  "\"content\":\"b\",\"tool_calls\":[{\"function\":"
		  "{\"arguments\":\"{\\\"x\\\":[1]}\"}}]},{\"ro", true },
		{ "{{ messages[0].content }}", "{\"messages\":[{\"role\":\"user\",\"content\":\"ababab\"}],"
		  "\"add_generation_prompt\":false,"
		  "\"continue_final_message\":true}", false },
		{ NULL, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\","
		  "\"function\":{\"name\":\"f\"}}]},"
		  "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"a\"},{\"ro", true },
		{ NULL, "{\"input\":[{\"type\":\"reasoning\",\"content\":[{\"text\":\"a\"},{\"text\":\"b\"}]},"
		  "{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"\"},"
		  "{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"a\"},{\"ro", true,
		  CHAT_RESPONSES },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct chat *c = load(cases[i].template);
		enum chat_result r = CHAT_LIMIT;
		struct chat_text t;

		for (size_t max = 16; r != CHAT_DONE; max += 16) {
			assert_true(max < 65536);
			r = render(c, max, span_str(cases[i].body), cases[i].cut, cases[i].api, &t);
			assert_true(r == CHAT_DONE || r == CHAT_LIMIT);
		}
		chat_unref(c);
	}
}

/* ---- long bodies ----------------------------------------------------------------------------- */

struct text {
	char *p;
	size_t n, cap;
};

static void add(struct text *t, const char *s)
{
	size_t n = strlen(s);

	if (t->n + n > t->cap) {
		t->cap = 2 * (t->n + n);
		assert_non_null(t->p = realloc(t->p, t->cap));
	}
	memcpy(t->p + t->n, s, n);
	t->n += n;
}

__attribute__((format(printf, 2, 3)))
static void add_number(struct text *t, const char *format, ...)
{
	char s[200];
	va_list ap;

	va_start(ap, format);
	vsnprintf(s, sizeof(s), format, ap);
	va_end(ap);
	add(t, s);
}

static void many_answers_of_many_calls(void **state)
{
	struct chat *c = load(NULL);
	struct text body = { .p = NULL };
	struct chat_text t;
	const unsigned n = 30000;

	add(&body, "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"00\"}");
	for (unsigned i = 0; i < n; i++)
		add_number(&body, ",{\"id\":\"call-%08u\",\"function\":{\"name\":\"f\"}}", i);
	add(&body, "]}");
	for (unsigned i = 0; i < n; i++)
		add_number(&body, ",{\"role\":\"tool\",\"tool_call_id\":\"call-%08u\",\"content\":\"\"}", i);
	add(&body, "]}");
	assert_int_equal(render(c, 1 << 28, span_of(body.p, body.n), false, CHAT_COMPLETIONS, &t),
	    CHAT_DONE);
	free(body.p);
	chat_unref(c);
}

/* The same as items. All calls have one id in half of the bodies. */
static void many_answers_of_many_items(void **state)
{
	struct chat *c = load(NULL);
	const unsigned n = 30000;

	for (unsigned same = 0; same < 2; same++) {
		struct text body = { .p = NULL };
		struct chat_text t;

		add(&body, "{\"input\":[{\"role\":\"user\",\"content\":\"a\"}");
		for (unsigned i = 0; i < n; i++)
			add_number(&body, ",{\"type\":\"function_call\",\"call_id\":\"call-%08u\",\"name\":\"f\","
			    "\"arguments\":\"\"}", same ? 1 : i);
		for (unsigned i = 0; i < n; i++)
			add_number(&body, ",{\"type\":\"function_call_output\",\"call_id\":\"call-%08u\","
			    "\"output\":\"\"}", same ? 1 : i);
		add(&body, "]}");
		assert_int_equal(render(c, 1 << 28, span_of(body.p, body.n), false, CHAT_RESPONSES, &t),
		    CHAT_DONE);
		free(body.p);
	}
	chat_unref(c);
}

static void many_properties_all_required(void **state)
{
	struct chat *c = load(NULL);
	struct text body = { .p = NULL };
	struct chat_text t;
	const unsigned n = 30000;

	add(&body, "{\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
		"\"parameters\":{\"type\":\"object\",\"properties\":{");
	for (unsigned i = 0; i < n; i++)
		add_number(&body, i > 0 ? ",\"%08u\":{}" : "\"%08u\":{}", i);
	add(&body, "},\"required\":[");
	for (unsigned i = 0; i < n; i++)
		add_number(&body, i > 0 ? ",\"%08u\"" : "\"%08u\"", i);
	add(&body, "]}}}]}");
	assert_int_equal(render(c, 1 << 28, span_of(body.p, body.n), false, CHAT_COMPLETIONS, &t),
	    CHAT_DONE);
	free(body.p);
	chat_unref(c);
}

static void a_continued_text_of_one_letter(void **state)
{
	struct chat *c = load("{% for m in messages %}{{ m.content }}{% endfor %}b");
	struct text body = { .p = NULL };
	struct chat_text t;

	add(&body, "{\"add_generation_prompt\":false,\"continue_final_message\":true,"
		"\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (unsigned i = 0; i < 60000; i++)
		add(&body, "aaaaaaaaaa");
	add(&body, "\"},{\"role\":\"assistant\",\"content\":\"");
	for (unsigned i = 0; i < 60000; i++)
		add(&body, "aaaaaaaaaa");
	add(&body, "\"}]}");
	assert_int_equal(render(c, 1 << 28, span_of(body.p, body.n), false, CHAT_COMPLETIONS, &t),
	    CHAT_DONE);
	assert_int_equal(t.n, 1200000);
	free(body.p);
	chat_unref(c);
}

/* Write a schema of 50 levels around <n> examples. Indentation turns the four bytes of an example
 * into two hundred. */
static void add_indents(struct text *body, unsigned n)
{
	add(body, "{\"messages\":[],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
		"\"parameters\":");
	for (unsigned i = 0; i < 50; i++)
		add(body, "{\"type\":\"object\",\"properties\":{\"a\":");
	add(body, "{\"examples\":[\"\"");
	for (unsigned i = 0; i < n; i++)
		add(body, ",\"\"");
	add(body, "]}");
	for (unsigned i = 0; i < 50; i++)
		add(body, "}}");
	add(body, "}}]}");
}

static void indents_have_a_bound(void **state)
{
	struct chat *c = load(NULL);
	struct text body = { .p = NULL };
	struct chat_text t;

	add_indents(&body, 100000);
	assert_int_equal(render(c, 1 << 28, span_of(body.p, body.n), false, CHAT_COMPLETIONS, &t),
	    CHAT_LIMIT);
	free(body.p);
	chat_unref(c);
}

/* Written bytes are charged as work, even if they exceed the work that is left. */
static void indents_are_charged(void **state)
{
	struct chat *c = load(NULL);
	struct text body = { .p = NULL };
	struct work_left work = { .left = 40000 };
	struct chat_body b = { .api = CHAT_COMPLETIONS, .now = now, .work = &work };
	struct chat_scratch *s = chat_scratch_new(1 << 28, &key);
	struct chat_text t;

	add_indents(&body, 4000);
	b.raw = span_of(body.p, body.n);
	assert_int_equal(chat_render(c, s, &b, &t), CHAT_LIMIT);
	assert_int_equal(work.left, 0);
	chat_scratch_free(s);
	free(body.p);
	chat_unref(c);
}

/* ---- numbers and types ----------------------------------------------------------------------- */

#define PARAMETERS(p) "{\"messages\":[],\"tools\":[{\"type\":\"function\"," \
	"\"function\":{\"name\":\"f\",\"parameters\":" p "}}]}"

static void bodies_that_harmony_cannot_render(void **state)
{
	static const struct { enum chat_api api; enum chat_result result; const char *body; } cases[] = {
		{ CHAT_COMPLETIONS, CHAT_REFUSED, PARAMETERS("{\"type\":\"object\","
		  "\"properties\":{\"a\":{\"default\":1e999}}}") },
		{ CHAT_COMPLETIONS, CHAT_REFUSED, PARAMETERS("{\"type\":\"object\","
		  "\"properties\":{\"a\":{\"default\":[-1e999]}}}") },
		{ CHAT_COMPLETIONS, CHAT_REFUSED, "{\"messages\":[{\"role\":\"assistant\","
		  "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]}]}" },
		{ CHAT_MESSAGES, CHAT_UNKNOWN, "{\"messages\":[{\"role\":\"assistant\","
		  "\"content\":[{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\","
		  "\"input\":{\"x\":1}}]}]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"previous_response_id\":\"r\"}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"conversation\":\"c\"}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"previous_input_messages\":[]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"tools\":[{\"type\":\"mcp\"}]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"tools\":[{\"type\":\"function\","
		  "\"name\":\"f\"},{\"type\":\"web_search_preview\"}]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":[{\"type\":\"custom_tool_call\"}]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":[{\"type\":null,\"role\":\"user\","
		  "\"content\":\"a\"},{\"type\":1}]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\","
		  "\"name\":\"f\",\"arguments\":\"\"},{\"type\":\"function_call_output\",\"call_id\":\"1\","
		  "\"output\":[]}]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":1}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":[1]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"messages\":[]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":\"a\",\"tools\":[1]}" },
		{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"reasoning\":{\"effort\":\"none\"}}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":\"a\",\"reasoning\":{\"effort\":1}}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":[{\"role\":\"user\",\"content\":[1]}]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\","
		  "\"name\":\"f\"}]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":[{\"type\":\"function_call_output\","
		  "\"call_id\":\"1\",\"output\":\"a\"}]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":[{\"type\":\"reasoning\",\"content\":[{}]}]}" },
		{ CHAT_RESPONSES, CHAT_REFUSED, "{\"input\":[{\"type\":\"reasoning\",\"content\":\"a\"}]}" },
	};
	struct chat *c = load(NULL);
	struct chat_text t;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(render(c, 1 << 20, span_str(cases[i].body), false, cases[i].api,
				     &t),
		    cases[i].result);
	chat_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_memory_bound_at_any_place),
		cmocka_unit_test(many_answers_of_many_calls),
		cmocka_unit_test(many_answers_of_many_items),
		cmocka_unit_test(many_properties_all_required),
		cmocka_unit_test(a_continued_text_of_one_letter),
		cmocka_unit_test(indents_have_a_bound), cmocka_unit_test(indents_are_charged),
		cmocka_unit_test(bodies_that_harmony_cannot_render),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Request bodies rendered by chat templates: whole, refused and cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/chat/chat.h"
#include "agent/chat/close_body.h"

#define TEMPLATES	"../shared/data/tokenizers/chat/templates"

static const struct hash_key key = { { 9, 8, 7 } };
static const struct jinja_time now = { .year = 2026, .month = 11, .day = 21, .hour = 12 };

/* A template that prints each message as JSON, with all of its members. */
#define SHOWN \
	"{{ bos_token }}{% if tools %}T{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m | " \
	"tojson }}>{% endfor %}" \
	"{% if add_generation_prompt %}A{% endif %}"
#define WALKING \
	"{% for m in messages %}{% if m.content is string %}S{% endif %}<{{ m | tojson }}>" \
	"{% for p in m.content %}{% if p is mapping %}.{% endif %}{% endfor %}{% endfor %}"
#define CHATML \
	"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}" \
	"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define PLAIN	"{% for m in messages %}[{{ m.content }}]{% endfor %}"
#define STRICT \
	"{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" \
	"{{ raise_exception('turns') }}{% endif %}[{{ m.content }}]{% endfor %}"

static struct chat *load(const char *template, const char *config)
{
	struct chat_source src = { .template = span_str(template),
		.config = span_str(config),
		.template_name = "t",
		.config_name = "c" };
	struct err e;
	struct chat *c = chat_load(&src, &key, &e);

	if (c == NULL)
		fail_msg("%s:%d: %s", e.file, e.line, e.text);
	return c;
}

static enum chat_result render(const struct chat *c, struct chat_scratch *s, enum chat_api api,
    const char *body, bool cut, struct chat_text *out)
{
	struct chat_body b = { .api = api, .raw = span_str(body), .cut = cut, .now = now };

	return chat_render(c, s, &b, out);
}

static void gives(const char *template, enum chat_api api, const char *body, const char *want)
{
	struct chat *c = load(template, "{\"bos_token\":{\"content\":\"B\"},\"eos_token\":null}");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);
	struct chat_text t;
	enum chat_result r = render(c, s, api, body, false, &t);

	if (r != CHAT_DONE)
		fail_msg("%s: result %d: %s", body, (int)r, t.why);
	if (t.n != strlen(want) || (t.n > 0 && memcmp(t.p, want, t.n) != 0))
		fail_msg("%s\n  got  %.*s\n  want %s", body, (int)t.n, t.p, want);
	assert_int_equal(t.n_runs, t.n > 0);
	chat_scratch_free(s);
	chat_unref(c);
}

#define BODY(messages)	"{\"messages\":[" messages "]}"
#define USER(text)	"{\"role\":\"user\",\"content\":\"" text "\"}"
#define DUMPED(text)	"<{\"role\": \"user\", \"content\": \"" text "\"}>"

/* ---- the variables of a template ------------------------------------------------------------- */

static const struct { enum chat_api api; const char *body, *want;
} shown[] = {
	{ CHAT_COMPLETIONS, BODY(USER("a")), "B" DUMPED("a") "A" },
	{ CHAT_COMPLETIONS,
	    "{\"add_generation_prompt\":false,\"messages\":[{\"content\":null,"
	    "\"role\":\"user\",\"extra\":1}]}",
	    "B" DUMPED("") },
	{ CHAT_COMPLETIONS,
	    BODY(
		"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
		"\"b\",{\"type\":\"text\",\"text\":null},"
		"{\"type\":\"refusal\",\"refusal\":\"c\"},{\"type\":\"tool_reference\",\"name\":\"d\"}]}"),
	    "B" DUMPED("a\\nb\\nc\\nd") "A" },
	{ CHAT_COMPLETIONS,
	    BODY("{\"role\":\"assistant\",\"name\":\"n\",\"task\":\"t\","
		 "\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
		 "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1.50}\"}}]}"),
	    "B<{\"thinking\": \"r\", \"role\": \"assistant\", \"content\": \"\", \"tool_calls\": "
	    "[{\"id\": \"1\", \"type\": \"function\", "
	    "\"function\": {\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}], \"reasoning\": \"r\", "
	    "\"reasoning_content\": \"r\", "
	    "\"name\": \"n\", \"task\": \"t\"}>A" },
	{ CHAT_COMPLETIONS,
	    BODY(
		"{\"role\":\"assistant\",\"content\":\"x\",\"tool_calls\":[]},"
		"{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
		"{\"arguments\":\"no JSON\"}},{\"function\":{\"arguments\":[1]}},{\"function\":{}}]}"),
	    "B<{\"role\": \"assistant\", \"content\": \"x\"}><{\"role\": \"assistant\", \"content\": "
	    "\"\", "
	    "\"tool_calls\": [{\"function\": "
	    "{\"arguments\": {}}}, {\"function\": {\"arguments\": {}}}, {\"function\": {\"arguments\": {}}"
	    "}]}>A" },
	{ CHAT_COMPLETIONS,
	    BODY(
		"{\"role\":\"tool\",\"tool_call_id\":\"7\","
		"\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},{\"role\":\"developer\",\"content\":\"d\"}"),
	    "B<{\"role\": \"system\", \"content\": \"d\"}><{\"role\": \"tool\", \"content\": \"a\", "
	    "\"tool_call_id\": \"7\"}>A" },
	{ CHAT_COMPLETIONS,
	    "{\"tools\":[{\"function\":{\"strict\":true,\"x\":1,\"parameters\":{\"b\":1,"
	    "\"a\":2},\"name\":\"f\"},\"x\":1}],\"messages\":[]}",
	    "BT[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": null, "
	    "\"parameters\": {\"b\": 1, \"a\": 2}, "
	    "\"strict\": true}}]A" },
	{ CHAT_MESSAGES,
	    "{\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: 1\"},"
	    "{\"type\":\"text\",\"text\":\"s\"}],"
	    "\"messages\":[{\"role\":\"system\",\"content\":\"t\"}," USER(
		"q") ",{\"role\":\"assistant\","
		     "\"content\":[{\"type\":\"thinking\",\"thinking\":\"h\"},"
		     "{\"type\":\"text\",\"text\":\"l\"},{\"type\":\"tool_use\",\"id\":\"1\",\"name\":\"f\","
		     "\"input\":{\"x\":1}}]},{\"role\":\"user\",\"content\":["
		     "{\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":[{\"type\":\"text\","
		     "\"text\":\"4\"},{\"type\":\"text\",\"text\":\"2\"}]}]}],"
		     "\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]}",
	    "BT[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": null, "
	    "\"parameters\": {\"type\": \"object\"}}}]"
	    "<{\"role\": \"system\", \"content\": \"s\"}><{\"role\": \"system\", \"content\": \"t\"}>"
	    DUMPED("q")
		     "<{\"thinking\": \"h\", \"role\": \"assistant\", \"content\": \"l\", \"tool_calls\": "
		     "[{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": \"f\", "
		     "\"arguments\": {\"x\": 1}}}], \"reasoning\": \"h\", \"reasoning_content\": \"h\"}>"
		     "<{\"role\": \"tool\", \"content\": \"4\\n2\", \"tool_call_id\": \"1\"}>A" },
	{ CHAT_RESPONSES, "{\"instructions\":\"i\",\"input\":\"q\"}",
	    "B<{\"role\": \"system\", \"content\": \"i\"}>" DUMPED("q") "A" },
	{ CHAT_RESPONSES,
	    "{\"input\":[" USER(
		"q") ",{\"type\":\"reasoning\","
		     "\"summary\":[{\"text\":\"r\"}],\"content\":null},"
		     "{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"f\",\"arguments\":\"{}\"},"
		     "{\"type\":\"function_call\",\"call_id\":\"2\",\"name\":\"g\",\"arguments\":\"{}\"},"
		     "{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":\"o\"}],"
		     "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]}",
	    "BT[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": null, "
	    "\"parameters\": null}}]" DUMPED(
		"q") "<{\"thinking\": \"r\", \"role\": \"assistant\", \"content\": \"\", "
		     "\"tool_calls\": [{\"id\": \"1\", \"function\": "
		     "{\"name\": \"f\", \"arguments\": {}}, \"type\": \"function\"}, {\"id\": \"2\", "
		     "\"function\": "
		     "{\"name\": \"g\", \"arguments\": {}}, "
		     "\"type\": \"function\"}], \"reasoning\": \"r\", \"reasoning_content\": \"r\"}><{\"role\": "
		     "\"tool\", \"content\": \"o\", \"tool_call_id\": \"1\"}>A" },
};

static void bodies(void **state)
{
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		gives(SHOWN, shown[i].api, shown[i].body, shown[i].want);
}

static void parts_for_templates_that_walk(void **state)
{
	gives(WALKING, CHAT_COMPLETIONS, BODY(USER("a") ",{\"role\":\"tool\",\"content\":\"t\"},"
		"{\"role\":\"user\",\"content\":null}"),
	      "<{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}>."
	      "S<{\"role\": \"tool\", \"content\": \"t\"}><{\"role\": \"user\", \"content\": []}>");
}

static const struct { const char *template; bool walks; } shapes[] = {
	{ "{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}", true },
	{ "{% for m in messages %}{% for c in m['content'] | list %}{% endfor %}{% endfor %}", true },
	{ "{% set l = messages[1:] %}{% set k = l %}{% for m in k | reverse %}{% if true %}{% for c in "
	  "m.content %}{% endfor %}{% endif %}"
	  "{% endfor %}", true },
	{ "{% macro f(x) %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}{% "
	  "endmacro %}", true },
	{ "{% for m in messages %}{{ m.content }}{% endfor %}", false },
	{ "{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}", false },
	{ "{% for m in tools %}{% for c in m.content %}{% endfor %}{% endfor %}", false },
	{ "{% for c in messages[0].content %}{% endfor %}", false },
	{ "{% for m in messages %}{% for c, d in m.content %}{% endfor %}{% for c in m.content %}{% "
	  "endfor %}{% endfor %}", false },
};

static void templates_that_walk_parts(void **state)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct err e;
		struct jinja *t = jinja_compile(span_str(shapes[i].template), &e);

		assert_non_null(t);
		if (jinja_walks_content(t) != shapes[i].walks)
			fail_msg("walks the parts %d: %s", !shapes[i].walks, shapes[i].template);
		jinja_free(t);
	}
}

static void arguments_of_the_template(void **state)
{
	gives("{{ a }}{{ add_generation_prompt }}{{ tools }}{{ documents }}{{ reasoning_effort }}",
	    CHAT_COMPLETIONS,
	    "{\"messages\":[],\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"a\":1,"
	    "\"add_generation_prompt\":7}}",
	    "1TrueNoneNonelow");
	gives("{{ documents }}{{ x is defined }}{{ eos_token is defined }}", CHAT_COMPLETIONS,
	    "{\"messages\":[],\"documents\":[1]}", "[1]FalseFalse");
}

static void a_continued_answer(void **state)
{
#define ON(content) "{\"add_generation_prompt\":false,\"continue_final_message\":true," \
	"\"messages\":[" USER("b") ",{\"role\":\"assistant\",\"content\":" content "}]}"
	gives(CHATML, CHAT_COMPLETIONS, ON("\"b b\""), "<|im_start|>user\nb<|im_end|>\n<|im_start|"
		">assistant\nb b");
	gives(CHATML, CHAT_COMPLETIONS, ON("\" c \""), "<|im_start|>user\nb<|im_end|>\n<|im_start|"
		">assistant\nc");
	gives("{% for m in messages %}[{{ m.content }}]{% endfor %}", CHAT_COMPLETIONS,
	    ON("\" c \""), "[b][ c ");
}

static void empty_text_has_no_run(void **state)
{
	gives("{% if false %}x{% endif %}", CHAT_COMPLETIONS, BODY(USER("a")), "");
}

/* ---- bodies without a prompt ----------------------------------------------------------------- */

static const struct { enum chat_api api; enum chat_result result; const char *body;
} none[] = {
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "[]" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "{}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, BODY("1") },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, BODY("{\"role\":\"user\",\"content\":1}") },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    BODY("{\"role\":\"user\",\"content\":[{\"type\":\"video\"}]}") },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN,
	    BODY("{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}"
		 "]}") },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN,
	    BODY("{\"role\":\"user\",\"content\":[{\"image_url\":1}]}") },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN, "{\"chat_template\":\"x\",\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    "{\"chat_template_kwargs\":{\"chat_template\":\"x\"},"
	    "\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "{\"messages\":[],\"tools\":[{}]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "{\"messages\":[],\"tools\":1}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, BODY("{\"role\":\"assistant\",\"tool_calls\":[1]}") },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    BODY("{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"x\","
		 "\"function\":{}}]}") },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    BODY("{\"role\":\"user\","
		 "\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]}") },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, BODY(USER("a\\ud83d")) },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, BODY(USER("\\\\\\uDe42b")) },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "{\"reasoning_effort\":1,\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN, "{\"reasoning_effort\":\"utmost\",\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN,
	    "{\"chat_template_kwargs\":{\"tools\":[]},\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN, "{\"truncate_prompt_tokens\":-1,\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_UNKNOWN, "{\"truncate_prompt_tokens\":\"5\",\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED, "{\"truncate_prompt_tokens\":0,\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    "{\"truncate_prompt_tokens\":5,\"truncation_side\":\"up\","
	    "\"messages\":[]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    "{\"continue_final_message\":true,\"messages\":[" USER("a") "]}" },
	{ CHAT_COMPLETIONS, CHAT_REFUSED,
	    "{\"continue_final_message\":true,"
	    "\"add_generation_prompt\":false,\"messages\":[]}" },
	/* the template raises an exception */
	{ CHAT_COMPLETIONS, CHAT_REFUSED, BODY("{\"role\":\"assistant\",\"content\":\"turns\"}") },
	{ CHAT_MESSAGES, CHAT_REFUSED, "{}" },
	{ CHAT_MESSAGES, CHAT_REFUSED, BODY("{\"role\":\"user\",\"content\":[{\"type\":\"x\"}]}") },
	{ CHAT_MESSAGES, CHAT_UNKNOWN,
	    BODY("{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}") },
	{ CHAT_MESSAGES, CHAT_UNKNOWN,
	    BODY("{\"role\":\"user\","
		 "\"content\":[{\"type\":\"tool_addition\"}]}") },
	{ CHAT_MESSAGES, CHAT_UNKNOWN,
	    BODY("{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
		 "\"content\":[{\"type\":\"image\"}]}]}") },
	{ CHAT_RESPONSES, CHAT_REFUSED,
	    "{\"input\":[{\"type\":\"reasoning\","
	    "\"encrypted_content\":\"x\"}]}" },
	{ CHAT_RESPONSES, CHAT_UNKNOWN,
	    "{\"input\":[{\"type\":\"function_call\",\"namespace\":\"n\","
	    "\"name\":\"f\"}]}" },
	{ CHAT_RESPONSES, CHAT_REFUSED, "{}" },
	{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"previous_response_id\":\"r\"}" },
	{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":[{\"type\":\"computer_call\"}]}" },
	{ CHAT_RESPONSES, CHAT_UNKNOWN, "{\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"}]}" },
};

static void bodies_without_a_prompt(void **state)
{
	struct chat *c = load(STRICT, "");
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key);

	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		struct chat_text t;
		enum chat_result r = render(c, s, none[i].api, none[i].body, false, &t);

		if (r != none[i].result || t.why[0] == '\0')
			fail_msg("%s: result %d (%s)", none[i].body, (int)r, t.why);
	}
	chat_scratch_free(s);
	chat_unref(c);
}

static void bounds(void **state)
{
	struct chat *c = load(SHOWN, ""), *loops = load("{% for i in range(99999) %}{% for j in "
		"range(99999) %}{% endfor %}{% endfor %}", "");
	struct chat_scratch *s = chat_scratch_new(8192, &key);
	char body[40000] = "{\"messages\":[";
	struct chat_text t;

	assert_int_equal(render(loops, s, CHAT_COMPLETIONS, "{\"messages\":[]}", false, &t), CHAT_LIMIT);
	for (int i = 0; i < 900; i++)
		strcat(body, "{\"role\":\"user\",\"content\":\"\"},");
	strcat(body, "1]}");
	assert_int_equal(render(c, s, CHAT_COMPLETIONS, body, false, &t), CHAT_LIMIT);
	chat_scratch_free(s);
	chat_unref(c);
	chat_unref(loops);
}

/* ---- configurations -------------------------------------------------------------------------- */

static void templates_by_name(void **state)
{
	struct chat_source src = {
		.config = SPAN("{\"chat_template\":[{\"name\":\"default\",\"template\":\"D\"},"
			"{\"name\":\"tool_use\",\"template\":\"U\"}],"
			       "\"additional_special_tokens\":[\"<a>\",{\"content\":\"<b>\"}]}"),
	};
	struct chat *c = chat_load(&src, &key, NULL);
	struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
	struct chat_text t;

	assert_non_null(c);
	assert_int_equal(render(c, s, CHAT_COMPLETIONS, "{\"messages\":[]}", false, &t), CHAT_DONE);
	assert_int_equal(t.p[0], 'D');
	assert_int_equal(render(c, s, CHAT_MESSAGES, "{\"messages\":[],\"tools\":[]}", false, &t),
	    CHAT_DONE);
	assert_int_equal(t.p[0], 'U');
	assert_int_equal(render(c, s, CHAT_COMPLETIONS, "{\"messages\":[],\"tools\":[]}", false,
			     &t),
	    CHAT_REFUSED);
	chat_scratch_free(s);
	chat_unref(c);
}

static const struct { const char *template, *config, *file, *text; int line; } bad[] = {
	{ "", "", "c.json", "there is no chat template", 0 },
	{ "", "{}", "c.json", "there is no chat template", 0 },
	{ "x", "[]", "c.json", "no tokenizer_config.json", 0 },
	{ "", "{\"chat_template\":\"{% nosuch %}\"}", "c.json", "nosuch", 1 },
	{ "a\n{{ x | nosuch }}", "", "t.jinja", "nosuch", 2 },
	{ "a\n\xc3\xa4\xff", "", "t.jinja", "byte 0xff is not UTF-8 here; save the file as UTF-8", 2 },
	{ "x", "{\n\"a\": \"\xc3\"}", "c.json", "byte 0xc3 is not UTF-8", 2 },
	{ "", "{\"chat_template\": \"\x87\"}", "c.json", "byte 0x87 is not UTF-8", 1 },
	{ "", "{\"chat_template\":[{\"name\":\"default\",\"template\":\"x\"},{\"name\":\"tool_use\","
	  "\"template\":\"{{\"}]}", "c.json", "", 1 },
};

static void bad_sources(void **state)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct chat_source src = {
			.template = span_str(bad[i].template), .config = span_str(bad[i].config),
			.template_name = "t.jinja", .config_name = "c.json",
		};
		struct err e = { .line = 0 };

		assert_null(chat_load(&src, &key, &e));
		if (strcmp(e.file, bad[i].file) != 0 || e.line != bad[i].line ||
		    strstr(e.text, bad[i].text) == NULL)
			fail_msg("case %zu: got %s:%d: %s", i, e.file, e.line, e.text);
	}
}

static void null_is_no_template(void **state)
{
	static const struct { const char *config; bool has; } cases[] = {
		{ "", false }, { "{}", false }, { "{\"chat_template\": null}", false },
		{ "{\"chat_template\": \"x\"}", true },
		{ "{\"a\": \"chat_template\"}", false }, { "{\"a\": {\"chat_template\": \"x\"}}", false },
		{ "{\"chat_template\": []}", true },
		{ "{\"chat_template\": ", true }, { "[\"chat_template\"]", true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct chat_source src = { .config = span_str(cases[i].config) };

		if (chat_source_has(&src, &key) != cases[i].has)
			fail_msg("has a template %d: %s", !cases[i].has, cases[i].config);
		src.template = SPAN("x");
		assert_true(chat_source_has(&src, &key));
	}
}

/* ---- cut bodies ------------------------------------------------------------------------------ */

static const struct { const char *raw, *closed; bool in_list; } cuts[] = {
	{ "", NULL, false }, { "{", NULL, false }, { "[1,", NULL, false }, { "{\"a\":1", NULL, false },
	{ "{\"a\":1,", "{\"a\":1}", false },
	{ "{\"a\":\"x\"", "{\"a\":\"x\"}", false }, { "{\"a\":\"x\\\"", NULL, false },
	{ "{\"a\":{\"messages\":[1,2", NULL, false },
	{ "{\"messages\":[", "{\"messages\":[]}", true },
	{ "{\"messages\":[1", "{\"messages\":[]}", true },
	{ "{\"messages\":[1,", "{\"messages\":[1]}", true },
	{ "{\"messages\":[{\"a\":[", "{\"messages\":[]}", true },
	{ "{\"messages\":[{\"a\":\"}]\"},{\"b\":\"c", "{\"messages\":[{\"a\":\"}]\"}]}", true },
	{ "{\"messages\":[{}],\"x\":[1,2", "{\"messages\":[{}]}", false },
	{ "{\"x\":1,\"messages\":[{}]", "{\"x\":1,\"messages\":[{}]}", false },
	{ "{\"a\":[[],{}]", "{\"a\":[[],{}]}", false },
};

static void where_to_close(void **state)
{
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct cut cut;
		char closed[128];

		if (!cut_find(span_str(cuts[i].raw), "messages", &cut)) {
			if (cuts[i].closed != NULL)
				fail_msg("cannot be closed: %s", cuts[i].raw);
			continue;
		}
		snprintf(closed, sizeof(closed), "%.*s%s", (int)cut.n, cuts[i].raw, cut.close);
		assert_string_equal(closed, cuts[i].closed);
		assert_int_equal(cut.in_list, cuts[i].in_list);
	}
}

/* The first has reasoning and tool calls, which some templates print for the last turn only. */
static const char conversations[][1024] = {
	"{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"S.\"},{\"role\":\"user\","
	"\"content\":\"q\"},"
	"{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"\","
	"\"tool_calls\":[{\"id\":\"call00001\",\"type\":\"function\","
	"\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]},{\"role\":\"tool\","
	"\"tool_call_id\":\"call00001\",\"content\":\"7\"},"
	"{\"role\":\"assistant\",\"reasoning_content\":\"so\",\"content\":\"<think>t</think>Seven.\"},"
	"{\"role\":\"user\",\"content\":\"r\"},"
	"{\"role\":\"assistant\",\"reasoning_content\":\"again\",\"content\":\"Eight.\"},"
	"{\"role\":\"user\",\"content\":\"end\"}]}",
	"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"What is "
	"seven?\"},{\"role\":\"assistant\",\"content\":\"A prime.\"},"
	"{\"role\":\"user\",\"content\":\"And {eight}, "
	"\\\"then\\\"?\"},{\"role\":\"assistant\",\"content\":\"It is none.\"},"
	"{\"role\":\"user\",\"content\":\"Nine.\"}],\"stream\":true}",
	/* late developer and system messages, which go first if the template does not know the role */
	"{\"messages\":[{\"role\":\"system\",\"content\":\"S.\"},{\"role\":\"user\",\"content\":\"q\"},"
	"{\"role\":\"assistant\",\"content\":\"a\"},"
	"{\"role\":\"developer\",\"content\":\"D.\"},{\"role\":\"user\",\"content\":\"r\"},"
	"{\"role\":\"assistant\",\"content\":\"b\"},"
	"{\"role\":\"system\",\"content\":\"T.\"},{\"role\":\"user\",\"content\":\"end\"}]}",
	("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a "
	  "and\"}],"
	"\"continue_final_message\":true,\"add_generation_prompt\":false}"),
};

static const char items[] =
    "{\"instructions\":\"I.\",\"input\":[{\"role\":\"developer\",\"content\":\"D.\"},"
    "{\"role\":\"user\",\"content\":\"q\"},{\"type\":\"reasoning\",\"summary\":[],\"content\":["
    "{\"type\":\"reasoning_text\",\"text\":\"hm\"}]},{\"type\":\"function_call\",\"call_id\":\"1\","
    "\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"1\","
    "\"output\":\"7\"},{\"role\":\"assistant\",\"content\":\"Seven.\"},{\"role\":\"user\","
    "\"content\":\"r\"},{\"type\":\"reasoning\",\"summary\":[],\"content\":["
    "{\"type\":\"reasoning_text\",\"text\":\"so\"}]},{\"type\":\"function_call\",\"call_id\":\"2\","
    "\"name\":\"g\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"2\","
    "\"output\":\"8\"},{\"role\":\"user\",\"content\":\"end\"}],\"stream\":true}";

/* Cut <conversation> at every byte. The text of the cut body must be a prefix of the text of the
 * whole body, unless it reports unseen system or developer messages, which would go first. Returns
 * the length of the longest such text, in thousandths of the whole. */
static unsigned cut_everywhere(const char *name, const struct chat *c, enum chat_api api,
    const char *conversation)
{
	struct chat_scratch *s = chat_scratch_new(1 << 22, &key), *s2 = chat_scratch_new(1 << 22, &key);
	struct chat_text whole, t;
	char part[1200];
	size_t longest = 0;
	unsigned share;

	if (render(c, s, api, conversation, false, &whole) != CHAT_DONE) {
		chat_scratch_free(s);
		chat_scratch_free(s2);
		return 0;
	}
	for (size_t n = 0; n < strlen(conversation); n++) {
		memcpy(part, conversation, n);
		part[n] = '\0';
		if (render(c, s2, api, part, true, &t) != CHAT_DONE)
			continue;
		assert_true(t.part && t.tools_unseen);
		if ((t.n > whole.n || memcmp(t.p, whole.p, t.n) != 0) && !t.developer_unseen && !t.system_unseen)
			fail_msg("%s: cut at %zu:\n%.*s\nwhole:\n%.*s", name, n, (int)t.n, t.p, (int)whole.n, whole.p);
		longest = t.n > longest ? t.n : longest;
	}
	share = (unsigned)(longest * 1000 / (whole.n > 0 ? whole.n : 1));
	chat_scratch_free(s);
	chat_scratch_free(s2);
	return share;
}

static void a_cut_body_renders_a_prefix(void **state)
{
	static const char *const templates[] = {
		SHOWN, CHATML, STRICT,
		"{% for m in messages %}{% if loop.last %}L{% endif %}{{ m.content }}{% endfor %}",
	};
	struct chat_source gpt_oss = { .format = CHAT_HARMONY };
	struct chat *h = chat_load(&gpt_oss, &key, NULL);

	for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
		struct chat *c = load(templates[i], "");

		assert_in_range(cut_everywhere(templates[i], c, CHAT_COMPLETIONS, conversations[1]), 600, 1000);
		chat_unref(c);
	}
	assert_in_range(cut_everywhere("harmony", h, CHAT_COMPLETIONS, conversations[1]), 600, 1000);
	assert_in_range(cut_everywhere("items", h, CHAT_RESPONSES, items), 700, 1000);
	chat_unref(h);
}

/* The flags of unseen parts that a cut body reports. d: messages of role developer may follow; s:
 * "system" or "instructions" may follow; "": neither. */
static const struct {
	const char *template;
	enum chat_api api;
	const char *cut, *unseen, *text;
} unseen[] = {
	{ PLAIN, CHAT_COMPLETIONS, "{\"messages\":[" USER("a") "," USER("b") ",", "d", "[a][b" },
	{ PLAIN "{# 'developer' #}", CHAT_COMPLETIONS,
	    "{\"messages\":[" USER("a") "," USER("b") ",", "", "[a][b" },
	{ PLAIN, CHAT_COMPLETIONS, "{\"messages\":[" USER("a") "," USER("b") "],\"x\":", "",
	    "[a][b" },
	{ PLAIN, CHAT_COMPLETIONS,
	    "{\"messages\":[" USER("a") ",{\"role\":\"developer\","
					"\"content\":\"d\"}," USER("b") "],\"x\":",
	    "", "[d][a][b" },
	{ PLAIN, CHAT_RESPONSES, "{\"input\":[" USER("a") ",", "ds", "[a" },
	{ PLAIN, CHAT_RESPONSES, "{\"instructions\":\"i\",\"input\":[" USER("a") "],\"x\":", "",
	    "[i][a" },
	{ PLAIN, CHAT_MESSAGES, "{\"system\":\"i\",\"messages\":[" USER("a") ",", "", "[i][a" },
	{ PLAIN, CHAT_MESSAGES, "{\"messages\":[" USER("a") "],\"x\":", "s", "[a" },
	{ "{% generation %}{% endgeneration %}" PLAIN, CHAT_MESSAGES,
	    "{\"system\":\"i\",\"messages\":[" USER("a") ",", "d",
	    "[i][a" }, /* this template puts system messages first, but only if there are tools */
	{ "{# 'developer' #}{% if tools %}{% for m in messages if m.role == 'system' %}({{ m.content }})"
	  "{% endfor %}{% endif %}"
	  "{% for m in messages if not tools or m.role != 'system' %}[{{ m.content }}]{% endfor %}",
	    CHAT_COMPLETIONS,
	    "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"messages\":[" USER(
		"a") "," USER("b") ",",
	    "d", "[a][b" },
};

static void unseen_parts_are_reported(void **state)
{
	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
		struct chat *c = load(unseen[i].template, "");
		struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
		struct chat_text t;
		char said[3] = "";

		assert_int_equal(render(c, s, unseen[i].api, unseen[i].cut, true, &t), CHAT_DONE);
		strcat(said, t.developer_unseen ? "d" : "");
		strcat(said, t.system_unseen ? "s" : "");
		if (strcmp(said, unseen[i].unseen) != 0 || !span_eq(span_of(t.p, t.n), span_str(unseen[i].text)))
			fail_msg("%s: flags \"%s\", text %.*s", unseen[i].cut, said, (int)t.n, t.p);
		chat_scratch_free(s);
		chat_unref(c);
	}
}

static void real_templates(void **state)
{
	DIR *d = opendir(TEMPLATES);
	struct dirent *f;
	unsigned n = 0, rendered = 0;

	if (d == NULL) {
		printf("skipped: cut bodies with real chat templates: no data\n");
		return;
	}
	while ((f = readdir(d)) != NULL) {
		char path[512], text[65536];
		size_t len;
		FILE *file;
		struct chat *c;

		if (strstr(f->d_name, ".jinja") == NULL)
			continue;
		snprintf(path, sizeof(path), TEMPLATES "/%s", f->d_name);
		assert_non_null(file = fopen(path, "r"));
		len = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
		text[len] = '\0';
		c = load(text, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
		n++;
		rendered += cut_everywhere(f->d_name, c, CHAT_COMPLETIONS, conversations[1]) > 0;
		for (size_t i = 0; i < sizeof(conversations) / sizeof(conversations[0]); i++)
			cut_everywhere(f->d_name, c, CHAT_COMPLETIONS, conversations[i]);
		chat_unref(c);
	}
	closedir(d);
	printf("%u templates, %u of them render cut bodies\n", n, rendered);
	assert_true(n >= 70 && rendered * 10 >= n * 9);
}

/* ---- harmony --------------------------------------------------------------------------------- */

static void runs_of_harmony(void **state)
{
	struct chat_source src = { .format = CHAT_HARMONY };
	struct chat *c = chat_load(&src, &key, NULL);
	struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
	struct chat_text t;
	size_t at = 0;

	assert_int_equal(render(c, s, CHAT_COMPLETIONS, BODY(USER("<|end|>")), false, &t), CHAT_DONE);
	for (size_t i = 0; i < t.n_runs; i++) {
		assert_int_equal(t.runs[i].at, at);
		at += t.runs[i].n;
		if (t.runs[i].kind == RUN_TOKEN)
			assert_memory_equal(t.p + t.runs[i].at, "<|", 2);
	}
	assert_int_equal(at, t.n);
	assert_int_equal(t.runs[t.n_runs - 4].kind, RUN_PLAIN);
	assert_memory_equal(t.p + t.runs[t.n_runs - 4].at, "<|end|>", 7);
	assert_int_equal(render(c, s, CHAT_RESPONSES, "{\"input\":[{\"role\":\"user\",\"content\":["
	    "{\"text\":\"<|end|>\"},{\"text\":\"b\"}]}]}", false, &t), CHAT_DONE);
	assert_int_equal(t.runs[t.n_runs - 5].kind, RUN_PLAIN);
	assert_memory_equal(t.p + t.runs[t.n_runs - 5].at, "<|end|>", 7);
	assert_int_equal(t.runs[t.n_runs - 4].n, 1);
	chat_scratch_free(s);
	chat_unref(c);
}

/* A cut body of responses reports that instructions may follow. Developers stay in place. */
static void unseen_parts_of_items(void **state)
{
	static const struct { const char *cut; bool system, tools; } cases[] = {
		{ "{\"input\":[" USER("a") "," USER("b") ",", true, true },
		{ "{\"instructions\":\"i\",\"tools\":[],\"input\":[" USER("a") "," USER("b") ",", false, false },
	};
	struct chat *c = chat_load(&(struct chat_source){ .format = CHAT_HARMONY }, &key, NULL);
	struct chat_scratch *s = chat_scratch_new(1 << 20, &key);
	struct chat_text t;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(render(c, s, CHAT_RESPONSES, cases[i].cut, true, &t), CHAT_DONE);
		assert_int_equal(t.system_unseen, cases[i].system);
		assert_int_equal(t.tools_unseen, cases[i].tools);
		assert_false(t.developer_unseen);
	}
	chat_scratch_free(s);
	chat_unref(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies),
		cmocka_unit_test(parts_for_templates_that_walk),
		cmocka_unit_test(templates_that_walk_parts),
		cmocka_unit_test(arguments_of_the_template),
		cmocka_unit_test(a_continued_answer),
		cmocka_unit_test(empty_text_has_no_run),
		cmocka_unit_test(bodies_without_a_prompt),
		cmocka_unit_test(bounds),
		cmocka_unit_test(templates_by_name),
		cmocka_unit_test(bad_sources), cmocka_unit_test(null_is_no_template),
		cmocka_unit_test(where_to_close),
		cmocka_unit_test(a_cut_body_renders_a_prefix),
		cmocka_unit_test(unseen_parts_are_reported),
		cmocka_unit_test(real_templates),
		cmocka_unit_test(runs_of_harmony), cmocka_unit_test(unseen_parts_of_items),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Bodies rendered as vLLM 0.32 renders them. tests/data/chat/gpt_oss.json holds its recorded
 * answers, made by tests/tools/oracle_engine.py, and gpt_oss_items.json those to responses, made by
 * oracle_responses.py; the templates in this file show each of its rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/chat/chat.h"
#include "agent/chat/jval_get.h"

#define GOLDENS	"tests/data/chat/gpt_oss.json"
#define ITEMS	"tests/data/chat/gpt_oss_items.json"

static const struct hash_key key = { { 5, 6, 7 } };
static const struct jinja_time day = { .year = 2026, .month = 11, .day = 22 };

struct model {
	struct chat *c;
	struct chat_scratch *s;
};

static struct model load(const struct chat_source *src)
{
	struct err e;
	struct model m = { .c = chat_load(src, &key, &e), .s = chat_scratch_new(1 << 22, &key) };

	if (m.c == NULL)
		fail_msg("%s", e.text);
	return m;
}

static struct model load_text(const char *template)
{
	return load(&(struct chat_source){
	    .template = span_str(template), .template_name = "t", .config_name = "c" });
}

static void unload(struct model *m)
{
	chat_scratch_free(m->s);
	chat_unref(m->c);
}

static enum chat_result render(struct model *m, enum chat_api api, struct span body,
    struct chat_text *out)
{
	return chat_render(m->c, m->s, &(struct chat_body){ .api = api, .raw = body, .now = day }, out);
}

/* Render <body> and compare with <want>; NULL if it must be refused. */
static void check(const char *name, struct model *m, enum chat_api api, struct span body,
    const struct span *want)
{
	struct chat_text t;
	enum chat_result r = render(m, api, body, &t);

	if (want == NULL ? r != CHAT_REFUSED : r != CHAT_DONE)
		fail_msg("%s: result %d (%s)", name, (int)r, t.why);
	if (want != NULL && !span_eq(span_of(t.p, t.n), *want))
		fail_msg("%s: got\n%.*s\nwant\n%.*s", name, (int)t.n, t.p, (int)want->n, want->p);
}

static void gives(const char *template, enum chat_api api, const char *body, const char *want)
{
	struct model m = load_text(template);
	struct span text = want != NULL ? span_str(want) : (struct span){ .n = 0 };

	check(body, &m, api, span_str(body), want != NULL ? &text : NULL);
	unload(&m);
}

/* ---- gpt-oss --------------------------------------------------------------------------------- */

static char *read_file(const char *name, size_t *n)
{
	FILE *f = fopen(name, "rb");
	char *p = malloc(1 << 20);

	assert_non_null(f);
	assert_non_null(p);
	*n = fread(p, 1, 1 << 20, f);
	fclose(f);
	assert_in_range(*n, 1, (1 << 20) - 1);
	return p;
}

/* Bodies without an answer must be refused; of responses they may stay unknown, too. */
static void recorded(const char *file, enum chat_api api)
{
	struct model m = load(&(struct chat_source){ .format = CHAT_HARMONY });
	struct jinja_mem *mem = jinja_mem_new(1 << 22, &key);
	struct jval all;
	size_t n, at;
	char *text = read_file(file, &n);

	assert_int_equal(jval_from_json(mem, span_of(text, n), 0, &all, &at), 0);
	assert_true(is_list(all) && all.n >= 50);
	for (uint32_t i = 0; i < all.n; i++) {
		struct span name = get_text(all.v[i], "name"), want = get_text(all.v[i], "text");
		char shown[64];

		snprintf(shown, sizeof(shown), SPAN_FMT, SPAN_ARG(name));
		if (api == CHAT_RESPONSES && !is_str(get(all.v[i], "text"))) {
			struct chat_text t;

			if (render(&m, api, get_text(all.v[i], "body"), &t) == CHAT_DONE)
				fail_msg("%s: it has a text", shown);
			continue;
		}
		check(shown, &m, api, get_text(all.v[i], "body"),
		    is_str(get(all.v[i], "text")) ? &want : NULL);
	}
	jinja_mem_free(mem);
	free(text);
	unload(&m);
}

static void recorded_answers(void **state)
{
	recorded(GOLDENS, CHAT_COMPLETIONS);
	recorded(ITEMS, CHAT_RESPONSES);
}

/* ---- system and developer -------------------------------------------------------------------- */

#define SHORT		"{% for m in messages %}[{{ m.role }} {{ m.content }}]{% endfor %}"
#define KNOWS		"{% for m in messages %}{% if m.role == \"developer\" %}D{% endif %}[{{ m.content " \
	"}}]{% endfor %}"
#define PARTS		"{% for m in messages %}[{{ m.role }}{% for p in m.content %} {{ p.text }}{% " \
	"endfor %}{{ m.content is string }}]{% endfor %}"
#define FIRST		"{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ " \
	"raise_exception('s') }}{% endif %}" \
			"[{{ m.role }} {{ m.content }}]{% endfor %}"
#define SAYS(role, text)	"{\"role\":\"" role "\",\"content\":\"" text "\"}"
#define BODY(messages)	"{\"messages\":[" messages "]}"

static void developers(void **state)
{
	gives(SHORT, CHAT_COMPLETIONS, BODY(SAYS("developer", "d") "," SAYS("user", "q")), "[system d]"
		"[user q]");
	gives(SHORT, CHAT_COMPLETIONS,
	    BODY(SAYS("system", "s") "," SAYS("developer", "d") "," SAYS("user", "q")),
	    "[system s\n\nd][user q]");
	gives(SHORT, CHAT_COMPLETIONS,
	    BODY(SAYS("user", "q") "," SAYS("system", "s") "," SAYS("user",
		"r") "," SAYS("developer", "d")),
	    "[system s\n\nd][user q][user r]");
	gives(SHORT, CHAT_COMPLETIONS,
	    BODY(SAYS("user", "q") "," SAYS("developer", "") "," SAYS("user", "r")),
	    "[system ][user q][user r]");
	gives(SHORT, CHAT_COMPLETIONS,
	    BODY(SAYS("system", "s") "," SAYS("user", "q") "," SAYS("system", "t")),
	    "[system s][user q][system t]");
	gives(KNOWS, CHAT_COMPLETIONS,
	    BODY(SAYS("system", "s") "," SAYS("user", "q") "," SAYS("developer", "d")),
	    "[s][q]D[d]");
	gives(PARTS, CHAT_COMPLETIONS, BODY(SAYS("developer", "d")), "[system dFalse]");
	gives(PARTS, CHAT_COMPLETIONS, BODY("{\"role\":\"system\",\"content\":[{\"type\":\"text\","
		"\"text\":\"s\"},{\"type\":\"text\",\"text\":\"t\"}]},"
					    SAYS("developer", "d")), "[system      True]");
	gives("{{ messages[0] }}" SHORT, CHAT_COMPLETIONS, BODY("{\"role\":\"developer\","
		"\"content\":\"d\",\"tools\":[],\"name\":\"n\"}"),
	      "{'role': 'system', 'content': 'd', 'name': 'n'}[system d]");
}

static void systems_of_messages(void **state)
{
#define INLINE	"{\"system\":\"s\",\"messages\":[" SAYS("user", "q") "," \
		SAYS("system", "t") "," SAYS("user", "r") "]}"
	gives(SHORT, CHAT_MESSAGES, INLINE, "[system s][user q][system t][user r]");
	gives(FIRST, CHAT_MESSAGES, INLINE, "[system st][user q][user r]");
	gives("{{ strftime_now('%Y') }}" SHORT, CHAT_MESSAGES, INLINE, "2026[system st][user q][user r]");
	gives("{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}" SHORT,
	    CHAT_MESSAGES, INLINE, "2026[system s][user q][system t][user r]");
	gives("{% generation %}{% endgeneration %}" SHORT, CHAT_MESSAGES, INLINE, "[system st][user q]"
		"[user r]");
}

static void billing(void **state)
{
#define BILL	"x-anthropic-billing-header: 1"
	gives(SHORT, CHAT_COMPLETIONS, BODY(SAYS("system", BILL "\\nrest") "," SAYS("user", BILL)),
	    "[system rest][user " BILL "]");
	gives(SHORT, CHAT_COMPLETIONS, BODY("{\"role\":\"system\",\"content\":[{\"type\":\"text\","
		"\"text\":\"" BILL "\"},{\"type\":\"text\",\"text\":\"s\"}]}"),
	      "[system s]");
	gives(SHORT, CHAT_COMPLETIONS, BODY(SAYS("developer", BILL)), "[system " BILL "]");
	gives(SHORT, CHAT_MESSAGES, "{\"system\":[{\"type\":\"text\",\"text\":\"" BILL "\\nx\"}],"
		"\"messages\":[" SAYS("system", BILL) "]}", "");
}

/* ---- reasoning effort ------------------------------------------------------------------------ */

#define SWITCH	"{{ reasoning_effort }} {{ enable_thinking }}"

static void efforts(void **state)
{
	gives(SWITCH, CHAT_COMPLETIONS, "{\"messages\":[]}", " ");
	gives(SWITCH, CHAT_COMPLETIONS, "{\"messages\":[],\"reasoning_effort\":\"none\"}", "none False");
	gives(SWITCH, CHAT_COMPLETIONS, "{\"messages\":[],\"reasoning_effort\":\"low\"}", "low True");
	gives(SWITCH, CHAT_COMPLETIONS, "{\"messages\":[],\"reasoning_effort\":\"low\","
		"\"chat_template_kwargs\":{\"enable_thinking\":false}}", "low False");
	gives(SWITCH, CHAT_COMPLETIONS, "{\"messages\":[],\"reasoning_effort\":\"low\","
		"\"chat_template_kwargs\":{\"reasoning_effort\":\"max\"}}", "low True");
	gives(SWITCH, CHAT_COMPLETIONS, "{\"messages\":[],"
		"\"chat_template_kwargs\":{\"reasoning_effort\":\"max\"}}", "max ");
	gives(SWITCH, CHAT_RESPONSES, "{\"input\":\"\",\"reasoning\":{\"effort\":\"none\"}}",
	    "none False");
	gives(SWITCH, CHAT_RESPONSES, "{\"input\":\"\",\"reasoning\":{\"effort\":null}}", " ");
	gives(SWITCH, CHAT_MESSAGES, "{\"messages\":[],\"output_config\":{\"effort\":\"high\"}}",
	    "high True");
	gives(SWITCH, CHAT_MESSAGES, "{\"messages\":[],\"output_config\":{\"effort\":\"high\"},"
		"\"thinking\":{\"type\":\"enabled\"}}", "high True");
}

/* Disabled thinking is the effort "none", unless the template raises an error for "none" or knows
 * only other efforts. */
static void disabled(void **state)
{
#define OFF	"{\"messages\":[],\"output_config\":{\"effort\":\"high\"}," \
	"\"thinking\":{\"type\":\"disabled\"}}"
	gives(SWITCH, CHAT_MESSAGES, OFF, "none False");
	gives("{{ enable_thinking }}", CHAT_MESSAGES, OFF, "False");
	gives("{% if enable_thinking is defined and not reasoning_effort in ['low'] %}{% endif %}{{ "
		"messages | length }}"
	      "{% if messages | length == 0 %}{{ reasoning_effort }}{% endif %}", CHAT_MESSAGES, OFF,
	      "0low");
	gives("{% if reasoning_effort == 'none' %}{{ raise_exception('no') }}{% endif %}" SWITCH,
	    CHAT_MESSAGES, OFF, "low True");
}

/* ---- reasoning of earlier turns -------------------------------------------------------------- */

#define THOUGHT	"{% for m in messages %}{{ m }}{% endfor %}"
#define THINKS	BODY("{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"r\"}")

static void aliases(void **state)
{
	struct span want = SPAN("{'role': 'assistant', 'content': 'c', 'reasoning': 'r', "
		"'reasoning_content': 'r'}");
	struct model old = load(&(struct chat_source){ .template = SPAN(THOUGHT), .no_aliases = true });
	struct model now = load_text(THOUGHT);

	gives(THOUGHT, CHAT_COMPLETIONS, THINKS,
	      "{'thinking': 'r', 'role': 'assistant', 'content': 'c', 'reasoning': 'r', "
	      "'reasoning_content': 'r'}");
	gives(THOUGHT, CHAT_COMPLETIONS,
	    BODY("{\"role\":\"user\",\"content\":\"c\",\"reasoning\":\"r\"}"),
	    "{'role': 'user', 'content': 'c'}");
	check("old", &old, CHAT_COMPLETIONS, SPAN(THINKS), &want);
	assert_true(chat_fingerprint(old.c) != chat_fingerprint(now.c));
	unload(&old);
	unload(&now);
}

/* ---- responses ------------------------------------------------------------------------------- */

#define LIST	"{% for m in messages %}[{{ m.role[0] }} {{ m.content }}{% if m.reasoning is " \
	"defined %}~{{ m.reasoning }}{% endif %}" \
		"{% for c in m.tool_calls %}/{{ c.id }}{% endfor %}]{% endfor %}{{ add_generation_prompt }}"
#define CALL(id)	"{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"f\"," \
	"\"arguments\":\"{}\"}"
#define HM		"{\"type\":\"reasoning\",\"summary\":[{\"text\":\"hm\"}]}"

static void items(void **state)
{
	gives(LIST, CHAT_RESPONSES,
	    "{\"input\":[" HM
	    "," SAYS("assistant", "a") "," CALL("1") "," CALL("2") "," CALL("3") "]}",
	    "[a a~hm/1/2/3]True");
	gives(LIST, CHAT_RESPONSES,
	    "{\"input\":[" SAYS("assistant", "a") "," HM "," HM "," SAYS("assistant",
		"b") "," SAYS("assistant", "c") "]}",
	    "[a a~hm][a b~hm][a c]True");
	gives(LIST, CHAT_RESPONSES,
	    "{\"input\":[" CALL("1") "," SAYS("user", "u") "," CALL("2") "]}",
	    "[a /1][u u][a /2]True");
	gives(LIST, CHAT_RESPONSES, "{\"input\":[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"0\","
		"\"function\":{}}]}," CALL("1") "]}",
	      "[a /0/1]True");
	gives(LIST, CHAT_RESPONSES, "{\"input\":[{\"type\":\"reasoning\",\"summary\":[]},"
		"{\"type\":\"message\",\"role\":\"assistant\",\"content\":["
	      "{\"type\":\"output_text\",\"text\":\"x\"},{\"type\":\"output_text\",\"text\":\"y\"}]}]}",
	      "[a x~]True");
	gives(LIST, CHAT_RESPONSES, "{\"input\":[" SAYS("user", "u") ",{\"type\":\"message\","
		"\"status\":\"incomplete\",\"role\":\"assistant\",\"content\":["
	      "{\"type\":\"output_text\",\"text\":\"go on\"}]}]}", "[u u][a go on");
}

/* ---- continued answers ----------------------------------------------------------------------- */

#define ON(content)	"{\"add_generation_prompt\":false,\"continue_final_message\":true," \
	"\"messages\":[" SAYS("user", "b]") "," \
			"{\"role\":\"assistant\",\"content\":" content "}]}"
#define PLAIN		"{% for m in messages %}[{{ m.content }}]{% endfor %}"
#define TRIMMED		"{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"

static void continued_answers(void **state)
{
	gives(PLAIN, CHAT_COMPLETIONS, ON("\"\""), "[b]][");
	gives(PLAIN, CHAT_COMPLETIONS, ON("\" ]\""), "[b]][ ]");
	gives(TRIMMED, CHAT_COMPLETIONS, ON("\" a \\u00a0\""), "[b]][a");
	gives(PLAIN, CHAT_COMPLETIONS, ON("\"CONTINUE_FINAL_MESSAGE_TAG \""),
	    "[b]][CONTINUE_FINAL_MESSAGE_TAG ");
	gives("{% for m in messages %}[{{ m.content.split('|')[-1] }}]{% endfor %}",
	    CHAT_COMPLETIONS, ON("\"a|b\""), NULL);
	gives("{% for m in messages %}[{{ m.content[:3] }}]{% endfor %}", CHAT_COMPLETIONS,
	    ON("\"abcd\""), NULL);
	gives(
	    "{% for m in messages %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}",
	    CHAT_COMPLETIONS,
	    ON("[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"text\",\"text\":\"y\"}]"),
	    "(b])(x)(y");
	gives("{{ messages | length }}", CHAT_COMPLETIONS, ON("\"\""), NULL);
	gives(PLAIN, CHAT_COMPLETIONS, "{\"continue_final_message\":true,"
		"\"add_generation_prompt\":false,\"messages\":[]}", NULL);
}

static void truncation(void **state)
{
	struct model m = load_text(SHORT);
	struct chat_text t;

	assert_int_equal(render(&m, CHAT_COMPLETIONS, SPAN("{\"messages\":[],"
		"\"truncate_prompt_tokens\":null}"), &t), CHAT_DONE);
	assert_true(t.keep == SIZE_MAX);
	assert_int_equal(render(&m, CHAT_COMPLETIONS, SPAN("{\"messages\":[],"
		"\"truncate_prompt_tokens\":7}"), &t), CHAT_DONE);
	assert_true(t.keep == 7 && t.side == SIDE_USUAL);
	assert_int_equal(render(&m, CHAT_COMPLETIONS, SPAN("{\"messages\":[],"
		"\"truncate_prompt_tokens\":7,\"truncation_side\":\"right\"}"), &t), CHAT_DONE);
	assert_int_equal(t.side, SIDE_RIGHT);
	unload(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recorded_answers),
		cmocka_unit_test(developers),
		cmocka_unit_test(systems_of_messages),
		cmocka_unit_test(billing),
		cmocka_unit_test(efforts),
		cmocka_unit_test(disabled),
		cmocka_unit_test(aliases),
		cmocka_unit_test(items),
		cmocka_unit_test(continued_answers),
		cmocka_unit_test(truncation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

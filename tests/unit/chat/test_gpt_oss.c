/* Bodies of chat completions rendered for gpt-oss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/chat/gpt_oss.h"
#include "tests/unit/chat/harmony_cases.h"

#define SYSTEM(effort) "<|start|>system<|message|>You are ChatGPT, a large language model " \
	"trained by OpenAI.\n" \
	"Knowledge cutoff: 2024-06\nCurrent date: 2026-11-21\n\nReasoning: " effort "\n\n" \
	"# Valid channels: analysis, commentary, final. Channel must be included for every message."

static const struct { const char *name, *body, *text; } cases[] = {
	{ "a question", "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
	  "\"reasoning_effort\":\"high\"}",
	  SYSTEM("high") "<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant" },
	{ "parts, a system message, nothing said",
	  "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"developer\","
	  "\"content\":null},"
	  "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
	  "\"text\":\"b\"}]},"
	  "{\"role\":\"assistant\",\"content\":\"\"},{\"role\":\"assistant\"},{\"role\":\"user\","
	  "\"content\":[]}]}",
	  SYSTEM("medium") "<|end|><|start|>developer<|message|># Instructions\n\nS<|end|>"
	  "<|start|>user<|message|>ab<|end|><|start|>user<|message|><|end|><|start|>assistant" },
	{ "a tool is called and answers",
	  "{\"reasoning_effort\":\"low\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
	  "\"description\":\"F.\"}}],"
	  "\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
	  "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"I "
	  "\"},{\"type\":\"refusal\"},{\"type\":\"text\",\"text\":\"look\"}],"
	  "\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":\"1\",\"function\":{\"name\":\"f\","
	  "\"arguments\":\"{}\"}},{\"id\":\"2\"}]},"
	  "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"42\"},{\"role\":\"tool\","
	  "\"tool_call_id\":\"3\",\"content\":\"43\"}]}",
	  SYSTEM("low") "\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>"
	  "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions {\n\n// F.\ntype "
	  "f = () => any;\n\n"
	  "} // namespace functions<|end|><|start|>user<|message|>q<|end|>"
	  "<|start|>assistant<|channel|>commentary<|message|>I "
	  "look<|end|><|start|>assistant<|channel|>analysis<|message|>hm<|end|>"
	  "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>"
	  "<|start|>assistant to=functions.<|channel|>commentary json<|message|><|call|>"
	  "<|start|>functions.f<|channel|>commentary to=assistant<|message|>42<|end|>"
	  "<|start|>functions.<|channel|>commentary to=assistant<|message|>43<|end|><|start|>assistant" },
	{ "instructions and tools are one message, later instructions their own",
	  "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
	  "\"messages\":[{\"role\":\"developer\",\"content\":[{\"type\":\"text\","
	  "\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"user\",\"content\":\"q\"},"
	  "{\"role\":\"system\",\"content\":\"S\"},"
	  "{\"role\":\"system\",\"content\":null}]}",
	  SYSTEM("medium") "\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>"
	  "<|start|>developer<|message|># Instructions\n\nab\n\n# Tools\n\n## functions\n\nnamespace "
	  "functions {\n\ntype f = () => any;\n\n"
	  "} // namespace functions<|end|><|start|>user<|message|>q<|end|><|start|>developer<|message|># "
	  "Instructions\n\nS<|end|>"
	  "<|start|>assistant" },
	{ "thoughts of a turn go with its answer",
	  "{\"messages\":[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\","
	  "\"reasoning_content\":\"old\",\"content\":\"2\"},"
	  "{\"role\":\"user\",\"content\":\"3\"},{\"role\":\"assistant\",\"reasoning\":\"new\","
	  "\"content\":\"4\"},"
	  "{\"role\":\"assistant\",\"reasoning\":\"next\"}]}",
	  SYSTEM("medium") "<|end|><|start|>user<|message|>1<|end|>"
	  "<|start|>assistant<|channel|>final<|message|>2<|end|><|start|>user<|message|>3<|end|>"
	  "<|start|>assistant<|channel|>final<|message|>4<|end|><|start|>assistant<|channel|>analysis<|"
	  "message|>next<|end|>"
	  "<|start|>assistant" },
};

static enum harmony_result render(struct jinja_mem *mem, const char *body, struct gathered *g)
{
	struct gpt_oss_opts o = { .date = SPAN("2026-11-21"), .completion = true };

	g->n = 0;
	gather(g, "", 0);
	return gpt_oss_render(mem, parsed(mem, body), &o, gather_piece, g);
}

static void bodies(void **state)
{
	struct jinja_mem *mem = jinja_mem_new(1 << 20, &case_key);
	struct gathered g = { .p = NULL };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		jinja_mem_reset(mem);
		assert_int_equal(render(mem, cases[i].body, &g), HARMONY_DONE);
		if (strcmp(g.p, cases[i].text) != 0)
			fail_msg("%s: got\n%s\nwant\n%s", cases[i].name, g.p, cases[i].text);
	}
	free(g.p);
	jinja_mem_free(mem);
}

static void refused(void **state)
{
	static const char *const bad[] = {
		"[]", "{}", "{\"messages\":1}", "{\"messages\":[1]}", "{\"messages\":[{\"role\":\"narrator\"}]}",
		"{\"messages\":[{\"role\":\"user\",\"content\":[\"text\"]}]}",
		"{\"messages\":[],\"reasoning_effort\":\"none\"}",
		"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"}]}]}",
		"{\"messages\":[],\"tools\":[{\"type\":\"browser\"}]}", "{\"messages\":[],\"tools\":[1]}",
	};
	struct jinja_mem *mem = jinja_mem_new(1 << 20, &case_key);
	struct gathered g = { .p = NULL };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(render(mem, bad[i], &g), HARMONY_REFUSED);
	free(g.p);
	jinja_mem_free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies),
		cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Conversations in the harmony format of gpt-oss: cases written here, and the cases of the harmony
 * library's own tests if the checkout has their data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/chat/harmony_cases.h"

#define DATA	"../shared/data/tokenizers/chat/harmony/"

static const struct harmony_opts complete = { .drop_analysis = true, .completion = true };

static void renders(const struct harmony_message *m, size_t n, struct harmony_opts o, bool marks,
    const char *want)
{
	struct gathered g = { .marks = marks };

	gather(&g, "", 0);
	assert_int_equal(harmony_render(m, n, o, gather_piece, &g), HARMONY_DONE);
	assert_string_equal(g.p, want);
	free(g.p);
}

/* ---- our own cases --------------------------------------------------------------------------- */

static void runs_and_tokens(void **state)
{
	const struct span two[] = { SPAN("a<|end|>"), SPAN("b") };
	const struct harmony_message m[] = {
		{ .role = HARMONY_USER, .name = SPAN("ann"), .text = two, .n_text = 2 },
		{ .role = HARMONY_ASSISTANT, .recipient = SPAN("functions.f"), .channel = SPAN("commentary"),
		  .content_type = SPAN("json"), TEXT("{}") },
		{ .role = HARMONY_ASSISTANT, .recipient = SPAN("x"), .content_type = SPAN("<|constrain|>json"),
		  TEXT("") },
		{ .role = HARMONY_TOOL, .name = SPAN("functions.f"), .recipient = SPAN("all"), TEXT("1") },
	};

	renders(m, 4, (struct harmony_opts){ .completion = true }, true,
		"<|start|>[user][:ann]<|message|>[a<|end|>][b]<|end|>"
		"<|start|>[assistant][ to=functions.f]<|channel|>[commentary][ json]<|message|>[{}]<|call|>"
		"<|start|>[assistant][ to=x][ ]<|constrain|>[json]<|message|><|call|>"
		"<|start|>[functions.f]<|message|>[1]<|end|>"
		"<|start|>[assistant]");
}

static void analysis_before_the_first_answer_is_dropped(void **state)
{
	const struct harmony_message m[] = {
		{ .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"), TEXT("1") },
		{ .role = HARMONY_ASSISTANT, .channel = SPAN("final"), TEXT("2") },
		{ .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"), TEXT("3") },
		{ .role = HARMONY_ASSISTANT, .channel = SPAN("final"), TEXT("4") },
		{ .role = HARMONY_USER, TEXT("5") },
		{ .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"), TEXT("6") },
	};
	struct gathered g = { .p = NULL };
	static const struct { size_t n; bool drop; const char *left; } cases[] = {
		{ 1, true, "1" }, { 2, true, "2" }, { 2, false, "12" }, { 4, true, "234" }, { 5, true, "2345" },
		{ 6, true, "123456" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct harmony_opts o = { .drop_analysis = cases[i].drop };
		char left[16] = "";
		const char *p;

		g.n = 0;
		assert_int_equal(harmony_render(m, cases[i].n, o, gather_piece, &g), HARMONY_DONE);
		for (p = g.p; (p = strstr(p, "<|message|>")) != NULL; p += 11)
			strncat(left, p + 11, 1);
		assert_string_equal(left, cases[i].left);
	}
	free(g.p);
}

static void empty_messages(void **state)
{
	const struct harmony_system none = { .n_channels = 0 };
	const struct harmony_developer nothing = { .n_tools = 0 }, said = { .has_instructions = true };
	const struct harmony_message m[] = {
		{ .role = HARMONY_SYSTEM, .system = &none }, { .role = HARMONY_DEVELOPER, .developer = &nothing },
		{ .role = HARMONY_DEVELOPER, .developer = &said }, { .role = HARMONY_USER },
	};

	renders(m, 4, (struct harmony_opts){ .drop_analysis = true }, true,
		"<|start|>[system]<|message|><|end|><|start|>[developer]<|message|><|end|>"
		"<|start|>[developer]<|message|>[# Instructions\n\n]<|end|><|start|>[user]<|message|><|end|>");
	renders(m, 0, complete, true, "<|start|>[assistant]");
}

static void refused_and_ended(void **state)
{
	const struct harmony_message nobody = { .role = HARMONY_TOOL, TEXT("x") };
	struct gathered g = { .p = NULL };

	assert_int_equal(harmony_render(&nobody, 1, complete, gather_piece, &g), HARMONY_REFUSED);
	free(g.p);
	g = (struct gathered){ .end_at = 3 };
	assert_int_equal(harmony_render(&(struct harmony_message){ .role = HARMONY_USER,
					    TEXT("x") },
			     1, complete, gather_piece, &g),
	    HARMONY_ENDED);
	assert_int_equal(g.pieces, 3);
	free(g.p);
}

/* ---- schemas --------------------------------------------------------------------------------- */

static const struct { const char *schema, *type; } types[] = {
	{ "{}", "any" }, { "1", "any" }, { "{\"type\":\"nosuch\"}", "any" },
	{ "{\"type\":\"integer\"}", "number" }, { "{\"type\":\"boolean\"}", "boolean" },
	{ "{\"type\":[\"integer\",\"null\",7]}", "number | null" }, { "{\"type\":[7]}", "any" },
	{ "{\"type\":\"array\"}", "Array<any>" },
	{ "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}",
	  "string[][]" },
	{ "{\"type\":\"string\",\"enum\":[1,\"a\",\"b\"]}", "\"a\" | \"b\"" },
	{ "{\"type\":\"string\",\"enum\":[1]}", "string" },
	{ "{\"oneOf\":[{\"type\":\"string\",\"nullable\":true,\"description\":\"d\",\"default\":\"x\"},"
	  "{\"type\":\"number\",\"default\":1.50}]}",
	  "\n | string | null // d default: \"x\"\n | number // default: 1.5" },
	{ "{\"type\":\"object\"}", "{\n}" },
	{ "{\"type\":\"object\",\"description\":\"o\",\"required\":[\"b\"],\"properties\":{"
	  "\"a\":{\"type\":\"object\",\"description\":\"in\",\"properties\":{\"c\":{\"type\":\"string\","
	  "\"title\":\"C\",\"examples\":[\"x\",1]}}},"
	  "\"b\":{\"type\":\"string\",\"enum\":[\"p\"],\"default\":\"p\",\"nullable\":true},"
	  "\"d\":{\"default\":{\"k\":[1,null,true,\"\\n\\u0001\\\"\"]}}}}",
	  "// o\n{\n// in\na?:     // in\n{\n    // C\n    //\n    // Examples:\n    // - \"x\"\n    c?: "
	  "string,\n    },\n"
	  "b: \"p\" | null, // default: p\nd?: any, // default: {\"k\":[1,null,true,\"\\n\\u0001\\\"\"]}"
	  "\n}" },
	/* a level omits "| null" if its text already has one inside; a level before it does not count */
	{ "{\"type\":\"object\",\"properties\":{"
	  "\"a\":{\"type\":\"object\",\"nullable\":true,\"properties\":{\"b\":{\"type\":\"string\","
	  "\"nullable\":true}}},"
	  "\"c\":{\"type\":\"object\",\"nullable\":true,\"properties\":{\"d\":{\"type\":\"string\"}}}}}",
	  "{\na?: {\n    b?: string | null,\n    },\nc?: {\n    d?: string,\n    } | null,\n}" },
	{ "{\"type\":\"object\",\"properties\":{\"a\":{\"description\":\"s\","
	  "\"oneOf\":[{\"type\":\"string\",\"description\":\"s\"},"
	  "{\"type\":\"number\",\"description\":\"t\",\"nullable\":true,\"default\":-0.000001}],"
	  "\"default\":null}}}",
	  "{\n// default: null\na?:\n | string\n | number | null // t default: -1e-6\n,\n}" },
};

static void schemas(void **state)
{
	struct jinja_mem *mem = jinja_mem_new(1 << 20, &case_key);

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		char json[1024], want[1024];
		struct jval tool;
		struct harmony_developer d = { .tools = &tool, .n_tools = 1 };
		struct harmony_message m = { .role = HARMONY_DEVELOPER, .developer = &d };

		snprintf(json, sizeof(json), "{\"name\":\"f\",\"description\":\"one\\r\\n\\ntwo\\n\","
			"\"parameters\":%s}", types[i].schema);
		snprintf(want, sizeof(want), "<|start|>developer<|message|># Tools\n\n## functions\n\n"
			"namespace functions {\n\n"
			 "// one\n// \n// two\ntype f = (_: %s) => any;\n\n} // namespace functions<|end|>",
			 types[i].type);
		tool = parsed(mem, json);
		renders(&m, 1, (struct harmony_opts){ .completion = false }, false, want);
	}
	jinja_mem_free(mem);
}

static void a_schema_too_deep(void **state)
{
	struct jinja_mem *mem = jinja_mem_new(1 << 20, &case_key);
	struct gathered g = { .p = NULL };
	char json[8192] = "{\"name\":\"f\",\"parameters\":";
	struct jval tool;
	struct harmony_developer d = { .tools = &tool, .n_tools = 1 };
	struct harmony_message m = { .role = HARMONY_DEVELOPER, .developer = &d };

	for (int i = 0; i < HARMONY_DEPTH + 1; i++)
		strcat(json, "{\"type\":\"array\",\"items\":");
	strcat(json, "1");
	for (int i = 0; i < HARMONY_DEPTH + 2; i++)
		strcat(json, "}");
	tool = parsed(mem, json);
	assert_int_equal(harmony_render(&m, 1, complete, gather_piece, &g), HARMONY_REFUSED);
	free(g.p);
	jinja_mem_free(mem);
}

/* ---- the cases of the library ---------------------------------------------------------------- */

#define IDENTITY	.identity = SPAN("You are ChatGPT, a large language model trained by OpenAI."), \
			.cutoff = SPAN("2024-06")
#define ALL_CHANNELS	.channels = { SPAN("analysis"), SPAN("commentary"), SPAN("final") }, \
			.n_channels = 3
#define TWO_CHANNELS	.channels = { SPAN("analysis"), SPAN("final") }, .n_channels = 2
#define ROBOT		"Answer the user's questions like a robot."
#define CAPITAL		"What is the capital of the largest country in the world?"

static const char kitchen[] =
	"[{\"name\":\"get_location\",\"description\":\"Gets the location of the user.\"},"
	"{\"name\":\"get_current_weather\",\"description\":\"Gets the current weather in the provided "
	"location.\",\"parameters\":"
	"{\"type\":\"object\",\"properties\":{\"location\":{\"type\":\"string\",\"description\":\"The "
	"city and state, e.g. San Francisco, CA\"},"
	"\"format\":{\"type\":\"string\",\"enum\":[\"celsius\",\"fahrenheit\"],\"default\":\"celsius\"}}"
	",\"required\":[\"location\"]}},"
	"{\"name\":\"get_multiple_weathers\",\"description\":\"Gets the current weather in the provided "
	"list of locations.\",\"parameters\":"
	"{\"type\":\"object\",\"properties\":{\"locations\":{\"type\":\"array\","
	"\"items\":{\"type\":\"string\"},"
	"\"description\":\"List of city and state, e.g. [\\\"San Francisco, CA\\\", \\\"New York, "
	"NY\\\"]\"},"
	"\"format\":{\"type\":\"string\",\"enum\":[\"celsius\",\"fahrenheit\"],\"default\":\"celsius\"}}"
	",\"required\":[\"locations\"]}},"
	"{\"name\":\"kitchensink\",\"description\":\"A function with various complex "
	"schemas.\",\"parameters\":"
	"{\"description\":\"params object\",\"type\":\"object\",\"properties\":{"
	"\"string\":{\"type\":\"string\",\"title\":\"STRING\",\"description\":\"A "
	"string\",\"examples\":[\"hello\",\"world\"]},"
	"\"string_nullable\":{\"type\":\"string\",\"nullable\":true,\"description\":\"A nullable "
	"string\",\"default\":\"the default\"},"
	"\"string_enum\":{\"type\":\"string\",\"enum\":[\"a\",\"b\",\"c\"]},"
	"\"oneof_string_or_number\":{\"oneOf\":[{\"type\":\"string\","
	"\"default\":\"default_string_in_oneof\"},"
	"{\"type\":\"number\",\"description\":\"numbers can happen too\"}],\"description\":\"a "
	"oneof\",\"default\":20}}}}]";

static const char weather[] =
	"[{\"name\":\"lookup_weather\",\"description\":\"Use this tool to lookup the weather in a given "
	"location. Call it with the "
	"parameter 'location', can be any textual description of a "
	"location.\",\"parameters\":{\"type\":\"object\",\"properties\":"
	"{\"location\":{\"type\":\"string\"}},\"required\":[\"location\"]}}]";

struct golden {
	const char *file;
	struct harmony_system system;
	struct harmony_developer developer;
	const char *tools;
	bool has_system, has_developer, keeps, ends;
	struct harmony_message m[6];
};

static const struct golden goldens[] = {
	{ "simple_convo", { IDENTITY, .effort = EFFORT_MEDIUM, ALL_CHANNELS }, .has_system = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is 2 + 2?") } } },
#define EFFORT(word, e) \
	{ "simple_convo_" word "_effort", { IDENTITY, .effort = e, ALL_CHANNELS }, \
	  { .instructions = SPAN(ROBOT), .has_instructions = true }, .has_system = true, \
	  .has_developer = true, \
	  .m = { { .role = HARMONY_USER, TEXT(CAPITAL) } } }, \
	{ "simple_convo_" word "_effort_no_instruction", { IDENTITY, .effort = e, ALL_CHANNELS }, \
	  .has_system = true, \
	  .m = { { .role = HARMONY_USER, TEXT(CAPITAL) } } },
	EFFORT("low", EFFORT_LOW) EFFORT("medium", EFFORT_MEDIUM) EFFORT("high", EFFORT_HIGH)
	{ "reasoning_system_message", { IDENTITY, .effort = EFFORT_MEDIUM, TWO_CHANNELS },
	  .has_system = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is 2 + 2?") } } },
	{ "reasoning_system_message_no_instruction", { IDENTITY, .effort = EFFORT_HIGH, TWO_CHANNELS },
	  .has_system = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is the best place to eat candy in the world?") } } },
	{ "reasoning_system_message_with_dates",
	  { .identity = SPAN("You are ChatGPT, a large language model trained by OpenAI."),
	    .cutoff = SPAN("2021-01"),
	    .effort = EFFORT_MEDIUM, .date = SPAN("2021-01-01"), TWO_CHANNELS }, .has_system = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is 42 * pi?") } } },
	{ "no_tools", { IDENTITY, .effort = EFFORT_MEDIUM, .date = SPAN("2025-06-28"), ALL_CHANNELS },
	  .has_system = true },
	{ "browser_tool_only", { IDENTITY, .effort = EFFORT_MEDIUM, .date = SPAN("2025-06-28"),
	  ALL_CHANNELS, .browser = true },
	  .has_system = true },
	{ "browser_and_python_tool",
	  { IDENTITY, .effort = EFFORT_MEDIUM, .date = SPAN("2025-06-28"), ALL_CHANNELS, .browser = true,
	    .python = true },
	  .has_system = true },
	{ "browser_and_function_tool",
	  { IDENTITY, .effort = EFFORT_MEDIUM, .date = SPAN("2025-06-28"), ALL_CHANNELS, .browser = true },
	  .tools = weather, .has_system = true, .has_developer = true },
	{ "render_functions_with_parameters", { IDENTITY, .effort = EFFORT_HIGH,
	  .date = SPAN("2025-06-28"), ALL_CHANNELS },
	  { .instructions = SPAN("Always respond in riddles"), .has_instructions = true },
	  .tools = kitchen, .has_system = true, .has_developer = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is the weather like in SF?") } } },
	{ "dropping_cot_by_default",
	  .m = { { .role = HARMONY_USER, TEXT("What is 2 + 2?") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"), TEXT("thoughts") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("final"), TEXT("2 + 2 equals 4.") },
		 { .role = HARMONY_USER, TEXT("What about 9 / 2?") } } },
	{ "preserve_cot", .keeps = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is 2 + 2?") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"),
		   TEXT("User asks a simple question: \"What is 2 + 2?\" The answer: 4.") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("final"), TEXT("2 + 2 equals 4.") },
		 { .role = HARMONY_USER, TEXT("What about 9 / 2?") } } },
	{ "does_not_drop_if_ongoing_analysis",
	  .m = { { .role = HARMONY_USER, TEXT("What is the weather in SF?") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"),
		   TEXT("User asks: “What is the weather in SF?” We need to use lookup_weather tool.") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("commentary"),
		   .recipient = SPAN("functions.lookup_weather"),
		   .content_type = SPAN("<|constrain|>json"), TEXT("{\"location\": \"San Francisco\"}") },
		 { .role = HARMONY_TOOL, .name = SPAN("functions.lookup_weather"),
		   TEXT("{\"temperature\": 20, \"description\": \"sunny\"}") } } },
	{ "keep_analysis_between_finals", .ends = true,
	  .m = { { .role = HARMONY_USER, TEXT("What is 2 + 2?") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"), TEXT("thinking 2+2") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("final"), TEXT("4") },
		 { .role = HARMONY_USER, TEXT("What is 3 + 5?") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("analysis"), TEXT("thinking 3+5") },
		 { .role = HARMONY_ASSISTANT, .channel = SPAN("final"), TEXT("8") } } },
};

/* Return the expected text without spaces and newlines at its end; NULL if the file does not exist.
 */
static char *expected(const char *name)
{
	static char text[16384];
	char path[256];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), DATA "test_%s.txt", name);
	if ((f = fopen(path, "r")) == NULL)
		return NULL;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	text[n] = '\0';
	return text;
}

static void agrees(const struct golden *g, struct jinja_mem *mem, const char *want)
{
	struct harmony_message m[8];
	struct harmony_developer d = g->developer;
	size_t n = 0;

	if (g->tools != NULL) {
		struct jval tools = parsed(mem, g->tools);

		d.tools = tools.v;
		d.n_tools = tools.n;
	}
	if (g->has_system)
		m[n++] = (struct harmony_message){ .role = HARMONY_SYSTEM, .system = &g->system };
	if (g->has_developer)
		m[n++] = (struct harmony_message){ .role = HARMONY_DEVELOPER, .developer = &d };
	for (size_t i = 0; i < 6 && g->m[i].text != NULL; i++)
		m[n++] = g->m[i];
	renders(m, n, (struct harmony_opts){ .drop_analysis = !g->keeps, .completion = !g->ends },
	    false, want);
}

/* Four tests of the library are left out because they parse and render nothing:
 * simple_reasoning_response, simple_tool_call, streamable_parser, tool_response_parsing. */
static void cases_of_the_library(void **state)
{
	struct jinja_mem *mem = jinja_mem_new(1 << 20, &case_key);
	size_t n = 0;

	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		const char *want = expected(goldens[i].file);

		if (want == NULL)
			continue;
		agrees(&goldens[i], mem, want);
		n++;
	}
	if (n == 0)
		printf("skipped: conversations of the harmony library: no data\n");
	else
		assert_int_equal(n, sizeof(goldens) / sizeof(goldens[0]));
	jinja_mem_free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_and_tokens),
		cmocka_unit_test(analysis_before_the_first_answer_is_dropped),
		cmocka_unit_test(empty_messages),
		cmocka_unit_test(refused_and_ended),
		cmocka_unit_test(schemas),
		cmocka_unit_test(a_schema_too_deep),
		cmocka_unit_test(cases_of_the_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Operations that read each byte of a text, or handle each part of it, take steps for each byte and
 * part.
 *
 * Clients send the texts, and steps count the work of a request (agent/base/work.h). So 250 KB of
 * white space, quotes or separators must not pass as 4,000 steps. tests/bench/bench_hostile.c
 * measures the time. */
#include "tests/unit/jinja/render.h"

#define UNITS	4000u

/* Return the steps of <expression>. In it, s is <unit> repeated UNITS times and d is a dict of
 * UNITS members. */
static uint64_t steps_of(const char *expression, const char *unit)
{
	struct jinja_mem *mem = jinja_mem_new((size_t)64 << 20, &test_key);
	struct jval vars = jval_dict(mem, 4), dict = jval_dict(mem, 4);
	size_t n = strlen(unit);
	char template[200], *text = jinja_mem_take(mem, UNITS * n), names[UNITS][8];
	struct jinja_limits limits = jinja_limits_defaults();
	struct buf out = { .max = (size_t)1 << 20 };
	struct jinja_error why = { .line = 0 };
	struct err e = { .line = 0 };
	struct jinja *t;
	uint64_t took = 0;

	for (size_t i = 0; i < UNITS; i++) {
		memcpy(text + i * n, unit, n);
		snprintf(names[i], sizeof(names[i]), "k%zu", i);
		assert_true(jdict_put_str(mem, dict.d, names[i], jval_int(1)));
	}
	assert_true(jdict_put_str(mem, vars.d, "s", jval_str(text, UNITS * n)));
	assert_true(jdict_put_str(mem, vars.d, "d", dict));
	snprintf(template, sizeof(template), "{%% set x = %s %%}", expression);
	limits.took = &took;
	assert_non_null(t = jinja_compile(span_str(template), &e));
	assert_int_equal(jinja_render(t, mem, vars.d, NULL, &limits, jinja_buf_sink, &out, &why),
	    JINJA_OK);
	buf_free(&out);
	jinja_free(t);
	jinja_mem_free(mem);
	return took;
}

static void test_parts_cost_work(void **state)
{
	static const struct { const char *expression, *unit; } cases[] = {
		{ "s.split('a')", "a" }, { "s.rsplit('a')", "a" }, { "s.split()", "a " },
		{ "s.split('</think>')[-1]", "</think>" },
		{ "s.splitlines()", "\n" }, { "s|indent", "\n" }, { "s.replace('a', '')", "a" },
		{ "s|replace('', 'x')", "a" },
		{ "s.count('a')", "a" }, { "s|tojson", "\"" }, { "s|tojson", "\\" }, { "s|tojson", "\x01" },
		{ "s|tojson(ensure_ascii=true)", "\xc3\xa9" },
		{ "[s]|string", "\x01" }, { "'%r'|format(s)", "\x01" }, { "s|upper", "\xc3\xa9" },
		{ "s.lower()", "A" }, { "s|title", "a" },
		{ "s|capitalize", "A" }, { "dict(d)", "a" }, { "dict(d, a=1)", "a" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t steps = steps_of(cases[i].expression, cases[i].unit);

		if (steps < UNITS)
			fail_msg("%s: %llu steps for %u parts", cases[i].expression, (unsigned long long)steps, UNITS);
	}
}

static void test_bytes_cost_work(void **state)
{
	static const struct { const char *expression, *unit; } cases[] = {
		{ "s|trim", " " }, { "s.strip()", "\n" }, { "s.lstrip()", "\t" }, { "s.rstrip('\\n')", "\n" },
		{ "s.isspace()", " " },
		{ "s.isupper()", "A" }, { "s is lower", "a" }, { "s.rfind('zz')", "a" },
		{ "s.rsplit('zz', 1)", "a" }, { "s.rpartition('zz')", "a" },
		{ "s.split()", "a" }, { "s.splitlines()", "a" }, { "s[::-1]", "a" }, { "s|reverse", "a" },
		{ "''.ljust(4000)", "a" }, { "s|int", " " },
		{ "s|float", " " }, { "[s]|string", "a" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t steps = steps_of(cases[i].expression, cases[i].unit);

		if (steps < UNITS / 4)
			fail_msg("%s: %llu steps for %u bytes", cases[i].expression, (unsigned long long)steps, UNITS);
	}
}

/* A client may choose the text to search for. If its parts repeat, memmem() advances byte by byte.
 */
static void test_search_cost_depends_on_the_text_searched_for(void **state)
{
	static const char *const ways[] = { NULL, "find", "split", "replace", "count", "partition" };
	static const struct { const char *what; unsigned least, most; } cases[] = {
		{ "'z'", 1, UNITS / 60 }, { "'zz'", UNITS / 16, UNITS / 15 },
		{ "'</think>'", UNITS / 8, UNITS / 7 },
		{ "'aaab'", UNITS / 3, UNITS / 2 }, { "'baaaaaaaaaaaa'", UNITS / 3, UNITS / 2 },
		{ "'abcdefghijklmnopqrstuvwxyz0123456789ABCDEF'", UNITS / 3, UNITS / 2 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
			char expression[100];
			uint64_t steps;

			if (k == 0)
				snprintf(expression, sizeof(expression), "%s in s", cases[i].what);
			else
				snprintf(expression, sizeof(expression), "s.%s(%s%s)", ways[k],
				    cases[i].what, k == 3 ? ", 'x'" : "");
			steps = steps_of(expression, "a");
			if (steps < cases[i].least || steps > cases[i].most + UNITS / 32)
				fail_msg("%s: %llu steps", expression, (unsigned long long)steps);
		}
}

/* Filters take steps for their work on each item, besides the step for the item itself. */
static void test_items_cost_work(void **state)
{
	static const struct { const char *expression, *unit; unsigned each; } cases[] = {
		{ "d.items()|selectattr('1', 'equalto', 1)|list", "a", 12 },
		{ "d.items()|selectattr('1')|list", "a", 4 },
		{ "d.items()|rejectattr('1')|list", "a", 4 }, { "d|select('string')|list", "a", 9 },
		{ "d|map('upper')|list", "a", 9 },
		{ "d.items()|map(attribute='0')|list", "a", 4 },
		{ "d.items()|map(attribute='0.0')|list", "a", 7 },
		{ "s.format(1)", "{0}", 5 }, { "s.format(1)", "{0:>3}", 5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t steps = steps_of(cases[i].expression, cases[i].unit);

		if (steps < UNITS * cases[i].each)
			fail_msg("%s: %llu steps for %u items", cases[i].expression, (unsigned long long)steps, UNITS);
	}
}

/* Copies and simple searches stay cheap, because templates apply them to whole conversations. */
static void test_copies_are_cheap(void **state)
{
	static const char *const cases[] = {
		"s~'x'", "'zz' in s", "s|trim", "s.split('zz')", "s.startswith('zz')", "s.strip()", "s|length",
		"s[1:]", "s.replace('zz', 'y')",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_in_range(steps_of(cases[i], "a"), 1, UNITS / 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_cost_work),
		cmocka_unit_test(test_bytes_cost_work),
		cmocka_unit_test(test_search_cost_depends_on_the_text_searched_for),
		cmocka_unit_test(test_items_cost_work),
		cmocka_unit_test(test_copies_are_cheap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

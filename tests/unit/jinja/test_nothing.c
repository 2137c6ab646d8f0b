/* Every filter, test, method and operator with none, undefined and empty values, and with bytes
 * that are not UTF-8.
 *
 * The cases of tests/data/jinja check their answers. This file checks only that two runs give the
 * same result; the sanitizers of the asan build find arithmetic on null pointers and reads past the
 * end. */
#include "tests/unit/jinja/render.h"
#include "tests/unit/edge.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static const char *const filters[] = {
	"length", "count", "tojson", "trim", "string", "join", "default", "d", "lower", "upper", "items",
	"list", "safe", "dictsort",
	"replace", "indent", "title", "capitalize", "int", "float", "sort", "first", "last", "reverse",
	"min", "max", "sum", "unique",
	"abs", "round", "truncate", "center", "map", "format", "select", "reject", "selectattr",
	"rejectattr",
};

static const char *const tests[] = {
	"defined", "string", "none", "mapping", "iterable", "undefined", "sequence", "false", "true",
	"boolean", "number", "integer",
	"float", "callable", "escaped", "lower", "upper", "odd", "even", "divisibleby", "sameas", "in",
	"eq", "ne", "gt", "ge", "lt", "le",
};

static const char *const methods[] = {
	"get", "split", "strip", "items", "lstrip", "rstrip", "startswith", "endswith", "replace",
	"format", "rsplit", "splitlines", "join",
	"partition", "rpartition", "removeprefix", "removesuffix", "find", "rfind", "index", "rindex",
	"count", "lower", "upper", "title",
	"capitalize", "isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum", "isspace", "isupper",
	"islower", "isascii", "ljust",
	"rjust", "keys", "values", "copy",
};

static const char *const operators[] = {
	"+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and",
	"or",
};

static const char *const functions[] = { "range", "namespace", "dict", "raise_exception",
	"strftime_now" };

static const char *const values[] = {
	"none", "nope", "''", "[]", "()", "{}", "false", "0", "range(0)", "([]|map('upper'))",
	"{}.items()", "(''|safe)", "[none]", "['']",
	"namespace()", "''.split('x')", "x",
};

static const char *const arguments[] = {
	"", "none", "nope", "''", "[]", "0", "'', ''", "none, none", "'upper'", "'', '', 0",
	"'', 'equalto', none", "attribute=''",
	"x", "x, x",
};

struct runs {
	struct jinja_mem *mem;
	struct jval x;		/* the value of variable x */
	size_t done, compiled;
};

static struct rendered one_run(struct runs *runs, const char *template)
{
	struct err e = { .line = 0 };
	struct jinja *t = jinja_compile(span_str(template), &e);
	struct rendered r = { .result = JINJA_RAISED };
	struct jval vars;

	if (t != NULL) {
		jinja_mem_reset(runs->mem);
		vars = jval_dict(runs->mem, 4);
		assert_true(jdict_put_str(runs->mem, vars.d, "x", runs->x));
		r = render_dict(t, runs->mem, vars.d);
		runs->compiled++;
	}
	jinja_free(t);
	runs->done++;
	return r;
}

__attribute__((format(printf, 2, 3)))
static void run(struct runs *runs, const char *fmt, ...)
{
	struct rendered a, b;
	char template[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(template, sizeof(template), fmt, ap);
	va_end(ap);
	a = one_run(runs, template);
	b = one_run(runs, template);
	if (a.result != b.result || a.result == JINJA_NO_MEMORY || a.result == JINJA_STOPPED ||
	    a.text.n != b.text.n || (a.text.n > 0 && memcmp(a.text.p, b.text.p, a.text.n) != 0))
		fail_msg("%s: %s, then %s", template, jinja_result_name(a.result), jinja_result_name(b.result));
	mem_free(a.text.p);
	mem_free(b.text.p);
}

static void over_value(struct runs *runs, const char *v)
{
	for (size_t k = 0; k < COUNT(arguments); k++) {
		for (size_t i = 0; i < COUNT(filters); i++) {
			run(runs, "{{ %s|%s(%s)|list }}", v, filters[i], arguments[k]);
			run(runs, "{{ %s|%s(%s) }}", v, filters[i], arguments[k]);
		}
		for (size_t i = 0; i < COUNT(methods); i++)
			run(runs, "{{ (%s).%s(%s) }}", v, methods[i], arguments[k]);
		for (size_t i = 0; i < COUNT(tests); i++)
			run(runs, "{{ %s is %s(%s) }}", v, tests[i], arguments[k]);
	}
	for (size_t k = 0; k < COUNT(values); k++) {
		for (size_t i = 0; i < COUNT(operators); i++)
			run(runs, "{{ %s %s %s }}", v, operators[i], values[k]);
		run(runs, "{{ (%s)[%s] }}{{ (%s)[%s:] }}", v, values[k], v, values[k]);
		run(runs, "{{ (%s)[::-1] }}{{ (%s)[:0] }}{%% set a = %s %%}{{ a ~ %s }}", v, v, v, values[k]);
		run(runs,
		    "{%% for a in %s %%}{{ loop.last }}{{ a }}{%% else %%}{{ %s }}{%% endfor %%}",
		    v, values[k]);
		run(runs, "{%% macro m(a, b=%s) %%}{{ a }}{{ b }}{%% endmacro %%}{{ m(%s) }}", values[k], v);
	}
	for (size_t i = 0; i < COUNT(functions); i++)
		run(runs, "{{ %s(%s) }}", functions[i], v);
	for (size_t i = 0; i < COUNT(filters); i++)
		run(runs, "{{ %s|%s|list }}", v, filters[i]);
	for (size_t i = 0; i < COUNT(tests); i++)
		run(runs, "{{ %s is %s }}", v, tests[i]);
	for (size_t i = 0; i < COUNT(filters); i++)
		run(runs, "{%% filter %s %%}{{ %s }}{%% endfilter %%}", filters[i], v);
	run(runs, "{{ '%%s%%5s%%-5d' %% (%s, %s, %s) }}{{ '{}{:5}{!r:>5}'.format(%s, %s, %s) }}", v,
	    v, v, v, v, v);
}

static void empty_values(void **state)
{
	struct runs runs = { .mem = jinja_mem_new(1 << 20, &test_key), .x = jval_str(NULL, 0) };

	for (size_t i = 0; i < COUNT(values); i++)
		over_value(&runs, values[i]);
	assert_true(runs.compiled > runs.done / 2);
	jinja_mem_free(runs.mem);
}

/* ---- bytes that are not UTF-8 ---------------------------------------------------------------- */

/* The JSON reader never makes such values. The engine must still stay within their bounds. */
static void values_of_any_bytes(void **state)
{
	static const char *const texts[] = {
		"\x87\x87\x87\x87\x87\x87\x87\x87\x87\x87\x87\x87", "\xff", "\xe2\x82", "\xf0\x9f\x98", "a\x80",
		"\xc3", "\xf7\xbf\xbf\xbf\xbf\xbf",
		"\x80 \x80", "\xed\xa0\x80",
	};
	struct runs runs = { .mem = jinja_mem_new(1 << 20, &test_key) };

	for (size_t i = 0; i < COUNT(texts); i++) {
		size_t n = strlen(texts[i]);
		char *edge = (char *)edge_copy(texts[i], n);

		runs.x = jval_str(edge, n);
		over_value(&runs, "x");
		over_value(&runs, "(x ~ x)");
		run(&runs, "{{ ('{:' ~ x * 100 ~ '<9}').format('a') }}{{ ('%%' ~ x) %% 1 }}{{ x|int }}{{ x|"
			"float }}");
		edge_free((uint8_t *)edge, n);
	}
	jinja_mem_free(runs.mem);
}

/* A fill character of 2,000 bytes must be refused, because it once overwrote the stack. */
static void a_template_of_any_bytes(void **state)
{
	static const struct { const char *before; int line, column; } cases[] = {
		{ "{{ '{:", 1, 7 }, { "a\nb\n{{ \"\xc3\xa4\xe2\x82\xac{:", 3, 9 }, { "", 1, 1 }, { "\n", 2, 1 },
	};
	char text[2100];

	for (size_t i = 0; i < COUNT(cases); i++) {
		size_t n = strlen(cases[i].before);
		struct err e = { .line = 0 };

		memcpy(text, cases[i].before, n);
		memset(text + n, 0x87, 2000);
		strcpy(text + n + 2000, "<9}'.format('a') }}");
		assert_null(jinja_compile(span_str(text), &e));
		assert_int_equal(e.line, cases[i].line);
		assert_int_equal(e.column, cases[i].column);
		assert_non_null(strstr(e.text, "0x87 is not UTF-8"));
		assert_non_null(strstr(e.text, "save the file as UTF-8"));
		assert_null(jinja_compile(span_str(text), NULL));
	}
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(empty_values),
		cmocka_unit_test(values_of_any_bytes),
		cmocka_unit_test(a_template_of_any_bytes),
	};

	return cmocka_run_group_tests(all, NULL, NULL);
}

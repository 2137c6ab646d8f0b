/* A JSON file as a tree: its values, and the place and text of each error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/json_doc.h"

static void values(void **state)
{
	static const char text[] =
		"{\"a\": [1, true, null, \"x\\u00e9\"], \"on\": false, \"none\": null, \"name\": \"b\\n\"}";
	struct json_doc *d = json_doc_new(span_str(text), "f.json", NULL, NULL);
	const struct json_node *root, *a;
	struct span name = { 0 };
	bool on = true;
	uint32_t n;

	assert_non_null(d);
	root = json_doc_root(d);
	a = json_get(root, "a");
	assert_int_equal(a->kind, NODE_ARRAY);
	assert_int_equal(json_u32(d, a->child, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(a->child->next->kind, NODE_TRUE);
	assert_true(json_is(a->child->next->next->next, "x\xc3\xa9"));
	assert_int_equal(json_get_bool(d, root, "on", &on, NULL), 0);
	assert_false(on);
	assert_null(json_get(root, "none"));
	assert_int_equal(json_get_text(d, root, "none", &name, NULL), 0);
	assert_null(name.p);
	assert_int_equal(json_need_text(d, root, "name", &name, NULL), 0);
	assert_true(span_eq(name, SPAN("b\n")));
	json_doc_free(d);
}

static void mistakes(void **state)
{
	static const struct { const char *text; int line, column; const char *words; } cases[] = {
		{ "", 1, 1, "a value is expected here, the text ends" },
		{ "{\n \"a\": x}", 2, 7, "a value is expected here" },
		{ "{\"a\" 1}", 1, 6, "a colon is expected here" },
		{ "[1 2]", 1, 4, "a comma or ']' is expected here" },
		{ "[\"\xe6\x97\xa5\", \"\\x\"]", 1, 8, "this escape is none of JSON's, or half of a surrogate "
		  "pair" },
		{ "[\"\\ud83d\"]", 1, 3, "this escape is none of JSON's, or half of a surrogate pair" },
		{ "[\"a\tb\"]", 1, 4, "a control character in a string has to be written as an escape" },
		{ "[\"a", 1, 2, "this string has no end" },
		{ "{\"a\": 1, \"a\": 2}", 1, 15, "a: stands twice in its object" },
		{ "[01]", 1, 2, "a value is expected here" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = { 0 };

		assert_null(json_doc_new(span_str(cases[i].text), "f.json", NULL, &e));
		assert_string_equal(e.text, cases[i].words);
		assert_string_equal(e.file, "f.json");
		assert_int_equal(e.line, cases[i].line);
		assert_int_equal(e.column, cases[i].column);
	}
}

static bool is_raw(const struct json_node *v)
{
	return span_eq(v->key, SPAN("raw"));
}

static void raw_text(void **state)
{
	static const char text[] = "{\"raw\": {\"]\\\"\": 1, \"b\": 22}, \"c\": 3}";
	struct json_doc *d = json_doc_new(span_str(text), NULL, is_raw, NULL);
	struct json_cursor c;
	struct err e = { 0 };
	struct span key;
	uint32_t n, sum = 0;

	assert_non_null(d);
	assert_false(json_cursor_open(&c, d, json_get(json_doc_root(d), "c"), '{'));
	assert_true(json_cursor_open(&c, d, json_get(json_doc_root(d), "raw"), '{'));
	while (json_cursor_next(&c, &e) == 1) {
		assert_int_equal(json_cursor_key(&c, &key, &e), 0);
		assert_int_equal(json_cursor_u32(&c, &n, &e), 0);
		sum += n * (uint32_t)key.n;
	}
	assert_int_equal(sum, 1 * 2 + 22 * 1);
	assert_int_equal(c.n, 2);
	json_doc_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values), cmocka_unit_test(mistakes), cmocka_unit_test(raw_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

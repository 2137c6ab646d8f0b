/* test_show_text.c - JSON as lines and tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "agent/loop/show_text.h"

static const struct {
	const char *json, *text;
} cases[] = {
	{ "{}", "" },
	{ "{\"a\":1,\"b\":\"x y\",\"c\":true,\"d\":null,\"e\":\"\"}",
	    "a: 1\nb: x y\nc: yes\nd: -\ne: -\n" },
	{ "{\"a\":{\"b\":{\"c\":1},\"d\":2},\"e\":3}", "a.b.c: 1\na.d: 2\ne: 3\n" },
	{ "{\"s\":[]}", "none\n" },
	{ "{\"n\":1,\"s\":[]}", "n: 1\ns:\nnone\n" },
	{ "{\"s\":[{\"name\":\"s1\",\"up\":true},{\"name\":\"long\",\"more\":5}]}",
	    "# name up  more\ns1     yes -\nlong   -   5\n" },
	{ "{\"s\":[{\"a\":1,\"in\":{\"b\":2},\"l\":[{\"x\":9}],\"c\":3}],\"t\":[{\"z\":4}],\"u\":5}",
	    "# a in.b c\n1   2    3\nt:\n# z\n4\nu: 5\n" },
	{ "{\"s\":[1,2,[3]],\"a\":4}", "none\na: 4\n" },
	{ "{\"n\":\"a\\u001b[31m\\n\\u00e9b\"}", "n: a?[31m??b\n" },
	{ "{\"s\":[{\"n\":\"\\nx\"},{}]}", "# n\n?x\n-\n" },
};

static void test_cases(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = { .p = NULL };

		print_message("%s\n", cases[i].json);
		assert_int_equal(show_text(span_str(cases[i].json), &out), 0);
		buf_add(&out, "", 1);
		assert_string_equal(out.p, cases[i].text);
		buf_free(&out);
	}
}

/* Columns that a terminal has no room for are named by their number; longer texts become lines. */
static void test_fits_a_terminal(void **state)
{
	static const char x50[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	char json[1024], want[1024];
	struct buf out = { .p = NULL };

	snprintf(json, sizeof(json),
	    "{\"s\":[{\"a\":\"%s\",\"b\":\"%s\",\"c\":\"%s\",\"d\":1}]}", x50, x50, x50);
	snprintf(want, sizeof(want),
	    "# a%*s b\n%s   %s\n# and 2 more columns, which json shows\n", 49, "", x50, x50);
	assert_int_equal(show_text(span_str(json), &out), 0);
	buf_add(&out, "", 1);
	assert_string_equal(out.p, want);
	buf_free(&out);
	snprintf(json, sizeof(json), "{\"s\":[{\"a\":\"%s%s\",\"b\":2},{\"a\":3}]}", x50, x50);
	snprintf(want, sizeof(want), "a: %s%s\nb: 2\n--\na: 3\n", x50, x50);
	assert_int_equal(show_text(span_str(json), &out), 0);
	buf_add(&out, "", 1);
	assert_string_equal(out.p, want);
	buf_free(&out);
}

static void test_refused(void **state)
{
	struct buf out = { .p = NULL };

	assert_int_equal(show_text(SPAN("{\"a\":"), &out), -1);
	assert_int_equal(show_text(SPAN("x"), &out), -1);
	buf_free(&out);
	out.max = 4;
	assert_int_equal(show_text(SPAN("{\"abc\":1}"), &out), -1);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases), cmocka_unit_test(test_fits_a_terminal),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

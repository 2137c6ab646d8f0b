/* The lexical parts of JSON, each at the end of a readable page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/base/json_text.h"
#include "agent/base/utf8.h"
#include "tests/unit/edge.h"

static void numbers(void **state)
{
	static const struct { const char *text; int n; bool real; } cases[] = {
		{ "0", 1, false }, { "-0", 2, false }, { "10,", 2, false }, { "12x", 2, false },
		{ "1.5e", -1, false },
		{ "1.50", 4, true }, { "1e9", 3, true }, { "1E+9]", 4, true }, { "-1.5e-03", 8, true },
		{ "", -1, false }, { "-", -1, false }, { "01", -1, false }, { "1.", -1, false },
		{ ".5", -1, false },
		{ "+1", -1, false }, { "1e+", -1, false }, { "x", -1, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].text);
		const char *p = (const char *)edge_copy((const uint8_t *)cases[i].text, n), *q;
		bool real;

		q = json_number(p, p + n, &real);
		assert_int_equal(q != NULL ? (int)(q - p) : -1, cases[i].n);
		if (q != NULL)
			assert_int_equal(real, cases[i].real);
		edge_free((const uint8_t *)p, n);
	}
}

/* <strict> and <lossy> are the lengths of the escape in each mode; 0: not an escape. */
static void escapes(void **state)
{
	static const char nul[] = "\\\0";
	static const struct { const char *text; unsigned strict, lossy; const char *out; } cases[] = {
		{ "\\n", 2, 2, "\n" }, { "\\\"x", 2, 2, "\"" }, { "\\/", 2, 2, "/" }, { "\\u0041", 6, 6, "A" },
		{ "\\u00E9", 6, 6, "\xc3\xa9" }, { "\\uD83D\\ude00", 12, 12, "\xf0\x9f\x98\x80" },
		{ "\\ud83d", 0, 6, "\xef\xbf\xbd" }, { "\\ude00", 0, 6, "\xef\xbf\xbd" },
		{ "\\ud83d\\u0041", 0, 6, "\xef\xbf\xbd" }, { "\\ud83d\\ude0", 0, 6, "\xef\xbf\xbd" },
		{ "\\ud83d\\n", 0, 6, "\xef\xbf\xbd" }, { "\\ud83d\\ud83d", 0, 6, "\xef\xbf\xbd" },
		{ "\\", 0, 0, "" }, { "\\x", 0, 0, "" }, { "\\u", 0, 0, "" }, { "\\u004", 0, 0, "" },
		{ "\\u00g1", 0, 0, "" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = strlen(cases[i].text), n_out;
		const char *p = (const char *)edge_copy((const uint8_t *)cases[i].text, n);
		char out[UTF8_MAX];

		assert_int_equal(json_escape(p, p + n, false, out, &n_out), cases[i].strict);
		assert_int_equal(json_escape(p, p + n, true, out, &n_out), cases[i].lossy);
		if (cases[i].lossy > 0) {
			assert_int_equal(n_out, strlen(cases[i].out));
			assert_memory_equal(out, cases[i].out, n_out);
		}
		edge_free((const uint8_t *)p, n);
	}
	assert_int_equal(json_escape(nul, nul + 2, true, (char[4]){ 0 }, &(size_t){ 0 }), 0);
}

static void blanks(void **state)
{
	static const char text[] = " \t\r\n x";

	assert_ptr_equal(json_blanks(text, text + 6), text + 5);
	assert_ptr_equal(json_blanks(text, text + 3), text + 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers), cmocka_unit_test(escapes), cmocka_unit_test(blanks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

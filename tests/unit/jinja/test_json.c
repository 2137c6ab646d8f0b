/* JSON read into values as Python's json.loads() does, and printed again. Texts end at an
 * unreadable page. */
#include <errno.h>

#include "tests/unit/edge.h"
#include "tests/unit/jinja/render.h"

/* Read <text> and print it with {{ v|tojson }}, or with {{ v }} if <repr>. <want> is NULL if <text>
 * is not valid JSON. */
static void becomes(struct span text, const char *want, bool repr)
{
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);
	const uint8_t *p = edge_copy(text.p, text.n);
	struct jinja *t = jinja_compile(repr ? SPAN("{{ v }}") : SPAN("{{ v|tojson }}"), NULL);
	struct jval v, vars = jval_dict(m, 1);
	struct rendered r = { .result = JINJA_RAISED };
	int rc = jval_from_json(m, span_of(p, text.n), 0, &v, NULL);

	if (want == NULL) {
		assert_int_equal(rc, -1);
		assert_int_equal(errno, EINVAL);
	} else {
		assert_int_equal(rc, 0);
		assert_true(jdict_put_str(m, vars.d, "v", v));
		r = render_dict(t, m, vars.d);
		assert_int_equal(r.result, JINJA_OK);
		assert_int_equal(r.text.n, strlen(want));
		assert_memory_equal(r.text.p, want, r.text.n);
	}
	buf_free(&r.text);
	jinja_free(t);
	edge_free(p, text.n);
	jinja_mem_free(m);
}

static void test_good(void **state)
{
	static const struct { const char *text, *want;
	} cases[] = {
		{ " {\"a\" : 1 , \"b\":[ ] }\n", "{\"a\": 1, \"b\": []}" },
		{ "{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}" },
		{ "[true,false,null,0,-0,-1]", "[true, false, null, 0, 0, -1]" },
		{ "[9223372036854775807,-9223372036854775807,9223372036854775808,"
		  "-123456789012345678901234567890]",
		    "[9223372036854775807, -9223372036854775807, 9223372036854775808, "
		    "-123456789012345678901234567890]" },
		{ "[1.0,1e5,1E+2,-0.0,1.5e-7,1e16,1e400,0.1]",
		    "[1.0, 100000.0, 100.0, -0.0, 1.5e-07, 1e+16, Infinity, 0.1]" },
		{ "\"\\u0041\\n\\\"\\\\\\/\\ud83d\\ude00\\u00e9\"",
		    "\"A\\n\\\"\\\\/\xf0\x9f\x98\x80\xc3\xa9\"" },
		{ "\"\\ud83d\"", "\"\xef\xbf\xbd\"" },
		{ "\"\\ude00\\ud83d\\ud83d\\ude00\"",
		    "\"\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80\"" },
		{ "\"a\xff"
		  "b\xe2\x82"
		  "c\xf0\x9f\x98\"",
		    "\"a\xef\xbf\xbd"
		    "b\xef\xbf\xbd"
		    "c\xef\xbf\xbd\"" },
		{ "\"\xed\xa0\x80\xc0\xaf\"",
		    "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ "\xef\xbb\xbf[1]", "[1]" },
		{ "\"\"", "\"\"" },
		{ "\"\\\\\"", "\"\\\\\"" },
		{ "7", "7" },
		{ "{\"\":{\"\":{}}}", "{\"\": {\"\": {}}}" },
		{ "{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8,"
		  "\"9\":9,\"10\":10,\"3\":0,\"11\":1,\"9\":9.5}",
		    "{\"1\": 1, \"2\": 2, \"3\": 0, \"4\": 4, \"5\": 5, \"6\": 6, \"7\": 7, \"8\": 8, "
		    "\"9\": 9.5, \"10\": 10, \"11\": 1}" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		becomes(span_str(cases[i].text), cases[i].want, false);
	becomes(SPAN("[\"a'b\", \"\\u200b\\u00e9\", \"'\\\"\", null]"), "[\"a'b\", '\\u200b\xc3\xa9', "
		"'\\'\"', None]", true);
}

static void test_bad(void **state)
{
	static const char *const texts[] = {
		"", " ", "{", "[", "[1", "[1,", "[1,]", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,}", "{a:1}",
		"\"", "\"\\",
		     "\"\\u12\"", "\"\\x\"",
		"01", "-", "1.", "1e", ".5", "+1", "tru", "nul", "[1] x", "1 2", "]", "}", "NaN", "Infinity",
		"'a'", "{1:2}",
		     "[1 2]", "{\"a\" 1}",
		"\"\\ud83d\\", "\"ab\\\"",
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		becomes(span_str(texts[i]), NULL, false);
}

/* Every proper prefix of a valid text is refused, without a read past its end. */
static void test_prefixes(void **state)
{
	static const char text[] =
		"{\"a\\u00e9\":[\"long enough for a block of 32 bytes, and more\\n\",-1.5e3,true,{\"b\":null}]}";
	size_t n;

	for (n = 0; n < sizeof(text) - 1; n++)
		becomes(span_of(text, n), NULL, false);
}

static void test_depth(void **state)
{
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);
	char text[600];
	struct jval v;

	memset(text, '[', 300);
	memset(text + 300, ']', 300);
	assert_int_equal(jval_from_json(m, span_of(text + 300 - JVAL_DEPTH, 2 * JVAL_DEPTH), 0, &v,
			     NULL),
	    0);
	assert_int_equal(jval_from_json(m, span_of(text + 299 - JVAL_DEPTH, 2 * JVAL_DEPTH + 2), 0,
			     &v, NULL),
	    -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(jval_from_json(m, span_of(text, 600), 300, &v, NULL), 0);
	jinja_mem_free(m);
}

/* Strings without escapes are not copied: they point into the text. */
static void test_borrowed(void **state)
{
	static const char text[] = "[\"plain\", \"with \\\" escape\"]";
	struct jinja_mem *m = jinja_mem_new(1 << 20, &test_key);
	struct jval v;

	assert_int_equal(jval_from_json(m, span_str(text), 0, &v, NULL), 0);
	assert_ptr_equal(v.v[0].s, text + 2);
	assert_int_equal(v.v[0].n, 5);
	assert_true(v.v[1].s < text || v.v[1].s > text + sizeof(text));
	jinja_mem_free(m);
}

/* Write <c> as JSON to <p>. Returns its bytes. */
static size_t put_char(char *p, unsigned c)
{
	const char *in = "\"\\\n\r\t\b\f", *is = "\"\\nrtbf", *at = c > 0 ? strchr(in, (int)c) : NULL;

	if (at != NULL)
		return (size_t)sprintf(p, "\\%c", is[at - in]);
	return (size_t)sprintf(p, c < 0x20 ? "\\u%04x" : "%c", c);
}

/* Each character of one byte at each place of texts of several lengths: it is found by 16 bytes, or
 * one by one near the end. Bad bytes after it take more room than others. */
static void test_places(void **state)
{
	char text[200];

	(void)state;
	for (unsigned c = 0; c < 0x80; c++) {
		for (unsigned i = 0; i < 50; i++) {
			unsigned before = i % 35, after = i * 7 % 40;
			size_t n = 1;

			text[0] = '"';
			for (unsigned k = 0; k < before; k++)
				text[n++] = 'a';
			n += put_char(text + n, c);
			for (unsigned k = 0; k < after; k++)
				text[n++] = "b\xc3\xa9"[k % 3 > 0 && after % 3 == 0 ? k % 3 : 0];
			text[n++] = '"';
			text[n] = '\0';
			becomes(span_of(text, n), text, false);
		}
	}
	for (unsigned before = 0; before < 40; before++) {
		char want[300] = "\"\\n";
		size_t n = 3, m = 3;

		memcpy(text, want, 3);
		for (unsigned k = 0; k < before; k++)
			text[n++] = want[m++] = 'a';
		for (unsigned k = 0; k < 40; k++, m += 3) {
			text[n++] = '\xff';
			memcpy(want + m, "\xef\xbf\xbd", 3);
		}
		text[n++] = want[m++] = '"';
		becomes(span_of(text, n), want, false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_bad), cmocka_unit_test(test_prefixes),
		     cmocka_unit_test(test_depth),
		cmocka_unit_test(test_borrowed), cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

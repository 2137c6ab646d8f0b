/* test_logline_ends.c - the limits of the JSON in a log line, with a header before it and a
 * client's text after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/feed/logline.h"

static const struct {
	const char *line;
	int ret;
	const char *uid, *server;
} cases[] = {
	{ "{\"uid\":\"a\",\"srv\":\"s1\"}", 0, "a", "s1" },
	{ "{\"uid\":\"a\",\"srv\":\"s1\"}\r\n", 0, "a", "s1" },
	{ "<134>1 2026-11-21T01:33:25.440538+00:00 - haproxy 8813 - {\"uid\":\"a\",\"srv\":\"s1\"} "
	  "192.0.2.1:60224 "
	  "[21/Nov/2026:01:33:25.439] llm pool/s1 0/0/1/5/9 200 49 - - ---- \"POST /v1/completions "
	  "HTTP/1.1\"",
	    0, "a", "s1" },
	/* text that a client puts into its request has no effect */
	{ "x {\"uid\":\"a\",\"srv\":\"s1\"} \"GET /{\"uid\":\"b\",\"srv\":\"s2\"} HTTP/1.1\"", 0,
	    "a", "s1" },
	{ "{\"uid\":\"a\",\"srv\":\"s1\"}{\"uid\":\"b\",\"srv\":\"s2\"}", 0, "a", "s1" },
	{ "{\"uid\":\"a\",\"srv\":\"s1\"},\"srv\":\"s2\"}", 0, "a", "s1" },
	/* without its end an object is no line */
	{ "{\"uid\":\"a\",\"srv\":\"s1\"", -1, NULL, NULL },
	{ "{\"uid\":\"a\",\"srv\":\"s1\",}", -1, NULL, NULL },
	{ "{\"srv\":\"s1\"} {\"uid\":\"a\"}", LOGLINE_NAMELESS, NULL, NULL },
	{ "no brace at all", -1, NULL, NULL },
	{ "", -1, NULL, NULL },
};

static void ends(void **state)
{
	static struct logline l;
	struct fact f;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(logline_parse(&l, cases[i].line, strlen(cases[i].line), &f), cases[i].ret);
		if (cases[i].ret < 0)
			continue;
		assert_true(span_eq(f.uid, span_str(cases[i].uid)));
		assert_true(span_eq(f.server, span_str(cases[i].server)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(ends) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_normal_fault.c - each allocation of a normalizer and of its work fails once, in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent/tok/normal.h"
#include "tests/unit/fault.h"

static void story(void)
{
	static const struct normal_step steps[] = {
		{ .kind = NORMAL_NFC }, { .kind = NORMAL_PREPEND, .content = SPAN("_") },
		{ .kind = NORMAL_REPLACE, .pattern = SPAN(" "),
		  .content = SPAN("_-_-_-_-_-_-_-_-_-_-_-_-_-_-_-_") },
		{ .kind = NORMAL_REPLACE, .pattern = SPAN("[\\w&&c]+"), .content = SPAN("<>"), .regex = true },
	};
	char text[700];
	struct normal_buf b = { .work = NULL };
	struct normal *m;
	struct span out;
	struct err e;
	size_t i;

	memset(text, ' ', sizeof(text));
	for (i = 0; i + 3 < sizeof(text); i += i < 300 ? 3 : 9)	/* a long run of marks, then more text */
		memcpy(text + i, i % 2 ? "c\xcc\x82" : "\xcc\xa3z", 3);
	for (i = 0; i < 400; i += 2)
		memcpy(text + i, i % 4 ? "\xcc\x82" : "\xcc\xa3", 2);
	if ((m = normal_new(steps, 4, &e)) == NULL) {
		assert_non_null(strstr(e.text, "no memory"));
		m = normal_new(steps, 4, &e);
	}
	assert_non_null(m);
	normal_run(m, &b, span_of(text, sizeof(text)), &out);
	if (out.p == NULL)
		normal_run(m, &b, span_of(text, sizeof(text)), &out);
	assert_non_null(out.p);
	assert_true(out.n > sizeof(text) && out.p[0] == '_');
	normal_buf_fini(&b);
	normal_free(m);
}

static void every_allocation_fails_once(void **state)
{
	unsigned long k;

	for (k = 1; ; k++) {
		fault_begin(k);
		story();
		if (!fault_end())
			break;
	}
	assert_true(k > 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_fails_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

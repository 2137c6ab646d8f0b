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

/* A table with one key: 'a' becomes U+00E9. Its unit at 1 ^ 'a' leads to the base 256. */
static void make_table(uint8_t table[4 + 4 * 512 + 3])
{
	const uint32_t at = 1 ^ 'a';
	const struct {
		uint32_t i, unit;
	} units[] = { { 0, 1u << 10 }, { at, (at ^ 256) << 10 | 1u << 8 | 'a' }, { 256, 1u << 31 } };

	memset(table, 0, 4 + 4 * 512 + 3);
	for (size_t i = 0; i < 512; i++)
		table[4 + 4 * i + 3] = 0x80;
	table[1] = 8;				/* 2048 bytes of units */
	for (size_t k = 0; k < 3; k++)
		for (size_t b = 0; b < 4; b++)
			table[4 + 4 * units[k].i + b] = (uint8_t)(units[k].unit >> 8 * b);
	memcpy(table + 4 + 4 * 512, "\xc3\xa9", 3);
}

static void table_story(enum normal_kind kind)
{
	uint8_t table[4 + 4 * 512 + 3];
	struct normal_step step = { .kind = kind, .pattern = span_of(table, sizeof(table)),
		.flags = kind == NORMAL_SENTENCE ? NORMAL_FLAGS : 0 };
	struct normal_buf b = { .work = NULL };
	struct span in = SPAN("a  bab "), out;
	struct normal *m;
	struct err e;

	make_table(table);
	if ((m = normal_new(&step, 1, &e)) == NULL) {
		assert_non_null(strstr(e.text, "memory"));
		m = normal_new(&step, 1, &e);
	}
	assert_non_null(m);
	normal_run(m, &b, in, &out);
	if (out.p == NULL)
		normal_run(m, &b, in, &out);
	assert_true(span_eq(out, kind == NORMAL_SENTENCE
	    ? SPAN("\xe2\x96\x81\xc3\xa9\xe2\x96\x81" "b\xc3\xa9" "b")
	    : SPAN("\xc3\xa9  b\xc3\xa9" "b ")));
	normal_buf_fini(&b);
	normal_free(m);
}

static void tables(void **state)
{
	for (unsigned long kind = NORMAL_PRECOMPILED; kind <= NORMAL_SENTENCE; kind++) {
		unsigned long k;

		for (k = 1; ; k++) {
			fault_begin(k);
			table_story((enum normal_kind)kind);
			if (!fault_end())
				break;
		}
		assert_true(k > 5);
	}
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
		cmocka_unit_test(tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tables of replacements: the shortest and the longest key, tables that lead outside, random bytes;
 * grapheme clusters; what SentencePiece's own normalizer does with spaces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/base/utf8.h"
#include "agent/tok/charsmap.h"
#include "agent/tok/normal.h"
#include "agent/tok/unicode/grapheme.h"
#include "tests/unit/edge.h"

#define COUNT(a)	(sizeof(a) / sizeof((a)[0]))
#define UNITS		512u
#define KEY		(1u << 8)

/* A table for "a" -> "1", "ab" -> "22", "o" + U+0301 -> "0", unit by unit. */
struct table {
	uint32_t bytes, unit[UNITS];
	char to[16];
};

static void edge(struct table *t, uint32_t base, uint8_t byte, uint32_t child, bool key)
{
	uint32_t at = base ^ byte;

	t->unit[at] = (at ^ child) << 10 | (key ? KEY : 0) | byte;
}

static void make(struct table *t)
{
	*t = (struct table){ .bytes = sizeof(t->unit), .to = "1\0" "22\0" "0" };
	for (uint32_t i = 0; i < UNITS; i++)
		t->unit[i] = 1u << 31;
	t->unit[0] = 256u << 10;
	edge(t, 256, 'a', 2, true);
	t->unit[2] = 1u << 31 | 0;
	edge(t, 2, 'b', 4, true);
	t->unit[4] = 1u << 31 | 2;
	edge(t, 256, 'o', 8, false);
	edge(t, 8, 0xcc, 16, false);
	edge(t, 16, 0x81, 32, true);
	t->unit[32] = 1u << 31 | 5;
}

static struct charsmap *map_of(const struct table *t, size_t n, struct err *e)
{
	void *p = edge_copy(t, n);
	struct charsmap *m = charsmap_new(span_of(p, n), e);

	edge_free(p, n);
	return m;
}

static void keys(void **state)
{
	static const struct {
		const char *text;
		size_t shortest, longest;
		const char *to, *to_longest;
	} want[] = { { "a", 1, 1, "1", "1" }, { "ab", 1, 2, "1", "22" }, { "abc", 1, 2, "1", "22" },
		{ "o", 0, 0, "", "" }, { "o\xcc\x81x", 3, 3, "0", "0" }, { "b", 0, 0, "", "" },
		{ "", 0, 0, "", "" } };
	struct table t;
	struct charsmap *m;
	struct span to;
	size_t seen;
	struct err e;

	make(&t);
	assert_non_null(m = map_of(&t, sizeof(t), &e));
	for (size_t i = 0; i < COUNT(want); i++) {
		size_t n = strlen(want[i].text);
		uint8_t *p = edge_copy(want[i].text, n);

		to = SPAN("");
		assert_int_equal(charsmap_shortest(m, p, n, &to), want[i].shortest);
		assert_true(span_eq(to, span_str(want[i].to)));
		to = SPAN("");
		assert_int_equal(charsmap_longest(m, p, n, &to, &seen), want[i].longest);
		assert_in_range(seen, want[i].longest, n);
		assert_true(span_eq(to, span_str(want[i].to_longest)));
		edge_free(p, n);
	}
	charsmap_free(m);
}

static void expect_bad(const struct table *t, size_t n, const char *words)
{
	struct err e;
	struct charsmap *m = map_of(t, n, &e);

	assert_null(m);
	assert_non_null(strstr(e.text, words));
}

static void tables_that_lead_outside(void **state)
{
	struct table t;
	struct charsmap *m;
	struct err e;

	make(&t);
	for (size_t n = 0; n < sizeof(t.unit) + 4; n += n < 16 ? 1 : 97)
		expect_bad(&t, n, "shorter");
	t.unit[0] = 512u << 10;
	expect_bad(&t, sizeof(t), "outside");
	make(&t);
	edge(&t, 2, 'b', 600, true);
	expect_bad(&t, sizeof(t), "outside");
	make(&t);
	t.unit[4] = 1u << 31 | 17;		/* a replacement after the end */
	expect_bad(&t, sizeof(t), "outside");
	make(&t);
	t.to[0] = (char)0xff;
	expect_bad(&t, sizeof(t), "UTF-8");
	make(&t);
	memcpy(t.to, "\xc3\xa9", 2);
	t.unit[4] = 1u << 31 | 1;		/* inside a character */
	expect_bad(&t, sizeof(t), "outside");
	make(&t);
	edge(&t, 2, 'b', 256, false);		/* a loop */
	assert_non_null(m = map_of(&t, sizeof(t), &e));
	charsmap_free(m);
	t.bytes = (CHARSMAP_UNITS_MAX + 1) * 4;
	expect_bad(&t, sizeof(t), "shorter");
}

/* Damaged tables are rejected, or every look-up stays inside. */
static void random_tables(void **state)
{
	uint8_t text[64];
	struct charsmap *m;
	struct table t;
	struct span to;
	unsigned good = 0;
	size_t seen;
	struct rng r;
	struct err e;

	rng_init(&r, 11);
	for (unsigned i = 0; i < 3000; i++) {
		make(&t);
		for (unsigned k = rng_below(&r, 4); k > 0; k--) {
			uint32_t at = (uint32_t[]){ 0, 2, 4, 32, 256 ^ 'a', 2 ^ 'b', 16 ^ 0x81 }[rng_below(&r, 7)];

			t.unit[at] ^= 1u << rng_below(&r, 32);
		}
		if ((m = map_of(&t, sizeof(t), &e)) == NULL)
			continue;
		good++;
		for (unsigned k = 0; k < sizeof(text); k++)
			text[k] = "abo\xcc\x81"[rng_below(&r, 5)];
		for (size_t k = 0; k < sizeof(text); k++) {
			size_t shortest = charsmap_shortest(m, text + k, sizeof(text) - k, &to);

			assert_true(shortest <= charsmap_longest(m, text + k, sizeof(text) - k, &to, &seen));
			assert_true(seen <= sizeof(text) - k);
		}
		charsmap_free(m);
	}
	assert_true(good > 300 && good < 3000);
}

/* Each text is one cluster up to the bar. */
static void clusters(void **state)
{
	static const char *const want[] = { "a|b", "a\xcc\x81\xcc\x88|b", "\r\n|\n", "\n|\r\n", "\r|\r\n",
		"\x01|\xcc\x81", "\xd8\x80\x61|b",
		"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8|\xe1\x84\x80", "\xea\xb0\x80\xe1\x86\xa8|\xe1\x85\xa1",
		"\xea\xb0\x81\xe1\x86\xa8|\xea\xb0\x80",
		"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa|\xf0\x9f\x87\xa9",
		"\xc2\xa9\xe2\x80\x8d\xc2\xa9|x", "\xc2\xa9\xcc\x81\xe2\x80\x8d\xc2\xae|x",
		"\xc2\xa9\xe2\x80\x8d\xe2\x80\x8d|\xc2\xa9", "a\xe2\x80\x8d|\xc2\xa9",
		"\xe0\xa4\x95\xe0\xa5\x8d\xe0\xa4\xb7\xe0\xa4\xbf|\xe0\xa4\x95",
		"\xe0\xa4\x95\xe0\xa4\xbc|\xe0\xa4\x95", "\xe0\xa5\x8d|\xe0\xa4\x95",
		"\xe0\xb8\x81\xe0\xb8\xb3|x", "\xe6\x9d\xb1|\xe4\xba\xac" };

	for (size_t i = 0; i < COUNT(want); i++) {
		char text[64];
		size_t n = strcspn(want[i], "|"), all = strlen(want[i]) - 1;
		uint8_t *p;

		memcpy(text, want[i], n);
		memcpy(text + n, want[i] + n + 1, all - n);
		p = edge_copy(text, all);
		if (grapheme_length(p, all) != n)
			fail_msg("\"%s\": %zu bytes", want[i], grapheme_length(p, all));
		edge_free(p, all);
	}
	assert_int_equal(grapheme_length(NULL, 0), 0);
}

static void steps(void **state)
{
	static const struct {
		enum normal_kind kind;
		unsigned flags;
		const char *in, *out;
	} want[] = { { NORMAL_NMT, 0, "a\tb\x01" "c\xe2\x80\x8b" "d", "a bc d" },
		{ NORMAL_PRECOMPILED, 0, "cab", "c1b" },
		{ NORMAL_PRECOMPILED, 0, "o\xcc\x81", "0" },
		{ NORMAL_PRECOMPILED, 0, "o\xcc\x81\xcc\x81\xcc\x81", "o\xcc\x81\xcc\x81\xcc\x81" },
		{ NORMAL_PRECOMPILED, 0, "a\xcc\x81", "1" },
		{ NORMAL_SENTENCE, 0, "cab o\xcc\x81", "c22 0" },
		{ NORMAL_SENTENCE, NORMAL_PREFIX | NORMAL_ONE_SPACE | NORMAL_MARKS, "  x  y ",
		    "\xe2\x96\x81x\xe2\x96\x81y" },
		{ NORMAL_SENTENCE, NORMAL_PREFIX | NORMAL_ONE_SPACE | NORMAL_MARKS, "   ", "" },
		{ NORMAL_SENTENCE, NORMAL_PREFIX, " x  ", "  x  " }, { NORMAL_SENTENCE, NORMAL_MARKS, "", "" } };
	struct normal_buf b = { .work = NULL };
	struct table t;

	make(&t);
	for (size_t i = 0; i < COUNT(want); i++) {
		struct normal_step s = { .kind = want[i].kind, .flags = want[i].flags,
			.pattern = span_of((char *)&t, sizeof(t)) };
		struct err e;
		struct normal *m = normal_new(&s, 1, &e);
		struct span out;

		assert_non_null(m);
		normal_run(m, &b, span_str(want[i].in), &out);
		if (!span_eq(out, span_str(want[i].out)))
			fail_msg("%zu: \"" SPAN_FMT "\"", i, SPAN_ARG(out));
		normal_free(m);
	}
	normal_buf_fini(&b);
}

/* A key that ends inside a character: SentencePiece gives U+FFFD for each byte of the rest, so that
 * the result stays UTF-8; Precompiled replaces the whole character. */
static void key_inside(void **state)
{
	static const char *const want[] = { "x1y", "x1\xef\xbf\xbd\xef\xbf\xbdy" };
	struct normal_buf b = { .work = NULL };
	struct table t;

	make(&t);
	edge(&t, 256, 0xe2, 64, true);
	t.unit[64] = 1u << 31 | 0;
	for (unsigned i = 0; i < 2; i++) {
		struct normal_step s = { .kind = i ? NORMAL_SENTENCE : NORMAL_PRECOMPILED,
			.pattern = span_of((char *)&t, sizeof(t)) };
		struct err e;
		struct normal *m = normal_new(&s, 1, &e);
		struct span out;

		assert_non_null(m);
		normal_run(m, &b, SPAN("x\xe2\x82\xacy"), &out);
		if (!span_eq(out, span_str(want[i])))
			fail_msg("%u: \"" SPAN_FMT "\"", i, SPAN_ARG(out));
		normal_free(m);
	}
	normal_buf_fini(&b);
}

/* The budget ends a text with a key in every byte. */
static void work(void **state)
{
	static char text[100000];
	struct work_left w = { .left = 50000 };
	struct normal_buf b = { .work = &w };
	struct normal_step s = { .kind = NORMAL_PRECOMPILED };
	struct normal *m;
	struct table t;
	struct span out;
	struct err e;

	make(&t);
	memset(text, 'a', sizeof(text));
	for (unsigned i = 0; i < 2; i++) {
		s.kind = i ? NORMAL_SENTENCE : NORMAL_PRECOMPILED;
		s.pattern = span_of((char *)&t, sizeof(t));
		assert_non_null(m = normal_new(&s, 1, &e));
		w.left = 50000;
		normal_run(m, &b, span_of(text, sizeof(text)), &out);
		assert_null(out.p);
		assert_true(work_spent(&w));
		w.left = 2 * sizeof(text);
		normal_run(m, &b, span_of(text, sizeof(text)), &out);
		assert_int_equal(out.n, sizeof(text));
		normal_free(m);
	}
	normal_buf_fini(&b);
}

/* A table whose 'a' leads back to its own place, without a key: each look-up walks to the end of
 * the text, and each byte of the walk is charged. */
static void walks_are_charged(void **state)
{
	static char text[4096];
	const uint64_t all = sizeof(text) * sizeof(text) / 2;
	struct work_left w = { .left = all };
	struct normal_buf b = { .work = &w };
	struct normal_step s = { .kind = NORMAL_SENTENCE };
	struct normal *m;
	struct table t;
	struct span out;
	struct err e;

	make(&t);
	edge(&t, 256, 'a', 256, false);
	s.pattern = span_of((char *)&t, sizeof(t));
	assert_non_null(m = normal_new(&s, 1, &e));
	memset(text, 'a', sizeof(text));
	normal_run(m, &b, span_of(text, sizeof(text)), &out);
	assert_int_equal(out.n, sizeof(text));
	assert_true(all - w.left > all / 8);
	w.left = all / 8;
	normal_run(m, &b, span_of(text, sizeof(text)), &out);
	assert_null(out.p);
	normal_free(m);
	normal_buf_fini(&b);
}

/* A mark that becomes LONG bytes: nothing is written that is not paid, alone or in one cluster. */
static void replacements_are_paid_first(void **state)
{
	enum { LONG = 64 * 1024, MARKS = 2000 };
	static struct { struct table t; char to[LONG]; } f;
	static char text[1 + 2 * MARKS];
	static const size_t left[] = { sizeof(text) + LONG / 16 * 3, LONG / 16 };
	struct work_left w;
	struct normal_step s = { .kind = NORMAL_PRECOMPILED };
	struct normal *m;
	struct span out;
	struct err e;

	make(&f.t);
	edge(&f.t, 256, 0xcc, 8, false);
	edge(&f.t, 8, 0x81, 16, true);
	f.t.unit[16] = 1u << 31 | sizeof(f.t.to);
	memset(f.to, 'x', LONG - 1);
	s.pattern = span_of((char *)&f, sizeof(f));
	assert_non_null(m = normal_new(&s, 1, &e));
	text[0] = 'b';
	for (size_t i = 1; i < sizeof(text); i += 2)
		memcpy(text + i, "\xcc\x81", 2);
	for (unsigned i = 0; i < 2; i++) {
		struct normal_buf b = { .work = &w };

		w.left = left[i];
		normal_run(m, &b, i ? SPAN("\xcc\x81") : span_of(text, sizeof(text)), &out);
		assert_null(out.p);
		assert_true(work_spent(&w));
		assert_true(normal_buf_bytes(&b) < (i ? LONG : 8 * LONG));
		normal_buf_fini(&b);
	}
	normal_free(m);
}

/* Each space of a replacement is written on its own, so SentencePiece's are charged by the byte. */
static void added_spaces_are_charged(void **state)
{
	static char text[1000];
	struct work_left w = { .left = 100000 };
	struct normal_buf b = { .work = &w };
	struct normal_step s = { .kind = NORMAL_SENTENCE, .flags = NORMAL_MARKS };
	struct normal *m;
	struct table t;
	struct span out;
	struct err e;

	make(&t);
	memset(t.to, ' ', sizeof(t.to) - 1);
	s.pattern = span_of((char *)&t, sizeof(t));
	assert_non_null(m = normal_new(&s, 1, &e));
	memset(text, 'a', sizeof(text));
	normal_run(m, &b, span_of(text, sizeof(text)), &out);
	assert_int_equal(out.n, 3 * 15 * sizeof(text));
	assert_int_equal(100000 - w.left, 15 * sizeof(text));
	normal_free(m);
	normal_buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(keys),
		cmocka_unit_test(tables_that_lead_outside), cmocka_unit_test(random_tables),
		cmocka_unit_test(clusters), cmocka_unit_test(steps), cmocka_unit_test(key_inside),
		cmocka_unit_test(work), cmocka_unit_test(walks_are_charged),
		cmocka_unit_test(replacements_are_paid_first), cmocka_unit_test(added_spaces_are_charged) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

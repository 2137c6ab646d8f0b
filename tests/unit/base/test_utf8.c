/* UTF-8: sequences of every kind of byte, against a byte-by-byte reading of the table of Unicode
 * 15, section 3.9. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/base/utf8.h"
#include "tests/unit/edge.h"

/* Return the length of the well-formed character at <p>. Returns 0 if there is none, and sets *part
 * to the length of the maximal malformed part, at least 1. */
static size_t slow(const uint8_t *p, size_t n, size_t *part)
{
	static const struct { uint8_t from, to, n, low, high; } rows[] = {
		{ 0x00, 0x7f, 1, 0, 0 }, { 0xc2, 0xdf, 2, 0x80, 0xbf }, { 0xe0, 0xe0, 3, 0xa0, 0xbf },
		{ 0xe1, 0xec, 3, 0x80, 0xbf },
		{ 0xed, 0xed, 3, 0x80, 0x9f }, { 0xee, 0xef, 3, 0x80, 0xbf }, { 0xf0, 0xf0, 4, 0x90, 0xbf },
		{ 0xf1, 0xf3, 4, 0x80, 0xbf }, { 0xf4, 0xf4, 4, 0x80, 0x8f },
	};

	*part = 1;
	for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
		if (p[0] < rows[r].from || p[0] > rows[r].to)
			continue;
		for (size_t i = 1; i < rows[r].n; i++) {
			uint8_t low = i == 1 ? rows[r].low : 0x80, high = i == 1 ? rows[r].high : 0xbf;

			if (i == n || p[i] < low || p[i] > high) {
				*part = i;
				return 0;
			}
		}
		return rows[r].n;
	}
	return 0;
}

static void check(const uint8_t *text, size_t n)
{
	const uint8_t *p = edge_copy(text, n);
	uint8_t want[700], got[700];
	size_t good = 0, m = 0, part, k;

	while (good < n && (k = slow(p + good, n - good, &part)) > 0)
		good += k;
	assert_int_equal(utf8_good(p, n), good);
	if (good < n)
		assert_int_equal(utf8_bad(p + good, n - good), part);
	for (size_t i = 0; i < n; i += k ? k : part) {
		if ((k = slow(p + i, n - i, &part)) > 0)
			memcpy(want + m, p + i, k);
		else
			memcpy(want + m, "\xef\xbf\xbd", 3);
		m += k ? k : 3;
	}
	assert_int_equal(utf8_mend(p, n, got), m);
	assert_memory_equal(got, want, m);
	edge_free(p, n);
}

static const uint8_t kinds[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1,
	0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff };
#define N_KINDS sizeof(kinds)

static void short_sequences(void **state)
{
	uint8_t p[4];

	for (size_t i = 0; i < N_KINDS * N_KINDS * N_KINDS; i++) {
		p[0] = kinds[i % N_KINDS];
		p[1] = kinds[i / N_KINDS % N_KINDS];
		p[2] = kinds[i / N_KINDS / N_KINDS];
		for (size_t n = 0; n <= 3; n++)
			check(p, n);
	}
}

/* A valid or malformed character of three bytes with text after it; and a lead byte after ASCII
 * text of each length, past the steps of 16 bytes. */
static void three_bytes(void **state)
{
	uint8_t p[40];

	for (size_t i = 0; i < 32 * N_KINDS * N_KINDS; i++) {
		memcpy(p, "\xe6\x97\xa5...xy", 8);
		p[3] = (uint8_t)(0xe0 + i % 32);
		p[4] = kinds[i / 32 % N_KINDS];
		p[5] = kinds[i / 32 / N_KINDS];
		check(p, 8);
	}
	for (size_t n = 0; n < sizeof(p); n++) {
		memset(p, 'x', sizeof(p));
		p[n] = 0xe6;
		check(p, sizeof(p));
		assert_int_equal(utf8_ascii(p, sizeof(p)), n);
		check(p, n + 1);
		assert_int_equal(utf8_ascii(p, n), n);
	}
}

static void long_sequences(void **state)
{
	struct rng r;
	uint8_t p[100];

	rng_init(&r, 3);
	for (unsigned round = 0; round < 20000; round++) {
		size_t n = rng_below(&r, 100);

		for (size_t i = 0; i < n; i++)
			p[i] = rng_below(&r, 30) ? 'x' : kinds[rng_below(&r, N_KINDS)];
		check(p, n);
		for (size_t i = 0; i + 3 <= n; i += 3)
			memcpy(p + i, "\xe6\x97\xa5", 3);
		check(p, n);
	}
}

/* Append characters of one to four bytes to <p>, mostly of more than one; returns the length. */
static size_t characters(struct rng *r, uint8_t *p, size_t most)
{
	static const uint32_t above[] = { 0, 0x80, 0x800, 0x10000, 0x110000 };
	size_t n = 0;

	while (n + UTF8_MAX <= most) {
		uint32_t k = rng_below(r, 16), cp;

		k = k == 0 ? 0 : k < 4 ? 1 : k < 13 ? 2 : 3;
		cp = above[k] + rng_below(r, above[k + 1] - above[k]);
		if (cp < 0xd800 || cp >= 0xe000)
			n += utf8_put(p + n, cp);
	}
	return n;
}

/* Blocks of 32 bytes are told to be good at once: nothing bad hides in one, or between two, and
 * nothing good stops them. */
static void blocks(void **state)
{
	struct rng r;
	uint8_t p[200];

	rng_init(&r, 5);
	for (unsigned round = 0; round < 20000; round++) {
		size_t n = characters(&r, p, rng_below(&r, sizeof(p)));

		assert_int_equal(utf8_good(p, n), n);
		for (unsigned i = 0; i < 2 && n > 0; i++) {
			p[rng_below(&r, (uint32_t)n)] = kinds[rng_below(&r, N_KINDS)];
			check(p, n);
		}
	}
}

static void cuts(void **state)
{
	static const struct { const char *text; size_t cut; } cases[] = {
		{ "", 0 }, { "a", 0 }, { "a\xc3", 1 }, { "a\xc3\xa9", 0 }, { "\xe6", 1 }, { "\xe6\x97", 2 },
		{ "\xe6\x97\xa5", 0 },
		{ "\xf0\x9f\x98", 3 }, { "\xf0\x9f\x98\x80", 0 }, { "\xf4\x90", 0 }, { "\x80", 0 },
		{ "a\x80\x80\x80", 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(utf8_cut((const uint8_t *)cases[i].text, strlen(cases[i].text)), cases[i].cut);
}

/* Every code point survives encoding and decoding; the encoding is valid except for surrogates. */
static void every_code_point(void **state)
{
	uint8_t p[UTF8_MAX];
	uint32_t cp, got;

	for (cp = 0; cp < 0x110000; cp++) {
		size_t n = utf8_put(p, cp), good = cp >= 0xd800 && cp < 0xe000 ? 0 : n;

		assert_int_equal(n, cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4);
		assert_int_equal(utf8_get(p, n, &got), n);
		assert_int_equal(got, cp);
		assert_int_equal(utf8_length(p[0]), n);
		assert_int_equal(utf8_get_strict(p, n, &got), good);
		assert_int_equal(utf8_get_lossy(p, n, &got), good ? n : 1);
		assert_int_equal(got, good ? cp : UTF8_REPLACEMENT);
	}
}

/* Bytes of any kind are read within bounds; the strict and lossy forms agree with the table. */
static void any_bytes(void **state)
{
	uint8_t text[4];
	size_t part, want, n;
	uint32_t cp;

	for (size_t i = 0; i < N_KINDS * N_KINDS * N_KINDS; i++) {
		text[0] = kinds[i % N_KINDS];
		text[1] = kinds[i / N_KINDS % N_KINDS];
		text[2] = kinds[i / N_KINDS / N_KINDS];
		text[3] = 0x80;
		for (n = 1; n <= 4; n++) {
			const uint8_t *p = edge_copy(text, n);

			want = slow(p, n, &part);
			assert_in_range(utf8_get(p, n, &cp), 1, n);
			assert_int_equal(utf8_get_strict(p, n, &cp), want);
			assert_int_equal(utf8_get_lossy(p, n, &cp), want ? want : 1);
			if (want == 0)
				assert_int_equal(cp, UTF8_REPLACEMENT);
			assert_true(utf8_before(p, n) < n);
			edge_free(p, n);
		}
	}
}

static void steps_over_valid_text(void **state)
{
	static const char text[] = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80z";
	static const size_t starts[] = { 0, 1, 3, 6, 10 };
	size_t at = sizeof(text) - 1;

	assert_int_equal(utf8_count(text, at), 5);
	assert_int_equal(utf8_count(text, 0), 0);
	for (size_t i = 5; i-- > 0; ) {
		at = utf8_before(text, at);
		assert_int_equal(at, starts[i]);
	}
	assert_int_equal(utf8_before("\x80\x80\x80\x80\x80\x80", 6), 2);
}

static void places(void **state)
{
	struct span text = SPAN("a\n\xe6\x97\xa5""bc\xff");
	struct err e = { 0 };

	assert_int_equal(utf8_check(text, "f", &e), -1);
	assert_string_equal(e.file, "f");
	assert_int_equal(e.line, 2);
	assert_int_equal(e.column, 4);
	utf8_place(text, 0, NULL, &e);
	assert_true(e.line == 1 && e.column == 1 && e.file[0] == '\0');
	utf8_place(text, 1, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_sequences),
		cmocka_unit_test(three_bytes),
		cmocka_unit_test(long_sequences), cmocka_unit_test(blocks),
		cmocka_unit_test(cuts),
		cmocka_unit_test(every_code_point),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test(steps_over_valid_text),
		cmocka_unit_test(places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The search for added tokens against the reference in added_truth.h, which tries every token at
 * every position. Then cases of white space, words, the tail of a growing text, and the filter of
 * first bytes for all 256 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/tok/added.h"
#include "agent/base/utf8.h"
#include "agent/tok/word.h"
#include "tests/unit/edge.h"
#include "tests/unit/tok/added_truth.h"

#define TOKENS_MAX	12
#define TEXT_MAX	TRUTH_TEXT_MAX

static bool agree(const struct added *a, const struct added_token *t, size_t n_tokens,
    const char *p, size_t n)
{
	struct truth_hit want[TEXT_MAX];
	size_t hits = truth(t, n_tokens, p, n, want), i = 0;
	struct added_at at = { 0, 0 };
	struct added_hit hit;

	for (; added_next(a, span_of(p, n), &at, &hit); i++) {
		if (i == hits || hit.at != want[i].at || hit.at + hit.n != want[i].end || hit.id != want[i].id)
			return false;
	}
	return i == hits;
}

/* Return whether text after a cut never changes the hits before the tail of the cut text. */
static bool tail_holds(const struct added *a, const char *p, size_t n)
{
	struct added_at zero = { 0, 0 };

	for (size_t cut = 0; cut < n; cut++) {
		struct added_at at = zero, bt = zero;
		struct added_hit x, y;
		size_t settled;
		bool more;

		if ((p[cut] & 0xc0) == 0x80)
			continue;
		settled = cut - added_tail(a, span_of(p, cut), &zero);
		do {
			more = added_next(a, span_of(p, n), &at, &x);
			if (more && x.at >= settled)
				break;
			if (added_next(a, span_of(p, cut), &bt, &y) != more)
				return !more && y.at >= settled;
			if (more && (x.at != y.at || x.n != y.n || x.id != y.id))
				return false;
		} while (more);
	}
	return true;
}

/* ---- random tokens and texts ----------------------------------------------------------------- */

static const char *const units[] = { "a", "b", "<", "|", ">", " ", " ", "\n", "_", "1", "\xc3\xa9",
	"\xe3\x80\x80", "\xc2\xb2", "\xe2\x80\x8d", "\xf0\x9f\x98\x80",
	"\xcc\xb8", "\xcc\x81", "\xcc\xb5" };	/* U+0338, U+0301, U+0335 */

static size_t random_text(struct rng *r, char *out, unsigned most)
{
	size_t n = 0;

	for (unsigned left = rng_below(r, most + 1); left > 0; left--) {
		const char *u = units[rng_below(r, sizeof(units) / sizeof(units[0]))];

		memcpy(out + n, u, strlen(u));
		n += strlen(u);
	}
	return n;
}

static void random_mix(void **state)
{
	char contents[TOKENS_MAX][32], text[TEXT_MAX];
	struct added_token t[TOKENS_MAX];
	struct rng r;

	rng_init(&r, 7);
	for (unsigned round = 0; round < 3000; round++) {
		size_t n_tokens = rng_below(&r, TOKENS_MAX + 1);
		struct added *a;

		for (size_t k = 0; k < n_tokens; k++) {
			unsigned f = rng_below(&r, 8);

			t[k] = (struct added_token){ .id = (token_id)k,
				.single_word = f & 1,
				.lstrip = f & 2,
				.rstrip = f & 4 };
			t[k].content = span_of(contents[k], random_text(&r, contents[k], 4));
			t[k].composes = t[k].content.n > 0 &&
			    (uint8_t)t[k].content.p[t[k].content.n - 1] < 0x80 && rng_below(&r, 2);
			for (size_t j = 0; j < k; j++) {	/* of two equal tokens the first wins */
				if (span_eq(t[j].content, t[k].content))
					t[k] = t[j];
			}
		}
		assert_non_null(a = added_new(t, n_tokens));
		for (unsigned i = 0; i < 12; i++) {
			size_t n = random_text(&r, text, i < 10 ? 12 : 45);
			char *p = (char *)edge_copy(text, n);

			assert_true(agree(a, t, n_tokens, p, n));
			assert_true(i > 3 || tail_holds(a, p, n));
			edge_free((uint8_t *)p, n);
		}
		added_free(a);
	}
}

/* ---- stories --------------------------------------------------------------------------------- */

static void one(const struct added_token *t, size_t n_tokens, const char *text, const char *want)
{
	struct added *a = added_new(t, n_tokens);
	struct added_at at = { 0, 0 };
	struct added_hit h;
	char got[200] = "";

	while (added_next(a, span_str(text), &at, &h))
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%zu+%zu=%u ", h.at, h.n, h.id);
	if (strcmp(got, want) != 0)
		printf("\"%s\": %s, wanted %s\n", text, got, want);
	assert_string_equal(got, want);
	added_free(a);
}

static void white_space_and_words(void **state)
{
	const struct added_token t[] = {
		{ SPAN("<end>"), 1, false, false, false }, { SPAN("<end>>"), 2, false, false, false },
		{ SPAN("<mask>"), 3, false, true, false }, { SPAN("<r>"), 4, false, false, true },
		{ SPAN("cat"), 5, true, false, false },
		{ SPAN(""), 6, false, false, false }, { SPAN("<end>"), 7, false, false, false },
		{ SPAN("  "), 8, false, false, false },
	};

	one(t, 8, "", "");
	one(t, 8, "a<end>>b<end>", "1+6=2 8+5=1 ");
	one(t, 4, "a \n <mask> b", "1+9=3 ");
	one(t, 4, "<r> \xe3\x80\x80 <mask>x", "0+8=4 8+6=3 ");		/* the first token takes the white space */
	one(t, 5, "cat scat cat! cats _cat \xc3\xa9" "cat", "0+3=5 9+3=5 ");
	/* an accent is a word character, a superscript is not */
	one(t, 5, "cat\xc2\xb2 cat\xcc\x81", "0+3=5 ");
	/* white space that rstrip took is found again as a token, as tokenizers does it */
	one(t, 8, "<r>    x", "0+7=4 3+2=8 5+2=8 ");
	one(t, 0, "<end>", "");
	one(t, 8, "<end", "");
}

/* A token with <composes> does not match if a mark after it joins its last character in NFC. */
static void marks_after_a_token(void **state)
{
	const struct added_token t[] = { { SPAN("<|e|>"), 1, .composes = true },
		{ SPAN("<|e|>x"), 2 }, { SPAN("|>"), 3 },
		{ SPAN("on"), 4, .composes = true, .rstrip = true } };
	struct added_at at = { 0, 0 };
	struct added *a;

	one(t, 1, "<|e|>", "0+5=1 ");
	one(t, 1, "<|e|>\xcc\xb8 <|e|>", "8+5=1 ");				/* U+0338 */
	one(t, 1, "<|e|>\xcc\x81 x", "0+5=1 ");				/* U+0301 joins no ">" */
	one(t, 1, "<|e|>\xcc\x81\xcc\xb8", "");				/* canonical order puts U+0338 first */
	one(t, 1, "<|e|>\xcc\xb5\xcc\xb8", "0+5=1 ");			/* U+0335 has the same class and blocks U+0338 */
	one(t, 1, "<|e|>x\xcc\xb8", "0+5=1 ");
	/* a precomposed letter ends the run of marks */
	one(t, 1, "<|e|>\xe1\xb8\x8b\xcc\xb8", "0+5=1 ");
	one(t, 3, "<|e|>\xcc\xb8", "3+2=3 ");				/* a token without <composes> still matches */
	one(t, 4, "on\xcc\x83 on  x", "5+4=4 ");				/* n and U+0303 */
	assert_non_null(a = added_new(t, 1));
	assert_int_equal(added_tail(a, SPAN("ab <|e|>"), &at), 5);
	assert_int_equal(added_tail(a, SPAN("ab <|e|>\xcc\x81"), &at), 7);
	assert_int_equal(added_tail(a, SPAN("ab <|e|>\xcc\x81x"), &at), 0);
	assert_int_equal(added_tail(a, SPAN("ab <|e|>\xcc\xb8"), &at), 0);
	added_free(a);
}

/* Any byte may begin a token, in a set of one token or of ten, at any position of a text. */
static void first_byte_filter(void **state)
{
	char text[97];
	struct added_at at;
	struct added_hit h;

	for (unsigned b = 0; b < 256; b++) {
		char c = (char)b;
		struct added_token t[10] = { { .content = span_of(&c, 1), .id = 9 } };
		char others[9];
		struct added *a;

		for (unsigned k = 0; k < 9; k++) {
			others[k] = (char)(b ^ (0x10u * (k + 1)));
			t[k + 1] = (struct added_token){ .content = span_of(&others[k], 1), .id = k };
		}
		assert_non_null(a = added_new(t, b % 2 ? 1 : 10));
		memset(text, (int)(b ^ 1), sizeof(text));
		at = (struct added_at){ 0, 0 };
		assert_false(added_next(a, span_of(text, sizeof(text)), &at, &h));
		for (size_t i = 0; i < sizeof(text); i++) {
			text[i] = c;
			at = (struct added_at){ 0, 0 };
			assert_true(added_next(a, span_of(text, sizeof(text)), &at, &h));
			assert_true(h.at == i && h.n == 1 && h.id == 9);
			text[i] = (char)(b ^ 1);
		}
		added_free(a);
	}
}

static void words(void **state)
{
	static const uint32_t yes[] = { 'a', 'Z', '0', '_', 0xe9, 0x301, 0x4e00, 0x2167, 0x663,
		0x200d, 0x203f, 0x24d0, 0x1f150, 0xff3f };
	static const uint32_t no[] = { ' ', '-', '$', 0xb2, 0xbd, 0xa0, 0x3000, 0x2028, 0x1f600,
		0x2460, 0x200b, 0x10ffff };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(word_char(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(word_char(no[i]));
}

/* A text that is not UTF-8 has the same tokens as after utf8_mend(), because a malformed sequence
 * is not a character: it is neither white space nor part of a word. */
static void bytes_that_are_not_utf8(void **state)
{
	static const struct added_token tokens[] = {
		{ .content = { "[L]", 3 }, .id = 1, .lstrip = true },
		{ .content = { "[R]", 3 }, .id = 2, .rstrip = true },
		{ .content = { "word", 4 }, .id = 3, .single_word = true },
	};
	static const char *const parts[] = { "[L]", "[R]", "word", " ", "\xa0", "\xc2", "\xc2\xa0",
		"\xe3\x80", "\xe3\x80\x80", "\xf0\x9f", "a", "\xff", "\xc3\xa9" };
	struct added *a = added_new(tokens, 3);
	struct rng r;

	assert_non_null(a);
	rng_init(&r, 77);
	for (unsigned round = 0; round < 20000; round++) {
		char text[TEXT_MAX] = "", mended[6 * TEXT_MAX];
		struct added_at at = { 0, 0 }, bt = { 0, 0 };
		struct added_hit hit, want;
		size_t n;

		for (unsigned k = rng_below(&r, 9); k > 0; k--)
			strcat(text, parts[rng_below(&r, sizeof(parts) / sizeof(parts[0]))]);
		n = utf8_mend((const uint8_t *)text, strlen(text), (uint8_t *)mended);
		while (added_next(a, span_of(mended, n), &bt, &want)) {
			assert_true(added_next(a, span_str(text), &at, &hit));
			assert_int_equal(hit.id, want.id);
			assert_int_equal(utf8_mend((const uint8_t *)text, hit.at, (uint8_t *)mended + n), want.at);
			assert_int_equal(utf8_mend((const uint8_t *)text, hit.at + hit.n,
					     (uint8_t *)mended + n),
			    want.at + want.n);
		}
		assert_false(added_next(a, span_str(text), &at, &hit));
	}
	added_free(a);
}

/* added_longest() ignores flags, and tells the price of each walk: of a chain of nodes, and of the
 * rest of the only token, which is compared at once. */
static void longest_at_a_place(void **state)
{
	enum { LONG = 4000 };
	static char x[LONG], y[LONG], text[LONG];
	const struct added_token t[] = { { SPAN("on"), 1, true, true, true }, { SPAN("one"), 2, true },
		{ SPAN("on two"), 3 } };
	struct added_token far[] = { { .content = { x, LONG } }, { .content = { y, LONG }, .id = 1 } };
	const size_t want[] = { 0, 3, 0, 0, 0, 0, 2, 0, 0, 0, 0 };
	struct span s = SPAN("xonex on tw");
	struct added *a = added_new(t, 3);
	uint64_t steps;

	assert_non_null(a);
	for (size_t i = 0; i < s.n; i++) {
		uint8_t *p = edge_copy(s.p, s.n);

		assert_int_equal(added_longest(a, span_of(p, s.n), i, &steps), want[i]);
		assert_int_equal(steps > 0, s.p[i] == 'o');
		edge_free(p, s.n);
	}
	added_free(a);
	memset(x, 'a', LONG);
	memcpy(y, x, LONG);
	memcpy(text, x, LONG);
	y[LONG - 1] = 'b';
	text[LONG - 1] = 'c';
	for (size_t n = 1; n <= 2; n++) {
		assert_non_null(a = added_new(far, n));
		assert_int_equal(added_longest(a, span_of(text, LONG), 0, &steps), 0);
		assert_true(n == 1 ? steps > LONG / 64 : steps > LONG / 4);
		assert_true(steps < LONG);
		added_free(a);
	}
}

/* A search with a budget ends when that is used up. */
static void searches_are_charged(void **state)
{
	enum { LONG = 1000 };
	static char x[LONG], y[LONG], text[20 * LONG];
	struct added_token t[] = { { .content = { x, LONG } }, { .content = { y, LONG }, .id = 1 } };
	const uint64_t all = (uint64_t)sizeof(text) * LONG;
	struct work_left w = { .left = all };
	struct added_at at = { .work = &w };
	struct added_hit hit;
	struct added *a;

	memset(x, 'a', LONG);
	memcpy(y, x, LONG);
	memset(text, 'a', sizeof(text));
	x[LONG - 1] = 'b';
	y[LONG - 1] = 'c';
	text[sizeof(text) - 1] = 'c';
	assert_non_null(a = added_new(t, 2));
	assert_true(added_next(a, span_of(text, sizeof(text)), &at, &hit));
	assert_int_equal(hit.at, sizeof(text) - LONG);
	assert_true(all - w.left > all / 4);
	w.left = all / 4;
	at = (struct added_at){ .work = &w };
	assert_false(added_next(a, span_of(text, sizeof(text)), &at, &hit));
	assert_true(work_spent(&w) && at.looks < 15 * LONG);
	added_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_that_are_not_utf8),
		cmocka_unit_test(random_mix),
		cmocka_unit_test(white_space_and_words),
		cmocka_unit_test(marks_after_a_token),
		cmocka_unit_test(first_byte_filter),
		cmocka_unit_test(words),
		cmocka_unit_test(longest_at_a_place),
		cmocka_unit_test(searches_are_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* WordPiece by the trie gives what a slow search gives, for random vocabularies and pieces; the
 * same from an image; a damaged image never leads outside; the work is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/base/utf8.h"
#include "agent/tok/lexicon/lexicon_in.h"

#define TOKENS	60u
#define UNK	1000u
#define TEXT	4000u

static const char *const letters[] = { "a", "b", "c", "\xc3\xa9", "\xe6\x9d\xb1", "#" };

static struct lexicon_scratch *scratch;

struct words {
	char text[TOKENS][64];
	struct lexicon_token token[TOKENS];
	struct lexicon_spec spec;
};

static size_t random_text(struct rng *r, unsigned least, unsigned most, char *out)
{
	size_t n = 0;

	for (unsigned k = least + rng_below(r, most - least + 1); k > 0; k--) {
		const char *s = letters[rng_below(r, 6)];

		memcpy(out + n, s, strlen(s));
		n += strlen(s);
	}
	return n;
}

static bool has(const struct words *w, struct span s)
{
	for (uint32_t i = 0; i < w->spec.n_tokens; i++)
		if (span_eq(w->token[i].text, s))
			return true;
	return false;
}

static void make_words(struct words *w, struct rng *r, const char *prefix)
{
	w->spec = (struct lexicon_spec){ .tokens = w->token, .prefix = span_str(prefix),
		.max_chars = 1 + rng_below(r, 12), .unk = UNK };
	for (uint32_t i = 0; i < TOKENS; i++) {
		size_t n = rng_below(r, 2) ? strlen(prefix) : 0;
		struct span s;

		memcpy(w->text[i], prefix, n);
		n += random_text(r, 1, 4, w->text[i] + n);
		s = span_of(w->text[i], n);
		if (!has(w, s))
			w->token[w->spec.n_tokens++] = (struct lexicon_token){ s, i, 0 };
	}
}

/* As tokenizers does it: all lengths from the longest, one string after another. */
static token_id find(const struct words *w, bool inside, struct span rest, size_t n)
{
	char s[TEXT + 8];
	size_t m = inside ? w->spec.prefix.n : 0;

	memcpy(s, w->spec.prefix.p, m);
	memcpy(s + m, rest.p, n);
	for (uint32_t i = 0; i < w->spec.n_tokens; i++)
		if (span_eq(w->token[i].text, span_of(s, m + n)))
			return w->token[i].id;
	return BPE_NO_ID;
}

static size_t truth(const struct words *w, struct span piece, token_id *out)
{
	size_t at = 0, n = 0;

	if (piece.n == 0)
		return 0;
	if (utf8_count(piece.p, piece.n) <= w->spec.max_chars) {
		while (at < piece.n) {
			size_t len = piece.n - at;

			while (len > 0 && (out[n] = find(w, at > 0, span_of(piece.p + at, 0), len)) == BPE_NO_ID)
				len--;
			if (len == 0)
				break;
			at += len;
			n++;
		}
	}
	if (at == piece.n)
		return n;
	out[0] = UNK;
	return 1;
}

static uint8_t *aligned_copy(struct span s, uint8_t **raw)
{
	uint8_t *p;

	*raw = malloc(s.n + BPE_ALIGN);
	assert_non_null(*raw);
	p = (uint8_t *)((uintptr_t)(*raw + BPE_ALIGN - 1) / BPE_ALIGN * BPE_ALIGN);
	memcpy(p, s.p, s.n);
	return p;
}

static void encode_same(const struct lexicon *x, const struct words *w, struct rng *r)
{
	struct work_left work = { WORK_ANY };
	char text[TEXT];
	uint32_t end[100], n = 0;
	size_t bytes = 0, want_n = 0;
	token_id want[TEXT];
	struct ids ids = { NULL, 0, 0 };

	while (bytes + 100 < TEXT && n < 100) {
		size_t len = random_text(r, 0, 14, text + bytes);

		want_n += truth(w, span_of(text + bytes, len), want + want_n);
		end[n++] = (uint32_t)(bytes += len);
	}
	assert_int_equal(lexicon_encode(x, scratch, &work, (const uint8_t *)text, end, n, &ids), 0);
	assert_int_equal(ids.n, want_n);
	assert_memory_equal(ids.p, want, want_n * sizeof(*want));
	ids_free(&ids);
}

static void as_a_slow_search(void **state)
{
	static const char *const prefixes[] = { "##", "", "a", "\xe6\x9d\xb1" };

	for (uint64_t seed = 1; seed < 400; seed++) {
		struct lexicon *x, *lent;
		struct words w;
		struct rng r;
		uint8_t *raw, *p;

		rng_init(&r, seed);
		make_words(&w, &r, prefixes[seed % 4]);
		x = lexicon_new(&w.spec, NULL);
		assert_non_null(x);
		encode_same(x, &w, &r);
		assert_int_equal((uintptr_t)lexicon_image(x).p % BPE_ALIGN, 0);
		p = aligned_copy(lexicon_image(x), &raw);
		lent = lexicon_of_image(span_of(p, lexicon_image(x).n));
		lexicon_free(x);
		assert_non_null(lent);
		encode_same(lent, &w, &r);
		lexicon_free(lent);
		free(raw);
	}
}

static void damaged_images(void **state)
{
	struct work_left work = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };
	const uint8_t text[] = "abca\xc3\xa9" "b";
	const uint32_t end = sizeof(text) - 1;
	struct lexicon *x, *y;
	struct words w;
	struct rng r;
	uint8_t *raw, *p;
	size_t n;

	rng_init(&r, 1);
	make_words(&w, &r, "##");
	x = lexicon_new(&w.spec, NULL);
	n = lexicon_image(x).n;
	p = aligned_copy(lexicon_image(x), &raw);
	for (size_t k = 0; k < n; k += 1 + k / 64)
		assert_null(lexicon_of_image(span_of(p, k)));
	assert_null(lexicon_of_image(span_of(p + 16, n - 16)));
	for (unsigned k = 0; k < 5000; k++) {
		size_t at = k < 40 ? k : rng_below(&r, (uint32_t)n);
		uint8_t was = p[at];

		p[at] = (uint8_t)rng_below(&r, 256);
		if ((y = lexicon_of_image(span_of(p, n))) != NULL) {
			ids.n = 0;
			assert_int_equal(lexicon_encode(y, scratch, &work, text, &end, 1, &ids), 0);
		}
		lexicon_free(y);
		p[at] = was;
	}
	ids_free(&ids);
	lexicon_free(x);
	free(raw);
}

/* A piece costs at most its bytes times those of the longest token, and ends when the work does. */
static void work_is_bounded(void **state)
{
	char longest[60], text[64 * 50];
	const struct lexicon_token t[] = { { SPAN("a"), 1, 0 }, { SPAN("##a"), 2, 0 },
		{ span_of(longest, 60), 3, 0 } };
	struct lexicon_spec spec = { .tokens = t, .n_tokens = 3, .prefix = SPAN("##"), .max_chars = 50,
		.unk = 0 };
	struct lexicon *x;
	struct work_left w = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };
	uint32_t end[64];

	memset(longest, 'a', sizeof(longest));
	longest[0] = longest[1] = '#';
	longest[59] = 'b';
	memset(text, 'a', sizeof(text));
	for (uint32_t i = 0; i < 64; i++)
		end[i] = (i + 1) * 50;
	x = lexicon_new(&spec, NULL);
	assert_non_null(x);
	assert_int_equal(lexicon_encode(x, scratch, &w, (const uint8_t *)text, end, 64, &ids), 0);
	assert_int_equal(ids.n, sizeof(text));
	assert_true(WORK_ANY - w.left > sizeof(text) * 20 && WORK_ANY - w.left <= sizeof(text) * 120);
	w.left = (WORK_ANY - w.left) / 2;
	ids.n = 0;
	assert_int_equal(lexicon_encode(x, scratch, &w, (const uint8_t *)text, end, 64, &ids), 1);
	assert_true(ids.n >= 31 * 50 && ids.n <= 33 * 50);
	/* one piece above max_chars costs no search */
	w.left = 2;
	ids.n = 0;
	assert_int_equal(lexicon_encode(x, scratch, &w, (const uint8_t *)text, end + 63, 1, &ids), 0);
	assert_int_equal(ids.n, 1);
	assert_int_equal(ids.p[0], 0);
	ids_free(&ids);
	lexicon_free(x);
}

/* Every byte that is looked up is charged: a text of one letter, of which a long token begins at
 * each place, costs what the number of look-ups says. With less work the encoder stops, and one
 * character more at most has been charged. */
static void hostile_texts_cost_their_look_ups(void **state)
{
	enum { LONG = 60, N = 3000 };
	static char longest[LONG], text[N];
	const struct lexicon_token t[] = { { SPAN("<u>"), 0, 0 }, { SPAN("a"), 1, -1 },
		{ span_of(longest, LONG), 2, -9 } };
	struct lexicon_spec spec = { .kind = LEXICON_UNIGRAM, .tokens = t, .n_tokens = 3, .unk = 0 };
	uint64_t looks = 0, most = LEX_STEPS_CHAR + LONG * LEX_LOOK_SMALL, spent, part;
	const uint32_t end = N;
	struct work_left w = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };
	struct lexicon *x;

	memset(longest, 'a', LONG);
	longest[LONG - 1] = 'b';
	memset(text, 'a', N);
	for (size_t at = 0; at < N; at++)		/* up to the byte that has no edge, or the end */
		looks += N - at < LONG ? N - at : LONG - 1;
	x = lexicon_new(&spec, NULL);
	assert_non_null(x);
	assert_int_equal(lexicon_encode(x, scratch, &w, (const uint8_t *)text, &end, 1, &ids), 0);
	spent = WORK_ANY - w.left;
	assert_true(spent >= N * LEX_STEPS_CHAR + looks * LEX_LOOK_SMALL);
	assert_true(spent <= N * most);
	for (part = 1; part < spent; part += spent / 7) {
		uint64_t calls = 0;
		int rc;

		ids.n = 0;
		assert_int_equal(lexicon_long_start(x, scratch, (const uint8_t *)text, N), 0);
		do {
			w.left = part;
			calls++;
		} while ((rc = lexicon_long_step(x, scratch, &w, &ids)) == 1);
		assert_int_equal(rc, 0);
		assert_int_equal(ids.n, N);
		assert_true(calls * (part + most) >= spent);	/* a call does no more than this */
	}
	ids_free(&ids);
	lexicon_free(x);
}

/* The price of a look-up follows the size of the table, also from an image. */
static void larger_tables_cost_more(void **state)
{
	enum { N = 120000 };
	struct lexicon_token *t = calloc(N, sizeof(*t));
	char *texts = malloc(N * 8), one[] = "0";
	struct lexicon_spec spec = { .kind = LEXICON_WORDPIECE, .tokens = t, .max_chars = 9 };
	struct work_left w = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };
	const uint32_t end = 1, sizes[] = { 10, 30000, N };
	const uint64_t looks[] = { LEX_LOOK_SMALL, LEX_LOOK_MEDIUM, LEX_LOOK_LARGE };
	struct lexicon *x;

	assert_true(t != NULL && texts != NULL);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t k = i * 2654435761u;

		snprintf(texts + i * 8, 8, "%c%06x", '0' + i % 10, k >> 8);
		t[i] = (struct lexicon_token){ span_of(texts + i * 8, 7), i, 0 };
	}
	for (size_t k = 0; k < 3; k++) {
		spec.n_tokens = sizes[k];
		x = lexicon_new(&spec, NULL);
		assert_non_null(x);
		w.left = WORK_ANY;
		assert_int_equal(lexicon_encode(x, scratch, &w, (const uint8_t *)one, &end, 1, &ids), 0);
		/* the letter, and the end */
		assert_int_equal(WORK_ANY - w.left, LEX_WORDPIECE * (LEX_STEPS_PIECE + 2 * looks[k]));
		lexicon_free(x);
	}
	ids_free(&ids);
	free(texts);
	free(t);
}

static void too_large(void **state)
{
	static char text[LEXICON_TOKEN_MAX + 1];
	struct lexicon_token t = { span_of(text, sizeof(text)), 1, 0 };
	struct lexicon_spec spec = { .tokens = &t, .n_tokens = 1, .max_chars = 1 };
	struct err e;

	assert_null(lexicon_new(&spec, &e));
	assert_non_null(strstr(e.text, "65535 bytes"));
	t.text.n--;
	lexicon_free(lexicon_new(&spec, &e));
	lexicon_free(NULL);
}

/* Unigram takes the best way, as equal ones the first; in steps, too. */
static void unigram(void **state)
{
	const struct lexicon_token t[] = { { SPAN("<u>"), 0, 0 }, { SPAN("a"), 1, -1 },
		{ SPAN("b"), 2, -1 }, { SPAN("ab"), 3, -2 }, { SPAN("ba"), 4, -1.5 },
		{ SPAN("bab"), 5, -9 } };
	struct lexicon_spec spec = { .kind = LEXICON_UNIGRAM, .tokens = t, .n_tokens = 6, .unk = 0 };
	/* ab: the token offered first wins against a, b; then ba is better */
	const token_id want[] = { 3, 0, 1, 4 };
	const uint8_t text[] = "ab\xc3\xa9" "caba";
	const uint32_t end = sizeof(text) - 1;
	struct lexicon *x = lexicon_new(&spec, NULL);
	struct work_left w = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };
	unsigned calls = 0;
	int rc;

	assert_non_null(x);
	assert_int_equal(lexicon_encode(x, scratch, &w, text, &end, 1, &ids), 0);
	assert_int_equal(ids.n, 4);
	assert_memory_equal(ids.p, want, sizeof(want));
	ids.n = 0;
	assert_int_equal(lexicon_long_start(x, scratch, text, end), 0);
	do {
		w.left = 1;
		calls++;
	} while ((rc = lexicon_long_step(x, scratch, &w, &ids)) == 1);
	assert_int_equal(rc, 0);
	assert_true(calls > 4);
	assert_int_equal(ids.n, 4);
	assert_memory_equal(ids.p, want, sizeof(want));
	ids_free(&ids);
	lexicon_free(x);
}

/* Sums of floats. After 990 "x" both ways through "abab" have the same rounded sum, and a, bab
 * wins because it is offered first; ab, ab would win if nothing were rounded, or only what is kept.
 * Below -100,000 the sums begin anew; above 100,000, too, which pieces of the user reach. */
static void rounded(double score)
{
	enum { MOST = 1200 };
	static uint8_t text[MOST + 4];
	const struct lexicon_token t[] = { { SPAN("<u>"), 0, 0 }, { SPAN("x"), 1, score },
		{ SPAN("a"), 2, -1 }, { SPAN("bab"), 3, -2 }, { SPAN("ab"), 4, -1.499f } };
	struct lexicon_spec spec = { .kind = LEXICON_SENTENCE, .tokens = t, .n_tokens = 5, .unk = 0 };
	static const struct { uint32_t n; token_id last; } c[] = { { 0, 4 }, { 990, 3 }, { 1200, 4 } };
	struct lexicon *x = lexicon_new(&spec, NULL);
	struct work_left w = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };

	assert_non_null(x);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint32_t end = c[i].n + 4;

		memset(text, 'x', c[i].n);
		memcpy(text + c[i].n, "abab", 4);
		ids.n = 0;
		assert_int_equal(lexicon_encode(x, scratch, &w, text, &end, 1, &ids), 0);
		assert_int_equal(ids.n, c[i].n + 2);
		assert_int_equal(ids.p[ids.n - 1], c[i].last);
	}
	ids_free(&ids);
	lexicon_free(x);
}

static void sums_are_rounded(void **state)
{
	rounded(-100);
	rounded(100);
}

/* The score of an unknown character, 10 below the least, is a float, too: -12.8f - 10 as a double
 * would be too small by so much that c with its -12 wins. */
static void unknown_is_rounded(void **state)
{
	const struct lexicon_token t[] = { { SPAN("<u>"), 0, 0 }, { SPAN("a"), 1, -1.16f },
		{ SPAN("\xc3\xa9" "b"), 2, -12.8f }, { SPAN("c"), 3, -12 }, { SPAN("bc"), 4, -2 } };
	struct lexicon_spec spec = { .kind = LEXICON_SENTENCE, .tokens = t, .n_tokens = 5, .unk = 0 };
	const token_id want[] = { 1, 0, 4 };
	const uint8_t text[] = "a\xc3\xa9" "bc";
	const uint32_t end = sizeof(text) - 1;
	struct lexicon *x = lexicon_new(&spec, NULL);
	struct work_left w = { WORK_ANY };
	struct ids ids = { NULL, 0, 0 };

	assert_non_null(x);
	assert_int_equal(lexicon_encode(x, scratch, &w, text, &end, 1, &ids), 0);
	assert_int_equal(ids.n, 3);
	assert_memory_equal(ids.p, want, sizeof(want));
	ids_free(&ids);
	lexicon_free(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_a_slow_search),
		cmocka_unit_test(damaged_images),
		cmocka_unit_test(work_is_bounded),
		cmocka_unit_test(hostile_texts_cost_their_look_ups),
		cmocka_unit_test(larger_tables_cost_more),
		cmocka_unit_test(too_large),
		cmocka_unit_test(unigram),
		cmocka_unit_test(sums_are_rounded),
		cmocka_unit_test(unknown_is_rounded),
	};

	int rc;

	scratch = lexicon_scratch_new();
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	lexicon_scratch_free(scratch);
	return rc;
}

/* test_chunk.c - the chunks of a text against a reference search: whole, in parts, and with text
 * added before or after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "agent/base/rng.h"
#include "agent/tok/chunk.h"
#include "tests/unit/edge.h"

struct text {
	char *p;
	size_t n, cap;
};

static void add(struct text *t, const char *p, size_t n)
{
	if (t->cap - t->n < n) {
		t->cap = (t->cap + n) * 2;
		t->p = realloc(t->p, t->cap);
		assert_non_null(t->p);
	}
	memcpy(t->p + t->n, p, n);
	t->n += n;
}

/* Append a random word. <kind>: 0 English, 1 places at line ends only, 2 hexadecimal, 3 CJK, 4 no
 * place to cut, 5 a mixture of bytes. */
static void add_word(struct text *t, struct rng *r, unsigned kind)
{
	static const char *const words[][8] = {
		{ "the ", "quick ", "Fox, ", "isn't ", "42 ", "over. ", "lazy  ", "dogs\n" },
		{ "alpha\n", "beta;\n", "9,1\n", "/x\n", "\n", "漢字\n", "c\r\n", "-d\n" },
		{ "3fa9", "ab", "12", "c", "0d", "ee7", "99999", "f" },
		{ "日本語、", "中文。", "カタカナ", "ひらがな、", "今日は", "「はい」。", "！", "世界，" },
		{ "aaaa", "zz", "qqqqqq", "x", "eeee", "kk", "oo", "pppp" },
		{ "\xe3", "\x80\x81", "\xef\xbc", " ", "\xe4\xb8\x80", "\xc2\xa0 ", "\n9", "a1" },
	};
	const char *w = words[kind][rng_below(r, 8)];

	add(t, w, strlen(w));
}

static void make_text(struct text *t, struct rng *r, unsigned kind, size_t n)
{
	t->n = 0;
	while (t->n < n)
		add_word(t, r, kind);
}

/* ---- the reference: the rules of chunk.h and chunk.c, byte by byte --------------------------- */

static bool slow_white(const uint8_t *p, size_t k)
{
	uint8_t b = p[k - 1];

	if (b < 0x80)
		return b <= 0x20 || b == 0x7f;
	return p[k - 2] == 0xc2 || p[k - 3] == 0xe1 || p[k - 3] == 0xe2 ||
	    (p[k - 3] == 0xe3 && p[k - 2] == 0x80);
}

static bool slow_letter(const uint8_t *p, size_t k)
{
	uint32_t cp = (uint32_t)(p[k - 3] & 15) << 12 | (uint32_t)(p[k - 2] & 63) << 6 | (p[k - 1] & 63);

	if ((p[k - 3] & 0xf0) != 0xe0 || (p[k - 2] & 0xc0) != 0x80 || (p[k - 1] & 0xc0) != 0x80)
		return false;
	return (cp >= 0x4e00 && cp <= 0x9f7f) || (cp >= 0x3041 && cp <= 0x3096) ||
	    (cp >= 0x30a1 && cp <= 0x30fa);
}

static unsigned slow_place(const uint8_t *p, size_t k)
{
	static const char *const marks[] = { "、", "。", "！", "，", "？" };

	if (p[k] == ' ')
		return slow_white(p, k) ? 0 : CHUNK_SPACE;
	if (p[k - 1] == '\n' && !slow_white(p, k - 1) && p[k] > '/' && p[k] < 0x7f)
		return CHUNK_LINE;
	if (p[k - 1] == '\n' && !slow_white(p, k - 1) && p[k] >= 0xe4 && p[k] <= 0xe9)
		return CHUNK_LINE;
	if (p[k] >= '0' && p[k] <= '9' && ((p[k - 1] | 32) >= 'a' && (p[k - 1] | 32) <= 'z'))
		return CHUNK_DIGIT;
	for (size_t i = 0; i < 5; i++)
		if (memcmp(p + k, marks[i], 3) == 0 && slow_letter(p, k))
			return CHUNK_CJK;
	return 0;
}

static size_t slow_next(unsigned places, const uint8_t *p, size_t n)
{
	uint64_t w, least = UINT64_MAX;
	size_t best = 0, k;

	if (n <= CHUNK_MOST + CHUNK_AHEAD)
		return n;
	for (k = CHUNK_LEAST; k <= CHUNK_MOST; k++) {
		if ((slow_place(p, k) & places) == 0)
			continue;
		memcpy(&w, p + k - 8, 8);
		w = w * 0x9e3779b97f4a7c15u >> 32;
		if (w < UINT32_MAX / 64)
			return k;
		if (w < least) {
			least = w;
			best = k;
		}
	}
	for (; best == 0 && k + CHUNK_AHEAD < n; k++)
		if ((slow_place(p, k) & places) != 0)
			return k;
	return best ? best : n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define CUTS_MOST	4096

static size_t cuts_of(unsigned places, const char *p, size_t n, size_t *cuts)
{
	size_t at = 0, count = 0, k;

	while (at < n) {
		struct chunk_search s = { 0 };

		k = chunk_next(places, &s, span_of(p + at, n - at), true);
		assert_true(k > 0 && k <= n - at);
		at += k;
		assert_true(count < CUTS_MOST);
		cuts[count++] = at;
	}
	return count;
}

static void chunks_match_the_reference(void **state)
{
	static const unsigned some[] = { CHUNK_ALL, CHUNK_SPACE, CHUNK_LINE, CHUNK_DIGIT, CHUNK_CJK, 0 };
	struct text t = { 0 };
	struct rng r;

	rng_init(&r, 7);
	for (unsigned round = 0; round < 120; round++) {
		unsigned places = some[round % 6];
		size_t at = 0, k;
		uint8_t *p;

		make_text(&t, &r, round / 6 % 6, rng_below(&r, 30000));
		for (unsigned i = rng_below(&r, 40); i > 0; i--)		/* some words of other kinds */
			add_word(&t, &r, (unsigned)rng_below(&r, 6));
		p = edge_copy(t.p, t.n);
		while (at < t.n) {
			struct chunk_search s = { 0 };

			k = chunk_next(places, &s, span_of(p + at, t.n - at), true);
			assert_int_equal(k, places ? slow_next(places, p + at, t.n - at) : t.n);
			at += k;
		}
		edge_free(p, t.n);
	}
	free(t.p);
}

/* A text that arrives in parts has the chunks of the whole text. */
static void parts_have_the_chunks_of_the_whole(void **state)
{
	static size_t whole[CUTS_MOST];
	struct text t = { 0 };
	struct rng r;

	rng_init(&r, 8);
	for (unsigned round = 0; round < 60; round++) {
		size_t n_whole, got = 0, here = 0, at = 0, k;
		struct chunk_search s = { 0 };
		unsigned step = round % 3 ? 1 + (unsigned)rng_below(&r, 5000) : 1;

		make_text(&t, &r, round % 6, rng_below(&r, 20000));
		n_whole = cuts_of(CHUNK_ALL, t.p, t.n, whole);
		while (at < t.n) {
			if (here < t.n)
				here += 1 + rng_below(&r, step);
			here = here < t.n ? here : t.n;
			k = chunk_next(CHUNK_ALL, &s, span_of(t.p + at, here - at), here == t.n);
			if (k == 0) {
				assert_true(here < t.n);
				continue;
			}
			at += k;
			assert_true(got < n_whole && whole[got] == at);
			assert_int_equal(s.seen, 0);
			got++;
		}
		assert_int_equal(got, n_whole);
	}
	free(t.p);
}

/* Text added after a text changes its last chunk at most. Text removed before it changes only the
 * first chunks of what remains. */
static void growth_changes_few_chunks(void **state)
{
	static size_t a[CUTS_MOST], b[CUTS_MOST];
	struct text t = { 0 };
	struct rng r;
	unsigned late = 0;

	rng_init(&r, 9);
	for (unsigned round = 0; round < 40; round++) {
		size_t n, na, nb, front, i, j;

		make_text(&t, &r, round % 4, 60000);
		n = 40000 + rng_below(&r, 20000);
		na = cuts_of(CHUNK_ALL, t.p, n, a);
		nb = cuts_of(CHUNK_ALL, t.p, t.n, b);
		for (i = 0; i + 1 < na; i++)
			assert_int_equal(a[i], b[i]);
		front = 1 + rng_below(&r, 3000);
		na = cuts_of(CHUNK_ALL, t.p + front, t.n - front, a);
		for (i = j = 0; i < na && j < nb && a[i] + front != b[j]; )
			a[i] + front < b[j] ? i++ : j++;
		/* texts of few different words have few hashes and align late: not checked */
		late += round % 4 >= 2 && i > 12;
		for (; i < na && j < nb; i++, j++)
			assert_int_equal(a[i] + front, b[j]);
		assert_true(i == na && j == nb);
	}
	assert_int_equal(late, 0);
	free(t.p);
}

static void which_splitters_allow_cuts(void **state)
{
	struct split_traits known = { .streams = true, .name = "cl100k" };
	struct normal_step nfc = { .kind = NORMAL_NFC },
			   nfkc[2] = { { .kind = NORMAL_NFC }, { .kind = NORMAL_NFKC } };
	struct split_traits other = known;

	assert_int_equal(chunk_places(known, NULL, 0), CHUNK_ALL);
	assert_int_equal(chunk_places(known, &nfc, 1), CHUNK_ALL);
	assert_int_equal(chunk_places(known, nfkc, 2), 0);
	other.name = "pcre2";
	assert_int_equal(chunk_places(other, NULL, 0), 0);
	other.name = NULL;
	assert_int_equal(chunk_places(other, NULL, 0), 0);
	other = known;
	other.first_differs = true;
	assert_int_equal(chunk_places(other, NULL, 0), 0);
	other = known;
	other.rewrites = true;
	assert_int_equal(chunk_places(other, NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_match_the_reference),
		cmocka_unit_test(parts_have_the_chunks_of_the_whole),
		cmocka_unit_test(growth_changes_few_chunks),
		cmocka_unit_test(which_splitters_allow_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

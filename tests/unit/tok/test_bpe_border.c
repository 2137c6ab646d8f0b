/* test_bpe_border.c - a text cut where no merge can cross has the ids of the whole text: for random
 * vocabularies, the small tokenizers, and recorded tokenizers if the checkout has them. The tests
 * also count the cuts, because a text without cuts proves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/tok/bpe/bpe_border.h"
#include "agent/tok/chunk.h"
#include "agent/tok/tok_steps.h"
#include "tests/unit/tok/cache.h"
#include "tests/unit/tok/data.h"
#include "tests/unit/tok/small.h"
#include "tests/unit/tok/whole.h"
#include "tests/unit/rounds.h"

#define MARK	"\xe2\x96\x81"

/* ---- random vocabularies --------------------------------------------------------------------- */

#define TOKENS	700u

struct spec {
	uint8_t bytes[TOKENS * 16];
	struct bpe_token tokens[TOKENS];
	struct bpe_merge merges[TOKENS];
	struct bpe_spec s;
	size_t n_bytes;
};

static const char *const chars[] = { "a",
				     "b",
				     "1",
				     "2",
				     ".",
				     "\n",
				     MARK,
				     "\xc3\xa9",
				     "\xe4\xb8\xad",
				     "\xe3\x80\x82",
				     "\xf0\x9f\x98\x80" };
#define CHARS	(sizeof(chars) / sizeof(chars[0]))

static uint32_t add_token(struct spec *v, const void *p, size_t n)
{
	uint32_t id = v->s.n_tokens++;

	memcpy(v->bytes + v->n_bytes, p, n);
	v->tokens[id] =
		(struct bpe_token){ .at = (uint32_t)v->n_bytes, .n = (uint32_t)n, .id = id };
	v->n_bytes += n;
	return id;
}

static bool has_token(const struct spec *v, const uint8_t *p, size_t n)
{
	for (uint32_t i = 0; i < v->s.n_tokens; i++)
		if (v->tokens[i].n == n && memcmp(v->bytes + v->tokens[i].at, p, n) == 0)
			return true;
	return false;
}

static void random_spec(struct spec *v, struct rng *r)
{
	uint32_t first, n_merges = 1 + rng_below(r, 60);

	memset(v, 0, sizeof(*v));
	v->s.bytes = v->bytes;
	v->s.tokens = v->tokens;
	v->s.merges = v->merges;
	v->s.characters = v->s.byte_fallback = true;
	for (unsigned b = 0; b < 256; b++) {
		char name[8];

		v->s.byte_id[b] =
			add_token(v, name, (size_t)snprintf(name, sizeof(name), "<0x%02X>", b));
	}
	first = v->s.n_tokens;
	for (unsigned i = 0; i < CHARS; i++)
		if (rng_below(r, 8) > 0)
			add_token(v, chars[i], strlen(chars[i]));
	for (uint32_t tries = 0; tries < 200 && v->s.n_merges < n_merges && v->s.n_tokens > first;
	     tries++) {
		uint32_t x = first + rng_below(r, v->s.n_tokens - first),
			 y = first + rng_below(r, v->s.n_tokens - first);
		uint8_t both[64];
		size_t n = v->tokens[x].n + v->tokens[y].n;

		if (n > 15)
			continue;
		memcpy(both, v->bytes + v->tokens[x].at, v->tokens[x].n);
		memcpy(both + v->tokens[x].n, v->bytes + v->tokens[y].at, v->tokens[y].n);
		if (!has_token(v, both, n))
			v->merges[v->s.n_merges++] =
				(struct bpe_merge){ x, y, add_token(v, both, n) };
	}
}

static void cut_as_whole(const struct bpe *b, const struct borders *x, struct span text,
			 size_t *cuts)
{
	struct bpe_scratch *c = bpe_scratch_new();
	struct ids whole = { 0 }, parts = { 0 };
	static struct pieces p;
	uint32_t end = (uint32_t)text.n;
	size_t at = 0;

	assert_int_equal(bpe_encode(b, c, (const uint8_t *)text.p, &end, 1, &whole), 0);
	while (at < text.n) {
		borders_cut(x, (const uint8_t *)text.p + at, text.n - at, &p);
		assert_true(p.n > 0 && p.used == p.end[p.n - 1] && p.used <= text.n - at);
		for (uint32_t i = 0; i < p.n; i++)
			assert_true(p.end[i] > (i > 0 ? p.end[i - 1] : 0));
		assert_int_equal(bpe_encode(b, c, p.text, p.end, p.n, &parts), 0);
		*cuts += p.n - 1;
		at += p.used;
	}
	same_ids(&parts, &whole);
	ids_free(&whole);
	ids_free(&parts);
	bpe_scratch_free(c);
}

static void random_vocabularies_are_cut(void **state)
{
	static struct spec v;
	size_t cuts = 0;
	struct rng r;

	rng_init(&r, 1);
	for (unsigned round = 0; round < rounds(400, 60); round++) {
		struct borders *x;
		struct bpe *b;
		struct err e;

		random_spec(&v, &r);
		b = bpe_new(&v.s, &e);
		assert_non_null(b);
		assert_int_equal(borders_new(b, SPAN(MARK), &x), 0);
		assert_non_null(x);
		assert_true(borders_bytes(x) > 2048);
		for (unsigned i = 0; i < 10; i++) {
			char text[4000];
			size_t n = 0, most = 1 + rng_below(&r, i == 0 ? 3900 : 100);

			while (n < most) {
				const char *s =
					rng_below(&r, 30) == 0 ? "q" : chars[rng_below(&r, CHARS)];

				memcpy(text + n, s, strlen(s));
				n += strlen(s);
			}
			cut_as_whole(b, x, span_of(text, n), &cuts);
		}
		borders_free(x);
		bpe_free(b);
	}
	assert_true(cuts > 20000);
}

/* ---- vocabularies without borders ------------------------------------------------------------ */

static bool has_borders(struct spec *v)
{
	struct borders *x;
	struct err e;
	struct bpe *b = bpe_new(&v->s, &e);
	bool has;

	assert_non_null(b);
	assert_int_equal(borders_new(b, SPAN(MARK), &x), 0);
	has = x != NULL;
	borders_free(x);
	bpe_free(b);
	return has;
}

static void vocabularies_without_borders(void **state)
{
	static struct spec v;
	struct rng r;

	rng_init(&r, 2);
	random_spec(&v, &r);
	assert_true(has_borders(&v));
	v.s.ignore_merges = true;
	assert_false(has_borders(&v));
	v.s.ignore_merges = false;
	v.s.byte_fallback = false;
	v.s.has_unk = true;
	assert_false(has_borders(&v));
	v.s.byte_fallback = true;
	v.s.byte_id['q'] = BPE_NO_ID;
	assert_false(has_borders(&v));
	v.s.byte_id['q'] = 'q';
	assert_true(has_borders(&v));
	v.merges[v.s.n_merges++] =
		(struct bpe_merge){ 'x', 'y', add_token(&v, "<0x78><0x79>", 12) };
	assert_false(has_borders(&v));		/* a merge joins the bytes of unknown characters */
}

/* A merge that crosses a kind of place removes that kind and no other. */
static void merges_remove_the_places_they_cross(void **state)
{
	static const struct { const char *left, *right; unsigned without;
	} cases[] = {
		{ "a", "b", CHUNK_ALL },
		{ "a", MARK, CHUNK_ALL & ~CHUNK_SPACE },
		{ ".", MARK, CHUNK_ALL & ~CHUNK_SPACE },
		{ "\n", "a", CHUNK_ALL & ~CHUNK_LINE },
		{ "a", "1", CHUNK_ALL & ~CHUNK_DIGIT },
		{ "1", "a", CHUNK_ALL },
		{ MARK, MARK, CHUNK_ALL },
		{ MARK, "a", CHUNK_ALL },
		{ "\n", MARK, CHUNK_ALL },
		{ "\xe4\xb8\xad", "\xe3\x80\x82", CHUNK_ALL & ~CHUNK_CJK },
		{ "\n", "\xe4\xb8\xad", CHUNK_ALL & ~CHUNK_LINE },
		{ "\xc3\xa9", MARK, CHUNK_ALL & ~CHUNK_SPACE },
	};
	static struct spec v;
	struct rng r;

	rng_init(&r, 3);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t left, right;
		struct borders *x;
		struct bpe *b;
		uint8_t both[8];
		struct err e;

		do {
			random_spec(&v, &r);
		} while (v.s.n_tokens < 256 + 8);
		v.s.n_tokens = 256;
		v.s.n_merges = 0;
		left = add_token(&v, cases[i].left, strlen(cases[i].left));
		right = strcmp(cases[i].left, cases[i].right) == 0
				? left
				: add_token(&v, cases[i].right, strlen(cases[i].right));
		memcpy(both, cases[i].left, strlen(cases[i].left));
		memcpy(both + strlen(cases[i].left), cases[i].right, strlen(cases[i].right));
		v.merges[v.s.n_merges++] = (struct bpe_merge){ left, right,
			add_token(&v, both, strlen(cases[i].left) + strlen(cases[i].right)) };
		b = bpe_new(&v.s, &e);
		assert_non_null(b);
		assert_int_equal(borders_new(b, SPAN(MARK), &x), 0);
		assert_int_equal(borders_places(x) & CHUNK_ALL, cases[i].without);
		borders_free(x);
		bpe_free(b);
	}
	assert_int_equal(borders_places(NULL), 0);
	assert_int_equal(borders_bytes(NULL), 0);
}

/* ---- whole tokenizers ------------------------------------------------------------------------ */

static void in_steps(const struct tok *t, struct span text, const struct ids *want)
{
	struct tok_steps *s = tok_steps_start(t, text, PART_FIRST);
	struct ids got = { 0 };
	uint64_t budget;
	int rc;

	assert_non_null(s);
	do {
		budget = 100;
		rc = tok_steps_run(s, &budget, false, &got);
	} while (rc == 1);
	assert_int_equal(rc, 0);
	same_ids(&got, want);
	tok_steps_stop(s);
	ids_free(&got);
}

/* Encode <text> cut at each of its places and compare with <want>. All chunks but the first are
 * PART_INSIDE: they do not begin a segment. Returns the number of cuts. */
static size_t at_each_place(const struct tok *t, struct tok_scratch *c, struct span text,
			    const struct ids *want)
{
	unsigned places = tok_segments(t).places;
	struct ids got = { 0 };
	size_t from = 0, cuts = 0;

	for (size_t k = 4; k + CHUNK_AHEAD < text.n; k++) {
		if (!chunk_place(places, (const uint8_t *)text.p + k))
			continue;
		assert_int_equal(tok_encode_segment(t, c, span_of(text.p + from, k - from),
						    from == 0 ? PART_FIRST : PART_INSIDE, &got),
				 0);
		from = k;
		cuts++;
	}
	assert_int_equal(tok_encode_segment(t, c, span_of(text.p + from, text.n - from),
					    from == 0 ? PART_FIRST : PART_INSIDE, &got),
			 0);
	same_ids(&got, want);
	ids_free(&got);
	return cuts;
}

static void as_the_whole(const struct tok *t, unsigned texts, size_t most)
{
	struct tok_scratch *c = tok_scratch_new();
	struct ids want = { 0 }, got = { 0 };
	struct small_text a = { 0 };
	size_t cuts = 0;
	struct rng r;

	rng_init(&r, 4);
	assert_true(tok_segments(t).places != 0);
	for (unsigned round = 0; round < texts; round++) {
		a.n = 0;
		small_words(&a, &r, round % 6, 1 + rng_below(&r, (uint32_t)most));
		want.n = got.n = 0;
		assert_true(whole_ids(t, c, span_of(a.p, a.n), &want));
		assert_int_equal(tok_encode(t, c, span_of(a.p, a.n), 0, &got), 0);
		same_ids(&got, &want);
		want.n = 0;
		assert_int_equal(tok_encode_segment(t, c, span_of(a.p, a.n), PART_FIRST, &want), 0);
		cuts += at_each_place(t, c, span_of(a.p, a.n), &want);
		in_steps(t, span_of(a.p, a.n), &want);
	}
	assert_true(cuts > texts);
	ids_free(&want);
	ids_free(&got);
	tok_scratch_free(c);
	free(a.p);
}

static void small_tokenizers(void **state)
{
	static const enum small_kind kinds[] = { SMALL_SPM, SMALL_METASPACE };

	for (unsigned i = 0; i < 2; i++) {
		struct tok *t = small_tok(kinds[i]);

		assert_int_equal(tok_segments(t).begin_differs, kinds[i] == SMALL_SPM);
		as_the_whole(t, rounds(600, 90), 400);
		tok_unref(t);
	}
}

static void recorded_tokenizers(void **state)
{
	static const char *const names[] = { "gguf-llama-spm", "gguf-phi-3", "kitoken-mistral03" };

	for (unsigned i = 0; i < 3; i++) {
		char name[100];
		struct tok_source src = { .name = names[i] };
		struct tok *t;
		struct err e;

		snprintf(name, sizeof(name), "tokenizer_json/%s.tokenizer.json.gz", names[i]);
		if ((src.file = data_read(name)).p == NULL) {
			printf("skipped: %s: no data\n", name);
			continue;
		}
		if ((t = tok_load(&src, &e)) == NULL)
			fail_msg("%s", e.text);
		assert_int_equal(tok_segments(t).places & CHUNK_SPACE, CHUNK_SPACE);
		as_the_whole(t, rounds(60, 12), 3000);
		tok_unref(t);
		free((char *)src.file.p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_vocabularies_are_cut),
		cmocka_unit_test(vocabularies_without_borders),
		cmocka_unit_test(merges_remove_the_places_they_cross),
		cmocka_unit_test(small_tokenizers),
		cmocka_unit_test(recorded_tokenizers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

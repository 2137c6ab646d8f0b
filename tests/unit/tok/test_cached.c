/* test_cached.c - the ids are the same with and without the cache: for every small tokenizer, with
 * a cache so small that it evicts all the time, with segments seen before at other places of a
 * text, and with chunks against the whole text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/base/mem.h"
#include "agent/tok/cached.h"
#include "agent/tok/chunk.h"
#include "tests/unit/tok/cache.h"
#include "tests/unit/tok/small.h"

static void compare(const struct cached *c, struct span text, unsigned flags)
{
	struct ids want = { 0 }, got = { 0 };
	size_t used;

	assert_int_equal(tok_encode(c->tok, c->scratch, text, flags, &want), 0);
	assert_int_equal(tok_cached_some(c, text, flags, &got, &used), 0);
	same_ids(&got, &want);
	ids_free(&want);
	ids_free(&got);
}

/* Encode texts that share beginnings, ends and middles through caches of two sizes. */
static void ids_are_the_same_with_and_without_cache(void **state)
{
	struct rng r;

	rng_init(&r, 11);
	for (unsigned kind = 0; kind < SMALL_KINDS; kind++) {
		struct tok *t = small_tok(kind);
		struct cached c = { .tok = t, .scratch = tok_scratch_new(), .tenant = kind };
		struct segcache *large = make_cache(4 << 20), *tiny = make_cache(SEGCACHE_LEAST);
		struct small_text a = { 0 };
		struct segcache_stats st;

		assert_non_null(c.scratch);
		for (unsigned round = 0; round < 24; round++) {
			size_t from;

			if (round % 6 == 0)
				a.n = 0;
			small_words(&a, &r, round % 6, 200 + rng_below(&r, 7000));
			small_say(&a, round % 3 ? "<|im_end|>" : "");
			from = rng_below(&r, (uint32_t)a.n);
			c.cache = round % 2 ? large : tiny;
			compare(&c, span_of(a.p, a.n), round & TOK_SPECIAL);
			compare(&c, span_of(a.p + from, a.n - from), 0);
			compare(&c, span_of(a.p, from), 0);
			compare(&c, span_of(a.p, a.n), 0);
		}
		segcache_stats(large, &st);
		assert_true(!tok_segments(t).independent || st.hits > 20);
		segcache_free(large);
		segcache_free(tiny);
		tok_scratch_free(c.scratch);
		tok_unref(t);
		free(a.p);
	}
}

/* The first segment of a text and an equal later one have entries of their own, if the tokenizer
 * treats the first differently. */
static void first_segment_has_its_own_entry(void **state)
{
	struct tok *t = small_tok(SMALL_METASPACE);
	struct cached c = { .tok = t, .scratch = tok_scratch_new(), .cache = make_cache(1 << 20) };
	struct small_text a = { 0 };
	struct segcache_stats st;

	assert_true(tok_segments(t).first_differs);
	for (unsigned i = 0; i < 3; i++)
		small_say(&a, "then other one, isn't it; it is another one, then<|im_end|>");
	compare(&c, span_of(a.p, a.n), 0);
	segcache_stats(c.cache, &st);
	assert_int_equal(st.entries, 2);
	compare(&c, span_of(a.p, a.n), 0);
	segcache_stats(c.cache, &st);
	assert_int_equal(st.hits, 4);
	segcache_free(c.cache);
	tok_scratch_free(c.scratch);
	tok_unref(t);
	free(a.p);
}

/* A text cut at every place that chunk_place() accepts has the ids of the whole text, as chunk.c
 * proves. */
static void every_place_may_be_cut(void **state)
{
	struct rng r;

	rng_init(&r, 12);
	for (unsigned kind = 0; kind < SMALL_CUT; kind++) {
		struct tok *t = small_tok(kind);
		struct tok_scratch *c = tok_scratch_new();
		struct ids whole = { 0 }, parts = { 0 };
		struct small_text a = { 0 };
		size_t cuts = 0;

		unsigned places = tok_segments(t).places;

		assert_true(places == CHUNK_ALL || places == (CHUNK_WORD | CHUNK_LINE | CHUNK_DIGIT | CHUNK_CJK));
		for (unsigned round = 0; round < 300; round++) {
			size_t from = 0;

			a.n = 0;
			small_words(&a, &r, round % 6, 40 + rng_below(&r, 400));
			whole.n = parts.n = 0;
			assert_int_equal(tok_encode_segment(t, c, span_of(a.p, a.n), true, &whole), 0);
			for (size_t k = 4; k + CHUNK_AHEAD < a.n; k++) {
				if (!chunk_place(places, (const uint8_t *)a.p + k))
					continue;
				tok_encode_segment(t, c, span_of(a.p + from, k - from), from == 0, &parts);
				from = k;
				cuts++;
			}
			tok_encode_segment(t, c, span_of(a.p + from, a.n - from), from == 0, &parts);
			same_ids(&parts, &whole);
		}
		assert_true(cuts > 2000);
		ids_free(&whole);
		ids_free(&parts);
		tok_scratch_free(c);
		tok_unref(t);
		free(a.p);
	}
}

/* In a growing conversation, earlier turns hit and only the new turn misses: for the first 10
 * turns, which end with an added token, and then for text without added tokens. */
static void earlier_turns_hit(void **state)
{
	struct tok *t = small_tok(SMALL_QWEN);
	struct cached c = { .tok = t, .scratch = tok_scratch_new(), .cache = make_cache(8 << 20) };
	struct segcache_stats before = { 0 }, now;
	struct small_text a = { 0 };
	struct ids out = { 0 };
	struct rng r;
	size_t used;

	rng_init(&r, 13);
	for (unsigned turn = 0; turn < 30; turn++) {
		small_words(&a, &r, 1, 1000 + rng_below(&r, 2000));
		small_say(&a, turn < 10 ? "<|im_end|>" : "");
		out.n = 0;
		assert_int_equal(tok_cached_some(&c, span_of(a.p, a.n), 0, &out, &used), 0);
		segcache_stats(c.cache, &now);
		assert_true(now.misses - before.misses <= (turn < 10 ? 1 : 4));
		assert_true(now.hits - before.hits >= turn / 2);
		before = now;
	}
	c.tenant = 1;					/* another tenant has no hits */
	out.n = 0;
	assert_int_equal(tok_cached_some(&c, span_of(a.p, a.n), 0, &out, &used), 0);
	segcache_stats(c.cache, &now);
	assert_int_equal(now.hits, before.hits);
	segcache_free(c.cache);
	tok_scratch_free(c.scratch);
	tok_unref(t);
	ids_free(&out);
	free(a.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_are_the_same_with_and_without_cache),
		cmocka_unit_test(first_segment_has_its_own_entry),
		cmocka_unit_test(every_place_may_be_cut),
		cmocka_unit_test(earlier_turns_hit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_stream.c - a text in parts has the ids of the whole text: for every small tokenizer, with
 * parts and budgets of many sizes, with two streams at a time, and with a cache that
 * tok_cached_some() shares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/tok/stream.h"
#include "tests/unit/tok/cache.h"
#include "tests/unit/tok/small.h"

static struct stream *make_stream(size_t max_bytes, unsigned flags)
{
	struct stream_opts o = { .max_bytes = max_bytes, .flags = flags };
	struct stream *s = stream_new(&o);

	assert_non_null(s);
	return s;
}

static void run(struct stream *s, size_t budget)
{
	enum stream_result r;

	while ((r = stream_step(s, budget)) == STREAM_MORE)
		;
	assert_int_equal(r, STREAM_DONE);
}

/* Feed <text> in parts of 1 .. <most> bytes. Each part is a block of its own, so that a sanitizer
 * reports a read past its end. */
static void feed(struct stream *s, struct rng *r, struct span text, size_t most, size_t budget)
{
	size_t n;
	char *part;

	for (; text.n > 0; text.p += n, text.n -= n) {
		n = 1 + rng_below(r, (uint32_t)most);
		n = n < text.n ? n : text.n;
		part = malloc(n);
		assert_non_null(part);
		memcpy(part, text.p, n);
		assert_int_equal(stream_feed(s, span_of(part, n)), STREAM_DONE);
		free(part);
		switch (rng_below(r, 4)) {
		case 0:
			break;
		case 1:
			assert_true(stream_step(s, 1) >= 0);	/* the next part may come before this one is encoded */
			break;
		default:
			run(s, budget);
		}
	}
	stream_end(s);
	run(s, budget);
	assert_int_equal(stream_step(s, budget), STREAM_DONE);
}

static void any_parts(void **state)
{
	static const size_t most[] = { 1, 2, 7, 100, 5000, 100000 }, budget[] = { 1, 100, SIZE_MAX };
	struct ids want = { 0 }, got = { 0 };
	struct small_text a = { 0 };
	struct rng r;

	rng_init(&r, 21);
	for (unsigned kind = 0; kind < SMALL_KINDS; kind++) {
		struct tok *t = small_tok(kind);
		struct cached c = { .tok = t, .scratch = tok_scratch_new() };
		struct segcache *tiny = make_cache(SEGCACHE_LEAST);

		assert_non_null(c.scratch);
		for (unsigned round = 0; round < 48; round++) {
			unsigned flags = round & TOK_SPECIAL;
			struct stream *s = make_stream(1 << 20, flags);

			a.n = 0;
			small_words(&a, &r, round / 2 % 6, rng_below(&r, round % 8 ? 600 : 12000));
			want.n = got.n = 0;
			c.cache = round % 3 ? tiny : NULL;
			assert_int_equal(tok_encode(t, c.scratch, span_of(a.p, a.n), flags, &want), 0);
			assert_int_equal(stream_begin(s, &c, &got), STREAM_DONE);
			feed(s, &r, span_of(a.p, a.n), most[round % 6], budget[round % 3]);
			same_ids(&got, &want);
			stream_free(s);
		}
		segcache_free(tiny);
		tok_scratch_free(c.scratch);
		tok_unref(t);
	}
	ids_free(&want);
	ids_free(&got);
	free(a.p);
}

/* The ids of stream_peek() are the beginning of the ids of the whole text, and a peek does not
 * change the stream. */
static void peek_gives_a_prefix(void **state)
{
	struct ids want = { 0 }, got = { 0 };
	struct small_text a = { 0 };
	size_t n, peeked = 0;
	struct rng r;

	rng_init(&r, 5);
	for (unsigned kind = 0; kind < SMALL_KINDS; kind++) {
		struct tok *t = small_tok(kind);
		struct cached c = { .tok = t, .scratch = tok_scratch_new() };
		struct stream *s = make_stream(1 << 20, 0);

		for (unsigned round = 0; round < 60; round++) {
			size_t k, solid, most;

			a.n = 0;
			small_words(&a, &r, round % 6, 1 + rng_below(&r, round % 8 ? 300 : 9000));
			want.n = got.n = 0;
			assert_int_equal(tok_encode(t, c.scratch, span_of(a.p, a.n), 0, &want), 0);
			assert_int_equal(stream_begin(s, &c, &got), STREAM_DONE);
			k = rng_below(&r, (uint32_t)a.n + 1);
			assert_int_equal(stream_feed(s, span_of(a.p, k)), STREAM_DONE);
			run(s, SIZE_MAX);
			solid = got.n;
			for (int look = 0; look < 2; look++) {
				got.n = solid;
				assert_int_equal(stream_peek(s, &got, &n, &(uint64_t){ WORK_ANY }), 0);
				assert_true(n <= stream_left(s) && (n > 0) == (got.n > solid));
				assert_true(got.n <= want.n);
				if (got.n > 0)
					assert_memory_equal(got.p, want.p, got.n * sizeof(*got.p));
			}
			peeked += n;
			most = stream_left(s);
			assert_true(most <= k);
			got.n = solid;
			assert_int_equal(stream_feed(s, span_of(a.p + k, a.n - k)), STREAM_DONE);
			stream_end(s);
			run(s, SIZE_MAX);
			same_ids(&got, &want);
			assert_int_equal(stream_left(s), 0);
		}
		stream_free(s);
		tok_scratch_free(c.scratch);
		tok_unref(t);
	}
	assert_true(peeked > 10000);
	ids_free(&want);
	ids_free(&got);
	free(a.p);
}

/* Cut texts in two at every byte, next to tokens with lstrip, rstrip or single_word and inside
 * characters. */
static void every_cut(void **state)
{
	static const char *const texts[] = {
		"<|im_start|>a<|im_end|><|",
		"x [L] y [R]  z [LR]\n\n w", "[S]a [S] a[S]", 
		"word sword word\xc3\xa9 word", "a <<<<<< b <<", "e\xcc\x81[N]e\xcc\x81",
		"\xe3\x81\x8b\xe3\x82\x99 \xf0\x9f\x98\x80<|im_start|>\xf0\x9f\x98\x80", 
		"\xff<|im_start\xff|>\xe3\x81", " [R] \xe3\x80\x80[L]\xc2\xa0 [LR]", "", " ", "[R]   ",
		"word\xcc\x81 word", "[R]\xc2", "<|im_star", "end_word word",
	};
	struct ids want = { 0 }, got = { 0 };

	for (unsigned kind = 0; kind < SMALL_KINDS; kind++) {
		struct tok *t = small_tok(kind);
		struct cached c = { .tok = t, .scratch = tok_scratch_new() };
		struct stream *s = make_stream(1000, 0);

		for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
			size_t n = strlen(texts[i]);

			want.n = 0;
			assert_int_equal(tok_encode(t, c.scratch, span_of(texts[i], n), 0, &want), 0);
			for (size_t k = 0; k <= n; k++) {
				got.n = 0;
				assert_int_equal(stream_begin(s, &c, &got), STREAM_DONE);
				assert_int_equal(stream_feed(s, span_of(texts[i], k)), STREAM_DONE);
				run(s, 1000);
				assert_int_equal(stream_feed(s, span_of(texts[i] + k, n - k)), STREAM_DONE);
				run(s, 1000);
				stream_end(s);
				run(s, 1000);
				same_ids(&got, &want);
			}
		}
		stream_free(s);
		tok_scratch_free(c.scratch);
		tok_unref(t);
	}
	ids_free(&want);
	ids_free(&got);
}

/* A single_word token right after a word is not found, although the stream has already encoded and
 * dropped the word. */
static void a_word_that_was_already_encoded(void **state)
{
	struct tok *t = small_tok(SMALL_STRIP);
	struct cached c = { .tok = t, .scratch = tok_scratch_new() };
	struct stream *s = make_stream(1 << 20, 0);
	struct ids want = { 0 }, got = { 0 };
	struct small_text a = { 0 };

	for (unsigned n = 4080; n <= 4096; n++) {
		a.n = 0;
		while (a.n < n)
			small_say(&a, "x");
		small_say(&a, "end_word and word ");
		while (a.n < 10000)
			small_say(&a, "then ");
		want.n = got.n = 0;
		assert_int_equal(tok_encode(t, c.scratch, span_of(a.p, a.n), 0, &want), 0);
		assert_int_equal(stream_begin(s, &c, &got), STREAM_DONE);
		assert_int_equal(stream_feed(s, span_of(a.p, n + 4)), STREAM_DONE);
		run(s, SIZE_MAX);
		assert_int_equal(stream_feed(s, span_of(a.p + n + 4, a.n - n - 4)), STREAM_DONE);
		stream_end(s);
		run(s, SIZE_MAX);
		same_ids(&got, &want);
	}
	stream_free(s);
	tok_scratch_free(c.scratch);
	tok_unref(t);
	ids_free(&want);
	ids_free(&got);
	free(a.p);
}

/* Encode one piece of 300 KB in steps, while another stream uses the same scratch. */
static void long_pieces_in_steps(void **state)
{
	enum { LONG = 300000 };
	char *text = malloc(LONG);
	struct rng r;

	assert_non_null(text);
	rng_init(&r, 22);
	for (size_t i = 0; i < LONG; i++)
		text[i] = "etaohn"[rng_below(&r, 6)];
	memcpy(text + LONG / 3, "[N]", 3);		/* a token in normalized text for one of the tokenizers */
	for (unsigned kind = 0; kind < SMALL_KINDS; kind++) {
		struct tok *t = small_tok(kind);
		struct cached c = { .tok = t, .scratch = tok_scratch_new() };
		struct stream *a = make_stream(1 << 20, 0), *b = make_stream(1 << 20, 0);
		struct ids want = { 0 }, got = { 0 }, other = { 0 }, want_other = { 0 };
		unsigned steps = 0;

		assert_int_equal(tok_encode(t, c.scratch, span_of(text, LONG), 0, &want), 0);
		assert_int_equal(tok_encode(t, c.scratch, SPAN("then other one, isn't it"), 0, &want_other), 0);
		assert_int_equal(stream_begin(a, &c, &got), STREAM_DONE);
		assert_int_equal(stream_feed(a, span_of(text, LONG)), STREAM_DONE);
		stream_end(a);
		while (stream_step(a, 20000) == STREAM_MORE) {
			steps++;
			other.n = 0;
			assert_int_equal(stream_begin(b, &c, &other), STREAM_DONE);
			assert_int_equal(stream_feed(b, SPAN("then other one, isn't it")), STREAM_DONE);
			stream_end(b);
			run(b, SIZE_MAX);
			same_ids(&other, &want_other);
		}
		same_ids(&got, &want);
		assert_true(steps >= 10 || !tok_segments(t).independent);
		ids_free(&want);
		ids_free(&got);
		ids_free(&other);
		ids_free(&want_other);
		stream_free(a);
		stream_free(b);
		tok_scratch_free(c.scratch);
		tok_unref(t);
	}
	free(text);
}

/* tok_cached_some() finds the entries that a stream has put, and the other way round. */
static void cache_is_shared(void **state)
{
	struct tok *t = small_tok(SMALL_O200K);
	struct cached c = { .tok = t, .scratch = tok_scratch_new(), .cache = make_cache(8 << 20) };
	struct stream *s = make_stream(1 << 20, 0);
	struct segcache_stats before, now;
	struct small_text a = { 0 };
	struct ids out = { 0 };
	struct rng r;

	rng_init(&r, 23);
	for (unsigned round = 0; round < 12; round++) {
		size_t used;

		a.n = 0;
		for (unsigned i = 0; i < 4; i++) {
			small_words(&a, &r, 1 + round % 3, 60 + rng_below(&r, 20000));
			small_say(&a, "<|im_end|>");
		}
		for (unsigned again = 0; again < 2; again++) {
			segcache_stats(c.cache, &before);
			out.n = 0;
			if ((round + again) % 2 == 0) {
				assert_int_equal(tok_cached_some(&c, span_of(a.p, a.n), 0, &out, &used), 0);
			} else {
				assert_int_equal(stream_begin(s, &c, &out), STREAM_DONE);
				feed(s, &r, span_of(a.p, a.n), 3000, SIZE_MAX);
			}
			segcache_stats(c.cache, &now);
			assert_true(again ? now.misses == before.misses && now.hits > before.hits
					  : now.misses > before.misses);
		}
	}
	segcache_free(c.cache);
	stream_free(s);
	tok_scratch_free(c.scratch);
	tok_unref(t);
	ids_free(&out);
	free(a.p);
}

/* stream_bytes() counts the scratch of unfinished steps, because a caller with many pending texts
 * must bound their memory. */
static void pending_steps_are_counted(void **state)
{
	struct tok *t = small_tok(SMALL_L3);
	struct cached c = { .tok = t, .scratch = tok_scratch_new() };
	struct stream *s = make_stream(1 << 20, 0);
	struct ids out = { 0 };
	char letters[100000];

	memset(letters, 'e', sizeof(letters));
	assert_int_equal(stream_begin(s, &c, &out), STREAM_DONE);
	assert_int_equal(stream_feed(s, span_of(letters, sizeof(letters))), STREAM_DONE);
	assert_true(stream_bytes(s) < 200000);
	stream_end(s);
	assert_int_equal(stream_step(s, 1), STREAM_MORE);
	assert_int_equal(stream_step(s, 1000), STREAM_MORE);
	assert_true(stream_bytes(s) > 2 * sizeof(letters) + tok_scratch_bytes(c.scratch) &&
	    tok_scratch_bytes(c.scratch) > 1 << 19);
	stream_free(s);
	tok_scratch_free(c.scratch);
	tok_unref(t);
	ids_free(&out);
}

/* A stream holds at most max_bytes of text. That is enough for a text of any length that can be
 * cut; one that cannot is STREAM_TOO_LONG. */
static void bounds(void **state)
{
	struct tok *t = small_tok(SMALL_L3);
	struct cached c = { .tok = t, .scratch = tok_scratch_new() };
	struct stream *s = make_stream(8192, 0);
	struct small_text a = { 0 };
	struct ids out = { 0 }, want = { 0 };
	char letters[1000];
	struct rng r;

	rng_init(&r, 24);
	small_words(&a, &r, 1, 200000);
	assert_int_equal(tok_encode(t, c.scratch, span_of(a.p, a.n), 0, &want), 0);
	assert_int_equal(stream_begin(s, &c, &out), STREAM_DONE);
	for (size_t at = 0, n; at < a.n; at += n) {
		n = a.n - at < 4000 ? a.n - at : 4000;
		assert_int_equal(stream_feed(s, span_of(a.p + at, n)), STREAM_DONE);
		run(s, SIZE_MAX);
		assert_true(stream_bytes(s) < 16384);
	}
	stream_end(s);
	run(s, SIZE_MAX);
	same_ids(&out, &want);

	memset(letters, 'e', sizeof(letters));
	assert_int_equal(stream_begin(s, &c, &out), STREAM_DONE);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(stream_feed(s, span_of(letters, 1000)), STREAM_DONE);
		run(s, SIZE_MAX);
	}
	assert_int_equal(stream_feed(s, span_of(letters, 193)), STREAM_TOO_LONG);
	assert_int_equal(stream_feed(s, span_of(letters, 1)), STREAM_TOO_LONG);
	assert_int_equal(stream_step(s, 1), STREAM_TOO_LONG);
	assert_int_equal(stream_begin(s, &c, &out), STREAM_DONE);	/* a new text clears the error */
	assert_int_equal(stream_feed(s, span_of(letters, 1000)), STREAM_DONE);
	stream_end(s);
	run(s, 1);
	stream_free(s);
	stream_free(NULL);
	tok_scratch_free(c.scratch);
	tok_unref(t);
	ids_free(&out);
	ids_free(&want);
	free(a.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_parts),
		cmocka_unit_test(peek_gives_a_prefix),
		cmocka_unit_test(every_cut),
		cmocka_unit_test(a_word_that_was_already_encoded),
		cmocka_unit_test(long_pieces_in_steps),
		cmocka_unit_test(cache_is_shared),
		cmocka_unit_test(pending_steps_are_counted),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

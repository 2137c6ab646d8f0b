/* test_stream_fault.c - each allocation of a stream, of an encoding with the cache, and of the
 * cache itself fails once, in turn: the call returns an error, nothing leaks, and without a failure
 * the ids are right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/tok/stream.h"
#include "tests/unit/fault.h"
#include "tests/unit/tok/secret.h"
#include "tests/unit/tok/small.h"

#define LONG	20000		/* letters in a row, encoded in steps */

static struct small_text make_text(void)
{
	struct small_text a = { 0 };
	struct rng r;

	rng_init(&r, 31);
	small_words(&a, &r, 1, 9000);
	small_say(&a, "<|im_end|>e\xcc\x81\xff");
	for (unsigned i = 0; i < LONG; i++)
		small_add(&a, &"etaohn"[rng_below(&r, 6)], 1);
	small_say(&a, "<|im_end|> end");
	return a;
}

/* Encode the whole of <text> in parts. Returns -1 if memory runs out. */
static int stream_all(const struct cached *c, struct span text, size_t part, struct ids *out)
{
	struct stream_opts o = { .max_bytes = 1 << 20, .flags = TOK_SPECIAL };
	struct stream *s = stream_new(&o);
	enum stream_result r;

	if (s == NULL)
		return -1;
	r = stream_begin(s, c, out);
	for (size_t n; r == STREAM_DONE && text.n > 0; text.p += n, text.n -= n) {
		n = part < text.n ? part : text.n;
		r = stream_feed(s, span_of(text.p, n));
		while (r == STREAM_DONE && (r = stream_step(s, 3000)) == STREAM_MORE)
			r = STREAM_DONE;
	}
	stream_end(s);
	while (r == STREAM_DONE && (r = stream_step(s, 3000)) == STREAM_MORE)
		r = STREAM_DONE;
	assert_true(r == STREAM_DONE || r == STREAM_NO_MEMORY);
	assert_true(r == STREAM_DONE || stream_step(s, 1) == STREAM_NO_MEMORY);
	stream_free(s);
	return r == STREAM_DONE ? 0 : -1;
}

/* Encode <text> without failures, for the ids to compare with. */
static void want_ids(const struct tok *t, struct span text, struct ids *want)
{
	struct tok_scratch *c = tok_scratch_new();

	assert_non_null(c);
	assert_int_equal(tok_encode(t, c, text, TOK_SPECIAL, want), 0);
	tok_scratch_free(c);
}

static int story(const struct tok *t, struct span text, size_t part, const struct ids *want)
{
	struct segcache_opts o = { .max_bytes = 1 << 20, .threads = 1 };
	struct hash_key key = secret_key();
	struct cached c = { .tok = t, .scratch = tok_scratch_new(), .cache = segcache_new(&o, &key) };
	struct ids out = { 0 };
	size_t used;
	int r = -1;

	if (c.scratch == NULL || c.cache == NULL)
		goto out;
	if (part == 0 && tok_cached_some(&c, text, TOK_SPECIAL, &out, &used) < 0) {
		assert_int_equal(out.n, 0);
		goto out;
	}
	if (part > 0 && stream_all(&c, text, part, &out) < 0)
		goto out;
	assert_int_equal(out.n, want->n);
	assert_memory_equal(out.p, want->p, want->n * sizeof(*want->p));
	r = 0;
out:
	ids_free(&out);
	segcache_free(c.cache);
	tok_scratch_free(c.scratch);
	return r;
}

static void fail_each(enum small_kind kind, size_t part)
{
	struct small_text text = make_text();
	struct tok *t = small_tok(kind);
	struct ids want = { 0 };
	unsigned long k;
	bool met;
	int r;

	want_ids(t, span_of(text.p, text.n), &want);
	for (k = 1; ; k++) {
		fault_begin(k);
		r = story(t, span_of(text.p, text.n), part, &want);
		met = fault_end();
		if (!met)
			break;
	}
	assert_int_equal(r, 0);
	assert_true(k > 6);
	tok_unref(t);
	ids_free(&want);
	free(text.p);
}

static void cached_encode(void **state)
{
	fail_each(SMALL_L3, 0);
}

static void stream_cut_into_chunks(void **state)
{
	fail_each(SMALL_QWEN, 5000);
}

static void stream_collected_whole(void **state)
{
	fail_each(SMALL_STRIP, 7000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cached_encode),
		cmocka_unit_test(stream_cut_into_chunks),
		cmocka_unit_test(stream_collected_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

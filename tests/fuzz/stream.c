/* stream - compare a text in parts, and with the cache, with the text in one piece.
 *
 * Input: one of the small tokenizers (tests/unit/tok/small.h), flags, a seed of two bytes for the
 * cuts, how often the text is repeated (so that few bytes make a text of several chunks), then a
 * text. tok_encode(), tok_cached_some() with an empty and then a warm cache, and a stream by
 * single bytes and in pieces, with work for a byte, for some and for any number, give the same ids;
 * for SentencePiece-like tokenizers also in one piece. A stream with little memory reports that the
 * text is too long, or gives the same ids. */
#include "agent/tok/stream.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/tok/secret.h"
#include "tests/unit/tok/small.h"
#include "tests/unit/tok/whole.h"

#define TEXT_MOST	12000u

static struct tok *toks[SMALL_KINDS];
static struct tok_scratch *scratch;

static void same(const struct ids *a, const struct ids *b)
{
	must(a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n * sizeof(*a->p)) == 0));
}

static enum stream_result run(struct stream *s, size_t budget)
{
	enum stream_result r;

	while ((r = stream_step(s, budget)) == STREAM_MORE)
		;
	return r;
}

static enum stream_result feed(struct stream *s, struct span text, uint32_t seed, size_t budget)
{
	enum stream_result r = STREAM_DONE;
	struct cutter c;
	char *part;
	size_t n;

	cutter_init(&c, seed);
	for (; text.n > 0 && r == STREAM_DONE; text.p += n, text.n -= n) {
		n = cutter_next(&c, text.n);
		part = exact(text.p, n);
		r = stream_feed(s, span_of(part, n));
		free(part);
		if (r == STREAM_DONE && n % 3 > 0)
			r = n % 3 == 1 ? run(s, budget) : stream_step(s, budget);
		if (r == STREAM_MORE)
			r = STREAM_DONE;
	}
	stream_end(s);
	return r == STREAM_DONE ? run(s, budget) : r;
}

static void check_stream(const struct cached *c, struct span text, unsigned flags, uint32_t seed,
    size_t budget, const struct ids *want)
{
	struct stream_opts o = { .max_bytes = TEXT_MOST + 256, .flags = flags };
	struct ids got = { 0 };
	struct stream *s = must_alloc(stream_new(&o));

	must(stream_begin(s, c, &got) == STREAM_DONE);
	must(feed(s, text, seed, budget) == STREAM_DONE);
	same(&got, want);
	stream_free(s);

	o.max_bytes = 64 + seed % 4096;
	s = must_alloc(stream_new(&o));
	got.n = 0;
	must(stream_begin(s, c, &got) == STREAM_DONE);
	if (feed(s, text, seed, budget) == STREAM_DONE)
		same(&got, want);
	else
		must(text.n > o.max_bytes && stream_step(s, 1) == STREAM_TOO_LONG);
	stream_free(s);
	ids_free(&got);
}

static void check(const struct cached *c, struct span text, unsigned flags, uint32_t seed)
{
	static const size_t budgets[] = { 1, 700, SIZE_MAX };
	struct ids want = { 0 }, got = { 0 };
	size_t used;

	must(tok_encode(c->tok, c->scratch, text, flags, &want) == 0);
	if (tok_parts(c->tok).borders != NULL && flags == 0) {
		must(whole_ids(c->tok, c->scratch, text, &got));
		same(&got, &want);
	}
	for (unsigned i = 0; i < 2; i++) {
		got.n = 0;
		must(tok_cached_some(c, text, flags, &got, &used) == 0);
		same(&got, &want);
	}
	check_stream(c, text, flags, seed, budgets[seed % 3], &want);
	if (text.n < 2000)
		check_stream(c, text, flags, seed & ~7u, budgets[seed / 3 % 3], &want);
	ids_free(&want);
	ids_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct segcache_opts o = { .max_bytes = SEGCACHE_LEAST, .threads = 1 };
	struct hash_key key = secret_key();
	struct input in = { data, size };
	unsigned kind = in_u8(&in) % SMALL_KINDS, flags = in_u8(&in), times;
	uint32_t seed = in_u16(&in);
	struct small_text text = { 0 };
	struct cached c = { 0 };

	times = 1 + in_u8(&in);
	if (toks[kind] == NULL)
		toks[kind] = small_tok(kind);
	if (scratch == NULL)
		scratch = must_alloc(tok_scratch_new());
	small_add(&text, "", 0);
	while (times-- > 0 && in.left > 0 && text.n + in.left <= TEXT_MOST)
		small_add(&text, (const char *)in.p, in.left);
	c = (struct cached){ .tok = toks[kind], .scratch = scratch, .tenant = seed };
	c.cache = (flags & 2) != 0 ? NULL : must_alloc(segcache_new(&o, &key));
	check(&c, span_of(text.p, text.n), flags & TOK_SPECIAL, seed);
	segcache_free(c.cache);
	free(text.p);
	return 0;
}

/* lexicon - a vocabulary and pieces, by WordPiece and by Unigram, compared with a slow search.
 *
 * Input: flags, the number of tokens, for each its length, score and letters; then the text, a
 * letter for each byte, cut into pieces. In one call, in steps with little work, and from an
 * image. */
#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/lexicon/lexicon.h"
#include "tests/fuzz/lib/fuzz.h"

#define TOKENS	40u
#define TEXT	300u
#define UNK	999u

static const char *const letters[] = { "a", "b", "\xc3\xa9", "\xe6\x9d\xb1", "#",
	"\xf0\x9f\x98\x80" };

struct words {
	char text[TOKENS][64];
	struct lexicon_token token[TOKENS + 1];
	token_id byte_id[256];
	struct lexicon_spec spec;
};

static size_t letters_in(struct input *in, size_t n, char *out)
{
	size_t k = 0;

	for (; n > 0; n--) {
		const char *s = letters[in_u8(in) % 6];

		memcpy(out + k, s, strlen(s));
		k += strlen(s);
	}
	return k;
}

static const struct lexicon_token *find(const struct words *w, const char *p, size_t n)
{
	for (uint32_t i = 0; i < w->spec.n_tokens; i++)
		if (span_eq(w->token[i].text, span_of(p, n)))
			return &w->token[i];
	return NULL;
}

static double rounded(const struct words *w, double sum)
{
	return w->spec.kind == LEXICON_SENTENCE ? (double)(float)sum : sum;
}

static void words_in(struct input *in, struct words *w)
{
	unsigned flags = in_u8(in), n = in_u8(in) % (TOKENS + 1);
	enum lexicon_kind kind = flags & 1 ? LEXICON_UNIGRAM : LEXICON_WORDPIECE;

	if (kind == LEXICON_UNIGRAM && flags & 128)
		kind = LEXICON_SENTENCE;
	w->spec = (struct lexicon_spec){ .kind = kind,
		.tokens = w->token, .prefix = flags & 2 ? SPAN("##") : SPAN(""), .unk = UNK,
		.max_chars = flags >> 4, .byte_fallback = flags & 4, .byte_id = w->byte_id };
	for (unsigned b = 0; b < 256; b++)
		w->byte_id[b] = flags & 8 && b % 16 == 9 ? BPE_NO_ID : 1000 + b;
	for (unsigned i = 0; i < n; i++) {
		unsigned head = in_u8(in);
		size_t k = letters_in(in, 1 + head % 5, w->text[i]);

		if (find(w, w->text[i], k) == NULL)
			w->token[w->spec.n_tokens++] = (struct lexicon_token){ span_of(w->text[i], k), i,
				rounded(w, -(double)(head / 5) / 3) };
	}
}

/* ---- the truth ----------------------------------------------------------------------------- */

static void add(struct ids *v, token_id id)
{
	must(ids_reserve(v, 1) == 0);
	v->p[v->n++] = id;
}

static void wordpiece(const struct words *w, const char *p, size_t n, struct ids *out)
{
	size_t at = 0, from = out->n, len = 1;
	char s[TEXT * 4 + 2];

	for (; at < n && len > 0 && utf8_count(p, n) <= w->spec.max_chars; at += len) {
		size_t m = at > 0 ? w->spec.prefix.n : 0;
		const struct lexicon_token *t = NULL;

		memcpy(s, w->spec.prefix.p, m);
		memcpy(s + m, p + at, n - at);
		for (len = n - at; len > 0 && (t = find(w, s, m + len)) == NULL; len--)
			;
		if (t != NULL)
			add(out, t->id);
	}
	if (at < n || (len == 0 && n > 0)) {
		out->n = from;
		add(out, UNK);
	}
}

struct way {
	double score;
	size_t from;
	token_id id;
	bool is;
};

static void unknown(const struct words *w, const char *p, size_t n, struct ids *out)
{
	const struct lexicon_token *t = find(w, p, n);
	size_t from = out->n, i = 0;

	if (t != NULL) {
		add(out, t->id);
		return;
	}
	for (; w->spec.byte_fallback && i < n && w->byte_id[(uint8_t)p[i]] != BPE_NO_ID; i++)
		add(out, w->byte_id[(uint8_t)p[i]]);
	if (i < n) {
		out->n = from;
		add(out, UNK);
	}
}

static void unigram(const struct words *w, const char *p, size_t n, struct ids *out)
{
	struct way way[TEXT * 4 + 1] = { { .is = true } };
	size_t ends[TEXT * 4 + 1], k = 0, len;
	double least = w->spec.n_tokens > 0 ? w->token[0].score : 0, sum;
	uint32_t cp;

	for (uint32_t i = 0; i < w->spec.n_tokens; i++)
		least = w->token[i].score < least ? w->token[i].score : least;
	for (size_t at = 0; at < n; at += len) {
		bool single = false;

		len = utf8_get(p + at, n - at, &cp);
		for (size_t m = 1; m <= n - at; m++) {
			const struct lexicon_token *t = find(w, p + at, m);
			struct way *to = &way[at + m];

			single |= t != NULL && m == len;
			if (t != NULL && (!to->is || rounded(w, t->score + way[at].score) > to->score))
				*to = (struct way){ rounded(w, t->score + way[at].score), at, t->id, true };
		}
		sum = rounded(w, rounded(w, least - 10) + way[at].score);
		if (!single && (!way[at + len].is || sum > way[at + len].score))
			way[at + len] = (struct way){ sum, at, UNK, true };
	}
	for (size_t at = n; at > 0; at = way[at].from)
		ends[k++] = at;
	while (k > 0) {
		size_t end = ends[--k], from = way[end].from;

		if (way[end].id != UNK) {
			add(out, way[end].id);
			continue;
		}
		for (; k > 0 && way[ends[k - 1]].id == UNK; k--)
			end = ends[k - 1];
		unknown(w, p + from, end - from, out);
	}
}

/* ---- ours ---------------------------------------------------------------------------------- */

static bool same(const struct ids *a, const struct ids *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n * sizeof(*a->p)) == 0);
}

static void check(const struct words *w, const struct lexicon *x, struct input in)
{
	struct lexicon_scratch *c = must_alloc(lexicon_scratch_new());
	struct ids want = { 0 }, got = { 0 }, all = { 0 }, every = { 0 };
	uint32_t end[TEXT], n = 0;
	struct work_left any;
	char text[TEXT * 4];
	size_t bytes = 0;

	while (in.left > 1 && n < 30 && bytes + 4 * 20 < TEXT) {
		size_t k = letters_in(&in, 1 + in_u8(&in) % 16, text + bytes);
		char *piece = exact(text + bytes, k);
		struct work_left little;
		int rc;

		want.n = got.n = 0;
		if (w->spec.kind != LEXICON_WORDPIECE)
			unigram(w, piece, k, &want);
		else
			wordpiece(w, piece, k, &want);
		must(lexicon_long_start(x, c, (const uint8_t *)piece, k) == 0);
		do {
			little.left = 3;
		} while ((rc = lexicon_long_step(x, c, &little, &got)) == 1);
		must(rc == 0 && same(&want, &got));
		for (size_t i = 0; i < want.n; i++)
			add(&every, want.p[i]);
		end[n++] = (uint32_t)(bytes += k);
		free(piece);
	}
	work_unbound(&any);
	must(lexicon_encode(x, c, &any, (const uint8_t *)text, end, n, &all) == 0 && same(&all, &every));
	ids_free(&want);
	ids_free(&got);
	ids_free(&all);
	ids_free(&every);
	lexicon_scratch_free(c);
}

/* Return a copy that begins where an image must, without bytes after it; free() it. */
static void *image_copy(struct span image)
{
	void *p = NULL;

	must(image.p != NULL && posix_memalign(&p, BPE_ALIGN, image.n) == 0);
	memcpy(p, image.p, image.n);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct lexicon *x, *lent;
	static struct words w;
	struct err e;
	void *image;

	words_in(&in, &w);
	x = must_alloc(lexicon_new(&w.spec, &e));
	image = image_copy(lexicon_image(x));
	lent = must_alloc(lexicon_of_image(span_of(image, lexicon_image(x).n)));
	check(&w, x, in);
	check(&w, lent, in);
	lexicon_free(lent);
	lexicon_free(x);
	free(image);
	return 0;
}

/* tokenizer - a tokenizer's files, and texts for it; added tokens, and a text.
 *
 * The first byte selects: 0 a tokenizer.json or tekken.json, 1 a tokenizer_config.json over a small
 * tokenizer, 2 a rank file (its pattern and normalizer come from the bits above), 3 added tokens.
 * Files end at a NUL; the text follows. A rejected file has a sentence; an accepted one gives the
 * same ids again, from its image, and by segments. Added tokens are compared with a slow search. */
#include "agent/base/mem.h"
#include "agent/tok/tok_image.h"
#include "agent/base/utf8.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/tok/added_truth.h"

#define TOKENS_MAX	8

static const char small[] =
    "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": "
    "\"first\"}, "
    "\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"_\": 3, \"_a\": 4, \"c\": 5, \"u\": "
    "6}, "
    "\"merges\": [\"a b\", \"_ a\"], \"unk_token\": \"u\", \"fuse_unk\": true}}";

static bool ids_eq(const struct ids *a, const struct ids *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n * sizeof(*a->p)) == 0);
}

/* ---- accepted tokenizers ----------------------------------------------------------------- */

static bool encode(const struct tok *t, struct span text, unsigned flags, struct ids *out)
{
	struct tok_scratch *c = must_alloc(tok_scratch_new());
	char *p = exact(text.p, text.n);
	bool done;

	out->n = 0;
	done = tok_encode(t, c, span_of(p, text.n), flags, out) == 0;
	must(done || out->n == 0);
	free(p);
	tok_scratch_free(c);
	return done;
}

static void in_segments(const struct tok *t, struct span text, const struct ids *want)
{
	struct tok_scratch *c = must_alloc(tok_scratch_new());
	struct ids ids = { NULL, 0, 0 };
	struct tok_cut cut;
	size_t from = 0;

	while (tok_next_cut(t, text, from, &cut)) {
		must(cut.at >= from && cut.n > 0 && cut.n <= text.n - cut.at);
		must(tok_encode_segment(t, c, span_of(text.p + from, cut.at - from), from == 0, &ids) == 0);
		must(ids_reserve(&ids, 1) == 0);
		ids.p[ids.n++] = cut.id;
		from = cut.at + cut.n;
	}
	must(tok_encode_segment(t, c, span_of(text.p + from, text.n - from), from == 0, &ids) == 0);
	must(ids_eq(&ids, want));
	must(tok_cut_tail(t, span_of(text.p + from, text.n - from)) <= text.n - from);
	ids_free(&ids);
	tok_scratch_free(c);
}

static void from_image(const struct tok *t, struct span text, const struct ids *want)
{
	struct tok_image_key key = { { 1, 2 } };
	struct span image = tok_image(t, key);
	struct ids ids = { NULL, 0, 0 };
	void *p = NULL;
	struct tok *u;
	struct err e;

	must(image.p != NULL && posix_memalign(&p, 64, image.n) == 0);
	memcpy(p, image.p, image.n);
	mem_free((void *)image.p);
	u = tok_of_image(span_of(p, image.n), key, NULL, NULL, &e);
	must(u != NULL && tok_fingerprint(u) == tok_fingerprint(t));
	must(encode(u, text, TOK_SPECIAL, &ids) && ids_eq(&ids, want));
	tok_unref(u);
	ids_free(&ids);
	free(p);
}

static void use(const struct tok *t, struct span text)
{
	uint8_t *valid = must_alloc(malloc(text.n * 3 + 1));
	struct ids a = { NULL, 0, 0 }, b = { NULL, 0, 0 };

	if (encode(t, text, TOK_SPECIAL, &a)) {		/* else: the pattern's match limit */
		must(encode(t, text, TOK_SPECIAL, &b) && ids_eq(&a, &b));
		from_image(t, text, &a);
		text = span_of(valid, utf8_mend((const uint8_t *)text.p, text.n, valid));
		must(encode(t, text, TOK_SPECIAL, &b) && ids_eq(&a, &b));
		must(encode(t, text, 0, &b) && b.n + tok_prefix(t).n + tok_suffix(t).n == a.n);
		if (tok_segments(t).independent)
			in_segments(t, text, &b);
	}
	ids_free(&a);
	ids_free(&b);
	free(valid);
}

static void load(unsigned kind, unsigned pattern, struct span file, struct span text)
{
	static const char *const patterns[] = { "gpt2", "cl100k", "kimi", "[ab]|\\s+(?!\\S)|.", "qwen" };
	static const enum tok_normalizer normalizers[] = { TOK_NORMALIZER_AUTO, TOK_NORMALIZER_NFC,
		TOK_NORMALIZER_NONE };
	char *p = exact(file.p, file.n);
	struct tok_source src = { .file = span_of(p, file.n), .name = "file", .config_name = "config" };
	struct tok *t;
	struct err e;

	if (kind == 1) {
		src.config = src.file;
		src.file = span_str(small);
	} else if (kind == 2) {
		src.pattern = patterns[pattern % 5];
		src.normalizer = normalizers[pattern / 5 % 3];
	}
	t = tok_load(&src, &e);
	if (t == NULL)
		must(e.text[0] != 0 && e.line >= 0 && e.column >= 0 && (e.line == 0) == (e.column == 0));
	free(p);
	if (t != NULL)
		use(t, text);
	tok_unref(t);
}

/* ---- added tokens ------------------------------------------------------------------------ */

static void added(struct input *in)
{
	uint8_t contents[TOKENS_MAX][32], text[TRUTH_TEXT_MAX * 3];
	struct added_token t[TOKENS_MAX];
	struct truth_hit want[TRUTH_TEXT_MAX * 3];
	size_t n = in_u8(in) % (TOKENS_MAX + 1), hits, i = 0;
	struct added_at at = { 0, 0 };
	struct added_hit hit;
	struct added *a;
	struct span s;

	for (size_t k = 0; k < n; k++) {
		unsigned len = in_u8(in) % 9, flags = in_u8(in);

		s = in_bytes(in, len);
		t[k] = (struct added_token){ .id = (token_id)k,
			.single_word = flags & 1,
			.lstrip = flags & 2,
			.rstrip = flags & 4 };
		t[k].content = span_of(contents[k], utf8_mend((const uint8_t *)s.p, s.n, contents[k]));
		t[k].composes = (flags & 8) != 0 && t[k].content.n > 0 &&
		    (uint8_t)t[k].content.p[t[k].content.n - 1] < 0x80;
		for (size_t j = 0; j < k; j++) {
			if (span_eq(t[j].content, t[k].content))
				t[k] = t[j];
		}
	}
	s = in_bytes(in, TRUTH_TEXT_MAX);
	s = span_of(text, utf8_mend((const uint8_t *)s.p, s.n, text));
	a = must_alloc(added_new(t, n));
	hits = truth(t, n, s.p, s.n, want);
	for (; added_next(a, s, &at, &hit); i++)
		must(i < hits && hit.at == want[i].at && hit.at + hit.n == want[i].end && hit.id == want[i].id);
	must(i == hits);
	at = (struct added_at){ 0, 0 };
	must(added_tail(a, s, &at) <= s.n);
	added_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	unsigned kind = in_u8(&in);
	const uint8_t *end = in.left > 0 ? memchr(in.p, 0, in.left) : NULL;
	struct span file = span_of(in.p, end ? (size_t)(end - in.p) : in.left);
	struct span text =
	    end ? span_of(end + 1, (size_t)(in.p + in.left - end - 1)) : SPAN("ab _a\xff c");

	if (kind % 4 == 3)
		added(&in);
	else
		load(kind % 4, kind / 4, file, text);
	return 0;
}

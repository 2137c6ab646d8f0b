/* sentencepiece - a table of replacements and a text, or a model of SentencePiece and texts.
 *
 * The first byte selects. 0: the number of bytes of the table (two bytes), the table, a text: the
 * normalizers that use the table, with and without a budget, and every key against a slow reader.
 * 1: a model; an accepted one gives the same ids again, and from its image; with any budget, it
 * gives no more. */
#include "agent/base/mem.h"
#include "agent/base/utf8.h"
#include "agent/tok/charsmap.h"
#include "agent/tok/normal.h"
#include "agent/tok/tok_image.h"
#include "agent/tok/unicode/grapheme.h"
#include "tests/fuzz/lib/fuzz.h"

#define TEXT_MOST	400u

/* ---- a table ------------------------------------------------------------------------------- */

static uint32_t unit(struct span table, uint32_t i)
{
	const uint8_t *p = (const uint8_t *)table.p + 4 + (size_t)i * 4;

	must((size_t)i * 4 + 8 <= table.n);
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The length of the first or the last key that begins the text. */
static size_t slow(struct span table, const uint8_t *p, size_t n, bool longest)
{
	uint32_t u = unit(table, 0), at = (u >> 10) << ((u & 512) >> 6);
	size_t found = 0;

	for (size_t i = 0; i < n && p[i] != 0; i++) {
		at ^= p[i];
		u = unit(table, at);
		if ((u & 0x800000ff) != p[i])
			break;
		at ^= (u >> 10) << ((u & 512) >> 6);
		if (u & 256)
			found = i + 1;
		if (found > 0 && !longest)
			break;
	}
	return found;
}

static void run(enum normal_kind kind, unsigned flags, struct span table, struct span text)
{
	struct work_left w = { .left = text.n / 2 + 1 };
	struct normal_buf b = { .work = NULL };
	struct normal_step s = { .kind = kind, .flags = flags, .pattern = table };
	struct normal *m;
	struct span out;
	struct err e;

	m = must_alloc(normal_new(&s, 1, &e));
	normal_run(m, &b, text, &out);
	must(out.p != NULL && utf8_good((const uint8_t *)out.p, out.n) == out.n);
	b.work = &w;
	normal_run(m, &b, text, &out);
	normal_free(m);
	normal_buf_fini(&b);
}

static void clusters(const uint8_t *p, size_t n)
{
	for (size_t at = 0, len; at < n; at += len) {
		len = grapheme_length(p + at, n - at);
		must(len > 0 && len <= n - at);
	}
}

static void table_and_text(struct input *in)
{
	uint32_t n = in_u16(in);
	size_t seen;
	struct span s = in_bytes(in, n), to;
	char *table = exact(s.p, s.n), *text;
	struct charsmap *m;
	struct err e;
	size_t bytes;

	s = span_of(table, s.n);
	if ((m = charsmap_new(s, &e)) == NULL) {
		must(e.text[0] != 0);
		free(table);
		return;
	}
	bytes = in->left < TEXT_MOST ? in->left : TEXT_MOST;
	text = must_alloc(malloc(3 * bytes + 1));
	bytes = utf8_mend(in->p, bytes, (uint8_t *)text);
	for (size_t i = 0; i < bytes; i++) {
		const uint8_t *p = (const uint8_t *)text + i;

		must(charsmap_shortest(m, p, bytes - i, &to) == slow(s, p, bytes - i, false));
		must(charsmap_longest(m, p, bytes - i, &to, &seen) == slow(s, p, bytes - i, true));
		must(seen <= bytes - i);
	}
	clusters((const uint8_t *)text, bytes);
	charsmap_free(m);
	run(NORMAL_PRECOMPILED, 0, s, span_of(text, bytes));
	for (unsigned flags = 0; flags <= NORMAL_FLAGS; flags++)
		run(NORMAL_SENTENCE, flags, s, span_of(text, bytes));
	free(text);
	free(table);
}

/* ---- a model ------------------------------------------------------------------------------- */

static void encode(const struct tok *t, struct span text, struct ids *out)
{
	struct tok_scratch *c = must_alloc(tok_scratch_new());

	out->n = 0;
	must(tok_encode(t, c, text, TOK_SPECIAL, out) == 0);
	tok_scratch_free(c);
}

/* Encode with a budget that may end it at any place: no more ids than without. */
static void encode_within(const struct tok *t, struct span text, size_t most)
{
	struct tok_scratch *c = must_alloc(tok_scratch_new());
	struct ids out = { NULL, 0, 0 };

	for (uint64_t left = 1; left < 3 * text.n; left += left / 2 + 1) {
		tok_scratch_work(c)->left = left;
		out.n = 0;
		must(tok_encode(t, c, text, TOK_SPECIAL, &out) >= 0 && out.n <= most);
	}
	ids_free(&out);
	tok_scratch_free(c);
}

static void check_text(const struct tok *t, const struct tok *u, struct span text)
{
	struct ids a = { NULL, 0, 0 }, b = { NULL, 0, 0 };

	encode(t, text, &a);
	encode(t, text, &b);
	must(a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n * sizeof(*a.p)) == 0));
	encode_within(t, text, a.n);
	encode(u, text, &b);
	must(a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n * sizeof(*a.p)) == 0));
	ids_free(&a);
	ids_free(&b);
}

static void model(struct input *in)
{
	static const char *const texts[] = { "", "  a b", "the router, the <s> routers\n",
		"\xe2\x96\x81\xe2\x96\x81 e\xcc\x81\xff", "<user>x\t\tTabs    and   spaces",
		"a b  o\xcc\x81nx aaa zzzzzzzzz\xe2\x96\x81x \xef\xac\x81ne onx b c" };
	char *file = exact(in->p, in->left);
	struct tok_source src = { .file = span_of(file, in->left), .name = "file", .pattern = "gpt2" };
	struct tok_image_key key = { { 1, 2 } };
	struct err e;
	struct tok *t = tok_load(&src, &e), *u;
	struct span image;
	void *p = NULL;

	if (t == NULL) {
		must(e.text[0] != 0);
		free(file);
		return;
	}
	image = tok_image(t, key);
	must(image.p != NULL && posix_memalign(&p, 64, image.n) == 0);
	memcpy(p, image.p, image.n);
	u = must_alloc(tok_of_image(span_of(p, image.n), key, NULL, NULL, &e));
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		check_text(t, u, span_str(texts[i]));
	check_text(t, u, src.file);
	tok_unref(u);
	tok_unref(t);
	mem_free((void *)image.p);
	free(p);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (in_u8(&in) % 2 == 0)
		table_and_text(&in);
	else
		model(&in);
	return 0;
}

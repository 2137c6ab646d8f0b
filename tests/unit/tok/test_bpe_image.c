/* An encoder made of an image gives the same ids. A damaged image is refused or gives wrong ids,
 * but never leads to an access outside of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "agent/tok/bpe/bpe_wide_in.h"
#include "tests/unit/tok/bpe_truth.h"

static const char *const letters[] = { "a", "b", "c", "\xc3\xa9", "中", "文" };
#define N_LETTERS	6u
static uint8_t text[2000];
static uint32_t ends[600];
static uint32_t n_text, n_ends;

static void make_text(struct rng *r)
{
	uint32_t to;

	n_text = n_ends = 0;
	while (n_text < sizeof(text) - 4) {
		const char *s = letters[rng_below(r, N_LETTERS)];

		memcpy(text + n_text, s, strlen(s));
		n_text += (uint32_t)strlen(s);
	}
	for (to = 0; to < n_text && n_ends < 599; ends[n_ends++] = to)
		to = to + 1 + rng_below(r, 60) < n_text ? to + 1 + rng_below(r, 30) : n_text;
	ends[n_ends - 1] = n_text;
}

/* Return the id of the token <p>, which is made of two; add it if there is none. */
static token_id joined(struct vocab *v, token_id id, const char *p, uint32_t n, token_id left,
    token_id right)
{
	const struct bpe_token *made = vocab_find(&v->spec, (const uint8_t *)p, n);

	if (made != NULL)
		id = made->id;
	else
		vocab_token(v, id, p, n);
	vocab_merge(v, left, right, id);
	return id;
}

/* Return the id of a character of three bytes; add it as <id> if there is none. */
static token_id character(struct vocab *v, token_id id, const char *s)
{
	const struct bpe_token *made = vocab_find(&v->spec, (const uint8_t *)s, 3);
	const token_id *byte = v->spec.byte_id;
	const uint8_t *p = (const uint8_t *)s;

	if (made != NULL)
		return made->id;
	if (!v->spec.characters)
		return joined(v, id + 1, s, 3, joined(v, id, s, 2, byte[p[0]], byte[p[1]]), byte[p[2]]);
	vocab_token(v, id, s, 3);
	return id;
}

static void make_vocab(struct vocab *v, struct rng *r, bool characters)
{
	uint32_t i;

	vocab_init(v);
	v->spec.characters = characters;
	v->spec.byte_fallback = characters;
	if (!characters)
		vocab_bytes(v, 0);
	for (i = 0; characters && i < 256; i++) {
		vocab_token(v, i, "<0x..>", 6);
		v->spec.byte_id[i] = i;
	}
	if (!characters) {		/* before the random ones, which are made of these, too */
		character(v, 300, "中");
		character(v, 302, "文");
	}
	vocab_random(v, r, letters, N_LETTERS, 80);
	vocab_token(v, 5000, "aaaaaaaaaaaaaaa", 15);
	vocab_token(v, 5001, "aaaaaaaaaaaaaab", 15);
	joined(v, 5006, "中文", 6, character(v, 5002, "中"), character(v, 5004, "文"));
}

/* Copy <image> to an aligned address. The caller frees *raw. */
static uint8_t *copy_image(struct span image, uint8_t **raw)
{
	uint8_t *p;

	*raw = malloc(image.n + BPE_ALIGN);
	assert_non_null(*raw);
	p = (uint8_t *)((uintptr_t)(*raw + BPE_ALIGN - 1) / BPE_ALIGN * BPE_ALIGN);
	memcpy(p, image.p, image.n);
	return p;
}

static void encode_all(const struct bpe *b, struct bpe_scratch *c, struct ids *out)
{
	int rc;

	assert_int_equal(bpe_encode(b, c, text, ends, n_ends, out), 0);
	assert_int_equal(bpe_long_start(b, c, text, n_text), 0);
	while ((rc = bpe_long_step(b, c, 100, out)) == 1)
		;
	assert_int_equal(rc, 0);
}

static void same_from_image(void **state)
{
	struct bpe_scratch *c = bpe_scratch_new();
	uint64_t seed;

	for (seed = 1; seed < 20; seed++) {
		struct ids want = { 0 }, got = { 0 };
		struct bpe *b, *lent;
		struct vocab v;
		struct rng r;
		uint8_t *raw, *p;

		rng_init(&r, seed);
		make_vocab(&v, &r, seed % 2);
		make_text(&r);
		b = bpe_new(&v.spec, NULL);
		assert_non_null(b);
		p = copy_image(bpe_image(b), &raw);
		lent = bpe_of_image(span_of(p, bpe_image(b).n));
		assert_non_null(lent);
		assert_int_equal(bpe_bytes(lent), bpe_bytes(b));
		encode_all(b, c, &want);
		bpe_free(b);
		encode_all(lent, c, &got);
		assert_int_equal(got.n, want.n);
		assert_memory_equal(got.p, want.p, want.n * sizeof(*want.p));
		bpe_free(lent);
		free(raw);
		ids_free(&want);
		ids_free(&got);
		vocab_fini(&v);
	}
	bpe_scratch_free(c);
}

static void other_lengths_are_refused(void **state)
{
	struct vocab v;
	struct rng r;
	struct bpe *b;
	uint8_t *raw, *p;
	size_t n, k;

	rng_init(&r, 1);
	make_vocab(&v, &r, false);
	b = bpe_new(&v.spec, NULL);
	n = bpe_image(b).n;
	p = copy_image(bpe_image(b), &raw);
	for (k = 0; k < n; k = k < 100 ? k + 1 : k + 1 + rng_below(&r, 500))
		assert_null(bpe_of_image(span_of(p, k)));
	assert_null(bpe_of_image(span_of(p + 16, n - 16)));
	p[0] ^= 1;
	assert_null(bpe_of_image(span_of(p, n)));
	bpe_free(b);
	free(raw);
	vocab_fini(&v);
}

/* ---- the tables of characters of three bytes ------------------------------------------------- */

static uint64_t bytes_of(const char *s)
{
	uint64_t w = 0;

	memcpy(&w, s, strlen(s));
	return w;
}

/* Return the place of the pair 中文 in its set; the test fails if it has none. */
static uint32_t place_of_pair(const struct wide *s, uint32_t both)
{
	uint32_t k;

	for (k = 0; k < WIDE_WAYS; k++)
		if (s->both[k] == both && s->value[k] & WIDE_TOKEN)
			return k;
	fail();
	return 0;
}

/* Set *at, in the image <p>, to <value>: the image must be refused. Put back what was there. */
static void refused_with(uint8_t *p, size_t n, uint32_t *at, uint32_t value)
{
	uint32_t was = *at;

	*at = value;
	assert_null(bpe_of_image(span_of(p, n)));
	*at = was;
}

/* A value that leads to no token, or to one of another length, and one pair twice, because a
 * look-up joins the values of all that it finds. */
static void wide_values_are_refused(void **state)
{
	uint32_t first = wide_char(bytes_of("中")), both = first << 16 | wide_char(bytes_of("文")), k;
	struct bpe *b, *lent;
	uint8_t *raw, *p;
	uint32_t *one, *pair, was;
	struct wide *set;
	struct vocab v;
	struct rng r;
	size_t n;

	rng_init(&r, 2);
	make_vocab(&v, &r, false);
	b = bpe_new(&v.spec, NULL);
	assert_non_null(b);
	n = bpe_image(b).n;
	p = copy_image(bpe_image(b), &raw);
	one = (uint32_t *)(p + bpe_layout(b->head).wide_by_char) + first;
	set = (struct wide *)(p + bpe_layout(b->head).wide_by_pair) + wide_set(b, both);
	k = place_of_pair(set, both);
	pair = &set->value[k];
	assert_true(*one & WIDE_TOKEN);
	was = *one;
	*one = WIDE_TOKEN | (*one & SYM_NONE);		/* its own token alone is accepted */
	lent = bpe_of_image(span_of(p, n));
	assert_non_null(lent);
	bpe_free(lent);
	refused_with(p, n, one, WIDE_TOKEN | b->head->n_syms);
	refused_with(p, n, one, WIDE_TOKEN | SYM_NONE);
	refused_with(p, n, one, *pair);
	refused_with(p, n, one, WIDE_TOKEN | b->head->atom['a']);
	refused_with(p, n, pair, WIDE_TOKEN | b->head->n_syms);
	refused_with(p, n, pair, WIDE_TOKEN | SYM_NONE);
	refused_with(p, n, pair, WIDE_TOKEN | (was & SYM_NONE));
	refused_with(p, n, pair, WIDE_TOKEN | b->head->atom['a']);
	set->value[(k + 1) % WIDE_WAYS] = *pair;
	refused_with(p, n, &set->both[(k + 1) % WIDE_WAYS], both);
	bpe_free(b);
	free(raw);
	vocab_fini(&v);
}

/* Return if an image is accepted that has <n_wide> sets of pairs and the length for them. */
static bool accepted_with_sets(const struct bpe *b, uint32_t n_wide)
{
	struct head h = *b->head;
	struct layout from = bpe_layout(&h), to;
	uint8_t *raw, *p, *whole;
	struct bpe *lent;

	h.n_wide = n_wide;
	to = bpe_layout(&h);
	whole = calloc(1, to.end > from.end ? to.end : from.end);
	assert_non_null(whole);
	memcpy(whole, bpe_image(b).p, from.wide_by_pair);
	memcpy(whole, &h, sizeof(h));
	memcpy(whole + to.text, bpe_image(b).p + from.text, from.end - from.text);
	p = copy_image(span_of(whole, to.end), &raw);
	lent = bpe_of_image(span_of(p, to.end));
	bpe_free(lent);
	free(raw);
	free(whole);
	return lent != NULL;
}

static void numbers_of_wide_sets(void **state)
{
	struct vocab v;
	struct rng r;
	struct bpe *b;
	uint32_t n;

	rng_init(&r, 2);
	make_vocab(&v, &r, false);
	b = bpe_new(&v.spec, NULL);
	assert_non_null(b);
	for (n = 0; n < 20; n++)
		assert_int_equal(accepted_with_sets(b, n), n > 0 && (n & (n - 1)) == 0);
	bpe_free(b);
	vocab_fini(&v);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* Overwrite a number of the head or of the tokens with a valid token number or one just out of
 * range. */
static void renumber(struct rng *r, uint8_t *p, uint32_t n_syms)
{
	size_t words = (2112 + 64 * (size_t)n_syms) / 4, at = 4 * (4 + rng_below(r, (uint32_t)words - 4));
	uint32_t other[] = { n_syms, n_syms + 1, 0xfffffe, 0xffffff, rng_below(r, n_syms),
		rng_below(r, n_syms), UINT32_MAX };

	memcpy(p + at, &other[rng_below(r, 7)], 4);
}

/* Change one to three random bytes or bits, about one in eight of them in the head. */
static void damage(struct rng *r, uint8_t *p, size_t n)
{
	uint32_t k = 1 + rng_below(r, 3);

	while (k-- > 0) {
		size_t at = rng_below(r, 8) ? rng_below(r, (uint32_t)n) : 8 + rng_below(r, 2100);

		if (rng_below(r, 3) == 0)
			p[at] = (uint8_t)rng_next(r);
		else
			p[at] ^= (uint8_t)(1u << rng_below(r, 8));
	}
}

static void damaged_images(void **state)
{
	struct bpe_scratch *c = bpe_scratch_new();
	uint32_t taken = 0, refused = 0, i;
	uint64_t seed;

	for (seed = 1; seed <= 6; seed++) {
		struct vocab v;
		struct bpe *b;
		struct rng r;

		rng_init(&r, seed);
		make_vocab(&v, &r, seed % 2);
		make_text(&r);
		b = bpe_new(&v.spec, NULL);
		assert_non_null(b);
		for (i = 0; i < 500; i++) {
			uint8_t *raw, *p = copy_image(bpe_image(b), &raw);
			struct ids out = { 0 };
			struct bpe *bad;

			if (i % 2)
				damage(&r, p, bpe_image(b).n);
			else
				renumber(&r, p, v.spec.n_tokens);
			bad = bpe_of_image(span_of(p, bpe_image(b).n));
			if (bad != NULL)
				encode_all(bad, c, &out);
			taken += bad != NULL;
			refused += bad == NULL;
			bpe_free(bad);
			free(raw);
			ids_free(&out);
		}
		bpe_free(b);
		vocab_fini(&v);
	}
	assert_true(taken > 20);
	assert_true(refused > 20);
	bpe_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_from_image),
		cmocka_unit_test(other_lengths_are_refused),
		cmocka_unit_test(wide_values_are_refused),
		cmocka_unit_test(numbers_of_wide_sets),
		cmocka_unit_test(damaged_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* An encoder made of an image gives the same ids. A damaged image is refused or gives wrong ids,
 * but never leads to an access outside of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/tok/bpe_truth.h"

static const char *const letters[] = { "a", "b", "c", "\xc3\xa9" };
static uint8_t text[2000];
static uint32_t ends[600];
static uint32_t n_text, n_ends;

static void make_text(struct rng *r)
{
	uint32_t to;

	n_text = n_ends = 0;
	while (n_text < sizeof(text) - 4) {
		const char *s = letters[rng_below(r, 4)];

		memcpy(text + n_text, s, strlen(s));
		n_text += (uint32_t)strlen(s);
	}
	for (to = 0; to < n_text && n_ends < 599; ends[n_ends++] = to)
		to = to + 1 + rng_below(r, 60) < n_text ? to + 1 + rng_below(r, 30) : n_text;
	ends[n_ends - 1] = n_text;
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
	vocab_random(v, r, letters, 4, 80);
	vocab_token(v, 5000, "aaaaaaaaaaaaaaa", 15);
	vocab_token(v, 5001, "aaaaaaaaaaaaaab", 15);
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
		cmocka_unit_test(damaged_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

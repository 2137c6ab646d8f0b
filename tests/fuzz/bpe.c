/* bpe - encode a text with a vocabulary in every way, and compare with the slow reference of the
 * unit tests.
 *
 * Input: flags, how texts are cut, the number of merges, for each of them two existing tokens and
 * if it is only a token; then the text, a letter or a byte for each byte. Pieces in one call, again
 * from the cache, each piece in steps, and through an image. */
#include "agent/tok/bpe/bpe.h"
#include "tests/fuzz/lib/fuzz.h"
#include "tests/unit/tok/bpe_truth.h"

static const char *const letters[] = { "a", "b", "\xc3\xa9", "\xe4\xb8\xad", " ",
	"\xf0\x9f\x98\x80" };
#define N_LETTERS (sizeof(letters) / sizeof(letters[0]))

#define MOST_MERGES	90
#define MOST_TEXT	600
#define MOST_TOKEN	200

/* Tokens that a merge may take: letters or their bytes, then what was made. */
struct pool {
	token_id id[MOST_MERGES + 32];
	uint32_t n;
};

static void letters_in(struct vocab *v, struct pool *pool, uint32_t known)
{
	uint32_t i;
	size_t k;

	for (i = 0; i < N_LETTERS; i++)
		if (v->spec.characters && known >> i & 1) {
			pool->id[pool->n++] = 1000 + i;
			vocab_token(v, 1000 + i, letters[i], (uint32_t)strlen(letters[i]));
		} else if (!v->spec.characters) {
			for (k = 0; k < strlen(letters[i]); k++)
				pool->id[pool->n++] = v->spec.byte_id[(uint8_t)letters[i][k]];
		}
}

static void bytes_in(struct vocab *v, bool missing)
{
	uint32_t i;

	if (!v->spec.characters) {
		vocab_bytes(v, 3);
		return;
	}
	for (i = 0; v->spec.byte_fallback && i < 256; i++)
		if (!(missing && i % 16 == 9)) {
			vocab_token(v, 300 + i, "<0x..>", 6);
			v->spec.byte_id[i] = 300 + i;
		}
}

static void merge_in(struct vocab *v, struct pool *pool, struct input *in)
{
	token_id left = pool->id[in_u8(in) % pool->n], right = pool->id[in_u8(in) % pool->n],
		 id = 2000 + v->spec.n_tokens * 2;
	const struct bpe_token *l = vocab_by_id(&v->spec, left), *r = vocab_by_id(&v->spec, right), *made;
	uint8_t both[2 * MOST_TOKEN], only = in_u8(in);
	uint32_t n = l->n + r->n;

	if (n > MOST_TOKEN)
		return;
	memcpy(both, v->bytes + l->at, l->n);
	memcpy(both + l->n, v->bytes + r->at, r->n);
	if ((made = vocab_find(&v->spec, both, n)) != NULL)
		id = made->id;
	else
		vocab_token(v, pool->id[pool->n++] = id, both, n);
	if (only % 8)
		vocab_merge(v, left, right, id);
}

static void vocab_in(struct vocab *v, struct input *in)
{
	uint32_t flags = in_u8(in), known = in_u8(in), n = in_u8(in) % (MOST_MERGES + 1);
	struct pool pool = { .n = 0 };
	struct rng rng;

	vocab_init(v);
	v->spec.characters = flags & 1;
	v->spec.byte_fallback = flags & 2;
	v->spec.fuse_unk = flags & 4;
	v->spec.ignore_merges = flags & 8;
	v->spec.equal_ranks = flags & 16;
	bytes_in(v, flags & 32);
	if ((v->spec.has_unk = (flags & 64) != 0))
		vocab_token(v, v->spec.unk = 1, "<unk>", 5);
	letters_in(v, &pool, known);
	while (n-- > 0 && pool.n > 0)
		merge_in(v, &pool, in);
	if (v->spec.n_tokens == 0)
		vocab_token(v, 1, "a", 1);
	if (flags & 128) {
		v->spec.equal_ranks = false;
		rng_init(&rng, flags);
		vocab_ranks(v, &rng);
	}
}

static size_t text_in(struct input *in, uint8_t *text)
{
	size_t n = 0, k;

	while (in->left > 0 && n + 4 < MOST_TEXT) {
		uint8_t byte = in_u8(in);

		if (byte >= 0xf0) {
			text[n++] = in_u8(in);
			continue;
		}
		k = strlen(letters[byte % N_LETTERS]);
		memcpy(text + n, letters[byte % N_LETTERS], k);
		n += k;
	}
	return n;
}

static bool same_ids(const struct ids *a, const struct ids *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->p, b->p, a->n * sizeof(*a->p)) == 0);
}

static void check_steps(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    uint32_t seed, const struct ids *want)
{
	struct ids got = { 0 };
	int rc;

	must(bpe_long_start(b, c, p, n) == 0);
	while ((rc = bpe_long_step(b, c, 1 + seed % 50, &got)) == 1)
		;
	must(rc == 0 && same_ids(&got, want));
	ids_free(&got);
}

static void check(const struct vocab *v, const struct bpe *b, struct bpe_scratch *c,
    const uint8_t *text, size_t n, uint32_t seed)
{
	uint32_t end[MOST_TEXT], n_pieces = 0, at = 0, i;
	struct ids want = { 0 }, got = { 0 };
	struct cutter cut;

	cutter_init(&cut, seed);
	for (; at < n; at = end[n_pieces++]) {
		struct ids piece = { 0 };

		end[n_pieces] = at + (uint32_t)(seed ? cutter_next(&cut, n - at) : n);
		truth_piece(&v->spec, text + at, end[n_pieces] - at, &piece);
		check_steps(b, c, text + at, end[n_pieces] - at, seed, &piece);
		for (i = 0; i < piece.n; i++)
			truth_add(&want, piece.p[i]);
		ids_free(&piece);
	}
	for (i = 0; i < 2; i++) {
		got.n = 0;
		must(bpe_encode(b, c, text, end, n_pieces, &got) == 0);
		must(same_ids(&got, &want));
	}
	ids_free(&want);
	ids_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct bpe_scratch *c = must_alloc(bpe_scratch_new());
	uint32_t seed = in_u16(&in);
	uint8_t text[MOST_TEXT];
	struct bpe *b, *lent;
	struct vocab v;
	char *exactly;
	size_t n;

	vocab_in(&v, &in);
	n = text_in(&in, text);
	exactly = exact(text, n);
	b = must_alloc(bpe_new(&v.spec, NULL));
	lent = must_alloc(bpe_of_image(bpe_image(b)));
	check(&v, b, c, (const uint8_t *)exactly, n, seed);
	check(&v, lent, c, (const uint8_t *)exactly, n, seed);
	bpe_free(lent);
	bpe_free(b);
	bpe_scratch_free(c);
	vocab_fini(&v);
	free(exactly);
	return 0;
}

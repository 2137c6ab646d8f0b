/* The encoder of bpe.h against the reference encoder of bpe_truth.h, with generated vocabularies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/edge.h"
#include "tests/unit/tok/bpe_truth.h"

static const char *const ascii[] = { "a", "b", "c", "d", "e" };
static const char *const chars[] = { "a", "b", "\xc3\xa9", "\xe4\xb8\xad", "\xe2\x96\x81",
	"\xf0\x9f\x98\x80" };

static void same_ids(const struct ids *got, const struct ids *want, const char *what, uint64_t seed)
{
	size_t i;

	for (i = 0; i < got->n && i < want->n; i++)
		if (got->p[i] != want->p[i])
			break;
	if (got->n != want->n || i < got->n)
		fail_msg("%s, seed %llu: id %zu differs (got %zu ids, want %zu)", what,
		    (unsigned long long)seed, i, got->n, want->n);
}

static void check_piece(const struct vocab *v, const struct bpe *b, struct bpe_scratch *c,
    const uint8_t *p, size_t n, uint64_t seed)
{
	struct ids got = { 0 }, want = { 0 }, slow = { 0 };
	uint8_t *text = edge_copy(p, n);
	uint32_t end = (uint32_t)n;
	int rc;

	truth_piece(&v->spec, p, n, &want);
	assert_int_equal(bpe_encode(b, c, text, &end, 1, &got), 0);
	same_ids(&got, &want, "bpe_encode", seed);
	assert_int_equal(bpe_long_start(b, c, text, n), 0);
	while ((rc = bpe_long_step(b, c, 1 + seed % 7, &slow)) == 1)
		;
	assert_int_equal(rc, 0);
	same_ids(&slow, &want, "bpe_long_step", seed);
	edge_free(text, n);
	ids_free(&got);
	ids_free(&want);
	ids_free(&slow);
}

/* Encode a text of random pieces in one call, three times, because the later calls find the pieces
 * of the first in the cache. */
static void check_pieces(const struct vocab *v, const struct bpe *b, struct bpe_scratch *c,
    struct rng *r, const uint8_t *p, size_t n, uint64_t seed)
{
	static uint32_t end[4096];
	struct ids got = { 0 }, want = { 0 };
	uint8_t *text = edge_copy(p, n);
	uint32_t at = 0, n_pieces = 0, most = rng_below(r, 4) ? 6 : 40, i;

	while (at < n && n_pieces < 4095) {
		uint32_t to = at + rng_below(r, most);

		for (to = to < n ? to : (uint32_t)n; v->spec.characters && to < n && (p[to] & 0xc0) == 0x80; )
			to++;
		truth_piece(&v->spec, p + at, to - at, &want);
		end[n_pieces++] = at = to;
	}
	for (i = 0; i < 3; i++) {
		got.n = 0;
		assert_int_equal(bpe_encode(b, c, text, end, n_pieces, &got), 0);
		same_ids(&got, &want, "bpe_encode, pieces", seed);
	}
	edge_free(text, n);
	ids_free(&got);
	ids_free(&want);
}

/* ---- stories --------------------------------------------------------------------------------- */

static void encode_text(const struct vocab *v, const char *text, const token_id *want, size_t n)
{
	struct bpe *b = bpe_new(&v->spec, NULL);
	struct bpe_scratch *c = bpe_scratch_new();
	struct ids got = { 0 };
	uint32_t end = (uint32_t)strlen(text);

	assert_non_null(b);
	assert_non_null(c);
	assert_int_equal(bpe_encode(b, c, (const uint8_t *)text, &end, 1, &got), 0);
	assert_int_equal(got.n, n);
	assert_memory_equal(got.p, want, n * sizeof(*want));
	ids_free(&got);
	bpe_scratch_free(c);
	bpe_free(b);
}

static void lowest_rank_first(void **state)
{
	struct vocab v;

	vocab_init(&v);
	vocab_bytes(&v, 0);
	vocab_token(&v, 300, "ab", 2);
	vocab_token(&v, 301, "bc", 2);
	vocab_token(&v, 302, "abc", 3);
	vocab_merge(&v, 'b', 'c', 301);
	vocab_merge(&v, 'a', 'b', 300);
	encode_text(&v, "abc", (const token_id[]){ 'a', 301 }, 2);
	encode_text(&v, "abab", (const token_id[]){ 300, 300 }, 2);
	vocab_merge(&v, 300, 'c', 302);			/* never applies: "bc" merges before "ab" */
	encode_text(&v, "abc", (const token_id[]){ 'a', 301 }, 2);
	v.spec.ignore_merges = true;
	encode_text(&v, "abc", (const token_id[]){ 302 }, 1);
	encode_text(&v, "abca", (const token_id[]){ 'a', 301, 'a' }, 3);
	vocab_fini(&v);
}

static void leftmost_of_equals(void **state)
{
	struct vocab v;

	vocab_init(&v);
	vocab_bytes(&v, 0);
	vocab_token(&v, 300, "aa", 2);
	vocab_merge(&v, 'a', 'a', 300);
	encode_text(&v, "aaaaa", (const token_id[]){ 300, 300, 'a' }, 3);
	vocab_fini(&v);
}

static void last_of_equal_merges_wins(void **state)
{
	struct vocab v;

	vocab_init(&v);
	vocab_bytes(&v, 0);
	vocab_token(&v, 300, "ab", 2);
	vocab_token(&v, 301, "bc", 2);
	vocab_merge(&v, 'a', 'b', 300);
	vocab_merge(&v, 'b', 'c', 301);
	encode_text(&v, "abc", (const token_id[]){ 300, 'c' }, 2);
	vocab_merge(&v, 'a', 'b', 300);
	encode_text(&v, "abc", (const token_id[]){ 'a', 301 }, 2);
	vocab_fini(&v);
}

/* Two merges make "aba". With ranks of their own the lower rank goes first; with equal ranks the
 * leftmost pair goes first. */
static void equal_ranks(void **state)
{
	struct vocab v;

	vocab_init(&v);
	vocab_bytes(&v, 0);
	vocab_token(&v, 300, "ab", 2);
	vocab_token(&v, 301, "ba", 2);
	vocab_token(&v, 302, "aba", 3);
	vocab_merge(&v, 'a', 'b', 300);
	vocab_merge(&v, 'b', 'a', 301);
	vocab_merge(&v, 'a', 301, 302);
	vocab_merge(&v, 300, 'a', 302);
	encode_text(&v, "ababa", (const token_id[]){ 300, 302 }, 2);
	v.spec.equal_ranks = true;
	encode_text(&v, "ababa", (const token_id[]){ 300, 302 }, 2);
	vocab_fini(&v);
}

static void characters_and_bytes(void **state)
{
	struct vocab v;

	vocab_init(&v);
	v.spec.characters = v.spec.byte_fallback = v.spec.has_unk = v.spec.fuse_unk = true;
	v.spec.unk = 0;
	vocab_token(&v, 0, "<unk>", 5);
	vocab_token(&v, 1, "<0xC3>", 6);
	vocab_token(&v, 2, "<0xA9>", 6);
	vocab_token(&v, 3, "a", 1);
	vocab_token(&v, 4, "\xe4\xb8\xad", 3);
	vocab_token(&v, 5, "a\xe4\xb8\xad", 4);
	vocab_merge(&v, 3, 4, 5);
	v.spec.byte_id[0xc3] = 1;
	v.spec.byte_id[0xa9] = 2;
	encode_text(&v, "a\xe4\xb8\xad\xc3\xa9", (const token_id[]){ 5, 1, 2 }, 3);
	encode_text(&v, "xya", (const token_id[]){ 0, 3 }, 2);
	encode_text(&v, "x\xc3\xa9y", (const token_id[]){ 1, 2, 0 }, 3);
	v.spec.fuse_unk = false;
	encode_text(&v, "xya", (const token_id[]){ 0, 0, 3 }, 3);
	v.spec.has_unk = false;
	encode_text(&v, "ax\xe4\xb8\xad", (const token_id[]){ 5 }, 1);
	vocab_fini(&v);
}

/* ---- chance ---------------------------------------------------------------------------------- */

static size_t random_text(struct rng *r, const char *const *letters, uint32_t n_letters,
    uint8_t *text, size_t cap)
{
	size_t want = rng_below(r, 12) ? rng_below(r, 40) : rng_below(r, 300), n = 0;
	uint32_t same = rng_below(r, 3), k = rng_below(r, n_letters);

	while (n < want && n + 4 < cap) {
		if (!same || rng_below(r, 5) == 0)
			k = rng_below(r, n_letters);
		memcpy(text + n, letters[k], strlen(letters[k]));
		n += strlen(letters[k]);
	}
	return n;
}

static void random_vocabulary(uint64_t seed, bool characters, struct bpe_scratch *c)
{
	const char *const *letters = characters ? chars : ascii;
	uint32_t n_letters, i, n;
	static uint8_t text[3000];
	struct vocab v;
	struct bpe *b;
	struct rng r;
	struct err e;

	rng_init(&r, seed);
	vocab_init(&v);
	v.spec.characters = characters;
	v.spec.ignore_merges = rng_below(&r, 4) == 0;
	v.spec.equal_ranks = rng_below(&r, 4) == 0;
	if (!characters)
		vocab_bytes(&v, rng_below(&r, 2));
	else if ((v.spec.has_unk = rng_below(&r, 3) > 0))
		vocab_token(&v, v.spec.unk = 2, "<unk>", 5);
	v.spec.fuse_unk = rng_below(&r, 2);
	if (characters && (v.spec.byte_fallback = rng_below(&r, 2)))
		for (i = 0xa0; i < 0x100; i++) {
			vocab_token(&v, i, "<0x..>", 6);
			v.spec.byte_id[i] = rng_below(&r, 8) ? i : BPE_NO_ID;
		}
	n_letters = 1 + rng_below(&r, characters ? 6 : 5);
	vocab_random(&v, &r, letters, n_letters, rng_below(&r, 3) ? 12 : 60);
	if (v.spec.n_tokens == 0)
		vocab_token(&v, 1, "a", 1);
	b = bpe_new(&v.spec, &e);
	if (b == NULL)
		fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
	for (i = 0; i < 12; i++)
		check_piece(&v, b, c, text, random_text(&r, letters, n_letters, text, sizeof(text)), seed);
	for (n = 0; n < 1500; )
		n += (uint32_t)random_text(&r, letters, n_letters, text + n, sizeof(text) - n);
	check_pieces(&v, b, c, &r, text, n, seed);
	bpe_free(b);
	vocab_fini(&v);
}

static void random_vocabularies(bool characters)
{
	/* shared by all vocabularies: its content of one must not show in the next */
	struct bpe_scratch *c = bpe_scratch_new();
	uint64_t seed;

	assert_non_null(c);
	for (seed = 1; seed <= 250; seed++)
		random_vocabulary(seed, characters, c);
	bpe_scratch_free(c);
}

static void random_bytes(void **state)
{
	random_vocabularies(false);
}

static void random_characters(void **state)
{
	random_vocabularies(true);
}

/* A long piece of two letters takes at most 60 units of work for each byte, with any vocabulary. A
 * step here is 100 units. */
static void long_pieces_cost_linear_work(void **state)
{
	static const size_t n = 6000;
	struct bpe_scratch *c = bpe_scratch_new();
	uint8_t *text = malloc(n);
	uint64_t seed;
	size_t i;

	for (seed = 1; seed <= 60; seed++) {
		struct ids out = { 0 };
		size_t steps = 0;
		struct vocab v;
		struct bpe *b;
		struct rng r;
		int rc;

		rng_init(&r, seed);
		vocab_init(&v);
		vocab_bytes(&v, 0);
		vocab_random(&v, &r, ascii, 2, 90);
		for (i = 0; i < n; i++)
			text[i] = rng_below(&r, 1 + (uint32_t)seed % 20) ? 'a' : 'b';
		b = bpe_new(&v.spec, NULL);
		assert_int_equal(bpe_long_start(b, c, text, n), 0);
		for (; (rc = bpe_long_step(b, c, 100, &out)) == 1; steps++)
			assert_true(steps * 100 < 60 * n);
		assert_int_equal(rc, 0);
		assert_true(out.n > 0 && steps > 2);
		bpe_free(b);
		ids_free(&out);
		vocab_fini(&v);
	}
	free(text);
	bpe_scratch_free(c);
}

/* An unknown character is one unit of work, so a step of 100 units ends after 100 of them. */
static void unknown_characters_cost_work(void **state)
{
	struct bpe_scratch *c = bpe_scratch_new();
	struct ids out = { 0 };
	uint8_t text[2000];
	size_t steps = 0;
	struct vocab v;
	struct bpe *b;

	memset(text, 'x', sizeof(text));
	vocab_init(&v);
	v.spec.characters = v.spec.has_unk = true;
	vocab_token(&v, 0, "<unk>", 5);
	b = bpe_new(&v.spec, NULL);
	assert_int_equal(bpe_long_start(b, c, text, sizeof(text)), 0);
	while (bpe_long_step(b, c, 100, &out) == 1)
		steps++;
	assert_true(steps >= 20 + 19);
	assert_int_equal(out.n, sizeof(text));
	bpe_free(b);
	ids_free(&out);
	vocab_fini(&v);
	bpe_scratch_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lowest_rank_first),
		cmocka_unit_test(leftmost_of_equals),
		cmocka_unit_test(last_of_equal_merges_wins),
		cmocka_unit_test(equal_ranks),
		cmocka_unit_test(characters_and_bytes),
		cmocka_unit_test(random_bytes),
		cmocka_unit_test(random_characters),
		cmocka_unit_test(long_pieces_cost_linear_work),
		cmocka_unit_test(unknown_characters_cost_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

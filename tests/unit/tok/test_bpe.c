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
	uint32_t at = 0, n_pieces = 0, most = rng_below(r, 4) ? 6 : rng_below(r, 2) ? 40 : 140, i;

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
	if (!v.spec.equal_ranks && rng_below(&r, 3) == 0)
		vocab_ranks(&v, &r);
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

/* A byte-level vocabulary of characters of three bytes, of some in a row, with other bytes after
 * them, and of parts of them. */
static void wide_vocabulary(struct vocab *v, struct rng *r, const char *const *letters, uint32_t n)
{
	token_id id = 300;
	uint32_t i;

	vocab_bytes(v, 0);
	for (i = 0; i < n; i++, id += 2) {
		const uint8_t *p = (const uint8_t *)letters[i];

		if (rng_below(r, 8) == 0)
			continue;
		vocab_token(v, id, p, 2);
		vocab_merge(v, v->spec.byte_id[p[0]], v->spec.byte_id[p[1]], id);
		vocab_token(v, id + 1, p, 3);
		if (rng_below(r, 8))
			vocab_merge(v, id, v->spec.byte_id[p[2]], id + 1);
	}
	for (i = rng_below(r, 60); i > 0 && v->spec.n_tokens > 256; i--, id++) {
		uint32_t others = v->spec.n_tokens - 256;
		struct bpe_token l = v->tokens[256 + rng_below(r, others)],
				 t = v->tokens[rng_below(r, 4) ? 256 + rng_below(r, others) : 0];
		const struct bpe_token *made;
		uint8_t both[48];

		if (t.n == 1)
			t = v->tokens[v->spec.byte_id[rng_below(r, 2) ? 'a' : 0xe4] - v->tokens[0].id];
		if (l.n + t.n > sizeof(both))
			continue;
		memcpy(both, v->bytes + l.at, l.n);
		memcpy(both + l.n, v->bytes + t.at, t.n);
		if ((made = vocab_find(&v->spec, both, l.n + t.n)) == NULL)
			vocab_token(v, id, both, l.n + t.n);
		if (made == NULL && rng_below(r, 10) == 0)
			continue;
		vocab_merge(v, l.id, t.id, made == NULL ? id : made->id);
	}
}

static void characters_of_three_bytes(void **state)
{
	static const char *const letters[] = { "中", "文", "。", "丁", "a", "\xe4", "\xe4\xb8" };
	struct bpe_scratch *c = bpe_scratch_new();
	static uint8_t text[3000];
	uint64_t seed;
	uint32_t i, n;

	for (seed = 1; seed <= 300; seed++) {
		struct vocab v;
		struct bpe *b;
		struct rng r;

		rng_init(&r, seed);
		vocab_init(&v);
		v.spec.ignore_merges = rng_below(&r, 2);
		n = 1 + rng_below(&r, 3);
		wide_vocabulary(&v, &r, letters, n);
		b = bpe_new(&v.spec, NULL);
		assert_non_null(b);
		n += rng_below(&r, 5);
		for (i = 0; i < 20; i++)
			check_piece(&v, b, c, text, random_text(&r, letters, n, text, sizeof(text)), seed);
		for (i = 0; i < 1500; )
			i += (uint32_t)random_text(&r, letters, n, text + i, sizeof(text) - i);
		check_pieces(&v, b, c, &r, text, i, seed);
		bpe_free(b);
		vocab_fini(&v);
	}
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

/* A new word that comes again after a few pieces is encoded once. */
static void new_piece_is_encoded_once(void **state)
{
	static const uint32_t end[2][5] = { { 3, 6, 26 }, { 3, 6, 9, 12, 32 } };
	static const char *const text[2] = { "abcdefxxxxxxxxxxxxxxxxxxxx",
		"abcdefabcabcxxxxxxxxxxxxxxxxxxxx" };
	struct bpe_scratch *c = bpe_scratch_new();
	struct work_left work;
	struct ids out = { 0 };
	uint64_t spent[2];
	struct vocab v;
	struct bpe *b;
	size_t i;

	vocab_init(&v);
	vocab_bytes(&v, 0);
	b = bpe_new(&v.spec, NULL);
	assert_non_null(b);
	for (i = 0; i < 2; i++) {	/* three pieces, and with the first twice more */
		bpe_scratch_wipe(c);
		out.n = 0;
		work_unbound(&work);
		bpe_scratch_work(c, &work);
		assert_int_equal(bpe_encode(b, c, (const uint8_t *)text[i], end[i], 3 + 2 * i, &out), 0);
		assert_int_equal(out.n, 26 + 6 * i);
		spent[i] = WORK_ANY - work.left;
		bpe_scratch_work(c, NULL);
	}
	assert_int_equal(spent[1], spent[0] + 2);
	ids_free(&out);
	bpe_free(b);
	vocab_fini(&v);
	bpe_scratch_free(c);
}

/* Pieces of a text that was encoded before cost a step each: short ones, those of many ids, and
 * long ones. Also the last ones, after which few bytes are readable. */
static void known_pieces_cost_a_step(void **state)
{
	static const uint32_t end[] = { 4, 8, 17, 30, 110, 190, 193, 194 };
	struct bpe_scratch *c = bpe_scratch_new();
	struct work_left work;
	struct ids out = { 0 };
	uint8_t text[194], *p;
	struct vocab v;
	struct bpe *b;
	size_t i, k;

	for (i = 0; i < sizeof(text); i++)
		text[i] = i < 30 ? (uint8_t)('a' + i % 5) : 'a';
	vocab_init(&v);
	vocab_bytes(&v, 0);
	for (i = 2; i <= 16; i *= 2) {		/* 16 times a is a token */
		vocab_token(&v, (token_id)(1000 + i), "aaaaaaaaaaaaaaaa", i);
		vocab_merge(&v, i == 2 ? v.spec.byte_id['a'] : (token_id)(1000 + i / 2),
		    i == 2 ? v.spec.byte_id['a'] : (token_id)(1000 + i / 2), (token_id)(1000 + i));
	}
	b = bpe_new(&v.spec, NULL);
	assert_non_null(b);
	p = edge_copy(text, sizeof(text));
	for (k = 0; k < 2; k++) {
		out.n = 0;
		work_unbound(&work);
		bpe_scratch_work(c, &work);
		assert_int_equal(bpe_encode(b, c, p, end, 8, &out), 0);
		assert_true(k == 0 ? WORK_ANY - work.left > 8 : WORK_ANY - work.left == 8);
		bpe_scratch_work(c, NULL);
	}
	edge_free(p, sizeof(text));
	ids_free(&out);
	bpe_free(b);
	vocab_fini(&v);
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
		cmocka_unit_test(characters_of_three_bytes),
		cmocka_unit_test(random_characters),
		cmocka_unit_test(new_piece_is_encoded_once),
		cmocka_unit_test(known_pieces_cost_a_step),
		cmocka_unit_test(long_pieces_cost_linear_work),
		cmocka_unit_test(unknown_characters_cost_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

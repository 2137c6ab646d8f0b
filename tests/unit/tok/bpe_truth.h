/* bpe_truth.h - vocabularies for tests, and a reference encoder, which searches all pairs before
 * each merge.
 *
 * The reference reads only the struct bpe_spec and follows the definition: merge the pair of lowest
 * rank, the leftmost if several have that rank, and repeat until no pair can be merged. */
#ifndef TESTS_BPE_TRUTH_H
#define TESTS_BPE_TRUTH_H

#include <stdlib.h>

#include "agent/base/rng.h"
#include "agent/tok/bpe/bpe.h"

/* A vocabulary that grows by calls of vocab_token() and vocab_merge(). */
struct vocab {
	uint8_t *bytes;
	struct bpe_token *tokens;
	struct bpe_merge *merges;
	uint32_t *ranks;
	uint32_t n_bytes, cap_bytes, cap_tokens, cap_merges;
	struct bpe_spec spec;
};

static inline void *vocab_room(void *p, uint32_t want, uint32_t *cap, size_t size)
{
	if (want <= *cap)
		return p;
	*cap = 2 * want + 16;
	if ((p = realloc(p, *cap * size)) == NULL)
		abort();
	return p;
}

static inline void vocab_sync(struct vocab *v)
{
	v->spec.bytes = v->bytes;
	v->spec.tokens = v->tokens;
	v->spec.merges = v->merges;
}

static inline void vocab_init(struct vocab *v)
{
	uint32_t i;

	memset(v, 0, sizeof(*v));
	for (i = 0; i < 256; i++)
		v->spec.byte_id[i] = BPE_NO_ID;
}

static inline void vocab_fini(struct vocab *v)
{
	free(v->bytes);
	free(v->tokens);
	free(v->merges);
	free(v->ranks);
}

static inline void vocab_token(struct vocab *v, token_id id, const void *p, uint32_t n)
{
	v->bytes = vocab_room(v->bytes, v->n_bytes + n + 1, &v->cap_bytes, 1);
	v->tokens = vocab_room(v->tokens, v->spec.n_tokens + 1, &v->cap_tokens, sizeof(*v->tokens));
	if (n)
		memcpy(v->bytes + v->n_bytes, p, n);
	v->tokens[v->spec.n_tokens++] = (struct bpe_token){ v->n_bytes, n, id };
	v->n_bytes += n;
	vocab_sync(v);
}

static inline void vocab_merge(struct vocab *v, token_id left, token_id right, token_id both)
{
	v->merges = vocab_room(v->merges, v->spec.n_merges + 1, &v->cap_merges, sizeof(*v->merges));
	v->merges[v->spec.n_merges++] = (struct bpe_merge){ left, right, both };
	vocab_sync(v);
}

/* Add tokens for the bytes 0 .. 255, with the ids first .. first + 255. */
static inline void vocab_bytes(struct vocab *v, token_id first)
{
	uint32_t i;

	for (i = 0; i < 256; i++) {
		uint8_t byte = (uint8_t)i;

		vocab_token(v, first + i, &byte, 1);
		v->spec.byte_id[i] = first + i;
	}
}

static inline const struct bpe_token *vocab_by_id(const struct bpe_spec *s, token_id id)
{
	uint32_t i;

	for (i = 0; i < s->n_tokens; i++)
		if (s->tokens[i].id == id)
			return &s->tokens[i];
	return NULL;
}

/* Return the token of lowest id that has these bytes, or NULL. In a vocabulary of characters, skip
 * tokens that stand for a byte. */
static inline const struct bpe_token *vocab_find(const struct bpe_spec *s, const uint8_t *p,
    size_t n)
{
	const struct bpe_token *best = NULL;
	uint32_t i;

	for (i = 0; i < s->n_tokens; i++) {
		const struct bpe_token *t = &s->tokens[i];

		if (t->n != n || n == 0 || memcmp(s->bytes + t->at, p, n) != 0)
			continue;
		if (s->characters && n == 1 && s->byte_id[*p] == t->id)
			continue;
		if (best == NULL || t->id < best->id)
			best = t;
	}
	return best;
}

/* Let some merges in a row share a rank, where their results do not get shorter. */
static inline void vocab_ranks(struct vocab *v, struct rng *r)
{
	uint32_t i, n, before = 0;

	if ((v->ranks = malloc((v->spec.n_merges + 1) * sizeof(*v->ranks))) == NULL)
		abort();
	for (i = 0; i < v->spec.n_merges; i++, before = n) {
		n = vocab_by_id(&v->spec, v->merges[i].both)->n;
		v->ranks[i] = i > 0 && n >= before && rng_below(r, 2) ? v->ranks[i - 1] : i;
	}
	v->spec.ranks = v->ranks;
}

/* ---- the truth ------------------------------------------------------------------------------- */

static inline void truth_add(struct ids *v, token_id id)
{
	if (ids_reserve(v, 1) < 0)
		abort();
	v->p[v->n++] = id;
}

static inline size_t truth_char(const uint8_t *p, size_t n)
{
	size_t k = *p < 0xc0 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;

	return k < n ? k : n;
}

static inline bool truth_bytes(const struct bpe_spec *s, const uint8_t *p, size_t n, struct ids *v)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!s->byte_fallback || s->byte_id[p[i]] == BPE_NO_ID)
			return false;
	for (i = 0; i < n; i++)
		truth_add(v, s->byte_id[p[i]]);
	return true;
}

static inline void truth_characters(const struct bpe_spec *s, const uint8_t *p, size_t n,
    struct ids *v)
{
	size_t at, k, waiting = 0;

	for (at = 0; at < n; at += k) {
		const struct bpe_token *t;

		k = truth_char(p + at, n - at);
		t = vocab_find(s, p + at, k);
		if (t == NULL && truth_bytes(s, p + at, k, v))
			continue;
		if (t == NULL && !s->has_unk)
			continue;
		if (waiting && (t != NULL || !s->fuse_unk)) {
			truth_add(v, s->unk);
			waiting = 0;
		}
		if (t != NULL)
			truth_add(v, t->id);
		else
			waiting = 1;
	}
	if (waiting)
		truth_add(v, s->unk);
}

/* Return the rank of the merge of two tokens and set *both to its result. */
static inline uint32_t truth_rank(const struct bpe_spec *s, token_id left, token_id right,
    token_id *both)
{
	uint32_t i, rank = UINT32_MAX;

	for (i = 0; i < s->n_merges; i++)
		if (s->merges[i].left == left && s->merges[i].right == right) {
			rank = s->ranks != NULL ? s->ranks[i] : i;
			*both = s->merges[i].both;
		}
	for (i = 0; s->equal_ranks && i < rank && rank != UINT32_MAX; i++)
		if (s->merges[i].both == *both)
			rank = i;
	return rank;
}

static inline bool truth_merge(const struct bpe_spec *s, struct ids *v, size_t from)
{
	uint32_t best = UINT32_MAX, rank;
	token_id both = 0, best_both = 0;
	size_t i, at = 0;

	for (i = from; i + 1 < v->n; i++)
		if ((rank = truth_rank(s, v->p[i], v->p[i + 1], &both)) < best) {
			best = rank;
			best_both = both;
			at = i;
		}
	if (best == UINT32_MAX)
		return false;
	v->p[at] = best_both;
	memmove(v->p + at + 1, v->p + at + 2, (v->n - at - 2) * sizeof(*v->p));
	v->n--;
	return true;
}

static inline void truth_merges(const struct bpe_spec *s, const uint8_t *p, size_t n, struct ids *v)
{
	size_t from = v->n, i;

	if (s->characters)
		truth_characters(s, p, n, v);
	else
		for (i = 0; i < n; i++)
			truth_add(v, s->byte_id[p[i]]);
	while (truth_merge(s, v, from))
		;
}

static inline void truth_piece(const struct bpe_spec *s, const uint8_t *p, size_t n, struct ids *v)
{
	const struct bpe_token *t = s->ignore_merges ? vocab_find(s, p, n) : NULL;

	if (t != NULL)
		truth_add(v, t->id);
	else
		truth_merges(s, p, n, v);
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* Fill <v> with a random vocabulary over a few letters. It has merges in no order of ids, merges of
 * lower rank than those that make their parts, pairs named twice, tokens that no merge makes, and
 * gaps between ids. <letters>: 1 .. 26; at most <most> merges. */
static inline void vocab_random(struct vocab *v, struct rng *r, const char *const *letters,
    uint32_t n_letters, uint32_t most)
{
	uint32_t i, want = rng_below(r, most + 1), first = v->spec.n_tokens, tries;
	token_id id = v->spec.n_tokens ? v->tokens[v->spec.n_tokens - 1].id + 1 + rng_below(r, 3)
				       : rng_below(r, 3);

	if (!v->spec.characters)
		first = 256;
	for (i = 0; v->spec.characters && i < n_letters; i++, id += 1 + rng_below(r, 2))
		if (rng_below(r, 8))
			vocab_token(v, id, letters[i], (uint32_t)strlen(letters[i]));
	for (tries = 0; v->spec.n_merges < want && tries < 20 * want; tries++) {
		const struct bpe_token *l, *t, *made;
		uint8_t bytes[64];
		uint32_t n, from = v->spec.characters ? first : 0;

		if (v->spec.n_tokens <= from)
			break;
		l = &v->tokens[from + rng_below(r, v->spec.n_tokens - from)];
		t = &v->tokens[from + rng_below(r, v->spec.n_tokens - from)];
		if (!v->spec.characters && l->n == 1 && rng_below(r, 64))
			l = &v->tokens[v->spec.byte_id[(uint8_t)letters[rng_below(r, n_letters)][0]] - v->tokens[0].id];
		if (!v->spec.characters && t->n == 1 && rng_below(r, 64))
			t = &v->tokens[v->spec.byte_id[(uint8_t)letters[rng_below(r, n_letters)][0]] - v->tokens[0].id];
		n = l->n + t->n;
		if (n > sizeof(bytes) || n == 0)
			continue;
		memcpy(bytes, v->bytes + l->at, l->n);
		memcpy(bytes + l->n, v->bytes + t->at, t->n);
		made = vocab_find(&v->spec, bytes, n);
		if (made == NULL) {
			token_id left = l->id, right = t->id;

			vocab_token(v, id, bytes, n);
			if (rng_below(r, 8))
				vocab_merge(v, left, right, id);
			id += 1 + rng_below(r, 2);
		} else {
			vocab_merge(v, l->id, t->id, made->id);
		}
	}
	for (i = 1; rng_below(r, 3) == 0 && i < v->spec.n_merges; i++) {
		uint32_t k = rng_below(r, i + 1);
		struct bpe_merge m = v->merges[i];

		v->merges[i] = v->merges[k];
		v->merges[k] = m;
	}
}

#endif

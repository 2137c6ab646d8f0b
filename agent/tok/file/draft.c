/* draft.c - shared by the readers: contents and ids, added tokens with the ids that tokenizers
 * gives them, and the vocabulary as bytes.
 *
 * ByteLevel writes each byte as one character: printable ones of Latin-1 as themselves, the 68
 * others as U+0100 and following, in order. This is undone here once per token, so that encoding
 * works on the text's own bytes. An entry with any other character never results from text, because
 * pieces are written in the alphabet. So the vocabulary of bpe.h lacks it; its content keeps its id
 * for an added token of that name.
 *
 * tokenizers silently drops a byte that the vocabulary lacks (Falcon has no token for some control
 * characters). So does the agent: such bytes are dropped before bpe.h, which gets an unused token
 * for each. Many vocabularies lack the 13 bytes that never occur in UTF-8. */
#include "agent/tok/file/draft.h"

#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/tok/unicode/unicode.h"

#define ALPHABET	0x144u

struct draft_kept {
	struct draft_kept *next;
	char bytes[];
};

void draft_fini(struct draft *d)
{
	struct draft_kept *k;

	vocab_fini(&d->vocab);
	vocab_fini(&d->added);
	mem_free(d->bytes);
	mem_free(d->tokens);
	vec_free(&d->merges);
	vec_free(&d->scores);
	vec_free(&d->ranks);
	vec_free(&d->special);
	vec_free(&d->plain);
	vec_free(&d->latest);
	while ((k = d->kept) != NULL) {
		d->kept = k->next;
		mem_free(k);
	}
}

char *draft_keep(struct draft *d, const void *p, size_t n)
{
	struct draft_kept *k = mem_alloc(sizeof(*k) + n + 1);

	if (k == NULL)
		return NULL;
	if (n > 0)
		memcpy(k->bytes, p, n);
	k->next = d->kept;
	d->kept = k;
	return k->bytes;
}

int draft_merge(struct draft *d, struct bpe_merge m)
{
	return vec_push(&d->merges, m);
}

token_id draft_id(const struct draft *d, struct span content)
{
	uint32_t at = vocab_find(&d->added, content);

	if (at != VOCAB_NONE)
		return d->added.entries.p[at].id;
	at = vocab_find(&d->vocab, content);
	return at != VOCAB_NONE ? d->vocab.entries.p[at].id : BPE_NO_ID;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static bool same(const struct draft_added *a, const struct draft_added *b)
{
	return a->single_word == b->single_word && a->lstrip == b->lstrip && a->rstrip == b->rstrip &&
	       a->normalized == b->normalized && a->special == b->special;
}

/* Return the first free id: after the vocabulary, or after the last added token if that is higher.
 */
static token_id free_id(const struct draft *d)
{
	if (d->added.entries.n > 0 && d->added.max_id >= d->vocab.entries.n)
		return d->added.max_id + 1;
	return d->vocab.entries.n;
}

static bool listed(const struct draft_added *list, size_t n, struct span content)
{
	for (size_t i = 0; i < n; i++) {
		if (span_eq(list[i].content, content))
			return true;
	}
	return false;
}

/* Add a token to its list. If the same content comes again with other flags, the lists stay: the
 * first one decides which search the token belongs to, the last one its other flags. tokenizers
 * does the same. */
static int list(struct draft *d, const struct draft_added *t, bool special_before)
{
	if (t->special && !special_before) {
		if (vec_push(&d->special, *t) < 0)
			return -1;
	} else if (!t->special && !special_before) {
		if (vec_push(&d->plain, *t) < 0)
			return -1;
	}
	return 0;
}

static int enter(struct draft *d, struct draft_added *t, uint32_t at, struct err *e)
{
	bool special_before = at != VOCAB_NONE && d->latest.p[at].special;

	if (at != VOCAB_NONE && !special_before)
		special_before = listed(d->special.p, d->special.n, t->content);
	if (list(d, t, special_before) < 0 || vec_reserve(&d->latest, 1) < 0)
		return err_set(e, "not enough memory");
	if (at == VOCAB_NONE) {
		at = d->added.entries.n;
		if (vocab_add(&d->added, t->content, t->id) < 0)
			return err_set(e, "not enough memory");
		d->latest.n++;
	}
	d->latest.p[at] = *t;
	return 0;
}

int draft_add(struct draft *d, const struct draft_added *t, bool given, token_id *id, struct err *e)
{
	uint32_t at = vocab_find(&d->added, t->content), in = vocab_find(&d->vocab, t->content);
	struct draft_added own = *t;

	if (at != VOCAB_NONE)
		own.id = d->added.entries.p[at].id;
	else if (!given)
		own.id = in != VOCAB_NONE ? d->vocab.entries.p[in].id : free_id(d);
	*id = own.id;
	if (t->content.n == 0 || (at != VOCAB_NONE && same(&d->latest.p[at], &own)))
		return 0;
	if (t->content.n > ADDED_CONTENT_MAX)
		return err_set(e, "an added token of more than %u bytes", ADDED_CONTENT_MAX);
	if (d->added.entries.n >= DRAFT_ADDED_MAX)
		return err_set(e, "more than %u added tokens", DRAFT_ADDED_MAX);
	if (own.id > VOCAB_ID_MAX)
		return err_set(e, "the added token \"%.*s\" has an id above %u",
		    (int)(t->content.n < 60 ? t->content.n : 60), t->content.p, VOCAB_ID_MAX);
	return enter(d, &own, at, e);
}

/* ---- the vocabulary as bytes ----------------------------------------------------------------- */

static void alphabet(int16_t byte_of[ALPHABET])
{
	unsigned int other = 0x100;

	memset(byte_of, 0xff, ALPHABET * sizeof(byte_of[0]));
	for (unsigned int b = 0; b < 256; b++) {
		bool seen = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);

		byte_of[seen ? b : other++] = (int16_t)b;
	}
}

bool draft_ends(const struct draft *d, struct span content)
{
	size_t n = d->suffix.n;

	return n > 0 && content.n >= n &&
	    memcmp(content.p + content.n - n, d->suffix.p, n) == 0;
}

/* Decode <content> from the alphabet to <out>, a suffix as SPLIT_END. Returns -1 if it has other
 * characters. */
static int32_t decode(const struct draft *d, const int16_t byte_of[ALPHABET],
    const struct vocab_entry *v, uint8_t *out)
{
	const uint8_t *p = (const uint8_t *)v->p;
	bool ends = draft_ends(d, span_of(v->p, v->n));
	size_t all = ends ? v->n - d->suffix.n : v->n;
	uint32_t cp;
	int32_t n = 0;

	for (size_t i = 0; i < all; ) {
		i += utf8_get(p + i, all - i, &cp);
		if (cp >= ALPHABET || byte_of[cp] < 0 || (d->suffix.n > 0 && byte_of[cp] == SPLIT_END))
			return -1;
		out[n++] = (uint8_t)byte_of[cp];
	}
	if (ends && n > 0)
		out[n++] = SPLIT_END;
	return n;
}

static size_t spec_bytes(struct draft *d)
{
	int16_t byte_of[ALPHABET];
	size_t used = 0;

	alphabet(byte_of);
	for (uint32_t i = 0; i < d->vocab.entries.n; i++) {
		const struct vocab_entry *v = &d->vocab.entries.p[i];
		int32_t n = (int32_t)v->n;

		if (d->byte_level && !d->decoded)
			n = decode(d, byte_of, v, d->bytes + used);
		else
			memcpy(d->bytes + used, v->p, v->n);
		if (n <= 0)
			continue;
		if (d->byte_level && n == 1)
			d->spec.byte_id[d->bytes[used]] = v->id;
		d->tokens[d->spec.n_tokens++] = (struct bpe_token){ (uint32_t)used, (uint32_t)n, v->id };
		used += (size_t)n;
	}
	return used;
}

static bool in_utf8(unsigned int b)
{
	return b < 0xc0 || (b > 0xc1 && b < 0xf5);
}

/* Add tokens for bytes that have none. There is room for 256 more of both kinds. */
static int spec_missing(struct draft *d, size_t used, struct err *e)
{
	token_id id = d->vocab.max_id > d->added.max_id ? d->vocab.max_id : d->added.max_id;

	for (unsigned int b = 0; b < 256; b++) {
		if (d->spec.byte_id[b] != BPE_NO_ID)
			continue;
		if (in_utf8(b) && (d->spec.has_unk || d->spec.ignore_merges || d->suffix.n > 0))
			return err_set(e, "model.vocab: byte 0x%02x has no token; with %s that is not understood", b,
			    d->spec.has_unk ? "unk_token"
				: d->spec.ignore_merges ? "ignore_merges" : "end_of_word_suffix");
		if (++id > VOCAB_ID_MAX)
			return err_set(e, "model.vocab: no id is left below %u", VOCAB_ID_MAX);
		if (in_utf8(b))
			d->dropped[b / 8] |= (uint8_t)(1u << (b % 8));
		d->bytes[used] = (uint8_t)b;
		d->tokens[d->spec.n_tokens++] = (struct bpe_token){ (uint32_t)used++, 1, id };
		d->spec.byte_id[b] = id;
	}
	return 0;
}

/* Every byte that may end a piece merges with SPLIT_END before anything else does. */
static int spec_ends(struct draft *d, struct err *e)
{
	size_t file = d->merges.n, n = 0;
	token_id both[256];

	memset(both, 0xff, sizeof(both));		/* BPE_NO_ID */
	for (uint32_t i = 0; i < d->spec.n_tokens; i++) {
		const struct bpe_token *t = &d->tokens[i];

		if (t->n == 2 && d->bytes[t->at + 1] == SPLIT_END)
			both[d->bytes[t->at]] = t->id;
	}
	if (vec_reserve(&d->merges, 256) < 0)
		return err_set(e, "not enough memory");
	memmove(d->merges.p + 256, d->merges.p, file * sizeof(*d->merges.p));
	for (unsigned int b = 0; b < 0xc0; b++) {
		if (both[b] == BPE_NO_ID)
			return err_set(e, "model.vocab: byte 0x%02x has no token with end_of_word_suffix", b);
		d->merges.p[n++] = (struct bpe_merge){ d->spec.byte_id[b], d->spec.byte_id[SPLIT_END], both[b] };
	}
	memmove(d->merges.p + n, d->merges.p + 256, file * sizeof(*d->merges.p));
	d->merges.n = n + file;
	return 0;
}

/* <0x00> .. <0xFF> */
static void spec_fallback(struct draft *d)
{
	char name[8];

	for (unsigned int b = 0; b < 256; b++) {
		uint32_t at;

		snprintf(name, sizeof(name), "<0x%02X>", b);
		if ((at = vocab_find(&d->vocab, span_of(name, 6))) != VOCAB_NONE)
			d->spec.byte_id[b] = d->vocab.entries.p[at].id;
	}
}

static int spec(struct draft *d, struct err *e)
{
	size_t all = 0, used;

	for (uint32_t i = 0; i < d->vocab.entries.n; i++)
		all += d->vocab.entries.p[i].n;
	if (all > UINT32_MAX - 256)
		return err_set(e, "a vocabulary of more than 4 GiB");
	d->bytes = mem_alloc(all + 256);
	d->tokens = mem_calloc((size_t)d->vocab.entries.n + 256, sizeof(*d->tokens));
	if (d->bytes == NULL || d->tokens == NULL)
		return err_set(e, "not enough memory");
	for (unsigned int b = 0; b < 256; b++)
		d->spec.byte_id[b] = BPE_NO_ID;
	used = spec_bytes(d);
	if (d->byte_level && spec_missing(d, used, e) < 0)
		return -1;
	if (d->suffix.n > 0 && spec_ends(d, e) < 0)
		return -1;
	if (d->spec.byte_fallback)
		spec_fallback(d);
	d->spec.characters = !d->byte_level;
	d->spec.bytes = d->bytes;
	d->spec.tokens = d->tokens;
	d->spec.merges = d->merges.p;
	d->spec.n_merges = (uint32_t)d->merges.n;
	d->spec.ranks = d->ranks.n > 0 ? d->ranks.p : NULL;
	return 0;
}

struct bpe *draft_bpe(struct draft *d, struct err *e)
{
	return spec(d, e) < 0 ? NULL : bpe_new(&d->spec, e);
}

struct lexicon *draft_lexicon(struct draft *d, struct err *e)
{
	struct lexicon_token *t = mem_calloc((size_t)d->vocab.entries.n + 1, sizeof(*t));
	struct lexicon *x;
	uint32_t n = 0;

	if (t == NULL) {
		err_set(e, "not enough memory");
		return NULL;
	}
	for (uint32_t i = 0; i < d->vocab.entries.n; i++) {
		const struct vocab_entry *v = &d->vocab.entries.p[i];
		struct draft_score s = d->scores.n > i ? d->scores.p[i] : (struct draft_score){ 0, false };

		if (!s.hidden)
			t[n++] = (struct lexicon_token){ span_of(v->p, v->n), v->id, s.score };
	}
	for (unsigned int b = 0; b < 256; b++)
		d->spec.byte_id[b] = BPE_NO_ID;
	spec_fallback(d);
	d->words.byte_id = d->spec.byte_id;
	d->words.tokens = t;
	d->words.n_tokens = n;
	x = lexicon_new(&d->words, e);
	mem_free(t);
	return x;
}

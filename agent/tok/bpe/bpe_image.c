/* bpe_image.c - export the block of an encoder, and check and borrow it again.
 *
 * A damaged block must not lead outside of itself: every index from one section to another is
 * checked against that section's length, once. Ranks, ids and bytes may have any value; they only
 * give wrong tokens. */
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_wide_in.h"

struct span bpe_image(const struct bpe *b)
{
	return span_of(b->head, b->bytes);
}

static bool sym_or_none(const struct head *h, uint32_t sym)
{
	return sym < h->n_syms || sym == SYM_NONE;
}

static bool head_holds(const struct head *h)
{
	uint32_t i;

	if (h->n_syms == 0 || h->n_syms >= SYM_NONE || h->n_lines == 0 || h->n_buckets == 0 ||
	    h->n_wide == 0 || (h->n_wide & (h->n_wide - 1)) != 0 ||
	    !sym_or_none(h, h->unk))
		return false;
	for (i = 0; i < 256; i++)
		if (!(h->flags & HEAD_CHARACTERS) && h->atom[i] >= h->n_syms)
			return false;
		else if (!sym_or_none(h, h->atom[i]))
			return false;
	return true;
}

/* Check that the parts of a token, and its prefix, are shorter than it: so walks from part to part
 * end. */
static bool parts_hold(const struct bpe *b, const struct sym *s)
{
	uint32_t n = b->head->n_syms;

	if (s->prefix != SYM_NONE &&
	    (s->prefix >= n || b->sym[s->prefix].n >= s->n || b->sym[s->prefix].n == 0))
		return false;
	if (s->made == 0)
		return s->left == SYM_NONE && s->right == SYM_NONE;
	return s->left < n && s->right < n && b->sym[s->left].n > 0 && b->sym[s->right].n > 0 &&
	       (uint64_t)b->sym[s->left].n + b->sym[s->right].n == s->n;
}

static bool syms_hold(const struct bpe *b)
{
	uint32_t i;

	for (i = 0; i < b->head->n_syms; i++) {
		const struct sym *s = &b->sym[i];

		if (s->n > b->head->n_text || s->at > b->head->n_text - s->n || !parts_hold(b, s))
			return false;
	}
	for (i = 0; i < 256; i++)
		if (b->head->one[i] != SYM_NONE &&
		    (b->head->one[i] >= b->head->n_syms || b->sym[b->head->one[i]].n != 1))
			return false;
	return true;
}

/* Check that merges form no circle, and that a line without <more> ends each search. A result is as
 * long as its parts, so lengths bound both. */
static bool pairs_hold(const struct bpe *b)
{
	uint32_t i, k, ends = 0;

	for (i = 0; i < b->head->n_lines; i++) {
		ends += !b->pairs[i].more;
		for (k = 0; k < PAIRS_PER_LINE; k++)
			if (b->pairs[i].e[k][2] >> 8 >= b->head->n_syms &&
			    pair_entry_key(b->pairs[i].e[k]) != pair_key(SYM_NONE, SYM_NONE))
				return false;
	}
	return ends > 0;
}

static bool slot_holds(const struct bpe *b, const struct slot *s)
{
	uint32_t value = (uint32_t)(s->hi >> 32) & SYM_NONE, len = (uint32_t)(s->hi >> 56) & 15, i;

	if (len == 0)
		return true;
	if (len <= SHORT_MOST)
		return value < b->head->n_syms && b->sym[value].n == len;
	if (len > LEN_GROUP || value >= b->head->n_longs || b->longs[value] >= b->head->n_longs - value)
		return false;
	for (i = 1; i <= b->longs[value]; i++)
		if (b->longs[value + i] >= b->head->n_syms)
			return false;
	return true;
}

static bool slots_hold(const struct bpe *b)
{
	uint32_t i, k, ends = 0;

	for (i = 0; i < b->head->n_buckets; i++) {
		ends += (b->tags[i] & TAGS_FULL) != TAGS_FULL;
		for (k = 0; k < BUCKET; k++)
			if (!slot_holds(b, &b->slots[(size_t)i * BUCKET + k]))
				return false;
	}
	return ends > 0;
}

struct bpe *bpe_of_image(struct span image)
{
	const struct head *h = (const void *)image.p;
	struct bpe *b;

	if (image.n < sizeof(*h) || (uintptr_t)image.p % BPE_ALIGN != 0 || h->magic != BPE_MAGIC ||
	    !head_holds(h) || bpe_layout(h).end != image.n || (b = mem_alloc(sizeof(*b))) == NULL)
		return NULL;
	bpe_place(b, image.p);
	if (!syms_hold(b) || !pairs_hold(b) || !slots_hold(b) || !wide_holds(b)) {
		mem_free(b);
		return NULL;
	}
	return b;
}

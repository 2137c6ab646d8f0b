/* bpe_image.c - the block of an encoder, given away and taken back.
 *
 * What a damaged block could do is lead outside: every place that one section names in another is held against that section's
 * length, once, when it is taken. Ranks, ids and bytes may be anything; they give wrong tokens and no more. */
#include "agent/base/mem.h"
#include "agent/tok/bpe_impl.h"

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

	if (h->n_syms == 0 || h->n_syms >= SYM_NONE || h->n_lines == 0 || h->n_whole < 2 || h->n_whole & (h->n_whole - 1) ||
	    !sym_or_none(h, h->unk))
		return false;
	for (i = 0; i < 256; i++)
		if (!(h->flags & HEAD_CHARACTERS) && h->atom[i] >= h->n_syms)
			return false;
		else if (!sym_or_none(h, h->atom[i]))
			return false;
	return true;
}

static bool syms_hold(const struct bpe *b)
{
	uint32_t i;

	for (i = 0; i < b->head->n_syms; i++) {
		const struct sym *s = &b->sym[i];

		if (s->n > b->head->n_text || s->at > b->head->n_text - s->n || !sym_or_none(b->head, s->left) ||
		    !sym_or_none(b->head, s->right))
			return false;
	}
	return true;
}

/* No merge that goes in a circle, and a line without <more> to end a search: both are bounded by bytes, as a result is as long as its parts. */
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

static bool whole_holds(const struct bpe *b)
{
	uint32_t i, empty = 0;

	for (i = 0; i < b->head->n_whole; i++) {
		empty += b->whole[i] == SYM_NONE;
		if (!sym_or_none(b->head, b->whole[i]))
			return false;
	}
	return empty > 0;
}

struct bpe *bpe_of_image(struct span image)
{
	const struct head *h = (const void *)image.p;
	struct bpe *b;

	if (image.n < sizeof(*h) || (uintptr_t)image.p % BPE_ALIGN != 0 || h->magic != BPE_MAGIC || !head_holds(h) ||
	    bpe_layout(h).end != image.n || (b = mem_alloc(sizeof(*b))) == NULL)
		return NULL;
	bpe_place(b, image.p);
	if (!syms_hold(b) || !pairs_hold(b) || !whole_holds(b)) {
		mem_free(b);
		return NULL;
	}
	return b;
}

/* bpe_atoms.c - the tokens that a piece starts as, before any merge.
 *
 * Bytes: one token each. Characters: the token of the character. One without a token becomes the
 * tokens of its bytes if all of them have one (byte_fallback), otherwise <unk>, otherwise nothing:
 * its neighbours become adjacent.
 *
 * An <unk> is pending until a known character follows or the text ends, also across the bytes of
 * characters in between. That is the order in which `tokenizers` writes them (models/bpe/model.rs,
 * merge_word). With fuse_unk, all pending ones are one. */
#include "agent/base/utf8.h"
#include "agent/tok/bpe/bpe_find_in.h"

size_t atoms_char_bytes(const uint8_t *p, size_t n)
{
	size_t k = utf8_length(p[0]);

	return k < n ? k : n;
}

static bool bytes_known(const struct bpe *b, const uint8_t *p, size_t n)
{
	size_t i;

	if (!(b->head->flags & HEAD_BYTE_FALLBACK))
		return false;
	for (i = 0; i < n; i++)
		if (b->head->atom[p[i]] == SYM_NONE)
			return false;
	return true;
}

static int add_bytes(const struct bpe *b, struct syms *out, const uint8_t *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (syms_add(out, b->head->atom[p[i]]) < 0)
			return -1;
	return 0;
}

int atoms_flush(const struct bpe *b, struct atoms *a, struct syms *out)
{
	if (!a->unk)
		return 0;
	a->unk = false;
	return syms_add(out, b->head->unk);
}

/* Add an unknown character of <k> bytes. */
static int add_unknown(const struct bpe *b, struct atoms *a, struct syms *out, size_t k)
{
	if (bytes_known(b, a->p + a->at, k))
		return add_bytes(b, out, a->p + a->at, k);
	if (b->head->unk == SYM_NONE)
		return 0;
	if (!(b->head->flags & HEAD_FUSE_UNK) && atoms_flush(b, a, out) < 0)
		return -1;
	a->unk = true;
	return 0;
}

int atoms_unknown(const struct bpe *b, struct atoms *a, struct syms *out)
{
	size_t k = b->head->flags & HEAD_CHARACTERS ? atoms_char_bytes(a->p + a->at, a->n - a->at) : 1;

	if ((b->head->flags & HEAD_CHARACTERS ? add_unknown(b, a, out, k)
					      : add_bytes(b, out, a->p + a->at, 1)) < 0)
		return -1;
	a->at += k;
	return 0;
}

static int add_char(const struct bpe *b, struct atoms *a, struct syms *out)
{
	size_t k = atoms_char_bytes(a->p + a->at, a->n - a->at);
	uint32_t value = whole_find(b, a->p + a->at, k, a->room - a->at);

	if (value == 0)
		return atoms_unknown(b, a, out);
	a->at += k;
	return atoms_flush(b, a, out) < 0 ? -1 : syms_add(out, value & SYM_NONE);
}

int atoms_read(const struct bpe *b, struct atoms *a, struct syms *out, size_t *budget)
{
	bool characters = b->head->flags & HEAD_CHARACTERS;

	for (; a->at < a->n; --*budget) {
		if (*budget == 0)
			return 1;
		if ((characters ? add_char(b, a, out) : atoms_unknown(b, a, out)) < 0)
			return -1;
	}
	return atoms_flush(b, a, out);
}

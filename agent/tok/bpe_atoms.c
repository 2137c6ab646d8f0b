/* bpe_atoms.c - the tokens a piece begins as, before any merge.
 *
 * Bytes: one each. Characters: the token of that one character; one that has none becomes the tokens of its bytes if all of them
 * are there (byte_fallback), otherwise <unk>, otherwise nothing, in which case its neighbours are neighbours.
 *
 * An <unk> is held back until a known character follows or the text ends, also over the bytes of characters in between: that is
 * the order in which `tokenizers` writes them (models/bpe/model.rs, merge_word). With fuse_unk all that wait are one. */
#include "agent/tok/bpe_impl.h"

static int add(struct merger *m, uint32_t sym)
{
	if (m->n == m->cap && merger_reserve(m, m->n + 64) < 0)
		return -1;
	m->sym[m->n++] = sym;
	return 0;
}

static size_t char_bytes(const uint8_t *p, size_t n)
{
	size_t k = p[0] < 0xc0 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

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

static int add_bytes(const struct bpe *b, struct merger *m, const uint8_t *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (add(m, b->head->atom[p[i]]) < 0)
			return -1;
	return 0;
}

static int flush_unk(const struct bpe *b, struct atoms *a, struct merger *m)
{
	if (!a->unk)
		return 0;
	a->unk = false;
	return add(m, b->head->unk);
}

static int add_unknown(const struct bpe *b, struct atoms *a, struct merger *m, const uint8_t *p, size_t n)
{
	if (bytes_known(b, p, n))
		return add_bytes(b, m, p, n);
	if (b->head->unk == SYM_NONE)
		return 0;
	if (!(b->head->flags & HEAD_FUSE_UNK) && flush_unk(b, a, m) < 0)
		return -1;
	a->unk = true;
	return 0;
}

static int add_char(const struct bpe *b, struct atoms *a, struct merger *m, const uint8_t *p, size_t n)
{
	uint32_t sym = whole_find(b, p, n);

	if (sym == SYM_NONE)
		return add_unknown(b, a, m, p, n);
	return flush_unk(b, a, m) < 0 ? -1 : add(m, sym);
}

int atoms_read(const struct bpe *b, struct atoms *a, struct merger *m, size_t *budget)
{
	for (; a->at < a->n; --*budget) {
		const uint8_t *p = a->p + a->at;
		size_t k = b->head->flags & HEAD_CHARACTERS ? char_bytes(p, a->n - a->at) : 1;

		if (*budget == 0)
			return 1;
		if ((b->head->flags & HEAD_CHARACTERS ? add_char(b, a, m, p, k) : add_bytes(b, m, p, 1)) < 0)
			return -1;
		a->at += k;
	}
	return flush_unk(b, a, m);
}

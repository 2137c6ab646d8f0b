/* bpe_sign.c - a quick no to the question whether anything merges across the border of two tokens.
 *
 * Of the left token, the parts that are last in it at some time (itself, its right part, the right part of that, ...); of the right one, those that are first
 * at some time. Only a merge of one of the former with one of the latter can cross, and only one whose rank is below that of the merge that
 * takes the part away. So with sets of 64 bits, a bit for a token by its hash:
 *
 *   wants   what could stand on the right in a merge of a last part, of such a rank      first    the first parts
 *   last    the last parts                                        wanted   what could stand on the left in a merge of a first part, of such a rank
 *
 * nothing crosses if <wants> and <first> have no bit in common, or <last> and <wanted>. Bits by chance, and merges that are named but do not count, only
 * make it a "may be". Answers nine in ten of the borders between tokens of Chinese and Japanese text, without a look
 * into the table of merges, which is too large for the caches near a core.
 *
 * One pass over the merges in order of rank: when a token is made, what its parts had until then is what counts for them in it. Those of one rank
 * are entered first, so that "below" is "up to": more bits, never fewer. A token whose merges are not in order (SYM_IN_ORDER) may want anything. */
#include "agent/tok/bpe/bpe_in.h"

static uint64_t bit_of(uint32_t sym)
{
	return 1ull << ((sym * 0x9e3779b97f4a7c15u) >> 58);
}

static void enter(struct sym *sym, const struct ranked *m)
{
	sym[m->left].sign.wants |= bit_of(m->right);
	sym[m->right].sign.wanted |= bit_of(m->left);
}

/* The parts of a token have what they had when they became parts of it. */
static void make(struct sym *sym, const struct ranked *m, uint64_t *deep_wants, uint64_t *deep_wanted)
{
	struct sym *s = &sym[m->both];

	if (s->made != m->rank + 1 || s->left != m->left || s->right != m->right)
		return;
	deep_wants[m->both] = sym[m->right].sign.wants | deep_wants[m->right];
	deep_wanted[m->both] = sym[m->left].sign.wanted | deep_wanted[m->left];
	s->sign.last |= sym[m->right].sign.last;
	s->sign.first |= sym[m->left].sign.first;
}

static void finish(struct sym *s, uint64_t deep_wants, uint64_t deep_wanted)
{
	s->sign.wants |= deep_wants;
	s->sign.wanted |= deep_wanted;
	if (!(s->flags & SYM_IN_ORDER))
		s->sign = (struct sign){ UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX };
}

void sign_all(struct sym *sym, uint32_t n_syms, const struct ranked *merges, uint32_t n, uint64_t *deep)
{
	uint32_t i, k;

	for (i = 0; i < n_syms; i++)
		sym[i].sign.last = sym[i].sign.first = bit_of(i);
	for (i = 0; i < n; i = k) {
		for (k = i; k < n && merges[k].rank == merges[i].rank; k++)
			enter(sym, &merges[k]);
		for (k = i; k < n && merges[k].rank == merges[i].rank; k++)
			make(sym, &merges[k], deep, deep + n_syms);
	}
	for (i = 0; i < n_syms; i++)
		finish(&sym[i], deep[i], deep[n_syms + i]);
}

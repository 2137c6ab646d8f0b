/* bpe_wide.c - fill the tables of bpe_wide_in.h, and check those of an image.
 *
 * A set has room for four pairs, and there are as many sets as pairs. A pair that finds no room
 * sends its first character to the other tables. */
#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_find_in.h"

#define SETS_MOST	(1u << 20)

/* Return the first six bytes of a token, with zeros after its end. */
static uint64_t start_of(const uint8_t *p, uint32_t n)
{
	uint64_t w = 0;

	memcpy(&w, p, n < 6 ? n : 6);
	return w;
}

uint32_t wide_sets(const struct bpe_spec *spec)
{
	uint32_t i, n = 0, sets = 1;

	for (i = 0; i < spec->n_tokens; i++) {
		const struct bpe_token *t = &spec->tokens[i];

		n += t->n >= 6 && WIDE_BOTH(start_of(spec->bytes + t->at, t->n));
	}
	while (sets < n && sets < SETS_MOST)
		sets *= 2;
	return sets;
}

/* Add to the value of a pair. Returns false if there is no room. */
static bool put_pair(const struct bpe *b, struct wide *by_pair, uint32_t both, uint32_t value)
{
	struct wide *s = &by_pair[wide_set(b, both)];
	uint32_t i;

	for (i = 0; i < WIDE_WAYS; i++) {
		if (s->value[i] != 0 && s->both[i] != both)
			continue;
		s->both[i] = both;
		s->value[i] |= value;
		return true;
	}
	return false;
}

/* Return the token <i> as a value, 0 if the other tables do not find it. */
static uint32_t found_as(const struct bpe *b, uint32_t i)
{
	const struct sym *s = &b->sym[i];
	uint32_t value = slot_find(b, key_load(b->text + s->at, TEXT_BEHIND), s->n);

	return value & SLOT_ALONE && (value & SYM_NONE) == i ? i | WIDE_TOKEN : 0;
}

void wide_fill(const struct bpe *b, uint32_t *by_char, struct wide *by_pair)
{
	uint32_t i, first, both;

	for (i = 0; i < b->head->n_syms; i++) {
		const struct sym *s = &b->sym[i];
		uint64_t w = start_of(b->text + s->at, s->n);

		if (!(s->flags & SYM_ALONE) || s->n < 3 || !WIDE_IS(w))
			continue;
		first = wide_char(w);
		both = first << 16 | wide_char(w >> 24);
		if (s->n == 3)
			by_char[first] |= found_as(b, i);
		else if (s->n < 6 || !WIDE_BOTH(w) ||
			 !put_pair(b, by_pair, both, s->n == 6 ? found_as(b, i) : WIDE_MORE))
			by_char[first] |= WIDE_MORE;
	}
}

static bool value_holds(const struct bpe *b, uint32_t value, uint32_t n)
{
	uint32_t sym = value & SYM_NONE;

	return (value & WIDE_TOKEN) == 0 || (sym < b->head->n_syms && b->sym[sym].n == n);
}

/* Check that no pair is in a set twice: wide_pair() would join the numbers of two tokens. */
static bool set_holds(const struct bpe *b, const struct wide *s)
{
	uint32_t i, k;

	for (i = 0; i < WIDE_WAYS; i++) {
		if (!value_holds(b, s->value[i], 6))
			return false;
		for (k = 0; k < i; k++)
			if (s->value[i] != 0 && s->value[k] != 0 && s->both[i] == s->both[k])
				return false;
	}
	return true;
}

bool wide_holds(const struct bpe *b)
{
	uint32_t i;

	for (i = 0; i < WIDE_CHARS; i++)
		if (!value_holds(b, b->wide_by_char[i], 3))
			return false;
	for (i = 0; i < b->head->n_wide; i++)
		if (!set_holds(b, &b->wide_by_pair[i]))
			return false;
	return true;
}

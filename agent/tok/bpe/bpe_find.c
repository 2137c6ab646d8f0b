/* bpe_find.c - tokens above 12 bytes, and how the tables of bpe_find_in.h are filled.
 *
 * In a list of long tokens sorted by bytes, the longest token that the text starts with is the last
 * one that does not sort after the text, or the longest prefix of that which is a token. For any
 * token that the text starts with sorts before the text, and all tokens between the two start with
 * it. */
#include "agent/tok/bpe/bpe_find_in.h"

/* ---- tokens above 12 bytes ------------------------------------------------------------------- */

/* Compare the bytes of a token with <p>: < 0, 0 or > 0. A token that <p> starts with sorts before
 * it, except <p> itself. */
static int compare_text(const struct bpe *b, uint32_t sym, const uint8_t *p, size_t n)
{
	const struct sym *s = &b->sym[sym];
	int c = memcmp(b->text + s->at, p, s->n < n ? s->n : n);

	return c ? c : s->n < n ? -1 : s->n > n;
}

static bool begins_with(const struct bpe *b, uint32_t sym, const uint8_t *p, size_t n)
{
	const struct sym *s = &b->sym[sym];

	return s->n <= n && memcmp(b->text + s->at, p, s->n) == 0;
}

/* Return the last one of a list that does not sort after <p>. */
static uint32_t group_last(const struct bpe *b, uint32_t group, const uint8_t *p, size_t n)
{
	uint32_t low = 0, high = b->longs[group], mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (compare_text(b, b->longs[group + 1 + mid], p, n) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? b->longs[group + low] : SYM_NONE;
}

struct found longest_of_group(const struct bpe *b, uint32_t group, const uint8_t *p, size_t n)
{
	uint32_t sym = group_last(b, group, p, n);

	while (sym != SYM_NONE && (!(b->sym[sym].flags & SYM_ALONE) || !begins_with(b, sym, p, n)))
		sym = b->sym[sym].prefix;
	return (struct found){ sym, sym == SYM_NONE ? 0 : b->sym[sym].n };
}

uint32_t whole_long(const struct bpe *b, struct slot key, const uint8_t *p, size_t n)
{
	uint32_t group = slot_find(b, key, LEN_GROUP), sym;

	if (group == 0)
		return 0;
	sym = group_last(b, group & SYM_NONE, p, n);
	if (sym == SYM_NONE || b->sym[sym].n != n || !begins_with(b, sym, p, n))
		return 0;
	return sym | LEN_GROUP << 24 | (b->sym[sym].flags & SYM_ALONE ? SLOT_ALONE : 0);
}

/* ---- building -------------------------------------------------------------------------------- */

uint32_t find_buckets(uint32_t n_keys)
{
	return (uint32_t)((uint64_t)n_keys / 5) + 2;
}

void find_put(struct bpe *b, struct slot key, uint32_t len, uint32_t value)
{
	struct slot k = key_cut(key, len);
	uint64_t h = key_hash(k), *tags = (uint64_t *)(uintptr_t)b->tags;
	struct slot *slots = (struct slot *)(uintptr_t)b->slots;
	uint32_t at = key_bucket(b, h), i;

	while ((tags[at] & TAGS_FULL) == TAGS_FULL)
		at = at + 1 < b->head->n_buckets ? at + 1 : 0;
	i = (uint32_t)__builtin_ctzll(~tags[at] & TAGS_FULL) >> 3;
	tags[at] |= key_tag(h) << (8 * i);
	k.hi |= (uint64_t)value << 32;
	slots[(size_t)at * BUCKET + i] = k;
}

static void mark_alone(const struct bpe *b, struct slot k, uint32_t sym)
{
	struct slot *s = (struct slot *)(uintptr_t)slot_at(b, k);

	if (s != NULL && (s->hi >> 32 & SYM_NONE) == sym)
		s->hi |= (uint64_t)SLOT_ALONE << 32;
}

void find_lens(const struct bpe *b, uint16_t *lens, uint8_t *lens6, uint32_t one[256])
{
	uint32_t i, len;

	for (i = 0; i < 256; i++)
		one[i] = SYM_NONE;
	for (i = 0; i < b->head->n_syms; i++) {
		const struct sym *s = &b->sym[i];
		struct slot k = key_load(b->text + s->at, TEXT_BEHIND);

		if (!(s->flags & SYM_ALONE)) {
			if (s->n > 2)
				lens[lens_place(k.lo)] |= LENS_OTHERS;
			continue;
		}
		len = s->n <= SHORT_MOST ? s->n : LEN_GROUP;
		if (s->n <= SHORT_MOST)
			mark_alone(b, key_cut(k, s->n), i);
		if (s->n == 1)
			one[k.lo & 0xff] = i;
		else if (s->n > 2)
			lens[lens_place(k.lo)] |= (uint16_t)(1u << len);
		if (len >= 6)
			lens6[lens6_place(k.lo)] |= (uint8_t)(1u << (len - 6));
	}
}

/* Return the prefix of a token above 12 bytes; <before> precedes it in its list. */
static uint32_t long_prefix(const struct bpe *b, uint32_t sym, uint32_t before)
{
	const struct sym *s = &b->sym[sym];
	const uint8_t *p = b->text + s->at;

	while (before != SYM_NONE &&
	    (!(b->sym[before].flags & SYM_ALONE) || !begins_with(b, before, p, s->n - 1)))
		before = b->sym[before].prefix;
	return before != SYM_NONE ? before : longest_find(b, p, SHORT_MOST, 16).sym;
}

void find_prefixes(const struct bpe *b, struct sym *sym)
{
	uint32_t i, k;

	for (i = 0; i < b->head->n_syms; i++)
		if (sym[i].n > 1 && sym[i].n <= SHORT_MOST)
			sym[i].prefix = longest_find(b, b->text + sym[i].at, sym[i].n - 1, 16).sym;
	for (i = 0; i < b->head->n_longs; i += b->longs[i] + 1)
		for (k = 1; k <= b->longs[i]; k++)
			sym[b->longs[i + k]].prefix =
			    long_prefix(b, b->longs[i + k], k > 1 ? b->longs[i + k - 1] : SYM_NONE);
}

/* bpe_tables.c - the tables of an encoder: where they lie, merges by pair, tokens by their bytes.
 *
 * Merges lie in cache lines of five, placed by one multiplication; a line that is full is followed by the next one. Filled to
 * 0.7 that is one line for 96 of 100 questions, which is what a question costs when the table is larger than the caches. */
#include "agent/base/hash.h"
#include "agent/tok/bpe_impl.h"

#define TEXT_BEHIND	64u		/* bytes that may be read behind the last token */

static uint64_t section(uint64_t *at, uint64_t bytes)
{
	uint64_t begin = *at;

	*at = (begin + bytes + BPE_ALIGN - 1) / BPE_ALIGN * BPE_ALIGN;
	return begin;
}

struct layout bpe_layout(const struct head *h)
{
	struct layout l;
	uint64_t at = 0;

	section(&at, sizeof(struct head));
	l.sym = section(&at, (uint64_t)h->n_syms * sizeof(struct sym));
	l.pairs = section(&at, (uint64_t)h->n_lines * sizeof(struct pair_line));
	l.whole = section(&at, (uint64_t)h->n_whole * sizeof(uint32_t));
	l.text = section(&at, (uint64_t)h->n_text + TEXT_BEHIND);
	l.end = at;
	return l;
}

void bpe_place(struct bpe *b, const void *block)
{
	const uint8_t *p = block;
	struct layout l;

	b->head = block;
	l = bpe_layout(b->head);
	b->sym = (const void *)(p + l.sym);
	b->pairs = (const void *)(p + l.pairs);
	b->whole = (const void *)(p + l.whole);
	b->text = p + l.text;
	b->bytes = l.end;
}

/* ---- merges ------------------------------------------------------------------------------- */

uint32_t pairs_lines(uint32_t n_merges)
{
	return (uint32_t)((uint64_t)n_merges * 2 / 7) + 1;
}

void pairs_clear(struct pair_line *lines, uint32_t n_lines)
{
	uint32_t i;

	for (i = 0; i < n_lines; i++) {
		memset(lines[i].e, 0xff, sizeof(lines[i].e));
		lines[i].more = 0;
	}
}

static void write_entry(uint32_t e[3], uint64_t key, uint32_t rank, uint32_t both)
{
	e[0] = (uint32_t)key;
	e[1] = (uint32_t)(key >> 32) | (rank & 0xffff) << 16;
	e[2] = rank >> 16 | both << 8;
}

void pairs_put(struct pair_line *lines, uint32_t n_lines, uint64_t key, uint32_t rank, uint32_t both)
{
	uint32_t at = pair_place(key, n_lines), k;

	for (;;) {
		for (k = 0; k < PAIRS_PER_LINE; k++) {
			uint64_t there = pair_entry_key(lines[at].e[k]);

			if (there == key || there == pair_key(SYM_NONE, SYM_NONE)) {
				write_entry(lines[at].e[k], key, rank, both);
				return;
			}
		}
		lines[at].more = 1;
		at = at + 1 < n_lines ? at + 1 : 0;
	}
}

/* ---- tokens by their bytes ------------------------------------------------------------------ */

uint32_t whole_slots(uint32_t n_syms)
{
	uint32_t n = 16;

	while (n < 2 * n_syms)
		n *= 2;
	return n;
}

static bool is_text(const struct bpe *b, uint32_t sym, const uint8_t *p, size_t n)
{
	return b->sym[sym].n == n && memcmp(b->text + b->sym[sym].at, p, n) == 0;
}

uint32_t whole_find(const struct bpe *b, const uint8_t *p, size_t n)
{
	uint32_t mask = b->head->n_whole - 1, at;

	if (n > b->head->longest)
		return SYM_NONE;
	for (at = (uint32_t)XXH3_64bits(p, n) & mask; b->whole[at] != SYM_NONE; at = (at + 1) & mask)
		if (is_text(b, b->whole[at], p, n))
			return b->whole[at];
	return SYM_NONE;
}

void whole_put(uint32_t *slots, const struct bpe *b, uint32_t sym)
{
	const struct sym *s = &b->sym[sym];
	uint32_t mask = b->head->n_whole - 1, at;

	for (at = (uint32_t)XXH3_64bits(b->text + s->at, s->n) & mask; slots[at] != SYM_NONE; at = (at + 1) & mask)
		if (is_text(b, slots[at], b->text + s->at, s->n))
			return;
	slots[at] = sym;
}

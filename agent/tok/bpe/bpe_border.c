/* bpe_border.c - pairs of characters that some merge joins, and the places of a text without such a
 * pair.
 *
 * Why a cut is exact: a text starts as its characters (an unknown one as the tokens of its bytes,
 * which no merge has: HEAD_WALK), and every later token is made by a merge. The first merge that
 * crosses place k has a left token that ends with the character before k and a right one that
 * starts with the character at k. If no merge has such a pair, none crosses, and both sides are
 * independent (bpe_walk.c explains why the order in between does not matter). A pending <unk> could
 * cross too, so all 256 bytes must have tokens. If merges are ignored, a piece that is a token is
 * taken whole, so there are no borders.
 *
 * Places between two ASCII letters are not checked, because merges join nearly all such pairs. */
#include "agent/tok/bpe/bpe_border.h"

#include "agent/base/mem.h"
#include "agent/tok/bpe/bpe_in.h"
#include "agent/tok/chunk.h"
#include "agent/tok/split/split_scan.h"

#define ASCII		128u
#define BITS_LEAST	(1u << 14)
#define BITS_MOST	(1u << 21)
#define BITS_PER_MERGE	8u

struct borders {
	uint64_t ascii[ASCII * ASCII / 64];
	unsigned places, shift;		/* <shift>: from a hash of 32 bits to a bit of <other> */
	size_t words;
	uint64_t other[];
};

static inline uint64_t *bit_word(const struct borders *x, uint32_t a, uint32_t b, unsigned *bit)
{
	uint32_t at = a * ASCII + b;

	if ((a | b) < ASCII) {
		*bit = at % 64;
		return (uint64_t *)(uintptr_t)&x->ascii[at / 64];
	}
	at = (a * 0x9e3779b1u ^ b * 0x85ebca6bu) * 0xc2b2ae35u >> x->shift;
	*bit = at % 64;
	return (uint64_t *)(uintptr_t)&x->other[at / 64];
}

static inline bool are_joined(const struct borders *x, uint32_t a, uint32_t b)
{
	unsigned bit;
	const uint64_t *w = bit_word(x, a, b, &bit);

	return *w >> bit & 1;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct span last_char(struct span s)
{
	size_t at = utf8_before(s.p, s.n);

	return span_of(s.p + at, s.n - at);
}

static struct span first_char(struct span s)
{
	size_t k = atoms_char_bytes((const uint8_t *)s.p, s.n);

	return span_of(s.p, k);
}

/* Clear the kinds of places that may be between <a> and <b>, whatever is around them. A place
 * depends on 4 bytes before it; those outside of <a> are letters here, which exclude no kind. */
static void clear_places(struct borders *x, struct span a, struct span b, struct span mark)
{
	uint8_t text[4 + 4 + 4 + CHUNK_AHEAD];
	size_t n = 4;

	memset(text, 'x', sizeof(text));
	a = span_eq(a, mark) ? SPAN(" ") : a;
	b = span_eq(b, mark) ? SPAN(" ") : b;
	memcpy(text + n, a.p, a.n);
	memcpy(text + n + a.n, b.p, b.n);
	for (unsigned kind = 1; kind <= CHUNK_MOST_KIND; kind <<= 1)
		if (chunk_place(kind, text + n + a.n))
			x->places &= ~kind;
}

static struct span bytes_of(const struct bpe *b, uint32_t sym)
{
	return span_of(b->text + b->sym[sym].at, b->sym[sym].n);
}

/* Returns false if the result of this merge is not the bytes of its parts. */
static bool add_merge(struct borders *x, const struct bpe *b, uint32_t left, uint32_t right,
		      uint32_t both, struct span mark)
{
	struct span l = bytes_of(b, left), r = bytes_of(b, right), all = bytes_of(b, both), a, c;
	uint32_t cp[2];
	uint64_t *w;
	unsigned bit;

	if (l.n == 0 || r.n == 0 || all.n != l.n + r.n || memcmp(all.p, l.p, l.n) != 0 ||
	    memcmp(all.p + l.n, r.p, r.n) != 0)
		return false;
	a = last_char(l);
	c = first_char(r);
	utf8_get((const uint8_t *)a.p, a.n, &cp[0]);
	utf8_get((const uint8_t *)c.p, c.n, &cp[1]);
	w = bit_word(x, cp[0], cp[1], &bit);
	if (!(*w >> bit & 1) || (cp[0] | cp[1]) >= ASCII)
		clear_places(x, a, c, mark);
	*w |= 1ull << bit;
	return true;
}

static bool add_merges(struct borders *x, const struct bpe *b, struct span mark)
{
	for (uint32_t i = 0; i < b->head->n_lines; i++)
		for (uint32_t k = 0; k < PAIRS_PER_LINE; k++) {
			const uint32_t *e = b->pairs[i].e[k];
			uint64_t key = pair_entry_key(e);
			uint32_t left = key & 0xffffff, right = (uint32_t)(key >> 24),
				 both = e[2] >> 8;

			if (left >= b->head->n_syms || right >= b->head->n_syms)
				continue;	/* an unused entry */
			if (both >= b->head->n_syms || !add_merge(x, b, left, right, both, mark))
				return false;
		}
	return true;
}

static bool has_borders(const struct bpe *b)
{
	const struct head *h = b->head;

	if (!(h->flags & HEAD_CHARACTERS) || !(h->flags & HEAD_WALK) ||
	    !(h->flags & HEAD_BYTE_FALLBACK) || h->flags & HEAD_IGNORE_MERGES)
		return false;
	for (unsigned i = 0; i < 256; i++)
		if (h->atom[i] == SYM_NONE)
			return false;
	return true;
}

int borders_new(const struct bpe *b, struct span mark, struct borders **out)
{
	uint64_t want = (uint64_t)b->head->n_lines * PAIRS_PER_LINE * BITS_PER_MERGE;
	unsigned shift = 18;
	struct borders *x;

	*out = NULL;
	if (!has_borders(b))
		return 0;
	while (shift > 11 && (1u << (32 - shift)) < want)
		shift--;
	if ((x = mem_alloc(sizeof(*x) + (1u << (32 - shift)) / 8)) == NULL)
		return -1;
	x->shift = shift;
	x->words = (1u << (32 - shift)) / 64;
	x->places = CHUNK_ALL | CHUNK_WORD;
	if (add_merges(x, b, mark)) {
		*out = x;
		return 0;
	}
	borders_free(x);
	return 0;
}

void borders_free(struct borders *x)
{
	mem_free(x);
}

size_t borders_bytes(const struct borders *x)
{
	return x == NULL ? 0 : sizeof(*x) + x->words * sizeof(x->other[0]);
}

unsigned borders_places(const struct borders *x)
{
	return x == NULL ? 0 : x->places;
}

/* ---- cutting --------------------------------------------------------------------------------- */

void borders_cut(const struct borders *x, const uint8_t *p, size_t n, struct pieces *out)
{
	const uint8_t *end = p + n, *q = p;
	uint32_t k = 0, cp, prev = 0;

	while (q < end) {
		if (q > p && (scan_ascii_letter((uint8_t)prev) && prev < ASCII) &&
		    scan_ascii_letter(*q)) {
			q = scan_letters(q, end, 0);
			prev = q[-1];
			continue;
		}
		size_t len = utf8_get(q, (size_t)(end - q), &cp);

		if (q > p && !are_joined(x, prev, cp)) {
			out->end[k++] = (uint32_t)(q - p);
			if (k == SPLIT_BATCH)
				break;
		}
		q += len;
		prev = cp;
	}
	if (q == end && n > 0)
		out->end[k++] = (uint32_t)n;
	out->text = p;
	out->n = k;
	out->used = k > 0 ? out->end[k - 1] : 0;
}

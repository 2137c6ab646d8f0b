/* handles.c - the table of one holder: handle -> run and block.
 *
 *   hash --home---> line [slot slot slot slot slot]   5 slots of 12.8 bytes a line
 *       |           line [slot slot slot  .    .  ]   the other line of a pair
 *       '--second-> line [slot slot slot slot  .  ]
 *                   line [slot slot  .    .    .  ]
 *
 * A slot is in its home line, or if that was full, in one of three others. The home line counts
 * those that are away, so most lookups read one line, and none reads more than four, however long
 * the table has been in use: a removal leaves nothing behind. If all four are full, slots move to
 * others of their lines until one finds room; the shortest such path is searched first and then
 * walked back, so nothing is lost if there is none. Above 7/8 of its slots the table grows by an
 * eighth. To do so, its slots are copied to the heap for a moment and put back into the same chunks
 * and some more.
 *
 * A slot has 51 bits of the hash of its handle. With 20,000 blocks at a rank, one new handle in
 * 2^36 is taken for a known one; its block then proves to be another one, and counts as <odd>. */
#include "agent/base/mem.h"
#include "agent/events/events_in.h"

#define SEARCH_MOST	512u	/* lines that are looked at for room */

struct kept_slot {
	uint64_t word;
	uint32_t run;
};

static uint64_t slot_word(const struct slots *l, unsigned i)
{
	return OWN(&l->word[i]);
}

static void put_slot(struct slots *l, unsigned i, uint64_t word, uint32_t run)
{
	SET(&l->word[i], word);
	SET(&l->run[i], run);
}

/* Return a bit for each slot of the line with <word> under <mask>. Without a branch, because none
 * of them could be predicted. */
static inline unsigned slots_like(const struct slots *l, uint64_t word, uint64_t mask)
{
	unsigned i, like = 0;

#pragma GCC unroll 5
	for (i = 0; i < LINE_SLOTS; i++)
		like |= (unsigned)(((slot_word(l, i) ^ word) & mask) == 0) << i;
	return like;
}

/* A used slot has a hash, and no hash is 0. */
static inline unsigned free_slots(const struct slots *l)
{
	return slots_like(l, 0, ~0ull);
}

#define CHOICES	4u

/* Return line <k> of those where a slot may be, the home line first. */
static inline uint32_t choice(const struct handles *h, uint64_t hash, unsigned k)
{
	return (k < 2 ? handles_first(h, hash) : handles_second(h, hash)) ^ (k & 1);
}

struct slot handles_find(const struct events *ev, const struct handles *h, uint64_t hash)
{
	struct slots *l, *other;
	unsigned like, k;

	if (h->n_lines == 0)
		return (struct slot){ 0 };
	l = handles_line(ev, h, handles_first(h, hash));
	like = slots_like(l, hash, WORD_HASH);
	for (k = 1; like == 0 && k < CHOICES && handles_away(l, hash) > 0; k++) {
		other = handles_line(ev, h, choice(h, hash, k));
		like = slots_like(other, hash, WORD_HASH);
		if (like != 0)
			return (struct slot){ other, (unsigned)__builtin_ctz(like) };
	}
	if (like == 0)
		return (struct slot){ 0 };
	return (struct slot){ l, (unsigned)__builtin_ctz(like) };
}

void handles_ask_second(const struct events *ev, const struct handles *h, uint64_t hash, bool add)
{
	const struct slots *l;

	if (h->n_lines == 0)
		return;
	l = handles_line(ev, h, handles_first(h, hash));
	if (handles_away(l, hash) == 0 && !(add && free_slots(l) == 0))
		return;
	__builtin_prefetch(handles_line(ev, h, choice(h, hash, 1)));
	__builtin_prefetch(handles_line(ev, h, choice(h, hash, 2)));
	__builtin_prefetch(handles_line(ev, h, choice(h, hash, 3)));
}

/* Count that a slot leaves its home line, or comes back. */
static void count_away(struct slots *first, uint64_t hash, bool more)
{
	uint32_t one = 1u << 4 * (hash >> 13 & 7);

	if (handles_away(first, hash) < 15)
		SET(&first->away, more ? OWN(&first->away) + one : OWN(&first->away) - one);
}

void handles_remove(const struct events *ev, struct handles *h, struct slot s)
{
	uint64_t word = slot_word(s.line, s.i);
	struct slots *first = handles_line(ev, h, handles_first(h, word));

	if (first != s.line)
		count_away(first, word, false);
	put_slot(s.line, s.i, 0, 0);
	h->n--;
}

/* ---- adding ---- */

struct step {
	uint32_t line;
	uint16_t from;		/* step whose slot <i> moves here */
	uint8_t i;
};

/* Move slots along a path that ends with a free one at <free>. Returns the place that this makes
 * free in the first line. */
static struct slot walk_back(
    const struct events *ev, struct handles *h, const struct step *s, uint32_t at, unsigned free)
{
	struct slots *to = handles_line(ev, h, s[at].line), *from, *first;
	uint64_t word;

	while (s[at].from != UINT16_MAX) {
		from = handles_line(ev, h, s[s[at].from].line);
		word = slot_word(from, s[at].i);
		first = handles_line(ev, h, handles_first(h, word));
		if (from == first || to == first)
			count_away(first, word, from == first);
		put_slot(to, free, word, OWN(&from->run[s[at].i]));
		free = s[at].i;
		at = s[at].from;
		to = from;
	}
	return (struct slot){ to, free };
}

/* Search the shortest path from a line of <hash>, which are all full, to a free slot. */
static struct slot make_free(const struct events *ev, struct handles *h, uint64_t hash)
{
	uint32_t at, n, k, line;
	struct step s[SEARCH_MOST];
	const struct slots *l;
	unsigned i, free;

	for (n = 0; n < CHOICES; n++)
		s[n] = (struct step){ choice(h, hash, n), UINT16_MAX, 0 };
	for (at = 0; at < n; at++) {
		l = handles_line(ev, h, s[at].line);
		h->kick++;
		for (k = 0; k < LINE_SLOTS * CHOICES && n < SEARCH_MOST; k++) {
			i = (k + h->kick) % LINE_SLOTS;
			line = choice(h, slot_word(l, i), k / LINE_SLOTS);
			if (line == s[at].line)
				continue;
			s[n] = (struct step){ line, (uint16_t)at, (uint8_t)i };
			free = free_slots(handles_line(ev, h, line));
			if (free != 0)
				return walk_back(ev, h, s, n, (unsigned)__builtin_ctz(free));
			n++;
		}
	}
	return (struct slot){ 0 };
}

/* Put a slot into the table. Returns false if no free one is found. */
static bool place_slot(const struct events *ev, struct handles *h, uint64_t word, uint32_t run)
{
	struct slots *home = handles_line(ev, h, handles_first(h, word));
	struct slot s = { home, 0 };
	unsigned free = free_slots(home), k;

	for (k = 1; free == 0 && k < CHOICES; k++) {
		s.line = handles_line(ev, h, choice(h, word, k));
		free = free_slots(s.line);
	}
	if (free != 0)
		s.i = (uint32_t)__builtin_ctz(free);
	else
		s = make_free(ev, h, word);
	if (s.line == NULL)
		return false;
	if (s.line != home)
		count_away(home, word, true);
	put_slot(s.line, s.i, word, run);
	return true;
}

/* ---- sizes ---- */

static uint32_t pieces_for(uint32_t n_lines)
{
	return (n_lines + CHUNK_LINES - 1) / CHUNK_LINES;
}

static unsigned piece_class(uint32_t n_lines)
{
	return n_lines >= CHUNK_LINES ? (unsigned)CLASS_CHUNK : (unsigned)__builtin_ctz(n_lines);
}

/* Round to what pieces can be: a power of two, then whole chunks. */
static uint32_t whole_lines(uint32_t n_lines)
{
	uint32_t n = 2;

	if (n_lines > CHUNK_LINES / 2)
		return pieces_for(n_lines) * CHUNK_LINES;
	while (n < n_lines)
		n *= 2;
	return n;
}

static uint32_t slots_most(uint32_t n_lines)
{
	uint32_t n = n_lines * LINE_SLOTS;

	return n - n / 8;
}

static void clear_pieces(const struct events *ev, struct handles *h)
{
	uint32_t i, k;

	for (i = 0; i < h->n_lines; i++) {
		for (k = 0; k < LINE_SLOTS; k++)
			put_slot(handles_line(ev, h, i), k, 0, 0);
		SET(&handles_line(ev, h, i)->away, 0);
	}
}

static void give_pieces(struct events *ev, struct handles *h, uint32_t from, uint32_t to)
{
	while (to-- > from)
		slab_give(ev, h->pieces[to], piece_class(h->n_lines));
}

/* Allocate pieces for <n_lines> lines, more than now. Pieces of whole chunks are kept; a single
 * smaller piece is replaced, and <*old> is set to it, to be freed by the caller. Returns false,
 * without any change, if there is no room. */
static bool take_pieces(struct events *ev, struct handles *h, uint32_t n_lines, line_ref *old)
{
	uint32_t had = h->n_lines >= CHUNK_LINES ? pieces_for(h->n_lines) : 0, i, n = pieces_for(n_lines);

	*old = h->n_lines > 0 && had == 0 ? h->pieces[0] : 0;
	for (i = had; i < n; i++) {
		if ((h->pieces[i] = slab_take(ev, piece_class(n_lines), TAKE_MORE)) != 0)
			continue;
		while (i-- > had)
			slab_give(ev, h->pieces[i], piece_class(n_lines));
		if (*old != 0)
			h->pieces[0] = *old;
		return false;
	}
	return true;
}

static bool put_back(
    const struct events *ev, struct handles *h, const struct kept_slot *k, uint32_t n)
{
	uint32_t i;

	clear_pieces(ev, h);
	for (i = 0; i < n; i++)
		if (!place_slot(ev, h, k[i].word, k[i].run))
			return false;
	return true;
}

static uint32_t copy_slots(const struct events *ev, const struct handles *h, struct kept_slot *k)
{
	const struct slots *l;
	uint32_t i, j, n = 0;

	for (i = 0; i < h->n_lines; i++) {
		l = handles_line(ev, h, i);
		for (j = 0; j < LINE_SLOTS; j++)
			if (OWN(&l->run[j]) != 0)
				k[n++] = (struct kept_slot){ slot_word(l, j), OWN(&l->run[j]) };
	}
	return n;
}

static bool room_for_pieces(struct events *ev, struct handles *h, uint32_t n)
{
	uint32_t *p;

	if (n <= h->n_pieces)
		return true;
	p = heap_resize(ev, h->pieces, h->n_pieces * sizeof(*p), n * sizeof(*p));
	if (p == NULL)
		return false;
	h->pieces = p;
	h->n_pieces = n;
	return true;
}

/* Change the number of lines. Returns false and changes nothing if there is no room. */
static bool resize(struct events *ev, struct handles *h, uint32_t n_lines)
{
	uint32_t had = h->n_lines, n = 0;
	struct kept_slot *k = NULL;
	line_ref old = 0;
	bool done;

	if (n_lines < had && had < CHUNK_LINES)
		return false;
	if (!room_for_pieces(ev, h, pieces_for(n_lines)) || (k = mem_calloc(h->n + 1, sizeof(*k))) == NULL)
		return false;
	n = copy_slots(ev, h, k);
	if (n_lines > had && !take_pieces(ev, h, n_lines, &old)) {
		mem_free(k);
		return false;
	}
	h->n_lines = n_lines;
	done = put_back(ev, h, k, n);
	if (done && old != 0)
		slab_give(ev, old, piece_class(had));
	if (done && n_lines < had)
		give_pieces(ev, h, pieces_for(n_lines), pieces_for(had));
	if (!done) {
		/* they were there before, so place_slot() finds an arrangement again */
		if (n_lines > had)
			give_pieces(ev, h, had >= CHUNK_LINES ? pieces_for(had) : 0, pieces_for(n_lines));
		if (old != 0)
			h->pieces[0] = old;
		h->n_lines = had;
		(void)put_back(ev, h, k, n);
	}
	mem_free(k);
	return done;
}

static bool grow(struct events *ev, struct handles *h)
{
	return resize(ev, h, whole_lines(h->n_lines + (h->n_lines + 7) / 8));
}

bool handles_fit(struct events *ev, struct handles *h, uint32_t records)
{
	uint32_t n_lines = whole_lines((records + records / 6) / LINE_SLOTS + 1);

	return n_lines == h->n_lines || slots_most(n_lines) < h->n || n_lines < CHUNK_LINES ||
	       resize(ev, h, n_lines);
}

bool handles_add(
    struct events *ev, struct handles *h, uint64_t hash, struct place p, unsigned tiers)
{
	uint64_t word = (hash & WORD_HASH) | h->age << 10 | p.off << 4 | tiers;

	if ((h->n_lines == 0 || h->n >= slots_most(h->n_lines)) && !grow(ev, h) &&
	    h->n >= h->n_lines * LINE_SLOTS * 15 / 16)
		return false;
	if (!place_slot(ev, h, word, p.run) && (!grow(ev, h) || !place_slot(ev, h, word, p.run)))
		return false;
	h->n++;
	return true;
}

void handles_free(struct events *ev, struct handles *h)
{
	if (h->n_lines > 0)
		give_pieces(ev, h, 0, pieces_for(h->n_lines));
	heap_give(ev, h->pieces, h->n_pieces * sizeof(*h->pieces));
	*h = (struct handles){ 0 };
}

/* ---- for tests ---- */

const char *handles_check(const struct events *ev, const struct handles *h)
{
	const struct slots *l;
	uint32_t i, j, n = 0;
	struct slot s;

	for (i = 0; i < h->n_lines; i++) {
		l = handles_line(ev, h, i);
		for (j = 0; j < LINE_SLOTS; j++) {
			if (OWN(&l->run[j]) == 0)
				continue;
			n++;
			s = handles_find(ev, h, slot_word(l, j));
			if (s.line != l || s.i != j)
				return "a handle is not found, or twice there";
		}
	}
	return n == h->n ? NULL : "a table counts handles that are not there";
}

/* bpe_in.h - private to the files of the encoder.
 *
 * A struct bpe is one block, the image: a head, then sections, each on its own cache lines, at
 * places that follow from the counts in the head. No section holds a pointer.
 *
 *   | head | sym: one per token | pairs, pair_bits: the merges |
 *   | tags, slots, longs, lens, lens6, wide_by_char, wide_by_pair: tokens by bytes | text |
 *
 * Inside, a token is its index in order of id ("sym"): dense, below 2^24 - 1, so that two of them
 * and a rank fit in 12 bytes. */
#ifndef KVROUTE_TOK_BPE_BPE_IN_H
#define KVROUTE_TOK_BPE_BPE_IN_H

#include <sys/types.h>

#include "agent/tok/bpe/bpe.h"

#define SYM_NONE	0xffffffu
#define RANK_NONE	0xffffffu	/* above every rank */
#define PAIR_NONE	UINT64_MAX

#define SYM_ALONE	1u		/* its own bytes, alone, become it: only such tokens result from merges */
#define SYM_IN_ORDER	2u		/* no merge of those had a lower rank than one before */

struct sym {
	uint32_t id;
	uint32_t at, n;			/* its bytes, in the text section */
	uint32_t flags;
	/* of the last merge of its bytes alone; SYM_NONE: not SYM_ALONE, or an atom */
	uint32_t left, right;
	uint32_t made;			/* the rank of that merge + 1; or 0 */
	uint32_t prefix;		/* the longest shorter SYM_ALONE token that it starts with, or SYM_NONE */
	struct sign {			/* bpe_sign.c: what may merge across a border next to it, as sets of 64 bits */
		uint64_t wants, last;	/* as the left token: partners of its last parts; those parts */
		uint64_t first, wanted;	/* as the right token: its first parts; their partners */
	} sign;
};

/* A cache line of merges: five of 12 bytes (left, right, rank, result; 24 bits each). */
#define PAIRS_PER_LINE	5
struct pair_line {
	uint32_t e[PAIRS_PER_LINE][3];
	uint32_t more;			/* it was full when another came: the search continues in the next line */
};

#define BPE_MAGIC	0x3465706274766bu	/* "kvtbpe4": this version; differs in the other byte order */

#define HEAD_IGNORE_MERGES	1u
#define HEAD_CHARACTERS		2u
#define HEAD_BYTE_FALLBACK	4u
#define HEAD_FUSE_UNK		8u
/* bpe_walk.c may be used: unknown text is in no merge and separates its neighbours */
#define HEAD_WALK		16u
#define HEAD_DENSE		32u	/* the id of each token is its index */

struct head {
	uint64_t magic;
	uint64_t print;			/* a hash of the head and the sections: identifies the owner of a cache */
	uint32_t flags;
	uint32_t n_syms, n_lines, n_buckets, n_longs, n_text;
	uint32_t unk;			/* SYM_NONE: none */
	uint32_t n_wide;		/* a power of two */
	uint32_t atom[256];		/* the token of each byte, or SYM_NONE */
	uint32_t one[256];		/* the token of one byte, if it is SYM_ALONE */
};

/* Tokens of up to SHORT_MOST bytes by their bytes: buckets of eight, each a word of tags and eight
 * slots. A slot is the zero-padded bytes, and in its last word the value, the length and SYM_ALONE.
 * Length SHORT_MOST + 1: the bytes start longer tokens, and the value is the place of their list in
 * <longs>: its length, then the tokens sorted by bytes. */
#define SHORT_MOST	12u
#define LEN_GROUP	(SHORT_MOST + 1)
#define BUCKET		8u
#define TAGS_FULL	0x8080808080808080u

struct slot {
	uint64_t lo, hi;		/* 12 bytes | value << 32 | length << 56 | alone << 60 */
};

/* By a hash of three bytes: bit k tells if a SYM_ALONE token of k bytes starts with them, k = 3 ..
 * 12; bit 13: a longer one; bit 15: one that is not SYM_ALONE, of any length. */
#define LENS		65536u
#define LENS_OTHERS	(1u << 15)

/* By a hash of six bytes: bit k - 6 tells the same for k = 6 .. 12, and bit 7 for longer ones. */
#define LENS6_BITS	17
#define LENS6		(1u << LENS6_BITS)

/* By two characters of three bytes, and by one: bpe_wide_in.h. */
#define WIDE_WAYS	4u
#define WIDE_CHARS	65536u
struct wide {
	uint32_t both[WIDE_WAYS], value[WIDE_WAYS];
};

struct bpe {
	const struct head *head;
	const struct sym *sym;
	const struct pair_line *pairs;
	const uint64_t *pair_bits;
	const uint64_t *tags;
	const struct slot *slots;
	const uint32_t *longs;
	const uint16_t *lens;
	const uint8_t *lens6;
	const uint32_t *wide_by_char;
	const struct wide *wide_by_pair;
	const uint8_t *text;
	size_t bytes;
	void *owned;			/* the block, unless it is borrowed */
};

static inline uint32_t sym_id(const struct bpe *b, uint32_t sym)
{
	return b->head->flags & HEAD_DENSE ? sym : b->sym[sym].id;
}

#define TEXT_BEHIND 64u		/* bytes that may be read after the last token */

/* The places of the sections for the counts in <h>, and the whole length. */
struct layout {
	uint64_t sym, pairs, pair_bits, tags, slots, longs, lens, lens6, wide_by_char, wide_by_pair;
	uint64_t text, end;
};
struct layout bpe_layout(const struct head *h);
void bpe_place(struct bpe *b, const void *block);

/* Masks that keep the first <n> of 16 bytes in two words: [n] for the first word, [16 + n] for the
 * second. */
#define M(n)	((n) >= 8 ? UINT64_MAX : (1ull << (8 * (n) & 63)) - 1)
static const uint64_t byte_masks[33] = {
	M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8), M(8), M(8), M(8), M(8), M(8), M(8), M(8),
	0, 0, 0, 0, 0, 0, 0, 0, 0, M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8)
};
#undef M

/* ---- merges ---------------------------------------------------------------------------------- */

static inline uint64_t pair_key(uint32_t left, uint32_t right)
{
	return (uint64_t)right << 24 | left;
}

static inline uint32_t pair_place(uint64_t key, uint32_t n_lines)
{
	return (uint32_t)(((key * 0x9e3779b97f4a7c15u) >> 32) * n_lines >> 32);
}

/* Two bits in one of pair_words() words for each merge: most pairs without a merge lack one. The
 * lines exceed the near caches, and these bits need not: 9 for each merge. */
static inline uint32_t pair_words(uint32_t n_lines)
{
	return n_lines / 2 + 1;
}

static inline uint32_t pair_word(uint64_t key, uint32_t n_lines)
{
	return (uint32_t)(((key * 0x9e3779b97f4a7c15u) >> 32) * pair_words(n_lines) >> 32);
}

static inline uint64_t pair_word_bits(uint64_t key)
{
	uint64_t h = key * 0x9e3779b97f4a7c15u;

	return 1ull << (h >> 20 & 63) | 1ull << (h >> 26 & 63);
}

static inline uint64_t pair_entry_key(const uint32_t e[3])
{
	return ((uint64_t)e[1] << 32 | e[0]) & 0xffffffffffffu;
}

/* Return rank << 32 | result of the merge of two tokens, or PAIR_NONE. Mostly the bits
 * tell that there is none, or it takes one cache line. */
static inline uint64_t pair_find(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t key = pair_key(left, right);
	uint32_t at = pair_place(key, b->head->n_lines), k;

	if (~b->pair_bits[pair_word(key, b->head->n_lines)] & pair_word_bits(key))
		return PAIR_NONE;
	for (;;) {
		const struct pair_line *line = &b->pairs[at];

		for (k = 0; k < PAIRS_PER_LINE; k++)
			if (pair_entry_key(line->e[k]) == key)
				return (uint64_t)(line->e[k][1] >> 16 |
					   (line->e[k][2] & 0xff) << 16)
				    << 32 |
				    line->e[k][2] >> 8;
		if (!line->more)
			return PAIR_NONE;
		at = at + 1 < b->head->n_lines ? at + 1 : 0;
	}
}

/* Return the number of lines for <n> merges, about 0.7 full. */
uint32_t pairs_lines(uint32_t n_merges);
void pairs_clear(struct pair_line *lines, uint32_t n_lines);
/* Add a merge. A later one of the same pair replaces it. */
void pairs_put(struct pair_line *lines, uint32_t n_lines, uint64_t key, uint32_t rank,
    uint32_t both);

/* ---- signs (bpe_sign.c) ---------------------------------------------------------------------- */

/* Fill the signs of <sym>. The merges must be in the tables and the parts of each token known.
 * <merges> as in the spec, by sym, ascending by <rank>; <deep> is room for 2 * n_syms words of 0.
 */
struct ranked {
	uint32_t left, right, both, rank;
};
void sign_all(struct sym *sym, uint32_t n_syms, const struct ranked *merges, uint32_t n,
    uint64_t *deep);

/* Returns true if nothing merges across the border of these two, false if something may. */
static inline bool sign_apart(const struct sym *left, const struct sym *right)
{
	return (left->sign.wants & right->sign.first) == 0 || (left->sign.last & right->sign.wanted) == 0;
}

/* ---- runs of tokens -------------------------------------------------------------------------- */

struct syms {
	uint32_t *p;
	size_t n, cap;
};

static inline int syms_add(struct syms *s, uint32_t sym)
{
	return vec_push(s, sym);
}

/* ---- the tokens a piece begins as (bpe_atoms.c) ---------------------------------------------- */

struct atoms {
	const uint8_t *p;
	size_t n, room, at;		/* <room>: readable bytes, at least n */
	bool unk;			/* an <unk> is pending */
};

/* Append atoms to <out>, at most <budget> characters. Returns 0: done, 1: call again, -1: no
 * memory. */
int atoms_read(const struct bpe *b, struct atoms *a, struct syms *out, size_t *budget);

/* Return the length of the character at <p> by its first byte, at most <n>. */
size_t atoms_char_bytes(const uint8_t *p, size_t n);

/* Append atoms for the next character, which has no token. */
int atoms_unknown(const struct bpe *b, struct atoms *a, struct syms *out);
/* Append a pending <unk>: before a known character, and at the end. */
int atoms_flush(const struct bpe *b, struct atoms *a, struct syms *out);

/* ---- merging a run of tokens (bpe_merge.c) --------------------------------------------------- */

struct merger {
	struct syms sym;		/* of each place; merged into another: SYM_NONE */
	VEC(uint32_t) prev, next;
	VEC(uint64_t) cand;		/* rank << 32 | result with the next token, or PAIR_NONE */
	VEC(uint64_t) heap;		/* rank << 32 | place; stale if cand has changed since */
	size_t at;
	size_t units;			/* work done for pairs of tokens, besides the tries; the user resets it */
	uint32_t left, right, made;	/* of the last merge, <made> as in struct sym */
	bool in_order;			/* no merge had a lower rank than one before */
};

void merger_fini(struct merger *m);

/* Do all merges of <sym>, of at most MERGE_FEW tokens. Returns -1 if there is no memory. */
int merge_few(const struct bpe *b, struct merger *m);
#define MERGE_FEW 48

/* The same in steps: merger_start(), then merger_step() until it returns 0; <sym> then has holes.
 * Charges units of work to *budget. Return -1 if there is no memory. */
int merger_start(struct merger *m);
int merger_step(const struct bpe *b, struct merger *m, size_t *budget);

/* Split <p> into atoms and merge them at once, without holes: for tables and pairs of tokens, not
 * for text of clients. */
int merge_bytes(const struct bpe *b, struct merger *m, const uint8_t *p, size_t n);

struct bpe_scratch;

/* ---- walking along a text (bpe_walk.c) ------------------------------------------------------- */

/* A token and its length. */
struct found {
	uint32_t sym, n;
};

struct walk {
	size_t at;			/* where the next token starts */
	size_t base;			/* tokens of <out> before this are final */
	struct found next;		/* the next token to try there; SYM_NONE: none is left */
	bool open;			/* a run of known characters is open */
	VEC(uint64_t) dead;		/* one bit for each place where no token of the result can start */
};

/* Tell if nothing merges across the border of two adjacent tokens, both SYM_IN_ORDER, before both
 * exist. */
bool walk_meet(const struct bpe *b, uint32_t left, uint32_t right);

int walk_start(struct walk *w, size_t n);
/* Returns 0: done, 1: call again, -1: no memory. <spare> is for pairs of tokens. */
int walk_step(const struct bpe *b, struct walk *w, struct atoms *a, struct syms *out,
    struct merger *spare, size_t *budget);

/* Encode a piece of at most WALK_SHORT bytes, whose longest first token is <f>, to <out>, which has
 * room for n ids. Returns their number; 0: too much work, encode it in steps; -1: no memory.
 * Charged to the work of <c>. */
#define WALK_SHORT 1024u
ssize_t walk_short(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room, struct found f, token_id *out);

struct bpe_scratch {
	struct merger m;		/* its <sym> is the output */
	struct merger spare;
	struct atoms atoms;
	struct walk walk;
	struct piece_cache *cache;
	enum { LONG_IDLE, LONG_WALK, LONG_ATOMS, LONG_MERGE, LONG_OUT } phase;
	size_t out_at;
	struct work_left *work;		/* the budget; never NULL */
	struct work_left no_limit;
};

/* Encode a piece that no cache has, at least a byte; <room> bytes are readable. Returns 1, without
 * ids, if the work is used up, -1 if there is no memory. */
int encode_piece(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n,
    size_t room, struct ids *out);

/* Prices in steps of work.h. A try of the walk is a token lookup and the check that it may follow.
 */
#define STEPS_PIECE	2u		/* two cached pieces, or one that is looked up and stored */
#define STEPS_MISS	10u		/* a piece that is not cached */
#define STEPS_TRY	5u

#endif

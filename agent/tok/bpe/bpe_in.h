/* bpe_in.h - what the files of the encoder share; nobody else includes it.
 *
 * Everything a struct bpe knows lies in one block, the image: a head and sections behind it, each on its own cache lines, found from the
 * counts in the head. No section holds a pointer.
 *
 *   | head | sym: one per token | pairs: the merges | tags, slots, longs, lens: tokens by their bytes | text: the bytes of all tokens |
 *
 * Inside, a token is its place in order of id ("sym"): dense, below 2^24 - 1, so that two of them and a rank fit in 12 bytes. */
#ifndef KVROUTE_TOK_BPE_BPE_IN_H
#define KVROUTE_TOK_BPE_BPE_IN_H

#include <sys/types.h>

#include "agent/tok/bpe/bpe.h"

#define SYM_NONE	0xffffffu
#define RANK_NONE	0xffffffu	/* above every rank */
#define PAIR_NONE	UINT64_MAX

#define SYM_ALONE	1u		/* its own bytes, alone, become it: the only tokens that merges can give */
#define SYM_IN_ORDER	2u		/* no merge of those had a lower rank than one before it */

struct sym {
	uint32_t id;
	uint32_t at, n;			/* its bytes, in the section of text */
	uint32_t flags;
	uint32_t left, right;		/* of the last merge when its bytes stand alone; SYM_NONE: it is not SYM_ALONE, or an atom */
	uint32_t made;			/* the rank of that merge + 1; 0 */
	uint32_t prefix;		/* the longest SYM_ALONE token that it begins with, shorter than it; SYM_NONE */
	struct sign {			/* bpe_sign.c: what could merge across a border beside it, as sets of 64 bits */
		uint64_t wants, last;	/* when it is the left one: what its last parts merge with; those parts */
		uint64_t first, wanted;	/* when it is the right one: its first parts; what merges with them */
	} sign;
};

/* A cache line of merges: five of 12 bytes (left, right, rank, result; 24 bits each). */
#define PAIRS_PER_LINE	5
struct pair_line {
	uint32_t e[PAIRS_PER_LINE][3];
	uint32_t more;			/* it was full when another came: the next line goes on */
};

#define BPE_MAGIC	0x3165706274766bu	/* "kvtbpe1": this version; other in the other byte order */

#define HEAD_IGNORE_MERGES	1u
#define HEAD_CHARACTERS		2u
#define HEAD_BYTE_FALLBACK	4u
#define HEAD_FUSE_UNK		8u
#define HEAD_WALK		16u	/* bpe_walk.c may be used: what is unknown is no part of a merge and parts its neighbours */

struct head {
	uint64_t magic;
	uint64_t print;			/* of all that follows and the sections: what a cache belongs to */
	uint32_t flags;
	uint32_t n_syms, n_lines, n_buckets, n_longs, n_text;
	uint32_t unk;			/* SYM_NONE: none */
	uint32_t spare;
	uint32_t atom[256];		/* the token that stands for each byte, SYM_NONE */
	uint32_t one[256];		/* the token that is this one byte, if it is SYM_ALONE */
};

/* Tokens of up to SHORT_MOST bytes by their bytes: buckets of eight, each with a word of tags and eight slots. A slot is the bytes,
 * with zeros behind them, and in its last word the value, the length and whether it is SYM_ALONE: SHORT_MOST + 1 means that the bytes begin longer tokens, and that the
 * value is where their list begins in <longs>: how many, then the tokens in order of their bytes. */
#define SHORT_MOST	12u
#define LEN_GROUP	(SHORT_MOST + 1)
#define BUCKET		8u
#define TAGS_FULL	0x8080808080808080u

struct slot {
	uint64_t lo, hi;		/* 12 bytes | value << 32 | length << 56 | alone << 60 */
};

/* By a hash of three bytes: bit k set when a SYM_ALONE token of k bytes begins with them, k = 3 .. 12; bit 13: a longer one. */
#define LENS		65536u

struct bpe {
	const struct head *head;
	const struct sym *sym;
	const struct pair_line *pairs;
	const uint64_t *tags;
	const struct slot *slots;
	const uint32_t *longs;
	const uint16_t *lens;
	const uint8_t *text;
	size_t bytes;
	void *owned;			/* the block, unless it is borrowed */
};

#define TEXT_BEHIND 64u		/* bytes that may be read behind the last token */

/* Where the sections begin for the counts in <h>; the whole length. */
struct layout {
	uint64_t sym, pairs, tags, slots, longs, lens, text, end;
};
struct layout bpe_layout(const struct head *h);
void bpe_place(struct bpe *b, const void *block);

/* Of 16 bytes in two words, what keeps the first <n>: [n] of the first word, [16 + n] of the second, n = 0 .. 16. */
#define M(n)	((n) >= 8 ? UINT64_MAX : (1ull << (8 * (n) & 63)) - 1)
static const uint64_t byte_masks[33] = {
	M(0), M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8), M(8), M(8), M(8), M(8), M(8), M(8), M(8),
	0, 0, 0, 0, 0, 0, 0, 0, 0, M(1), M(2), M(3), M(4), M(5), M(6), M(7), M(8)
};
#undef M

/* ---- merges ------------------------------------------------------------------------------- */

static inline uint64_t pair_key(uint32_t left, uint32_t right)
{
	return (uint64_t)right << 24 | left;
}

static inline uint32_t pair_place(uint64_t key, uint32_t n_lines)
{
	return (uint32_t)(((key * 0x9e3779b97f4a7c15u) >> 32) * n_lines >> 32);
}

static inline uint64_t pair_entry_key(const uint32_t e[3])
{
	return ((uint64_t)e[1] << 32 | e[0]) & 0xffffffffffffu;
}

/* rank << 32 | result of the merge of two tokens; PAIR_NONE. One cache line nearly always. */
static inline uint64_t pair_find(const struct bpe *b, uint32_t left, uint32_t right)
{
	uint64_t key = pair_key(left, right);
	uint32_t at = pair_place(key, b->head->n_lines), k;

	for (;;) {
		const struct pair_line *line = &b->pairs[at];

		for (k = 0; k < PAIRS_PER_LINE; k++)
			if (pair_entry_key(line->e[k]) == key)
				return (uint64_t)(line->e[k][1] >> 16 | (line->e[k][2] & 0xff) << 16) << 32 | line->e[k][2] >> 8;
		if (!line->more)
			return PAIR_NONE;
		at = at + 1 < b->head->n_lines ? at + 1 : 0;
	}
}

/* How many lines <n> merges want: about 0.7 full. */
uint32_t pairs_lines(uint32_t n_merges);
void pairs_clear(struct pair_line *lines, uint32_t n_lines);
/* The last one that is said of a pair counts. */
void pairs_put(struct pair_line *lines, uint32_t n_lines, uint64_t key, uint32_t rank, uint32_t both);

/* ---- signs (bpe_sign.c) --------------------------------------------------------------------- */

/* Fill those of <sym>: the merges must be in the tables, and the parts of each token known. <merges> as in the spec, by sym, <rank> of each
 * ascending; <deep> is room for 2 * n_syms words of 0. */
struct ranked {
	uint32_t left, right, both, rank;
};
void sign_all(struct sym *sym, uint32_t n_syms, const struct ranked *merges, uint32_t n, uint64_t *deep);

/* Nothing merges across the border of these two; false: it may. */
static inline bool sign_apart(const struct sym *left, const struct sym *right)
{
	return (left->sign.wants & right->sign.first) == 0 || (left->sign.last & right->sign.wanted) == 0;
}

/* ---- runs of tokens ------------------------------------------------------------------------- */

struct syms {
	uint32_t *p;
	size_t n, cap;
};

static inline int syms_add(struct syms *s, uint32_t sym)
{
	return vec_push(s, sym);
}

/* ---- the tokens a piece begins as (bpe_atoms.c) --------------------------------------------- */

struct atoms {
	const uint8_t *p;
	size_t n, room, at;		/* <room>: bytes that may be read, at least n */
	bool unk;			/* an unknown one waits to be written */
};

/* Append to <out> until all is read or <budget> characters are: 0 done, 1 not yet, -1 no memory. */
int atoms_read(const struct bpe *b, struct atoms *a, struct syms *out, size_t *budget);

/* How many bytes the character at <p> has, by its first one, at most <n>. */
size_t atoms_char_bytes(const uint8_t *p, size_t n);

/* The same for the next character, which no token is. */
int atoms_unknown(const struct bpe *b, struct atoms *a, struct syms *out);
/* Before a known one and at the end: an <unk> that waits. */
int atoms_flush(const struct bpe *b, struct atoms *a, struct syms *out);

/* ---- merging a run of tokens (bpe_merge.c) --------------------------------------------------- */

struct merger {
	struct syms sym;		/* of each place; one that was merged away is SYM_NONE */
	VEC(uint32_t) prev, next;
	VEC(uint64_t) cand;		/* rank << 32 | result with the one behind it, PAIR_NONE */
	VEC(uint64_t) heap;		/* rank << 32 | place; those that have changed since are stale */
	size_t at;
	size_t units;			/* of work done for pairs of tokens, besides the try itself, until somebody sets it to 0 */
	uint32_t left, right, made;	/* of the last merge, made as in struct sym */
	bool in_order;			/* no merge had a lower rank than one before it */
};

void merger_fini(struct merger *m);

/* All merges of <sym>, of at most MERGE_FEW; -1: no memory. */
int merge_few(const struct bpe *b, struct merger *m);
#define MERGE_FEW 48

/* The same in steps: merger_start(), then merger_step() until it is 0, then <sym> has holes; -1: no memory. Units of work come off <budget>. */
int merger_start(struct merger *m);
int merger_step(const struct bpe *b, struct merger *m, size_t *budget);

/* Both for what <p> begins as, at once: for tables and for a pair of tokens, not for text from outside. <sym> without holes. */
int merge_bytes(const struct bpe *b, struct merger *m, const uint8_t *p, size_t n);

struct bpe_scratch;

/* ---- walking along a text (bpe_walk.c) --------------------------------------------------------- */

/* A token and its length. */
struct found {
	uint32_t sym, n;
};

struct walk {
	size_t at;			/* where the next token begins */
	size_t base;			/* tokens of <out> before this are done with */
	struct found next;		/* what is to be tried there; SYM_NONE: nothing is left to try */
	bool open;			/* a run of known characters has begun */
	VEC(uint64_t) dead;		/* a bit for each place where no token of the result can begin */
};

/* Two tokens beside each other, both SYM_IN_ORDER: nothing merges across their border before both are there. */
bool walk_meet(const struct bpe *b, uint32_t left, uint32_t right);

int walk_start(struct walk *w, size_t n);
/* 0 done, 1 not yet, -1 no memory. <spare> is for pairs of tokens. */
int walk_step(const struct bpe *b, struct walk *w, struct atoms *a, struct syms *out, struct merger *spare, size_t *budget);

/* A piece of at most WALK_SHORT bytes, its longest token <f> known: how many ids came to <out>, which has room for n; 0: it has to
 * go the long way, where it can be stopped; -1 no memory. Charged to the work of <c>. */
#define WALK_SHORT 1024u
ssize_t walk_short(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n, size_t room, struct found f, token_id *out);

struct bpe_scratch {
	struct merger m;		/* its <sym> is what comes out */
	struct merger spare;
	struct atoms atoms;
	struct walk walk;
	uint64_t print;			/* whose pieces are in <cache> */
	struct cached *cache;
	enum { LONG_IDLE, LONG_WALK, LONG_ATOMS, LONG_MERGE, LONG_OUT } phase;
	size_t out_at;
	struct work_left *work;		/* who pays; never NULL */
	struct work_left nobody;
};

/* Prices, in steps of work.h. A try of the walk: a token is looked for, and whether it may follow the one before. */
#define STEPS_PIECE	2u		/* two pieces of the cache, or one that is looked up and kept */
#define STEPS_MISS	10u		/* a piece that the cache does not have */
#define STEPS_TRY	5u

#endif

/* bpe_impl.h - what the files of the encoder share; nobody else includes it.
 *
 * Everything a struct bpe knows lies in one block, the image: a head and sections behind it, each on its own cache lines, found from the
 * counts in the head. No section holds a pointer.
 *
 *   | head | sym: one per token | pairs: the merges | whole: which bytes are a token | text: the bytes of all tokens |
 *
 * Inside, a token is its place in order of id ("sym"): dense, below 2^24 - 1, so that two of them and a rank fit in 12 bytes. */
#ifndef KVROUTE_TOK_BPE_IMPL_H
#define KVROUTE_TOK_BPE_IMPL_H

#include "agent/tok/bpe.h"

#define SYM_NONE	0xffffffu
#define RANK_NONE	0xffffffu	/* above every rank */
#define PAIR_NONE	UINT64_MAX

#define SYM_ALONE	1u		/* its own bytes, alone, become it: the only tokens that merges can give */

struct sym {
	uint32_t id;
	uint32_t at, n;			/* its bytes, in the section of text */
	uint32_t flags;
	uint32_t left, right, rank;	/* of the last merge when its bytes stand alone; SYM_NONE: it is not SYM_ALONE, or an atom */
	uint32_t spare;
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

struct head {
	uint64_t magic;
	uint32_t flags;
	uint32_t n_syms, n_lines, n_whole, n_text;
	uint32_t unk;			/* SYM_NONE: none */
	uint32_t longest;		/* bytes of the longest token */
	uint32_t spare[3];
	uint32_t atom[256];		/* the token of each byte, SYM_NONE */
};

struct bpe {
	const struct head *head;
	const struct sym *sym;
	const struct pair_line *pairs;
	const uint32_t *whole;
	const uint8_t *text;
	size_t bytes;
	void *owned;			/* the block, unless it is borrowed */
};

/* Where the sections begin for the counts in <h>; the whole length. */
struct layout {
	uint64_t sym, pairs, whole, text, end;
};
struct layout bpe_layout(const struct head *h);
void bpe_place(struct bpe *b, const void *block);

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

/* The token with exactly these bytes, SYM_NONE. */
uint32_t whole_find(const struct bpe *b, const uint8_t *p, size_t n);
uint32_t whole_slots(uint32_t n_syms);
void whole_put(uint32_t *slots, const struct bpe *b, uint32_t sym);

/* ---- merging a run of tokens (bpe_merge.c) --------------------------------------------------- */

struct merger {
	uint32_t *sym, *prev, *next;	/* of each place; a place that was merged away has sym SYM_NONE */
	uint64_t *cand;			/* rank << 32 | result with the one behind it, PAIR_NONE */
	uint64_t *heap;			/* rank << 32 | place; those that have changed since are stale */
	size_t n, cap, n_heap, heap_cap, at;
	uint32_t left, right, rank;	/* of the last merge */
	bool in_order;			/* no merge had a lower rank than one before it */
};

void merger_fini(struct merger *m);
int merger_reserve(struct merger *m, size_t n);

/* All merges of the tokens sym[0 .. n), in place: returns how many are left. */
size_t merge_few(const struct bpe *b, struct merger *m, size_t n);
#define MERGE_FEW 48

/* The same in steps: merger_start(), then merger_step() until it is 0, then sym[] has holes. -1: no memory. Units of work come off <budget>. */
void merger_start(struct merger *m, size_t n);
int merger_step(const struct bpe *b, struct merger *m, size_t *budget);

/* ---- the tokens a piece begins as (bpe_atoms.c) --------------------------------------------- */

struct atoms {
	const uint8_t *p;
	size_t n, at;
	bool unk;			/* an unknown one waits to be written */
};

/* Append to sym[] of <m> until all is read or <budget> bytes are: 0 done, 1 not yet, -1 no memory. */
int atoms_read(const struct bpe *b, struct atoms *a, struct merger *m, size_t *budget);

struct bpe_scratch {
	struct merger m;
	struct atoms atoms;
	enum { LONG_IDLE, LONG_ATOMS, LONG_MERGE, LONG_OUT } phase;
	size_t out_at;
};

#endif

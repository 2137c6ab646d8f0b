/* lexicon_in.h - private to this folder: the block of a lexicon. */
#ifndef KVROUTE_TOK_LEXICON_LEXICON_IN_H
#define KVROUTE_TOK_LEXICON_LEXICON_IN_H

#include "agent/tok/lexicon/lexicon.h"

/* | head | slots | scores of nodes (Unigram) | ids of nodes |; nodes count from NODE_ROOT,
 * so no used slot has key 0. */
struct lex_head {
	uint32_t magic, log2_slots;
	uint32_t n_nodes;		/* node 0 included, which is none */
	uint32_t inside;		/* the node of <prefix>; 0: no token has it */
	uint32_t max_chars;
	token_id unk;
	uint32_t kind, byte_fallback;
	double unk_score;		/* of a character without a token */
	token_id byte_id[256];		/* if <byte_fallback> */
};

struct lex_slot {
	uint32_t key;			/* node << 8 | byte; 0: empty */
	uint32_t child;
};

struct lexicon {
	const struct lex_head *head;
	const struct lex_slot *slot;
	const double *score;		/* by node: Unigram only */
	const token_id *id;		/* by node; BPE_NO_ID: no token ends there */
	size_t bytes;			/* of the block */
	unsigned shift;
	uint32_t mask;
	uint32_t look;			/* LEX_LOOK_...: steps of work.h to look up a byte */
	void *owned;			/* the block; NULL: borrowed from an image */
};

#define LEX_MAGIC	0x4c455833u
#define NODE_ROOT	1u
#define NODES_MAX	(1u << 24)

/* Steps of work.h. A step of bpe.h is 22 to 51 instructions (callgrind, random letters and Han with
 * Llama 3.2); here a byte that is looked up is about 30, a character of Unigram or a piece of
 * WordPiece about 90 more. In large tables a look-up waits for memory. Against the time of a step
 * of BPE in the same run, with random vocabularies and texts of their tokens: 1 look-up is 1 step
 * with 1 MB, 2 with 6 MB, 4 with 12 MB, 6 to 8 from 50 MB on (and 12 with 176 MB, which no known
 * vocabulary has). WordPiece costs twice that, because each look-up waits for the one before. */
#define LEX_WORDPIECE	2u
#define LEX_STEPS_PIECE	4u
#define LEX_STEPS_CHAR	4u
#define LEX_LOOK_SMALL	1u		/* up to 2 MiB */
#define LEX_LOOK_MEDIUM	2u		/* up to 8 MiB */
#define LEX_LOOK_LARGE	4u		/* up to 32 MiB */
#define LEX_LOOK_HUGE	8u

size_t lex_block_bytes(const struct lex_head *h);
void lex_point(struct lexicon *x, const void *block);

struct lex_best {			/* the best way to the end of a byte */
	double score;
	uint32_t from;			/* where its last token starts; BEST_NONE: no way */
	uint32_t next;			/* going forward: where the token from here ends */
	token_id id;
};
#define BEST_NONE	UINT32_MAX

struct lexicon_scratch {
	VEC(struct lex_best) best;
	const uint8_t *p;		/* the piece, borrowed by lexicon_long_start() */
	size_t n, at;
};

/* Find the ids of a piece by Unigram: unigram.c. */
int unigram_start(struct lexicon_scratch *c);
int unigram_step(const struct lexicon *x, struct lexicon_scratch *c, struct work_left *w,
    struct ids *out);

static inline uint32_t lex_hash(uint32_t key, unsigned shift)
{
	return (key * 0x9e3779b1u) >> shift;
}

/* Return the node after <node> by <byte>, or 0. */
static inline uint32_t lex_child(const struct lexicon *x, uint32_t node, uint8_t byte)
{
	uint32_t key = node << 8 | byte, i = lex_hash(key, x->shift);

	while (x->slot[i].key != key) {
		if (x->slot[i].key == 0)
			return 0;
		i = (i + 1) & x->mask;
	}
	return x->slot[i].child;
}

#endif

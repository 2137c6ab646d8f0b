/* bpe.h - byte pair encoding: a piece of text into the ids of a vocabulary, exactly as its merges say.
 *
 *   vocabulary  bytes <-> id. Byte-level models have been decoded to raw bytes by the loader; SentencePiece-like ones hold
 *               characters, and <0x..> tokens for the bytes of those they lack (byte_fallback).
 *   merges      (left id, right id) -> id of both, in order of rank: the lowest rank next to each other is merged first,
 *               the leftmost of equal ones.
 *
 * Exact in all cases. A piece in the vocabulary is one token at once only where that is what its merges give (or ignore_merges is set):
 * found out at load for every entry. Long pieces are worked in time that is bounded in their length, O(n log n) or better,
 * and in steps, so that a caller that must not be held may stop between them.
 * A struct bpe is immutable and shared by threads; a scratch belongs to one. */
#ifndef KVROUTE_TOK_BPE_BPE_H
#define KVROUTE_TOK_BPE_BPE_H

#include "agent/base/err.h"
#include "agent/base/types.h"
#include "agent/base/vec.h"
#include "agent/base/work.h"

typedef uint32_t token_id;

struct bpe;
struct bpe_scratch;

struct bpe_token {
	uint32_t at, n;		/* its bytes, in bpe_spec.bytes */
	token_id id;
};

struct bpe_merge {
	token_id left, right, both;
};

struct bpe_spec {
	const uint8_t *bytes;
	const struct bpe_token *tokens;
	uint32_t n_tokens;
	const struct bpe_merge *merges;		/* by rank, the first is merged first; of a pair that is there twice, the last counts
						 * (as in `tokenizers`, which reads them into a map) */
	uint32_t n_merges;
	bool equal_ranks;	/* merges to the same token have one rank, that of the first of them: rank files of tiktoken,
				 * with all ways to cut a token in two as merges, in order of the token's rank */
	bool ignore_merges;	/* a piece that is in the vocabulary is its token */
	bool characters;	/* pieces begin as characters (SentencePiece style), otherwise as bytes */
	bool byte_fallback;	/* characters that are not there become the tokens in <byte_id> */
	bool fuse_unk;		/* unknown characters next to each other become one <unk> */
	bool has_unk;
	token_id unk;
	token_id byte_id[256];	/* of each byte: its own token (byte-level) or its <0x..> (byte_fallback); BPE_NO_ID: none */
};
#define BPE_NO_ID UINT32_MAX

/* Everything is copied. NULL and <e> filled: no memory, ids above 2^24 - 1, tokens above 65,535 bytes, a byte without a token in a byte-level vocabulary, ... */
struct bpe *bpe_new(const struct bpe_spec *spec, struct err *e);
void bpe_free(struct bpe *b);
size_t bpe_bytes(const struct bpe *b);		/* memory it holds */

/* The same as one run of bytes that holds no pointer, for a file that is mapped: bpe_image() gives it, bpe_of_image() makes a bpe of it, which borrows
 * it for its life. The image is trusted to be what bpe_image() gave (its reader checks a checksum), yet no index
 * in it leads outside. It begins at a multiple of
 * BPE_ALIGN. NULL: not such an image, of this version and byte order, or no memory for its struct. O(bytes): about 5 ms. */
#define BPE_ALIGN 64u
struct span bpe_image(const struct bpe *b);
struct bpe *bpe_of_image(struct span image);

struct bpe_scratch *bpe_scratch_new(void);	/* piece cache: half a megabyte */
size_t bpe_scratch_bytes(const struct bpe_scratch *c);	/* memory it holds: some 50 bytes for each of the longest piece, too */
void bpe_scratch_free(struct bpe_scratch *c);	/* wipes it */
/* Charge what is encoded with <c> to <w>, borrowed until the next call; NULL: nobody counts. */
void bpe_scratch_work(struct bpe_scratch *c, struct work_left *w);

/* A vector (vec.h) of ids; the caller owns it. */
struct ids {
	token_id *p;
	size_t n, cap;
};

/* Make room for <more> ids after the last. Returns -1 if there is no memory. */
static inline int ids_reserve(struct ids *v, size_t more)
{
	return vec_reserve(v, more);
}

/* Wipe and free them. */
static inline void ids_free(struct ids *v)
{
	vec_free(v);
}

/* Append the ids of pieces [0 .. n) of <text>; piece i ends at end[i], the first begins at 0 (as in struct pieces).
 * The piece cache of <c> serves one bpe at a time. -1: no memory (what was appended is taken back). 1: the work is used up; the ids of
 * the first pieces are there. */
int bpe_encode(const struct bpe *b, struct bpe_scratch *c, const uint8_t *text, const uint32_t *end, size_t n,
	       struct ids *out);

/* One long piece in steps of at most <budget> units of work (about a byte each): 0 done, 1 come back, -1 no memory. bpe_encode() is this without a limit;
 * a piece above BPE_LONG bytes is worth it (1 MB must not hold a loop for more than 5 ms at a time). BPE_BUDGET units take 1 to 3 ms at the very
 * worst (a piece of 1 MB of random letters or digits), mostly 0.3. */
#define BPE_LONG 16384
#define BPE_BUDGET 8192
int bpe_long_start(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n);
int bpe_long_step(const struct bpe *b, struct bpe_scratch *c, size_t budget, struct ids *out);

/* The bytes of a token; p == NULL: no such id. */
struct span bpe_token_bytes(const struct bpe *b, token_id id);

#endif

/* bpe.h - byte pair encoding: encode a piece of text with a vocabulary, exactly as its merges
 * define.
 *
 *   vocabulary  bytes <-> id. The loader has decoded byte-level models to raw bytes. Those in
 *               the style of SentencePiece hold characters, and <0x..> tokens for the bytes of
 *               characters that they lack (byte_fallback).
 *   merges      (left id, right id) -> id of both, in order of rank. The lowest rank of adjacent
 *               tokens is merged first; of equal ones, the leftmost.
 *
 * Always exact. A piece in the vocabulary is taken as one token only if its merges make that token,
 * or ignore_merges is set; loading determines this for every entry. Long pieces take O(n log n) or
 * better, in steps, so that a caller with a time limit may pause. A struct bpe is immutable and
 * shared by threads; a scratch belongs to one thread. */
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
	/* by rank, the first is merged first; of a duplicate pair the last counts, as in `tokenizers` */
	const struct bpe_merge *merges;
	uint32_t n_merges;
	/* of each merge: at most its place, ascending; of equal ones the shorter result first; NULL: their
	 * places. For models of SentencePiece, whose tokens may have equal scores */
	const uint32_t *ranks;
	/* merges to the same token share the rank of the first. For rank files of tiktoken: merges are all
	 * ways to divide a token in two, in order of the token's rank */
	bool equal_ranks;
	bool ignore_merges;	/* a piece in the vocabulary is its token */
	bool characters;	/* pieces start as characters (SentencePiece style), otherwise as bytes */
	bool byte_fallback;	/* unknown characters become the tokens in <byte_id> */
	bool fuse_unk;		/* adjacent unknown characters become one <unk> */
	bool has_unk;
	token_id unk;
	/* of each byte: its own token (byte-level) or its <0x..> (byte_fallback); or BPE_NO_ID */
	token_id byte_id[256];
};
#define BPE_NO_ID UINT32_MAX

/* Copy everything. Returns NULL and fills <e> on failure: no memory, ids above 2^24 - 1, tokens
 * above 65,535 bytes, a byte without a token in a byte-level vocabulary, ... */
struct bpe *bpe_new(const struct bpe_spec *spec, struct err *e);
void bpe_free(struct bpe *b);
size_t bpe_bytes(const struct bpe *b);		/* memory it holds */

/* An encoder as bytes without pointers, for a file that is mapped. bpe_image() returns them;
 * bpe_of_image() makes an encoder that borrows them for its life. Its reader has checked a
 * checksum; still, no index in the image leads outside of it. It starts at a multiple of BPE_ALIGN.
 * Returns NULL if it is not an image of this version and byte order, or if there is no memory.
 * O(bytes): about 5 ms. */
#define BPE_ALIGN 64u
struct span bpe_image(const struct bpe *b);
struct bpe *bpe_of_image(struct span image);

struct bpe_scratch *bpe_scratch_new(void);	/* with 3 MB for pieces, in memory */
/* memory it holds, with about 50 bytes per byte of the longest piece */
size_t bpe_scratch_bytes(const struct bpe_scratch *c);
void bpe_scratch_wipe(struct bpe_scratch *c);	/* of all text and ids; its caches stay allocated */
void bpe_scratch_free(struct bpe_scratch *c);	/* wipes it */
/* Charge encoding with <c> to <w>, borrowed until the next call. NULL: charge nothing. */
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

/* Append the ids of pieces [0 .. n) of <text>. Piece i ends at end[i], the first starts at 0 (as in
 * struct pieces). The piece cache of <c> serves one encoder at a time. Returns -1 if there is no
 * memory, with <out> unchanged; 1 if the work is used up, with the ids of the first pieces in
 * <out>. */
int bpe_encode(const struct bpe *b, struct bpe_scratch *c, const uint8_t *text, const uint32_t *end,
    size_t n, struct ids *out);

/* Encode one long piece in steps of at most <budget> units of work, about a byte each. Returns 0:
 * done, 1: call again, -1: no memory. bpe_encode() is the same without a limit. Use it above
 * BPE_LONG bytes, because 1 MB must not occupy a loop for 5 ms. BPE_BUDGET units mostly take 0.3
 * ms; at worst, for 1 MB of random letters or digits, 1 to 3 ms. */
#define BPE_LONG 16384
#define BPE_BUDGET 8192
int bpe_long_start(const struct bpe *b, struct bpe_scratch *c, const uint8_t *p, size_t n);
int bpe_long_step(const struct bpe *b, struct bpe_scratch *c, size_t budget, struct ids *out);

#endif

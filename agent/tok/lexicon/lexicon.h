/* lexicon.h - models that look up the tokens of a piece in a trie of the vocabulary.
 *
 *   WordPiece   "routers" -> route ##rs       the longest token that begins the rest, again and
 *                                             again; later ones have a prefix ("##"). If nothing
 *                                             fits, or the piece is too long, it is <unk>.
 *   Unigram     "routers" -> rout ers    the tokens with the highest sum of scores. A character
 *                             without a token has a score below all others; such characters in a
 *                             row are one <unk>, or the tokens of their bytes (byte_fallback).
 *   Sentence    Unigram with sums of floats, as SentencePiece adds.
 *
 * The trie is one table of edges, (node, byte) -> node, with a slot found by a hash, and the id of
 * each node. All of it is one block without pointers, which is also the image. Immutable and shared
 * by threads; a scratch belongs to one thread. */
#ifndef KVROUTE_TOK_LEXICON_LEXICON_H
#define KVROUTE_TOK_LEXICON_LEXICON_H

#include "agent/tok/bpe/bpe.h"

struct lexicon;
struct lexicon_scratch;

struct lexicon_token {
	struct span text;
	token_id id;
	double score;			/* Unigram; finite; Sentence: a float */
};

#define LEXICON_CHARS_MAX	4096u	/* of max_chars */
#define LEXICON_TOKEN_MAX	65535u	/* bytes of a token */

struct lexicon_spec {
	enum lexicon_kind { LEXICON_WORDPIECE, LEXICON_UNIGRAM, LEXICON_SENTENCE } kind;
	const struct lexicon_token *tokens;	/* their texts differ */
	uint32_t n_tokens;
	/* WordPiece */
	struct span prefix;		/* of tokens that do not begin a piece */
	uint32_t max_chars;		/* a longer piece is <unk>; at most LEXICON_CHARS_MAX */
	/* Unigram */
	bool byte_fallback;
	const token_id *byte_id;	/* of <0x00> .. <0xFF>, or BPE_NO_ID; needed if <byte_fallback> */
	token_id unk;
};

/* Copy everything. Returns NULL and fills <e> if there is no memory or the vocabulary is too
 * large. */
struct lexicon *lexicon_new(const struct lexicon_spec *spec, struct err *e);
void lexicon_free(struct lexicon *x);			/* <x> may be NULL */
size_t lexicon_bytes(const struct lexicon *x);		/* memory it holds */

/* As bpe_image() and bpe_of_image(). */
struct span lexicon_image(const struct lexicon *x);
struct lexicon *lexicon_of_image(struct span image);

struct lexicon_scratch *lexicon_scratch_new(void);
/* memory it holds, with 24 bytes for each byte of the longest piece of Unigram */
size_t lexicon_scratch_bytes(const struct lexicon_scratch *c);
void lexicon_scratch_wipe(struct lexicon_scratch *c);		/* as new */
void lexicon_scratch_free(struct lexicon_scratch *c);		/* wipes it; <c> may be NULL */

/* Append the ids of pieces [0 .. n) of <text>, valid UTF-8; piece i ends at end[i]. Charges <w> for
 * each byte that is looked up: at most the bytes of a piece times those of the longest token.
 * Returns 0; -1 if there is no memory, with <out> unchanged; 1 if the work is used up, with the ids
 * of the first pieces in <out>. */
int lexicon_encode(const struct lexicon *x, struct lexicon_scratch *c, struct work_left *w,
    const uint8_t *text, const uint32_t *end, size_t n, struct ids *out);

/* Encode one long piece in steps, as bpe_long_start() and bpe_long_step(): each step ends soon
 * after <w> is used up. Returns 0: done, 1: call again, -1: no memory. */
int lexicon_long_start(const struct lexicon *x, struct lexicon_scratch *c, const uint8_t *p,
    size_t n);
int lexicon_long_step(const struct lexicon *x, struct lexicon_scratch *c, struct work_left *w,
    struct ids *out);

#endif

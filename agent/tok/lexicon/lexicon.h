/* lexicon.h - models that look up the tokens of a piece in a trie of the vocabulary.
 *
 *   WordPiece   "routers" -> route ##rs       the longest token that begins the rest, again and
 *                                             again; later ones have a prefix ("##"). If nothing
 *                                             fits, or the piece is too long, it is <unk>.
 *
 * The trie is one table of edges, (node, byte) -> node, with a slot found by a hash, and the id of
 * each node. All of it is one block without pointers, which is also the image. Immutable and shared
 * by threads; encoding needs no scratch. */
#ifndef KVROUTE_TOK_LEXICON_LEXICON_H
#define KVROUTE_TOK_LEXICON_LEXICON_H

#include "agent/tok/bpe/bpe.h"

struct lexicon;

struct lexicon_token {
	struct span text;
	token_id id;
};

#define LEXICON_CHARS_MAX	4096u	/* of max_chars */
#define LEXICON_TOKEN_MAX	65535u	/* bytes of a token */

struct lexicon_spec {
	const struct lexicon_token *tokens;	/* their texts differ */
	uint32_t n_tokens;
	struct span prefix;		/* of tokens that do not begin a piece */
	uint32_t max_chars;		/* a longer piece is <unk>; at most LEXICON_CHARS_MAX */
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

/* Append the ids of pieces [0 .. n) of <text>; piece i ends at end[i]. Charges <w> for each byte
 * that is looked up: at most the bytes of a piece of max_chars times those of the longest token,
 * whatever the text. Returns 0; -1 if there is no memory, with <out> unchanged; 1 if the work is
 * used up, with the ids of the first pieces in <out>. */
int lexicon_encode(const struct lexicon *x, struct work_left *w, const uint8_t *text,
    const uint32_t *end, size_t n, struct ids *out);

#endif

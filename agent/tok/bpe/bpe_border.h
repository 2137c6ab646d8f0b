/* bpe_border.h - where a text of characters may be cut before it is merged (SentencePiece: Llama 2,
 * Phi-3, Gemma, Mistral).
 *
 *   ▁The ▁pages ▁of ▁a ▁prompt      Such a vocabulary has no splitter: the whole text is one piece.
 *       |      |   |  |             But none of its merges joins "e" and "▁", so these are borders.
 *
 * A merge joins the last character of its left token and the first one of its right token. The
 * table holds these pairs. No merge crosses between two characters that are no such pair: both
 * sides have the ids that they have alone. The table may hold extra pairs, because it is hashed for
 * characters beyond ASCII; then fewer places are found.
 *
 * Immutable, shared by threads. Memory: 2 KiB, and 1 to 2 bytes per merge. */
#ifndef KVROUTE_TOK_BPE_BPE_BORDER_H
#define KVROUTE_TOK_BPE_BPE_BORDER_H

#include "agent/tok/bpe/bpe.h"
#include "agent/tok/split/split.h"

struct borders;

/* Set *out to the borders of <b>, or to NULL if <b> is not a vocabulary of characters in which each
 * unknown character becomes its bytes. <mark> is the character that replaces a space in normalized
 * text; n == 0: none. O(merges). Returns 0, or -1 if there is no memory. */
int borders_new(const struct bpe *b, struct span mark, struct borders **out);
void borders_free(struct borders *x);
size_t borders_bytes(const struct borders *x);		/* memory it holds; 0 for NULL */

/* Return the kinds of places of chunk.h that no merge joins, with a space for <mark>. */
unsigned borders_places(const struct borders *x);

/* Cut the <n> bytes of normalized text at <p> into at most SPLIT_BATCH pieces; the rest starts at
 * out->used. O(n). */
void borders_cut(const struct borders *x, const uint8_t *p, size_t n, struct pieces *out);

#endif

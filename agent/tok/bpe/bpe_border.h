/* bpe_border.h - where a text of characters may be cut before it is merged (SentencePiece: Llama
 * 2, Phi-3, Gemma, Mistral).
 *
 *   ▁The ▁pages ▁of ▁a ▁prompt      Such a vocabulary has no splitter: the whole text is one piece. But no merge
 *       |      |   |  |             of these vocabularies joins "e" and "▁", so the text falls apart there.
 *
 * A merge joins the last character of its left token and the first one of its right token. The
 * table holds these pairs. Between two characters that are no such pair no merge can cross: both
 * sides have the ids that they have alone. The table may hold more pairs than there are (it is
 * hashed for characters beyond ASCII): then fewer places are found.
 *
 * Immutable, shared by threads. Memory: 2 KiB, and 1 to 2 bytes for each merge. */
#ifndef KVROUTE_TOK_BPE_BPE_BORDER_H
#define KVROUTE_TOK_BPE_BPE_BORDER_H

#include "agent/tok/bpe/bpe.h"
#include "agent/tok/split/split.h"

struct borders;

/* Set *out to the borders of <b>, or to NULL if <b> is not a vocabulary of characters in which
 * each unknown character becomes its bytes. <mark> is the character that stands for a space in
 * normalized text; n == 0: none does. Cost: one look at each merge. Returns 0, or -1: no
 * memory. */
int borders_new(const struct bpe *b, struct span mark, struct borders **out);
void borders_free(struct borders *x);
size_t borders_bytes(const struct borders *x);		/* memory it holds; 0 for NULL */

/* Return the kinds of places of chunk.h across which no merge joins, with a space for <mark>. */
unsigned borders_places(const struct borders *x);

/* Cut <p>, <n> bytes of normalized text, into pieces: at most SPLIT_BATCH, the rest after
 * out->used. O(n). */
void borders_cut(const struct borders *x, const uint8_t *p, size_t n, struct pieces *out);

#endif

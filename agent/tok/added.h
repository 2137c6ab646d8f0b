/* added.h - added tokens: contents that are cut out of a text before anything else reads it.
 *
 *   "a <|im_end|>\n b"  ->  "a "  <|im_end|>  "\n b"
 *
 * As in Hugging Face's tokenizers 0.22: the leftmost match counts, of several the longest, and the
 * search continues after it. A token with <single_word> counts only if no word character is next to
 * it. <lstrip> and <rstrip> include the white space before and after. A token with <composes> is
 * one that the engine searches in the text's NFC: it does not count if a following mark changes its
 * last character ("|>" and U+0338). That character must not decompose. Immutable, shared by
 * threads. */
#ifndef KVROUTE_TOK_ADDED_H
#define KVROUTE_TOK_ADDED_H

#include "agent/base/work.h"
#include "agent/tok/bpe/bpe.h"

#define ADDED_CONTENT_MAX	4096u

struct added_token {
	struct span content;
	token_id id;
	bool single_word, lstrip, rstrip, composes;
};

struct added;

/* Copy the contents. Of equal ones the first counts; an empty one never matches. <n> may be 0.
 * Returns NULL if there is no memory. */
struct added *added_new(const struct added_token *tokens, size_t n);
void added_free(struct added *a);
size_t added_bytes(const struct added *a);
bool added_none(const struct added *a);

/* The state of a search through one text. All zero at first. */
struct added_at {
	size_t search;		/* the next match begins here or later */
	size_t end;		/* the text after the last token begins here */
	size_t looks;		/* places checked so far; each costs about 10 ns */
	struct work_left *work;	/* charged for places and for the nodes of a walk; NULL: nothing is */
};

struct added_hit {
	/* the token's bytes; text[before .. at), unless empty, is text; <before> was at->end */
	size_t at, n;
	token_id id;
};

/* Find the next token. Text costs about 0.05 ns a byte if no token can begin there. A token of
 * white space may begin in white space that the one before has stripped: hit->at is then before
 * at->end, and there is no text between them. Returns false, too, if at->work is used up. */
bool added_next(const struct added *a, struct span text, struct added_at *at,
    struct added_hit *hit);

/* Return the bytes of the longest token that begins text[at ..), whatever its flags, or 0. *steps:
 * the price in steps of work.h. */
size_t added_longest(const struct added *a, struct span text, size_t at, uint64_t *steps);

/* Return the number of bytes at the end of <text> that, with later text, may become part of a token
 * or decide about one. The search is at <at>. */
size_t added_tail(const struct added *a, struct span text, const struct added_at *at);

#endif

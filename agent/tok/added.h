/* added.h - added tokens: the contents that are cut out of a text before anything else looks at it.
 *
 *   "a <|im_end|>\n b"  ->  "a "  <|im_end|>  "\n b"
 *
 * As Hugging Face's tokenizers 0.22 do it: the leftmost occurrence counts, of those that begin there the longest, and the
 * search goes on behind it. A token with <single_word> counts only where no word character stands next to it; <lstrip> and
 * <rstrip> take the white space in front and behind along. A token with <composes> is one that an engine looks for in the text's
 * NFC: it does not count where a mark that follows would make another character of its last one ("|>" and U+0338). That last
 * one is a character that has no parts of its own.
 * Immutable, shared by threads. */
#ifndef KVROUTE_TOK_ADDED_H
#define KVROUTE_TOK_ADDED_H

#include "agent/tok/bpe/bpe.h"

#define ADDED_CONTENT_MAX	4096u

struct added_token {
	struct span content;
	token_id id;
	bool single_word, lstrip, rstrip, composes;
};

struct added;

/* Contents are copied; of two that are the same the first counts; an empty one never matches. NULL: no memory. <n> may be 0. */
struct added *added_new(const struct added_token *tokens, size_t n);
void added_free(struct added *a);
size_t added_bytes(const struct added *a);
bool added_none(const struct added *a);

/* Where a search through one text stands; all zero at first. */
struct added_at {
	size_t search;		/* the next occurrence begins here or later */
	size_t end;		/* the text that no token has taken begins here */
	size_t looks;		/* places where a token could have begun, so far: each costs some 10 ns */
};

struct added_hit {
	size_t at, n;		/* what it takes; text[before .. at), if that is anything, is text; <before> was at->end */
	token_id id;
};

/* The next token. Text costs about 0.05 ns a byte where no token could begin. A token of white space may begin in white space
 * that the one before it has stripped: then hit->at is before at->end, and no text is between. */
bool added_next(const struct added *a, struct span text, struct added_at *at, struct added_hit *hit);

/* How many bytes at the end of <text>, in which the search stands at <at>, could still be part of a token or decide about one
 * with what follows. */
size_t added_tail(const struct added *a, struct span text, const struct added_at *at);

#endif

/* normal.h - the normalizer of tokenizer.json: text into text, before it is split.
 *
 * A chain of steps as the file has them. Immutable, shared by threads. NFC has a quick check, so that
 * text that is normal already (nearly all of it) is not copied. */
#ifndef KVROUTE_TOK_NORMAL_H
#define KVROUTE_TOK_NORMAL_H

#include "agent/base/err.h"
#include "agent/base/types.h"

struct normal;

struct normal_step {
	enum normal_kind {
		NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD,
		NORMAL_LOWERCASE, NORMAL_STRIP_ACCENTS, NORMAL_STRIP,
		NORMAL_PREPEND,		/* <content>, in front of a text that is not empty */
		NORMAL_REPLACE,		/* <pattern>, a string or (<regex>) a regular expression, by <content> */
		NORMAL_BYTE_LEVEL	/* nothing to do: the vocabulary is decoded instead */
	} kind;
	struct span pattern, content;
	bool regex, strip_left, strip_right;
};

/* NULL and <e> filled. */
struct normal *normal_new(const struct normal_step *steps, size_t n, struct err *e);
void normal_free(struct normal *m);

/* Whether two texts normalised apart and put together are the text normalised whole, when an added token stood between them
 * (true for all that is here but what looks at the beginning: those say so). */
bool normal_first_differs(const struct normal *m);	/* Prepend: a text's beginning is not its middle */

/* How many bytes at the end of <p> may still change with what follows (NFC: from the last starter on). Streaming keeps
 * these back. */
size_t normal_tail(const struct normal *m, const uint8_t *p, size_t n);

struct normal_buf {		/* scratch of one thread; all zero at first; grows, is wiped by _fini */
	uint8_t *p[2];
	size_t cap[2];
};
void normal_buf_fini(struct normal_buf *b);

/* <in> normalised: <in> itself when nothing changes, otherwise bytes in <b>, until its next use. out->p == NULL: no memory. */
void normal_run(const struct normal *m, struct normal_buf *b, struct span in, struct span *out);

#endif

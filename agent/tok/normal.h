/* normal.h - the normalizer of tokenizer.json: text into text, before it is split.
 *
 * A chain of steps as the file has them. Immutable, shared by threads. NFC has a quick check, so that
 * text that is normal already (nearly all of it) is not copied. */
#ifndef KVROUTE_TOK_NORMAL_H
#define KVROUTE_TOK_NORMAL_H

#include "agent/base/buf.h"
#include "agent/base/err.h"
#include "agent/base/work.h"
#include "agent/base/types.h"
#include "agent/base/vec.h"
#include "agent/tok/part.h"

struct normal;

struct normal_step {
	enum normal_kind {
		NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD,
		NORMAL_LOWERCASE, NORMAL_STRIP_ACCENTS, NORMAL_STRIP,
		NORMAL_PREPEND,		/* <content>, in front of a text that is not empty */
		NORMAL_REPLACE,		/* <pattern>, a string or (<regex>) a regular expression, by <content> */
		/* Nothing is done, as the vocabulary is decoded instead: right as long as no step that looks at characters
		 * follows, of the normalizer or the pre-tokenizer; the loader sees to that. */
		NORMAL_BYTE_LEVEL
	} kind;
	struct span pattern, content;
	bool regex, strip_left, strip_right;
};

/* NULL and <e> filled. */
struct normal *normal_new(const struct normal_step *steps, size_t n, struct err *e);
void normal_free(struct normal *m);

/* Whether a text's beginning is not its middle: Prepend, Strip at the left, regular expressions. A text here is what stands
 * between two added tokens: each such segment is normalised on its own, as the engines do it, and so each has its beginning. */
bool normal_first_differs(const struct normal *m);

/* How many bytes at the end of <p> may still change with what follows (NFC: from the last starter on). Streaming keeps
 * these back. All of them where a chain has steps that look further: Strip, regular expressions, strings of several characters.
 * */
size_t normal_tail(const struct normal *m, const uint8_t *p, size_t n);

struct normal_buf {		/* scratch of one thread; all zero at first; grows, is wiped by _fini */
	struct buf text[2];
	VEC(uint32_t) chars;	/* a stretch of characters */
	VEC(uint32_t) spare;	/* as long: to put them in order */
	struct work_left *work;	/* who pays for what is replaced and for characters that come apart or together; NULL: nobody counts */
};
void normal_buf_fini(struct normal_buf *b);
size_t normal_buf_bytes(const struct normal_buf *b);	/* memory it holds */

/* <in> normalised: <in> itself when nothing changes, otherwise bytes in <b>, until its next use. out->p == NULL: no memory, or
 * PCRE2 met a limit, or the work is used up. O(n), but for regular expressions. */
void normal_run(const struct normal *m, struct normal_buf *b, struct span in, struct span *out);
/* The same for a chunk: PART_INSIDE gets no Prepend. */
void normal_run_part(const struct normal *m, struct normal_buf *b, struct span in, enum part part, struct span *out);

/* Return true if each byte that is not a space stays as it is, wherever the text is cut: Prepend and one Replace of " " by
 * one character, *mark. */
bool normal_only_marks(const struct normal_step *steps, size_t n, struct span *mark);

#endif

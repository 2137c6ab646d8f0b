/* normal.h - the normalizer of tokenizer.json: change a text before it is split.
 *
 * A chain of steps from the file. Immutable, shared by threads. NFC has a quick check, so text that
 * is normal already, nearly all of it, is not copied. */
#ifndef KVROUTE_TOK_NORMAL_H
#define KVROUTE_TOK_NORMAL_H

#include "agent/base/buf.h"
#include "agent/base/err.h"
#include "agent/base/work.h"
#include "agent/base/types.h"
#include "agent/base/vec.h"
#include "agent/tok/part.h"

struct added;
struct normal;

struct normal_step {
	enum normal_kind {
		NORMAL_NFC, NORMAL_NFD, NORMAL_NFKC, NORMAL_NFKD,
		NORMAL_LOWERCASE, NORMAL_STRIP_ACCENTS, NORMAL_STRIP,
		NORMAL_PREPEND,		/* <content>, before a text that is not empty */
		NORMAL_REPLACE,		/* <pattern>, a string or (<regex>) a regular expression, by <content> */
		/* Does nothing, because the loader decodes the vocabulary instead. The loader checks that no
		 * later step, of the normalizer or the pre-tokenizer, looks at characters. */
		NORMAL_BYTE_LEVEL,
		/* parts of BertNormalizer: the loader adds NFD and Lowercase */
		NORMAL_BERT_CLEAN, NORMAL_BERT_IDEOGRAPHS, NORMAL_BERT_MARKS,
		NORMAL_NMT,
		NORMAL_PRECOMPILED,	/* <pattern>: the bytes of a charsmap.h */
		/* all that SentencePiece does: <pattern>, or n == 0: characters stay; <flags> */
		NORMAL_SENTENCE,
		NORMAL_LAST = NORMAL_SENTENCE
	} kind;
	struct span pattern, content;
	bool regex, strip_left, strip_right;
	unsigned flags;
#define NORMAL_PREFIX		1u	/* add_dummy_prefix: a space before the text */
#define NORMAL_ONE_SPACE	2u	/* remove_extra_whitespaces: none at the ends, one between */
#define NORMAL_MARKS		4u	/* escape_whitespaces: U+2581 for each space */
#define NORMAL_FLAGS		7u
};

/* Returns NULL and fills <e> on failure. */
struct normal *normal_new(const struct normal_step *steps, size_t n, struct err *e);
void normal_free(struct normal *m);

/* Let NORMAL_SENTENCE leave the tokens of <kept> as they are, except for the spaces in them.
 * Borrowed for the life of <m>. */
void normal_keep(struct normal *m, const struct added *kept);

struct normal_buf {		/* scratch of one thread; zero at first; wiped by normal_buf_fini() */
	struct buf text[2];
	VEC(uint32_t) chars;	/* the characters of a stretch */
	VEC(uint32_t) spare;	/* of the same length, to sort marks */
	/* charged for replacements and for characters that change; NULL: nothing is */
	struct work_left *work;
};
void normal_buf_fini(struct normal_buf *b);
size_t normal_buf_bytes(const struct normal_buf *b);	/* memory it holds */

/* Normalize <in>. <out> is <in> itself if nothing changes, otherwise bytes in <b>, valid until its
 * next use. out->p is NULL if there is no memory, PCRE2 met a limit, or the work is used up. O(n),
 * except for regular expressions. */
void normal_run(const struct normal *m, struct normal_buf *b, struct span in, struct span *out);
/* The same for a chunk: PART_INSIDE gets no Prepend. */
void normal_run_part(const struct normal *m, struct normal_buf *b, struct span in, enum part part,
    struct span *out);

/* Tell if the chain is Prepend and one Replace of " " by one character, *mark: then all bytes other
 * than spaces stay unchanged, wherever the text is cut. */
bool normal_only_marks(const struct normal_step *steps, size_t n, struct span *mark);

#endif

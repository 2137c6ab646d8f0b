/* split.h - divide text into pieces: the first step of encoding, the pre-tokenizer of
 * tokenizer.json.
 *
 *   "Hello world 123!"  ->  |Hello| world| |123|!|        (L3: pieces keep their bytes and order)
 *
 * A splitter is a chain of steps from the file (Sequence). The important families have one
 * hand-written scanner, used if the pattern is exactly theirs. PCRE2 (JIT) runs any other pattern,
 * translated from Oniguruma's syntax. Loading rejects what neither can do.
 *
 * A splitter is immutable and shared by threads; a scratch belongs to one thread. Text is valid
 * UTF-8. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_H
#define KVROUTE_TOK_SPLIT_SPLIT_H

#include "agent/base/err.h"
#include "agent/base/work.h"
#include "agent/base/types.h"
#include "agent/tok/part.h"

#define SPLIT_END	0xffu		/* never in UTF-8 */

struct split;
struct split_scratch;

enum split_behaviour {
	SPLIT_REMOVED,
	SPLIT_ISOLATED,
	SPLIT_MERGED_WITH_PREVIOUS,
	SPLIT_MERGED_WITH_NEXT,
	SPLIT_CONTIGUOUS
};

/* One step of the chain; fields that a kind does not use are 0. The loader maps them from
 * tokenizer.json. */
struct split_step {
	enum split_kind {
		STEP_REGEX,		/* Split with a Regex: <pattern>, <behaviour>, <invert> */
		STEP_STRING,		/* Split with a String */
		/* <use_regex>, <add_prefix_space>. Pieces stay raw bytes, because the vocabulary is decoded;
		 * later steps see the characters that stand for bytes, as in the engines. */
		STEP_BYTE_LEVEL,
		STEP_DIGITS,		/* Digits: <individual> */
		STEP_PUNCTUATION,	/* Punctuation: <behaviour>; ASCII punctuation and \p{P} */
		STEP_WHITESPACE,	/* Whitespace: \w+|[^\w\s]+ */
		STEP_WHITESPACE_SPLIT,
		STEP_CHAR_DELIMITER,	/* CharDelimiterSplit: <pattern> is the character */
		STEP_METASPACE,		/* Metaspace: <pattern> is the replacement, <prepend>, <split> */
		/* Append SPLIT_END to each piece, after all other steps: for end_of_word_suffix, which the
		 * vocabulary has as this byte */
		STEP_MARK_END,
		STEP_LAST = STEP_MARK_END
	} kind;
	struct span pattern;
	enum split_behaviour behaviour;
	bool invert, use_regex, add_prefix_space, individual, split;
	enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend;
};

/* Make a splitter of <n> steps, borrowed for the call. Returns NULL and fills <e> with the step,
 * the cause and what is understood. */
struct split *split_new(const struct split_step *steps, size_t n, struct err *e);
void split_free(struct split *s);

/* Properties for callers. */
struct split_traits {
	bool streams;		/* split_next() accepts text as it arrives: a piece that has ended stays */
	bool rewrites;		/* the bytes of pieces may differ from the text (Metaspace, add_prefix_space) */
	bool first_differs;	/* the start of the whole text is treated differently from other starts */
	bool begin_differs;	/* the start of a segment is treated differently from its middle */
	const char *name;	/* of the scanner ("cl100k", "o200k", ...), "pcre2", "chain", "whole" */
};
struct split_traits split_traits(const struct split *s);

/* Return the regular expression of a family: "cl100k" (Llama 3), "qwen2", "qwen3.5", "o200k",
 * "tekken", "kimi", "gpt2". p == NULL: no such family. */
struct span split_known_pattern(const char *name);

struct split_scratch *split_scratch_new(void);
size_t split_scratch_bytes(const struct split_scratch *c);	/* memory it holds, without PCRE2's */
void split_scratch_wipe(struct split_scratch *c);	/* as new, with the same budget */
void split_scratch_free(struct split_scratch *c);	/* wipes it */
/* Charge all but hand-written scanners to <w>, borrowed until the next call. NULL: charge nothing.
 */
void split_scratch_work(struct split_scratch *c, struct work_left *w);

/* Forget a text whose pieces were not all fetched. Call this to abandon one (see split_next()). */
void split_scratch_forget(struct split_scratch *c);

/* A batch of pieces, as ends relative to <text>. */
#define SPLIT_BATCH 512
struct pieces {
	/* the input, or, if the splitter rewrites, bytes of the scratch, valid until its next use */
	const uint8_t *text;
	uint32_t n;
	uint32_t end[SPLIT_BATCH];	/* piece i is text[end[i-1] .. end[i]), the first from 0 */
	size_t used;		/* input bytes consumed */
};

/* Return the next pieces of the <n> bytes at <p>: at most SPLIT_BATCH pieces and 256 MiB. <last>:
 * no text follows, so everything becomes pieces in the end. Otherwise (streams only) only pieces
 * that no later byte can change are returned; used < n is then normal, and the caller comes again
 * with those bytes and more. <part>: what begins at <p>. out->n == 0 and used == n: nothing is
 * left. Returns 0, or -1 if there is no memory or PCRE2 met its match limit: the text cannot be
 * encoded. Scanners: O(n); a character that the end truncates waits unless <last>.
 *
 * 	do {
 * 		if (split_next(s, c, p, n, part, true, &out) < 0) ...
 * 		... out.n pieces ...
 * 		p += out.used; n -= out.used; part = PART_SEGMENT;
 * 	} while (n > 0);
 *
 * A splitter that does not stream consumes all of the text in the first call and returns its pieces
 * in the next ones, which it recognizes by <p> and <n>. So finish a text, or forget it. While
 * pieces are left of a splitter that rewrites, used is 0. */
int split_next(const struct split *s, struct split_scratch *c, const uint8_t *p, size_t n,
    enum part part, bool last, struct pieces *out);

#endif

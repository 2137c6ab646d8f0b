/* split.h - text into pieces: the first step of encoding, the pre-tokenizer of tokenizer.json.
 *
 *   "Hello world 123!"  ->  |Hello| world| |123|!|        (L3: pieces keep their bytes, in order, none is lost)
 *
 * A splitter is a chain of steps as the file has them (Sequence). The families that matter have one scanner written by hand,
 * chosen when the pattern is exactly theirs; any other pattern is run by PCRE2 (JIT), translated from Oniguruma's syntax; what
 * neither can do is refused when it is loaded.
 *
 * A splitter is immutable and shared by threads; a scratch belongs to one. Text is valid UTF-8. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_H
#define KVROUTE_TOK_SPLIT_SPLIT_H

#include "agent/base/err.h"
#include "agent/base/work.h"
#include "agent/base/types.h"
#include "agent/tok/part.h"

struct split;
struct split_scratch;

enum split_behaviour { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_MERGED_WITH_PREVIOUS, SPLIT_MERGED_WITH_NEXT, SPLIT_CONTIGUOUS };

/* One entry of the chain; the fields a kind does not use are 0. What stands where in tokenizer.json is the loader's business. */
struct split_step {
	enum split_kind {
		STEP_REGEX,		/* Split with a Regex: <pattern>, <behaviour>, <invert> */
		STEP_STRING,		/* Split with a String */
		STEP_BYTE_LEVEL,	/* <use_regex>, <add_prefix_space>. Pieces stay raw bytes: the vocabulary is decoded;
					 * steps behind it see the characters that stand for bytes, as in the engines */
		STEP_DIGITS,		/* Digits: <individual> */
		STEP_PUNCTUATION,	/* Punctuation: <behaviour>; ASCII punctuation and \p{P} */
		STEP_WHITESPACE,	/* Whitespace: \w+|[^\w\s]+ */
		STEP_WHITESPACE_SPLIT,
		STEP_CHAR_DELIMITER,	/* CharDelimiterSplit: <pattern> is the character */
		STEP_METASPACE		/* Metaspace: <pattern> is the replacement, <prepend>, <split> */
	} kind;
	struct span pattern;
	enum split_behaviour behaviour;
	bool invert, use_regex, add_prefix_space, individual, split;
	enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend;
};

/* <n> steps into a splitter; <steps> is borrowed for the call. NULL and <e> filled (which step, why, what is understood). */
struct split *split_new(const struct split_step *steps, size_t n, struct err *e);
void split_free(struct split *s);

/* What a caller may rely on. */
struct split_traits {
	bool streams;		/* split_next() may be given text as it comes: a piece that has ended stays as it is */
	bool rewrites;		/* pieces may be other bytes than the text (Metaspace, add_prefix_space) */
	bool first_differs;	/* the beginning of the whole text is not treated as other beginnings */
	bool begin_differs;	/* the beginning of a segment is not treated as the middle of one */
	const char *name;	/* of the hand scanner ("cl100k", "o200k", ...), "pcre2", "chain", "whole" */
};
struct split_traits split_traits(const struct split *s);

/* The regular expression of a family by its name: "cl100k" (Llama 3), "qwen2", "qwen3.5", "o200k", "tekken", "kimi", "gpt2".
 * p == NULL: no such family. */
struct span split_known_pattern(const char *name);

struct split_scratch *split_scratch_new(void);
size_t split_scratch_bytes(const struct split_scratch *c);	/* memory it holds, without what PCRE2 takes */
void split_scratch_free(struct split_scratch *c);	/* wipes it */
/* Charge steps that are not a hand scanner's to <w>, borrowed until the next call; NULL: nobody counts. */
void split_scratch_work(struct split_scratch *c, struct work_left *w);

/* Forget a text that was not gone through to its end. To be called when one is given up (see split_next()). */
void split_scratch_forget(struct split_scratch *c);

/* Pieces of a batch: where each ends, from <text>. */
#define SPLIT_BATCH 512
struct pieces {
	const uint8_t *text;	/* the input, or, when the splitter rewrites, the scratch's: until its next use */
	uint32_t n;
	uint32_t end[SPLIT_BATCH];	/* piece i is text[end[i-1] .. end[i]), the first from 0 */
	size_t used;		/* bytes of the input that are dealt with */
};

/* The next pieces of <p>, <n> bytes, at most SPLIT_BATCH of them and 256 MiB. <last>: no text follows, so everything becomes
 * pieces in the end. Without it (streams only) a piece comes out only if no byte that could follow would change it: used < n
 * then is normal, and the caller comes back with those bytes and more. <part>: what begins at <p>.
 * out->n == 0 and used == n: nothing left. Returns 0, or -1: no memory, or PCRE2 met its match limit (the text
 * cannot be encoded; nothing is approximated). Hand scanners: O(n), and characters that are cut by the end wait when !last.
 *
 *	do {
 *		if (split_next(s, c, p, n, part, true, &out) < 0) ...
 *		... out.n pieces ...
 *		p += out.used; n -= out.used; part = PART_SEGMENT;
 *	} while (n > 0);
 *
 * A splitter that does not stream takes all of the text at the first call and deals its pieces out at the next ones, which it
 * knows by <p> and <n>; so a text is gone through to its end, or forgotten. While pieces are left of one that
 * rewrites, used is 0. */
int split_next(const struct split *s, struct split_scratch *c, const uint8_t *p, size_t n, enum part part, bool last,
	       struct pieces *out);

#endif

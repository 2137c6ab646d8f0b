/* split_regex.h - regular expressions of tokenizer.json: written for Oniguruma, run by PCRE2. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_REGEX_H
#define KVROUTE_TOK_SPLIT_SPLIT_REGEX_H

#include "agent/base/buf.h"
#include "agent/base/err.h"
#include "agent/base/types.h"
#include "agent/base/vec.h"
#include "agent/base/work.h"

struct regex;
struct regex_scratch;

/* Compile <pattern>. <literal>: it is a string, not an expression. Returns NULL and fills <e> with
 * what is not understood and at which byte. */
struct regex *regex_new(struct span pattern, bool literal, struct err *e);
void regex_free(struct regex *r);

struct regex_scratch *regex_scratch_new(void);
void regex_scratch_free(struct regex_scratch *c);

/* The matches of a text in order, as Oniguruma's callers in the engines iterate: an empty one
 * counts unless it touches the end of the one before. All zero at first. */
struct regex_at {
	size_t from;		/* where the next search starts */
	size_t end;		/* of the last match */
	bool any;		/* there was one */
	bool begun, exact;	/* which of two patterns */
};

/* Find the next match, <start> .. <end>. Returns 1 if there is one, 0 if not, -1 if there is no
 * memory, a limit was met, or the budget <w> is used up. */
int regex_next(const struct regex *r, struct regex_scratch *c, struct work_left *w,
    const uint8_t *p, size_t n, struct regex_at *at, size_t *start, size_t *end);

/* ---- split_onig.c ---------------------------------------------------------------------------- */

/* <pattern> in PCRE2's syntax. */
struct onig {
	struct buf text;
	VEC(uint32_t) from;	/* for each byte, its origin in the pattern */
	bool no_jit;		/* it contains what PCRE2's JIT does wrong */
	bool plain;		/* input: for texts without UC_NEW characters; shorter sets, which are much faster */
	bool sets;		/* it has sets that differ when plain */
};

/* Returns 0, or -1 and fills <e>. */
int onig_translate(struct span pattern, bool literal, struct onig *out, struct err *e);
void onig_fini(struct onig *o);

#endif

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

/* NULL and <e> filled: what is not understood and at which byte of <pattern>. <literal>: it is a string and no expression. */
struct regex *regex_new(struct span pattern, bool literal, struct err *e);
void regex_free(struct regex *r);

struct regex_scratch *regex_scratch_new(void);
void regex_scratch_free(struct regex_scratch *c);

/* The matches of a text one after the other, as Oniguruma's callers in the engines go through it: an empty one is taken unless it
 * touches the end of the one before it. All zero at first. */
struct regex_at {
	size_t from;		/* where the next search begins */
	size_t end;		/* of the last match */
	bool any;		/* there was one */
	bool begun, exact;	/* which of two patterns */
};

/* 1: a match, <start> .. <end>. 0: no more. -1: no memory, a limit was met, or <w>, which pays, is used up. */
int regex_next(const struct regex *r, struct regex_scratch *c, struct work_left *w, const uint8_t *p, size_t n, struct regex_at *at,
	       size_t *start, size_t *end);

/* ---- split_onig.c ---- */

/* <pattern> as PCRE2 understands it. */
struct onig {
	struct buf text;
	VEC(uint32_t) from;	/* for each byte of it, where in the pattern it comes from */
	bool no_jit;		/* it has what PCRE2's JIT does wrong */
	bool plain;		/* in: for texts without UC_NEW characters; shorter sets, which are much faster */
	bool sets;		/* it has sets that are others when plain */
};

/* 0, or -1 and <e> filled. */
int onig_translate(struct span pattern, bool literal, struct onig *out, struct err *e);
void onig_fini(struct onig *o);

#endif

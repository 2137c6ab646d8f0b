/* split_onig_in.h - between the files that read Oniguruma's syntax: split_onig.c and split_onig_class.c. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_ONIG_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_ONIG_IN_H

#include "agent/tok/split/split_regex.h"
#include "agent/tok/unicode/unicode.h"

#define ONIG_DEPTH_MOST	50	/* groups and classes in each other */

/* A pattern that is being read. */
struct onig_in {
	const uint8_t *p;
	size_t n, at;
	struct err *e;
	unsigned depth, groups;
	bool icase, dot_all, named, referred;
	uint32_t last;		/* the literal that was read last, under (?i), if what follows could fold with it; or 0 */
};

/* What is written. After no memory all of these do nothing, and onig_translate() says so at its end. */
void onig_put(struct onig *o, const char *s, size_t n, size_t from);
void onig_puts(struct onig *o, const char *s, size_t from);
void onig_cp(struct onig *o, uint32_t cp, size_t from);		/* as itself, or as \x{...} where it could mean something */
void onig_add(struct onig *o, const struct onig *more);
void onig_insert(struct onig *o, size_t at, const char *s);

/* Sets the error, with the place; -1. */
int onig_fail(const struct onig_in *t, size_t at, const char *why);

/* The next character, which is taken; 0 at the end. */
uint32_t onig_get(struct onig_in *t);
uint32_t onig_peek(const struct onig_in *t);
bool onig_eat(struct onig_in *t, const char *s);

/* What stands behind a backslash, which has been taken, if it is a character: \n, \x41, \u3042, \.: 1 and *cp. 0: something
 * else, nothing is taken. -1: refused. */
int onig_escape_char(struct onig_in *t, uint32_t *cp);

/* A set of characters: all in <in>, which stands in brackets, and in one of <sub>, which are alternatives, each one character. */
struct onig_set {
	struct onig in, sub;
	unsigned n_subs;
};
struct onig_set onig_set_like(const struct onig_set *s);	/* an empty one, plain or not as <s> */
void onig_set_fini(struct onig_set *s);

/* \w \W \d \D \s \S \h \H \p{..} \P{..} behind a backslash: 1, added to <s>. 0: something else. -1:
 * refused. */
int onig_escape_set(struct onig_in *t, bool in_class, struct onig_set *s);
/* A class, behind its bracket. */
int onig_class(struct onig_in *t, struct onig_set *s);
/* <s> as an expression that matches one character. */
void onig_set_put(struct onig *o, const struct onig_set *s, bool negate, size_t from);
/* The inside of brackets for \w that stands outside of them: six numbers more than within (tokenizers 0.22.2). */
void onig_word(struct onig *o, size_t from);
/* Whether (?i) on <cp> means the same here and there. */
bool onig_folds_alike(uint32_t cp);

#endif

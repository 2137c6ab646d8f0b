/* split_onig_in.h - private to split_onig.c and split_onig_class.c, which parse Oniguruma's syntax.
 */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_ONIG_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_ONIG_IN_H

#include "agent/tok/split/split_regex.h"
#include "agent/tok/unicode/unicode.h"

#define ONIG_DEPTH_MOST	50	/* nested groups and classes */

/* The input. */
struct onig_in {
	const uint8_t *p;
	size_t n, at;
	struct err *e;
	unsigned depth, groups;
	bool icase, dot_all, named, referred;
	uint32_t last;		/* the last literal under (?i) if the next character could fold with it, or 0 */
};

/* The output. After a failed allocation these do nothing, and onig_translate() reports it at its
 * end. */
void onig_put(struct onig *o, const char *s, size_t n, size_t from);
void onig_puts(struct onig *o, const char *s, size_t from);
/* literally, or as \x{...} if it could have a meaning */
void onig_cp(struct onig *o, uint32_t cp, size_t from);
void onig_add(struct onig *o, const struct onig *more);
void onig_insert(struct onig *o, size_t at, const char *s);

/* Set the error with its place. Returns -1. */
int onig_fail(const struct onig_in *t, size_t at, const char *why);

/* Consume and return the next character, or 0 at the end. */
uint32_t onig_get(struct onig_in *t);
uint32_t onig_peek(const struct onig_in *t);
bool onig_eat(struct onig_in *t, const char *s);

/* Read a character after a backslash, already consumed: \n, \x41, \u3042, \. Returns 1 and sets
 * *cp; 0 if it is something else, without consuming it; -1: rejected. */
int onig_escape_char(struct onig_in *t, uint32_t *cp);

/* A set of characters: those in brackets, <in>, and the alternatives <sub>, each of one character.
 */
struct onig_set {
	struct onig in, sub;
	unsigned n_subs;
};
struct onig_set onig_set_like(const struct onig_set *s);	/* an empty one, plain or not like <s> */
void onig_set_fini(struct onig_set *s);

/* Read \w \W \d \D \s \S \h \H \p{..} \P{..} after a backslash. Returns 1: added to <s>, 0:
 * something else, -1: rejected. */
int onig_escape_set(struct onig_in *t, bool in_class, struct onig_set *s);
/* Read a class after its bracket. */
int onig_class(struct onig_in *t, struct onig_set *s);
/* Write <s> as an expression that matches one character. */
void onig_set_put(struct onig *o, const struct onig_set *s, bool negate, size_t from);
/* Write the contents of brackets for \w outside of them: six numbers more than inside (tokenizers
 * 0.22.2). */
void onig_word(struct onig *o, size_t from);
/* Tell if (?i) on <cp> has the same meaning in both libraries. */
bool onig_folds_alike(uint32_t cp);

#endif

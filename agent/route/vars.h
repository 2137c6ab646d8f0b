/* vars.h - the variables of an answer to a route message, and lists of their names. */
#ifndef KVROUTE_ROUTE_VARS_H
#define KVROUTE_ROUTE_VARS_H

#include "agent/base/types.h"

/* In the order in which they are written: important ones first, because those that do not fit a
 * small frame are left out. */
#define ROUTE_VARS(X) \
	X(SERVER, "server") X(MORE, "more") X(WHY, "why") X(ALT, "alt") X(PREFILL, "prefill") \
	X(WAIT, "wait") X(TOKENS, "tokens") X(HIT_TOKENS, "hit_tokens") X(HIT, "hit") \
	X(PAGES, "pages") X(PROMPT_PAGES, "prompt_pages") X(CUT, "cut") X(US, "us") \
	X(RANK, "rank") X(PRIORITY, "priority") X(MODEL, "model")

enum route_var {
#define X(name, text) VAR_##name,
	ROUTE_VARS(X)
#undef X
	N_VARS
};

extern const struct span route_var_names[N_VARS];	/* each ends with a NUL byte */

#define VARS_ALL	((1u << N_VARS) - 1)

/* Return the set of variables that <names> lists, one bit for each. Names are separated by any
 * other character than letters and "_", and unknown ones are ignored. Empty: all. Names that end
 * after the first 256 bytes are ignored, too. */
uint32_t route_vars(struct span names);

#endif

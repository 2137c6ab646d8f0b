/* split_cost_in.h - how the work of a regular expression is counted. */
#ifndef KVROUTE_TOK_SPLIT_SPLIT_COST_IN_H
#define KVROUTE_TOK_SPLIT_SPLIT_COST_IN_H

#include "agent/base/types.h"

struct regex_cost {
	bool counted;		/* a failed try may cost much: count each item that is tried */
	uint32_t least;		/* the largest number of characters that one item must match */
};

/* Return the cost of <p>, a pattern in PCRE2's syntax as split_onig.c writes it. O(n). */
struct regex_cost regex_cost_of(struct span p);

#endif

/* near_in.h - "did you mean": the candidate most similar to a word. */
#ifndef KVROUTE_CONF_NEAR_IN_H
#define KVROUTE_CONF_NEAR_IN_H

#include "agent/base/types.h"

struct near {
	struct span word;
	const char *best;	/* NULL: nothing is similar enough; borrowed from near_try() */
	unsigned distance;	/* of <best>; at first the largest accepted distance plus one */
};

void near_init(struct near *n, struct span word);
void near_try(struct near *n, const char *candidate);

/* Returns the number of letters to insert, delete, change or swap with a neighbour to get from <a>
 * to <b>. Case does not matter, and '-' equals '_'. Returns NEAR_FAR if a word is too long. */
#define NEAR_FAR	1000u
unsigned near_distance(struct span a, struct span b);

#endif

/* near_in.h - "did you mean": the candidate closest to a word somebody typed. */
#ifndef KVROUTE_CONF_NEAR_IN_H
#define KVROUTE_CONF_NEAR_IN_H

#include "agent/base/types.h"

struct near {
	struct span word;
	const char *best;	/* NULL: nothing near enough; borrowed from near_try() */
	unsigned distance;	/* of <best>; before: the largest that counts, plus one */
};

void near_init(struct near *n, struct span word);
void near_try(struct near *n, const char *candidate);

/* Single letters put in, left out, changed, or two neighbours swapped, to get from <a> to <b>;
 * a-z and A-Z are the same, so are '-' and '_'. NEAR_FAR when a word is too long to be looked at. */
#define NEAR_FAR	1000u
unsigned near_distance(struct span a, struct span b);

#endif

/* announced.h - how much comes of what clients announce beyond the part of a body that is seen.
 *
 * The length of a body is what its client says. Of requests that no session proves, the time to
 * the first token tells how much there was to compute. The share is of sums, so that the mean
 * work of requests is right whoever lies; a single request may be far off. One counts at most
 * ANNOUNCED_WEIGHT times as much as those before do on average. Old ones fade, with each request
 * and with time.
 *
 * Pure arithmetic, O(1). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_ANNOUNCED_H
#define KVROUTE_FLEET_ANNOUNCED_H

#include "agent/base/types.h"

#define ANNOUNCED_WEIGHT	4

struct announced {
	double announced_s, came_s;	/* seconds of work; older ones weigh less */
	double n;			/* requests in these sums */
	msec at;			/* of the last one */
};

/* Of <announced_s> of work that was not seen, <came_s> came. */
void announced_learn(struct announced *a, double announced_s, double came_s, msec now);

/* Return the share that comes, 0 .. 1; 0: unknown. */
double announced_share(const struct announced *a, msec now);

#endif

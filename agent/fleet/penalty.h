/* penalty.h - the weight of a server's failures, in requests, until it works again.
 *
 * An engine that fails at once has nothing open and nothing waiting, so every rule that looks at
 * load finds it best. Therefore a failed request keeps counting like an open one:
 *
 *   failure    p + w (p + 1)   if it was sent after the last failure was known (w = 1: p doubles)
 *              p + w           if it was sent before: one of many that fail together, and no news
 *   success    p / 2           the same two cases
 *              p - 1
 *   time       p / 2 each half-life; below half a request it counts nothing
 *
 * A server that fails all requests soon weighs more than the others, however busy they are, and is
 * as light as they are one half-life later: about one request each half-life tests if it works
 * again. A server that fails every other request stays at the same penalty. That is the limit: it
 * is half as busy as others and draws at most twice their share. If it fails more often, the
 * penalty grows. No server is ever excluded, so servers that all fail share evenly. The penalty
 * grows to a bit above twice the load of the pool's busiest server, because more would not exclude
 * the server better and would delay its return.
 *
 * Pure arithmetic, O(1). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_PENALTY_H
#define KVROUTE_FLEET_PENALTY_H

#include "agent/base/types.h"

#define PENALTY_MAX	65536	/* requests, for any load string */
#define PENALTY_LEAST	8	/* the bound in an idle pool: gone after four half-lives */

/* From this weight (a third failure in a row) the pages of a server do not count: they are worth
 * nothing while it fails, and would attract many prompts. */
#define PENALTY_DOUBT	4

struct penalty {
	double p;		/* as of <at> */
	msec at;
	msec failed;		/* when the last failure became known; 0: none */
};

/* A request sent at <sent> has failed, or was served. <w> >= 0: weight of such a failure; 0 changes
 * nothing. <busiest>: load of the busiest server, in requests. <half_life> is positive. */
void penalty_failure(struct penalty *p, double w, double busiest, msec half_life, msec sent,
		     msec now);
void penalty_success(struct penalty *p, msec half_life, msec sent, msec now);

double penalty_now(const struct penalty *p, msec half_life, msec now);

/* Return it rounded to a whole request. */
uint32_t penalty_weight(const struct penalty *p, msec half_life, msec now);

#endif

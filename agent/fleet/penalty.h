/* penalty.h - what its failures make a server weigh, in requests, until it has shown that it works.
 *
 * An engine that fails at once has nothing open and nothing waiting, so that to every rule that looks
 * at load it is the best of all. A failed request therefore goes on weighing like one still open:
 *
 *   failure    p + w (p + 1)   of a request sent when the last failure was known (w = 1: p doubles)
 *              p + w           of one sent before: one of many that fail together, and no news
 *   success    p / 2           the same two cases
 *              p - 1
 *   time       p / 2 each half-life; below half a request it weighs nothing
 *
 * What follows. A server that fails all it gets is soon heavier than the others, however busy these
 * are, and is as light as they are a half-life later: about one request each half-life finds out
 * whether it has recovered. A server that fails every other request stays where it is, and that is
 * the limit: one that works half of the time is half as busy as others, and so draws at most twice
 * their share; what fails more often grows. As nothing is ever shut out, servers that all fail share
 * evenly; and it grows only to a bit above twice what the busiest server of the pool has to do, as
 * more would keep the server out no better and let it back later.
 *
 * Pure arithmetic, O(1). Not locked: the owner is. */
#ifndef KVROUTE_FLEET_PENALTY_H
#define KVROUTE_FLEET_PENALTY_H

#include "agent/base/types.h"

#define PENALTY_MAX	65536	/* requests, whatever load strings say */
#define PENALTY_LEAST	8	/* it may grow so far in an idle pool: gone after four half-lives */

/* From this weight on (a third failure in a row) a server is not believed to hold pages: what it
 * holds is worth nothing while it fails, and would draw the prompts of many. */
#define PENALTY_DOUBT	4

struct penalty {
	double p;		/* as of <at> */
	msec at;
	msec failed;		/* when the last failure was known; 0: never */
};

/* A request sent at <sent> has failed, or was served, as is known <now>. <w> >= 0: weight of such a
 * failure; 0 teaches nothing. <busiest>: what the busiest server has to do, in requests.
 * <half_life> > 0. */
void penalty_failure(struct penalty *p, double w, double busiest, msec half_life, msec sent,
		     msec now);
void penalty_success(struct penalty *p, msec half_life, msec sent, msec now);

double penalty_now(const struct penalty *p, msec half_life, msec now);

/* The same to the nearest whole request. */
uint32_t penalty_weight(const struct penalty *p, msec half_life, msec now);

#endif

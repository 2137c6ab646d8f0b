/* reference.h - choosers to compare with: what a balancer without a thought does, and what one who knows
 * everything would.
 *
 *      roundrobin      as HAProxy does without an agent
 *      leastconn
 *      oracle          the engine with the least time to first token, exactly predicted: greed, perfectly informed
 *      oracle_ext10    the same + 10 x the prefill it costs: what is cached counts more, as it does in overload */
#ifndef KVROUTE_SIM_REFERENCE_H
#define KVROUTE_SIM_REFERENCE_H

#include "agent/base/rng.h"
#include "agent/sim/sim.h"

struct reference {
	struct rng rng;		/* who is first of those that are equal */
	double alpha;
	unsigned turn;
};

/* <c> uses <r>, which has to live as long. -1: there is no such reference. */
int reference_init(struct reference *r, struct chooser *c, struct span name, uint64_t seed);
const char *reference_at(size_t i);	/* NULL behind the last */

#endif

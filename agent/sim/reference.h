/* reference.h - choosers to compare with: a balancer without knowledge, and one with all of it.
 *
 *      roundrobin      as HAProxy does without an agent
 *      leastconn
 *      oracle          the engine with the least time to first token, exactly predicted: greedy,
 *                      with perfect information
 *      oracle_ext10    the same + 10 x the prefill it costs: cached tokens count more, as is right
 *                      in overload */
#ifndef KVROUTE_SIM_REFERENCE_H
#define KVROUTE_SIM_REFERENCE_H

#include "agent/base/rng.h"
#include "agent/sim/sim.h"

struct reference {
	struct rng rng;		/* orders equals */
	double alpha;
	unsigned turn;
};

/* Let <c> use <r>, which has to live as long. Returns -1 if there is no such reference. */
int reference_init(struct reference *r, struct chooser *c, struct span name, uint64_t seed);
const char *reference_at(size_t i);	/* NULL after the last */

#endif

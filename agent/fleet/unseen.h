/* unseen.h - what a pool has learned of those parts of prompts that are not seen, of each tenant.
 *
 * What is learned depends on what clients send, so those of a tenant teach only what holds for that
 * tenant. The UNSEEN_TENANTS that taught last are kept; of others nothing is known.
 *
 * O(UNSEEN_TENANTS). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_UNSEEN_H
#define KVROUTE_FLEET_UNSEEN_H

#include "agent/fleet/announced.h"
#include "agent/fleet/keep.h"

#define UNSEEN_TENANTS	8u

struct unseen {
	struct unseen_tenant {
		uint32_t tenant;	/* of its keyed hash; 0: free */
		uint64_t turn;		/* of its last lesson */
		struct keep keep;
		struct announced announced;
	} of[UNSEEN_TENANTS];
	uint64_t turn;			/* of the last lesson */
};

/* Return what is known of <tenant>, all 0 if nothing; valid until the next lesson. */
const struct unseen_tenant *unseen_of(const struct unseen *u, uint32_t tenant);

/* Return where a lesson of <tenant>, which is not 0, goes. The tenant whose last lesson is the
 * oldest may be forgotten for it. */
struct unseen_tenant *unseen_lesson(struct unseen *u, uint32_t tenant);

/* The size of a cache is known from now on: forget how long caches keep what nothing uses. */
void unseen_sized(struct unseen *u);

/* What is known of a pool, without its tenants. */
struct unseen_sum {
	double kept_s;		/* keep_time() in seconds, the shortest of all tenants; -1: unknown */
	double came_share;	/* announced_share(), the mean of tenants of which it is known; -1: of none */
};
struct unseen_sum unseen_sum(const struct unseen *u, msec now);

#endif

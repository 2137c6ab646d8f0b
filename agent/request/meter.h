/* meter.h - work that each tenant has caused one thread lately, and what its next request may cost.
 *
 *   a core's time  |== all tenants together ==|= this one, again =|------ may be used ------|
 *
 * Each tenant may use as much as is unused. One tenant alone gets up to half of a core, two that
 * want all get a third each, n get 1/(n + 1) each. So a tenant that uses little is never refused,
 * and the number of tenants need not be known. (Switches divide their buffers like this: Choudhury
 * and Hahne, "Dynamic queue length thresholds".) Work is counted in steps (base/work.h), halved
 * every METER_HALF_MS.
 *
 * A tenant that the configuration names has an account of its own. Other names may be invented by a
 * client, so a new name shares one account with all other new names until it has been known for
 * METER_KNOWN_MS. For that it needs a place, one of two times METER_WAYS. It gets the place of a
 * tenant that was silent for METER_SILENT_MS; or that of the tenant with the fewest requests
 * lately, if it had at least METER_MORE more. Requests of names without a place are counted in
 * METER_SEEN counters, which all such names share. Twice the counters' mean is subtracted, so that
 * a flood of new names counts for none of them. So a client that holds places with names that send
 * little keeps out no name that sends more. Requests without a tenant are one tenant.
 *
 * Belongs to one thread. Time is handed in. About 15 ns a call; 512 accounts are halved a few times
 * a second. */
#ifndef KVROUTE_REQUEST_METER_H
#define KVROUTE_REQUEST_METER_H

#include "agent/base/types.h"

#define METER_WAYS	4u
#define METER_PLACES	256u		/* a multiple of METER_WAYS */
#define METER_HALF_MS	256
#define METER_KNOWN_MS	5000
#define METER_SILENT_MS	30000
#define METER_ASKED_MS	8192		/* counts of requests are halved at this interval */
#define METER_SEEN	1024u		/* a power of two */
#define METER_MORE	16u
#define METER_NAMED	256u		/* numbers of named tenants; 0 is none */

/* Sum of steps that a busy core reaches: 100 million a second with a half-life of 256 ms. */
#define METER_CORE	38000000u

struct meter_tenant {
	uint64_t who;			/* keyed hash of its name; the place is free if <last> is 0 */
	msec first, last;
	uint64_t used;
	uint32_t asked;			/* requests, halved every METER_ASKED_MS */
};

struct meter {
	msec halved, aged;		/* last halving of steps, of requests; 0: not begun */
	uint64_t all, strangers;	/* steps; <strangers>: of names that are too new */
	struct meter_tenant place[METER_PLACES];
	uint64_t named[METER_NAMED];	/* steps */
	uint32_t seen[2][METER_SEEN];	/* requests of names without a place; each name has two counters */
	uint64_t seen_all;
};

/* Return the account that <who> pays from at <now>; it is valid until the next call. <number>: that
 * of a named tenant, below METER_NAMED; 0: none. <m> starts as all zeros. */
uint64_t *meter_account(struct meter *m, uint64_t who, uint32_t number, msec now);

/* Return the steps that <account> may use now; 0 if it has used its share. */
uint64_t meter_allows(const struct meter *m, const uint64_t *account);

void meter_charge(struct meter *m, uint64_t *account, uint64_t steps);

#endif

/* meter.h - what the text of each tenant has cost one thread lately, and so what the next may cost.
 *
 *   a core's time  |== all tenants together ==|= this one, again =|------ may be used ------|
 *
 * Each tenant may use as much as nobody uses. One alone gets up to half of a core, two that want all get a third each, n get 1/(n + 1)
 * each: who uses little is never refused, and no number of tenants has to be known. (It is how switches divide their buffers: Choudhury and
 * Hahne, "Dynamic queue length thresholds".) What is counted is steps of work.h, halved every METER_HALF_MS.
 *
 * Names of tenants may be a client's own invention. So one that was not here before shares an account with all others that were not, until
 * it has been known for METER_KNOWN_MS; and places are given anew only when their tenant has been silent for METER_SILENT_MS. Requests
 * without a tenant are one tenant.
 *
 * Belongs to one thread. No clock: time comes in. About 10 ns a call, and 256 places to go over a few times a second. */
#ifndef KVROUTE_ROUTE_METER_H
#define KVROUTE_ROUTE_METER_H

#include "agent/base/types.h"

#define METER_WAYS	4u
#define METER_PLACES	256u		/* a multiple of METER_WAYS */
#define METER_HALF_MS	256
#define METER_KNOWN_MS	5000
#define METER_SILENT_MS	30000

/* Steps of a core that does nothing else, as they add up here: 100 million a second, a half-life of 256 ms. */
#define METER_CORE	38000000u

struct meter_tenant {
	uint64_t who;			/* a keyed hash of its name; <last> == 0: nobody's */
	msec first, last;
	uint64_t used;
};

struct meter {
	msec halved;			/* 0: not begun */
	uint64_t all, strangers;	/* steps; <strangers>: of those that are not known yet */
	struct meter_tenant place[METER_PLACES];
};

/* All zero at first. The account that <who> pays from, now; lives until the next call. */
uint64_t *meter_account(struct meter *m, uint64_t who, msec now);

/* Steps that <account> may use now: 0 when it has had its share. */
uint64_t meter_allows(const struct meter *m, const uint64_t *account);

void meter_charge(struct meter *m, uint64_t *account, uint64_t steps);

#endif

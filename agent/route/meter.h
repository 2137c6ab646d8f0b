/* meter.h - what the text of each tenant has cost one thread lately, and so what the next may cost.
 *
 *   a core's time  |== all tenants together ==|= this one, again =|------ may be used ------|
 *
 * Each tenant may use as much as nobody uses. One alone gets up to half of a core, two that want all get a third each, n get 1/(n + 1)
 * each: who uses little is never refused, and no number of tenants has to be known. (It is how switches divide their buffers: Choudhury and
 * Hahne, "Dynamic queue length thresholds".) What is counted is steps of work.h, halved every METER_HALF_MS.
 *
 * Tenants that the configuration names have an account each. Other names may be a client's own invention. So one that was not here before
 * shares an account with all others that were not, until it has been known for METER_KNOWN_MS. It needs a place for that, one of two times
 * METER_WAYS. It gets one whose tenant has been silent for METER_SILENT_MS, or that of the tenant who asked least of these if it has asked
 * more often than that lately, by METER_MORE at least. Requests are counted for it in METER_SEEN counters that all strangers share; twice
 * their mean is taken off, so that a flood of ever new names counts for none of them. Hence who keeps places with names that ask seldom
 * keeps out nobody who asks more often. Requests without a tenant are one tenant.
 *
 * Belongs to one thread. No clock: time comes in. About 15 ns a call, and 512 accounts to go over a few times a second. */
#ifndef KVROUTE_ROUTE_METER_H
#define KVROUTE_ROUTE_METER_H

#include "agent/base/types.h"

#define METER_WAYS	4u
#define METER_PLACES	256u		/* a multiple of METER_WAYS */
#define METER_HALF_MS	256
#define METER_KNOWN_MS	5000
#define METER_SILENT_MS	30000
#define METER_ASKED_MS	8192		/* counts of requests are halved so often */
#define METER_SEEN	1024u		/* a power of two */
#define METER_MORE	16u
#define METER_NAMED	256u		/* numbers of tenants that the configuration names; 0 is none */

/* Steps of a core that does nothing else, as they add up here: 100 million a second, a half-life of 256 ms. */
#define METER_CORE	38000000u

struct meter_tenant {
	uint64_t who;			/* a keyed hash of its name; <last> == 0: nobody's */
	msec first, last;
	uint64_t used;
	uint32_t asked;			/* requests, halved every METER_ASKED_MS */
};

struct meter {
	msec halved, aged;		/* steps, requests; 0: not begun */
	uint64_t all, strangers;	/* steps; <strangers>: of those that are not known yet */
	struct meter_tenant place[METER_PLACES];
	uint64_t named[METER_NAMED];	/* steps */
	uint32_t seen[2][METER_SEEN];	/* requests of names without a place, each in two counters */
	uint64_t seen_all;
};

/* All zero at first. The account that <who> pays from, now; lives until the next call. <number>: that the configuration gives it, below
 * METER_NAMED; 0: none. */
uint64_t *meter_account(struct meter *m, uint64_t who, uint32_t number, msec now);

/* Steps that <account> may use now: 0 when it has had its share. */
uint64_t meter_allows(const struct meter *m, const uint64_t *account);

void meter_charge(struct meter *m, uint64_t *account, uint64_t steps);

#endif

/* share.h - a router as one agent of a fleet: what it tells its siblings, and what they tell it.
 *
 *      route_decide, route_learn --> put() --> outbox ... streams ... inbox --> route_share_apply()
 *
 * The router puts entries (agent/share/share.h) about what it alone knows. It applies those of
 * siblings to its own index and ledger, so that each decision is made from local memory.
 *
 *   PLACED      opens an entry in the ledger, and the server claims the pages
 *   FACT        moves, answers or closes that entry, as route_learn() does
 *   TAKEN_BACK  removes it
 *   HELD        the server holds the pages, as old as they are: older ones are evicted for them
 *   CLEARED     the server holds nothing; or it is gone
 *   SERVER      rates, where there is no evidence here; of sizes of a cache the largest is used
 *   HEAD        into the memory of heads
 *   DIGEST, ENDS, WANT    find the pages that one agent knows a server to hold and another does not
 *
 * Entries may come late, twice, in another order, or not at all. A request counts once whatever
 * comes first: its entry here, a log line here, or the fact of a sibling. What got lost is found by
 * digests. Values of a sibling are bounded as those of HAProxy are, and never trusted further.
 *
 * After digests all agents hold the same, also of servers that are full: the newest pages. A full
 * server has a horizon, the time until which it has evicted (index/held.h). Agents tell theirs and
 * evict up to the latest, so pages before it are neither held by one, nor asked for, nor compared.
 * Pages that would be the oldest of a full server are refused, and the horizon moves behind them.
 * Capacities of agents should be the same, because the smallest decides. Servers that evict in
 * another order than by time (lfu, mru, filo, priority) have no horizon: agents may differ there.
 *
 * Without route_share() none of this costs anything but the test of a pointer. */
#ifndef KVROUTE_ROUTE_SHARE_H
#define KVROUTE_ROUTE_SHARE_H

#include "agent/route/route.h"
#include "agent/share/share.h"

/* Where the router puts entries. <put> is called from any thread that decides or learns, and from
 * that of route_share_work(). It must copy what it keeps, must not block and must not call the
 * router. <part>: below <parts>; all pages of a space, and the facts of its requests, have the
 * same. */
struct route_share {
	void (*put)(void *arg, uint32_t part, const struct share_entry *e);
	void *arg;
	uint32_t parts;		/* at least 1 */
	share_agent self;	/* not 0 */
};

/* Begin to share. To be called once, before any thread decides. The options must have <share>, so
 * that the memory is in route_budget(). Returns -1 if there is no memory. */
int route_share(struct route *r, const struct route_share *to);

/* ---- the four below are called by one thread at a time ---- */

/* Apply what <from> has put. <e> is checked by its decoder; its spans are borrowed. */
void route_share_apply(
    struct route *r, share_agent from, const struct share_entry *e, msec now);

/* The lease of <agent> ended: its open requests count no longer. The work of a call is bounded: to
 * be called again until it returns false. */
bool route_share_gone(struct route *r, share_agent agent, msec now);

/* Do a slice of what is due: digests, ends, pages that siblings lack. Some ten microseconds, and
 * more only for the pages of a prompt that is longer than some thousand. Returns true if there is
 * more to do at once; else to be called about ten times a second. */
bool route_share_work(struct route *r, msec now);

/* Entries may have been lost: compare digests soon. */
void route_share_resync(struct route *r);

/* Return the open requests that this agent decided: SHARE_ALIVE tells them. Any thread. */
uint32_t route_share_open(struct route *r);

/* ---- figures; any thread ------------------------------------------------------------------- */

struct route_share_stats {
	uint64_t put[SHARE_KINDS];		/* entries by kind; [0]: unused */
	uint64_t applied[SHARE_KINDS];		/* the same, of siblings */
	uint64_t pages_put, pages_skipped;	/* of PLACED: sent; before an anchor, so not sent */
	uint64_t pages_applied;			/* of PLACED and HELD, after their anchors */
	uint64_t unplaced;	/* PLACED and HELD whose anchor is unknown here: their pages come later */
	uint64_t repeated;	/* entries that changed nothing, because they were known */
	uint64_t early;		/* facts that came before their PLACED */
	uint64_t ignored;	/* facts of requests that are not known */
	uint64_t refused;	/* entries of pools or servers for which there is no room here */
	uint64_t open;		/* requests of siblings in the ledger now */
	uint64_t closed_by_lease;	/* of siblings that fell silent */
	uint64_t closed_as_lost;	/* of siblings that have fewer open: their ends were lost */
	uint64_t rounds;	/* digests made of all servers */
	uint64_t sums_dropped;	/* of siblings' digests, for which there was no room */
	uint64_t parts_differing;	/* parts of servers that differed in the last digest of any sibling */
	uint64_t ends_lacked;	/* ends of siblings' prefixes that were not known here */
	/* prefixes sent again; applied; too old for a full server, or without room */
	uint64_t held_put, held_applied, held_refused;
	uint64_t anchors;	/* places known now */
};

void route_share_stats(struct route *r, struct route_share_stats *s);

#endif

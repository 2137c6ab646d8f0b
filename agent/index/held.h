/* held.h - walk over what servers hold, and let a server hold more: for agents that compare their
 * trees.
 *
 * The walk visits each node once while other threads match and commit. What changes meanwhile is
 * seen before, after, or not at all. Claims are left out. */
#ifndef KVROUTE_INDEX_HELD_H
#define KVROUTE_INDEX_HELD_H

#include "agent/base/hash.h"
#include "agent/index/place.h"

#define HELD_PAGES_MAX	512u	/* pages of one node */

/* A run of pages that servers hold from its start. */
struct held_run {
	struct index_place end;		/* of the run */
	uint32_t start;			/* pages before it */
	uint64_t first;			/* chain hash of the first page of the prompt */
	uint64_t before;		/* chain hash of the <start> pages */
	uint32_t n_pages, n_holders;
	const uint64_t *hashes;		/* [n_pages] chain hashes: of <start> + 1, + 2, ... pages */
	const struct holder *holders;
};

struct holder {
	server_id server;
	uint16_t pages;			/* it holds so many of the run */
	uint8_t hits, priority;
	bool end;			/* it holds or claims nothing below these pages */
	msec unused_ms;			/* since its last use */
};

struct held_walk;

/* Allocate a walk, which stands at its beginning. Returns NULL if there is no memory. */
struct held_walk *held_walk_new(struct index *ix, const struct hash_key *key);
void held_walk_free(struct held_walk *w);	/* <w> may be NULL */
size_t held_walk_bytes(void);

/* Visit some <nodes> more and call <fn> for each that a server holds a page of, without a lock.
 * Returns false at the end; the next call begins again. */
bool held_walk(struct held_walk *w, uint32_t nodes, msec now,
    void (*fn)(void *arg, const struct held_run *run), void *arg);

/* ---- what a full server does not hold --------------------------------------------------------
 *
 *	used:   long ago ---- evicted ----]|[---- held, as far as known ---- now
 *	                              horizon
 *
 * A server with a capacity that evicts by time (INDEX_LRU, INDEX_FIFO) has a horizon, once it has
 * evicted: pages used until then are gone. Agents of a fleet that tell each other their horizons,
 * and keep nothing before the latest, hold the same in the end, however each came to evict: the
 * horizon only moves on, what is used after it is held by all, and nothing before it by any. A
 * larger capacity forgets it. A server with another order has none, because there a page that was
 * used just now may go first. */

/* Return the time since the horizon; -1: there is none. */
msec index_evicted_ago(struct index *ix, server_id server, msec now);

/* Move the horizon to <unused_ms> ago, if it is before that (-1: leave it). Evict <work> records
 * used until then. Pages of claims stay. Returns true if there is more to evict. Does nothing for a
 * server without a capacity, or with another order. */
bool index_evict_unused(
    struct index *ix, server_id server, msec unused_ms, msec now, uint32_t work);

/* Evict the record at whose end a walk saw <at>, if it was used until the horizon. */
void index_evict_at(struct index *ix, server_id server, struct index_place at);

/* Let <server> hold <n> pages that it has not used for <unused_ms>, and write to <end> where they
 * end. <had>: the number of them that it holds already. If the server is full, older pages of it
 * are evicted, EVICT_MAX records at most; but these are refused if they are the oldest. */
enum index_held {
	HELD_DONE,
	HELD_TOO_OLD,		/* evicted before, or at once for want of room */
	HELD_NO_ROOM,		/* of bytes, or in a server without horizon; or it is leaving */
};
struct held_use {
	uint8_t hits, priority;
	msec unused_ms;
};
enum index_held index_hold(struct index *ix, const struct space_key *space, const page_key *pages,
    size_t n, uint32_t had, server_id server, const struct held_use *use, msec now,
    struct index_place *end);

#endif

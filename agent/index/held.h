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

/* Let <server> hold <n> pages that it has not used for <unused_ms>, and write to <end> where they
 * end. Returns false if there is no room without an eviction, or if it is leaving. */
struct held_use {
	uint8_t hits, priority;
	msec unused_ms;
};
bool index_hold(struct index *ix, const struct space_key *space, const page_key *pages, size_t n,
    server_id server, const struct held_use *use, msec now, struct index_place *end);

#endif

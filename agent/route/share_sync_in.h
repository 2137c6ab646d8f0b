/* share_sync_in.h - private to agent/route: what siblings lack, found by hashes and sent again.
 *
 *   agent A                         B, C ...
 *   round: sums of each server -->  own sums over the same pages; where they differ:
 *                              <--  ENDS of that server and part, to A
 *   ENDS of the same           -->
 *          both look up the ends of the other, and for those they lack
 *   WANT                      <-->  WANT
 *   HELD                      <-->  HELD
 *
 * A sum is over all pages that a server holds in one of 64 parts of all spaces: of their chain
 * hashes. Ends are the prefixes that a server holds and that it does not hold more of. With each
 * end go hashes of some pages before it, so that the other can say from where on it needs pages.
 *
 * Each of these steps needs a walk over the index, and one walk serves all that is pending: it
 * makes sums, collects ends, looks up ends of siblings, and finds what they want. A round of one
 * agent compares all with it, so the others put their own rounds off. Pages used within the last
 * seconds are left out of periodic rounds, because they differ all the time. */
#ifndef KVROUTE_ROUTE_SHARE_SYNC_IN_H
#define KVROUTE_ROUTE_SHARE_SYNC_IN_H

#include "agent/index/held.h"
#include "agent/route/job_in.h"

#define SPACE_PARTS	64u	/* by chain hash of the first page */
#define SUMS_MAX	1024u	/* sums of siblings' servers that wait to be compared */
#define SOUGHT_MAX	8192u	/* ends looked up in one walk */
#define TAILS_MAX	8192u	/* runs of pages among which ends are found in one walk */
#define POINTS_MAX	12u	/* of an end, before it: halfway, three quarters, ... */
#define ENDS_A_MESSAGE	2048u
#define ALL_PAGES	INT64_MAX	/* as a cutoff: those used just now too */

struct their_sums {
	share_agent from;
	server_id server;	/* SERVER_NONE: end of the round of <from> */
	uint64_t since;		/* the walk that may compare it */
	msec cutoff;		/* pages used after that are left out */
	uint64_t sums[SPACE_PARTS];
};

/* The end of a prefix, looked for in the pages that its server holds here. */
struct sought {
	uint64_t hash;
	uint32_t depth;
	server_id server;
	uint64_t since;			/* the first walk that has looked everywhere */
	share_agent from;		/* who named it */
	struct share_anchor known;	/* on the way there: what the agent that lacks it has */
	bool found;
	struct index_place at;		/* if found; and how its server used it */
	struct held_use use;
};

/* A set of them, by hash and server. */
struct seek {
	uint64_t parts[SERVERS_MAX];	/* bit per part in which some are; all if it is unknown */
	uint32_t n;
	struct sought of[SOUGHT_MAX];
	uint16_t slot[4 * SOUGHT_MAX];	/* number + 1; 0: free */
};

/* A run of pages that a server holds, in a part whose ends are asked for. */
struct tail {
	server_id server;
	uint32_t part;
	uint64_t before, end;		/* chain hashes */
	struct index_place at;		/* its end */
};

enum sync_phase { SYNC_IDLE, SYNC_WALK, SYNC_SUMS, SYNC_COMPARE, SYNC_ENDS, SYNC_WANT, SYNC_HELD };

/* Used by the one thread that applies and works, except <resync>. */
struct sync {
	struct held_walk *walk;
	struct index_match match;
	struct rng rng;
	_Atomic int resync;		/* RESYNC_... */
	enum sync_phase phase;
	uint64_t pass;			/* number of the walk under way, or of the last one */
	msec now, started;
	/* rounds */
	bool begun, wanted;
	msec next_round, last_wanted, last_hard, gap;
	int64_t bytes_left;		/* that may be put now */
	msec filled;
	/* the walk */
	bool own_round;
	msec cutoff, quiet_ms;
	uint64_t sums[SERVERS_MAX][SPACE_PARTS];
	uint64_t cells[SERVERS_MAX], cells_next[SERVERS_MAX];	/* bit per part: its ends are asked for */
	share_agent ends_to[SERVERS_MAX];
	uint32_t cells_most;		/* of one walk */
	bool crowded;			/* it had more tails than there is room for */
	struct tail tails[TAILS_MAX];
	uint32_t n_tails;
	struct seek lack, want;		/* ends of siblings; ends that siblings want */
	uint32_t at;			/* the next one of the phase */
	struct their_sums theirs[SUMS_MAX];
	uint32_t n_theirs;
	struct share_anchor ends[ENDS_A_MESSAGE];
	uint64_t befores[TAILS_MAX];
	uint64_t prefix[HELD_PAGES_MAX + 1];
};

enum { RESYNC_NO, RESYNC_SOON, RESYNC_NOW };

struct sync *sync_new(struct route *r, share_agent self);	/* NULL: no memory */
void sync_free(struct sync *y);		/* <y> may be NULL */
uint64_t sync_budget(void);

/* Ask for a round; any thread. */
void sync_wanted(struct sharing *sh, int how);

/* Find or add the server that a sibling names, and copy its id. Returns SERVER_NONE if there is no
 * room. Without the lock. */
server_id sync_server(struct route *r, const struct share_server *at, msec now);

/* Copy the names of <id>; they are valid as long as <to>. Returns false if there is no such server,
 * or if it has no name. Without the lock. */
struct server_names {
	char pool[POOL_NAME_MAX + 1], server[SERVER_NAME_MAX + 1];
	uint64_t hash;
};
bool sync_names(struct route *r, server_id id, struct server_names *to);
struct share_server names_at(const struct server_names *n);

/* Put an entry of about <bytes>. */
void sync_put(struct route *r, uint64_t name_hash, const struct share_entry *e, size_t bytes);

/* ---- share_sync.c: sums ---- */

void sync_apply_digest(
    struct route *r, share_agent from, const struct share_digest *d, msec now);

/* ---- share_ends.c: ends, and pages of those that siblings lack ---- */

void sync_apply_ends(struct route *r, share_agent from, const struct share_ends *e, msec now);
void sync_apply_want(struct route *r, share_agent from, const struct share_want *w, msec now);
void sync_apply_held(struct route *r, const struct share_held *h, msec now);

/* See a run of the walk. */
void ends_see(struct sync *y, const struct held_run *run, const struct holder *h, uint32_t part);
/* Sort what it has seen. */
void ends_sort(struct sync *y);
/* Put some of what the walk has found. Each returns true at its end. */
bool ends_put(struct route *r);
bool ends_put_want(struct route *r);
bool ends_put_held(struct route *r);
/* Forget what the walk has looked for. */
void seek_drop(struct seek *s, uint64_t pass);

/* ---- share_pages.c ---- */

/* All pages of an entry, in sh->pages; the hashes of their anchors are in sh->chain. Of those
 * before the anchor there is nothing but its own hash if <at> is set. */
struct whole {
	struct space_key space;
	uint32_t n;		/* 0: none, or the anchor is unknown here */
	uint32_t anchor;	/* pages before it */
	struct index_place at;	/* of the anchor, known to be the same; .node 0: not set */
};

/* Set <w>, the hashes of its anchors, and the marks. Counts it if the anchor is unknown. */
void share_take_pages(struct route *r, const struct share_space *space,
    const struct share_anchor *a, const page_key *pages, uint32_t n, struct whole *w);

/* Do the same, but collect no pages before the anchor if that is not needed. */
void share_take_placed(struct route *r, const struct share_placed *p, struct whole *w);
void share_prefetch_pages(const struct sharing *sh, const struct share_placed *p);	/* for it */

/* Commit the pages. Returns 0, and sets <end> to (0, 0), if there is no claim. */
index_claim share_commit(struct route *r, const struct whole *w, const struct share_anchor *a,
    server_id to, unsigned priority, msec now, struct index_place *end);

/* Remember where they are for the next entry that continues them. */
void share_enter_pages(struct route *r, const struct whole *w, struct index_place end);

/* ---- share_apply.c ---- */

/* The lock is held. */
struct server *share_server(struct route *r, const struct share_server *at, msec now);

#endif

/* share_sync_in.h - private to agent/route: what siblings lack, found by hashes and sent again.
 *
 *   agent A                         B, C ...
 *   round: sums of each server -->  own sums over the same ends; where they differ:
 *                              <--  ENDS of that server and part, to A
 *   ENDS of the same           -->
 *          both look up the ends of the other, and for those they lack
 *   WANT                      <-->  WANT
 *   HELD                      <-->  HELD
 *
 * Ends are the prefixes that a server holds and that it does not hold more of. A sum is over the
 * chain hashes of all ends of a server, of which each hash chooses one of 64 parts. With each end
 * go hashes of some pages before it, so that the other can say from where on it needs pages.
 *
 * Each of these steps needs a walk over the index, and one walk serves all that is pending: it
 * makes sums, collects ends, looks up ends of siblings, and finds what they want. A round of one
 * agent compares all with it, so the others put their own rounds off.
 *
 *   used:   ... evicted ]  (boundary, moving)  ( compared by a periodic round )  (just now) ...
 *                   horizon                  low                           cutoff
 *
 * Of a full server, agents tell each other the horizon (index/held.h), and evict up to the latest
 * before they compare. While it moves on, the ends next to it differ all the time: those between
 * the horizon and <low>, which is as far from it as it moved within the last seconds, are left out.
 * So are those used within the last seconds, in periodic rounds. When a server is full, an end that
 * would be its oldest is refused; then the horizon moves behind it, so that all give it up. What
 * was asked for is remembered and asked for again ever later. */
#ifndef KVROUTE_ROUTE_SHARE_SYNC_IN_H
#define KVROUTE_ROUTE_SHARE_SYNC_IN_H

#include "agent/index/held.h"
#include "agent/route/job_in.h"

#define SPACE_PARTS	64u	/* by chain hash of the end */
#define SUMS_MAX	1024u	/* sums of siblings' servers that wait to be compared */
#define SOUGHT_MAX	8192u	/* ends looked up in one walk */
#define TAILS_MAX	8192u	/* ends collected in one walk */
#define POINTS_MAX	12u	/* of an end, before it: halfway, three quarters, ... */
#define ENDS_A_MESSAGE	2048u
#define ALL_PAGES	INT64_MAX	/* as a cutoff: those used just now too */
#define CLOCKS_MS	200	/* times that agents tell each other may be so far off */
#define FROM_START	INT64_MIN	/* as <low> */

struct their_sums {
	share_agent from;
	server_id server;	/* SERVER_NONE: end of the round of <from> */
	uint64_t since;		/* the walk that may compare it */
	msec low, cutoff;	/* of ends used until or after then, none are in the sums */
	uint64_t sums[SPACE_PARTS];
};

/* The end of a prefix, looked for in the pages that its server holds here. */
struct sought {
	uint64_t hash;
	uint32_t depth;
	server_id server;
	uint64_t since;			/* the first walk that has looked everywhere */
	share_agent from;		/* who named it */
	/* on the way there: what the agent that lacks it has, as far as it remembers */
	struct share_anchor known;
	bool found;
	struct index_place at;		/* if found; and how its server used it */
	struct held_use use;
};

/* A set of them, by hash and server. */
struct seek {
	uint64_t parts[SERVERS_MAX];	/* bit per part in which some are */
	uint32_t n;
	struct sought of[SOUGHT_MAX];
	uint16_t slot[4 * SOUGHT_MAX];	/* number + 1; 0: free */
};

/* An end in a part whose ends are asked for. */
struct tail {
	server_id server;
	uint32_t part;
	uint64_t end;			/* chain hash */
	struct index_place at;
};

/* Ends that some agent asked for, so that they need not be asked for again at once. */
#define ASKED_PLACES	8192u
#define ASKED_WAYS	4u

struct asked {
	uint64_t key;			/* of end and server; 0: free */
	msec at;
	uint32_t times;			/* this agent asked */
};

/* Servers that a sibling does not tell of, for which a round was asked for. */
#define UNKNOWN_ASKED	64u		/* siblings */

struct unknown_asked {
	share_agent from;		/* 0: free */
	uint64_t servers[SERVERS_MAX / 64];
};

enum sync_phase {
	SYNC_IDLE, SYNC_EVICT, SYNC_WALK, SYNC_SUMS, SYNC_COMPARE, SYNC_ENDS, SYNC_WANT, SYNC_HELD
};

/* Used by the one thread that applies and works, except <resync>. */
struct sync {
	struct held_walk *walk;
	struct index_match match;
	struct rng rng;
	_Atomic int resync;		/* RESYNC_... */
	enum sync_phase phase;
	uint64_t pass;			/* number of the walk under way, or of the last one */
	msec now;
	/* rounds */
	bool begun, wanted;
	msec next_round, last_wanted, last_least, longer_at, gap, wait;
	int64_t bytes_left;		/* that may be put now */
	msec filled;
	/* horizons, as times; FROM_START: none */
	msec told[SERVERS_MAX];		/* the latest of siblings, which is not yet the index's */
	uint64_t exact[SERVERS_MAX / 64];	/* bit per server: nothing is left before its horizon */
	msec sampled_at, sampled[SERVERS_MAX], before[SERVERS_MAX];	/* and the sample before */
	uint32_t still;			/* samples since a horizon moved */
	msec answered[SERVERS_MAX];	/* when own sums were put last */
	msec learned_at;		/* the last look at what is learned */
	/* the walk */
	bool own_round;
	msec cutoff, quiet_ms, low[SERVERS_MAX];
	/* bit per server: sums of a sibling begin before the horizon; own sums answer them */
	uint64_t early[SERVERS_MAX / 64], answer[SERVERS_MAX / 64];
	uint64_t named_late[SERVERS_MAX / 64];	/* bit per server: a sibling must hear that it is named */
	uint64_t sums[SERVERS_MAX][SPACE_PARTS];
	uint64_t cells[SERVERS_MAX], cells_next[SERVERS_MAX];	/* bit per part: its ends are asked for */
	share_agent ends_to[SERVERS_MAX];
	uint32_t cells_most;		/* of one walk */
	bool crowded;			/* it had more tails than there is room for */
	struct tail tails[TAILS_MAX];	/* a heap by server, part and end */
	uint32_t n_tails;
	struct seek lack, want;		/* ends of siblings; ends that siblings want */
	struct asked asked[ASKED_PLACES];
	uint32_t at;			/* the next one of the phase */
	/* who told sums of a server last, and when: those of a round come in several walks */
	share_agent heard_from[SERVERS_MAX];
	msec heard_at[SERVERS_MAX];
	struct unknown_asked unknown[UNKNOWN_ASKED];
	uint32_t next_unknown, unknown_losses;
	msec unknown_since;
	struct their_sums theirs[SUMS_MAX];
	uint32_t n_theirs, n_kept, differing;
	bool compared;
	struct share_anchor ends[ENDS_A_MESSAGE];
	uint32_t n_ends;		/* of the message under way, which is to: */
	server_id ends_of;
	share_agent ends_from;
};

static inline bool has_bit(const uint64_t *set, server_id id)
{
	return set[id / 64] >> id % 64 & 1;
}

enum { RESYNC_NO, RESYNC_SOON, RESYNC_NOW };

struct sync *sync_new(struct route *r, share_agent self);	/* NULL: no memory */
void sync_free(struct sync *y);		/* <y> may be NULL */
uint64_t sync_budget(void);

/* Ask for a round; any thread. */
void sync_wanted(struct sharing *sh, int how);

/* Return when the next periodic round is due, if another begins now. */
msec sync_next_round(struct sync *y, msec now);

/* A round was made: let the next one that is asked for wait twice as long. */
void sync_wait_longer(struct sync *y, msec now);

/* ---- share_names.c ---- */

/* Find or add the server that a sibling tells of, and note that HAProxy named it <named_ago> before
 * <now>; -1: unknown, taken as now. Returns its id; SERVER_NONE if there is no room, or if it is
 * unknown here and has left HAProxy's configuration since. Without the lock. */
server_id sync_server(
    struct route *r, const struct share_server *at, msec named_ago, msec now);

/* Return the id of the server that a sibling names, or SERVER_NONE. Without the lock. */
server_id sync_known(struct route *r, const struct share_server *at);

/* Copy the names of <id>; they are valid as long as <to>. Returns false if there is no such server,
 * or if it has no name. Without the lock. */
struct server_names {
	char pool[POOL_NAME_MAX + 1], server[SERVER_NAME_MAX + 1];
	uint64_t hash;
	msec named;		/* by HAProxy, to some agent; 0: unknown */
	msec late;		/* siblings that take it as named so much earlier are told at once */
	bool left;		/* its configuration since: siblings are not told of it */
};
bool sync_names(struct route *r, server_id id, struct server_names *to);
msec names_ago(const struct server_names *n, msec now);	/* since <named> */
struct share_server names_at(const struct server_names *n);

/* Put an entry of about <bytes>. */
void sync_put(struct route *r, uint64_t name_hash, const struct share_entry *e, size_t bytes);

/* ---- share_sums.c: horizons and sums ---- */

/* Note the horizon of a sibling: <ago>, or -1. */
void sums_horizon(struct sync *y, server_id id, msec ago, msec now);
/* Sample the horizons of the index, for sums_low(). */
void sums_sample(struct route *r, msec now);
/* Set what the walk that begins now compares: y->low, and y->cutoff if the round is a sibling's. */
void sums_range(struct route *r, msec now);
/* Return the age of the horizon to tell; -1: none. */
msec sums_told_ago(struct route *r, server_id id, msec now);
/* Do a slice. Each returns true at its end. */
bool sums_evict(struct route *r, msec now);
bool sums_put(struct route *r, msec now);
bool sums_compare(struct route *r);
/* Return whether the walk has made sums of what <t> is of. */
bool sums_comparable(const struct sync *y, const struct their_sums *t);

void sync_apply_digest(
    struct route *r, share_agent from, const struct share_digest *d, msec now);

/* Take only the horizon of one that was made long ago: it comes from an old stream. */
void sync_apply_old(struct route *r, const struct share_digest *d, msec now);

/* ---- share_unknown.c: servers that a sibling does not tell of ---- */

/* Look for them in the rounds that the walk has compared. */
void unknown_look(struct route *r);
/* A sibling has told sums of <id>. */
void unknown_told(struct sync *y, share_agent from, server_id id);

/* ---- share_learned.c: what is learned of a server ---- */

/* Tell siblings, unless it was told less than <every> ago. */
void share_put_learned(struct route *r, server_id id, msec every, msec now);
/* Tell what has changed, and all once a minute. */
void share_tell_learned(struct route *r, msec now);
/* The same of a snapshot that a sibling has written. Under the lock and with the options. */
void share_recall_learned(
    struct route *r, struct server *s, const struct share_learned *l, msec now);
void share_take_learned(struct route *r, share_agent from, const struct share_learned *l, msec now);

/* ---- share_seek.c: what the walk looks for ---- */

/* Add <x>. What is in the set already, or finds no room, is left out: it comes again with the next
 * round. */
void seek_add(struct seek *s, const struct sought *x);
/* Forget what the walk has looked for. */
void seek_drop(struct seek *s, uint64_t pass);
/* Take the first one of the heap y->tails, which is not empty. */
struct tail tail_pop(struct sync *y);
/* See what a server holds of a run, in the walk. <compared>: it is an end, and in the sums. */
void ends_see(struct sync *y, const struct held_run *run, const struct holder *h, bool compared);

/* ---- share_ends.c: ends, and those that are lacked; share_held.c: their pages ---- */

void sync_apply_ends(struct route *r, share_agent from, const struct share_ends *e, msec now);
void sync_apply_want(struct route *r, share_agent from, const struct share_want *w, msec now);
void sync_apply_held(struct route *r, const struct share_held *h, msec now);

/* Collect all pages of <at> in sh->pages and their hashes in sh->chain. Returns the last hash; 0 if
 * the place is gone. */
uint64_t ends_read(struct route *r, struct index_place at, struct space_key *space);

/* Put some of what the walk has found. Each returns true at its end. */
bool ends_put(struct route *r, msec now);
bool ends_put_want(struct route *r, msec now);
bool ends_put_held(struct route *r);

/* ---- share_asked.c ---- */

/* Return whether this agent may ask for an end. Note that it does, or that a sibling does. */
bool asked_may(struct sync *y, uint64_t end, server_id id, msec now);
void asked_note(struct sync *y, uint64_t end, server_id id, bool by_this, msec now);

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

#endif

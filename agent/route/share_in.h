/* share_in.h - private to agent/route: what a router keeps while it shares with siblings.
 *
 * All but the anchors, the kept marks, the counters and the buffers of the thread that applies is
 * under the route's lock. */
#ifndef KVROUTE_ROUTE_SHARE_IN_H
#define KVROUTE_ROUTE_SHARE_IN_H

#include <stdatomic.h>

#include "agent/base/count.h"
#include "agent/base/list.h"
#include "agent/fleet/capacity.h"
#include "agent/fleet/ledger.h"
#include "agent/route/anchors_in.h"
#include "agent/route/kept_marks_in.h"
#include "agent/route/share.h"

struct route;
struct route_opts;
struct job;
struct settling;
struct open_request;
struct route_scratch;
struct sharing;

#define SIBLINGS_MAX	256u	/* agents with open requests, besides this one */

struct sibling {
	share_agent agent;	/* 0: free */
	struct list open;	/* struct open_request.of_owner */
	uint32_t n_open;
	/* share_lost.c */
	uint32_t looked_at;	/* sharing.losses, when the last look began */
	uint32_t lost;		/* the least number of entries beyond what it has open, in this look */
	msec looking_since;	/* 0: not looking */
	bool after_loss;	/* the look is */
};

/* ---- share_seen.c: requests that are not open any more, or not yet ------------------------- */

/* What is known of a request without an entry in the ledger. */
enum share_seen {
	SEEN_NOT,
	SEEN_CLOSED,		/* its entry was closed, but its log line would still be learned */
	SEEN_OVER,		/* its end was learned from a fact that came here */
	SEEN_OVER_THERE,	/* the same, from the fact of a sibling */
};

#define SEEN_PLACES	16384u	/* a later request replaces an earlier one */
#define SEEN_WAYS	4u
#define EARLY_PLACES	256u

struct seen_place {
	uint64_t uid;		/* 0: free */
	uint32_t state;
};

/* A fact whose PLACED has not come. */
struct early {
	uint64_t uid;		/* 0: free */
	msec at;
	uint64_t response;	/* hash of the id that it names; 0: none */
	struct fact fact;	/* its only span is <server> */
	char server[SERVER_NAME_MAX + 1];
};

/* Prefetch what the functions below read of <uid>. Without the lock. */
void seen_prefetch(const struct sharing *sh, uint64_t uid);
void seen_put(struct sharing *sh, uint64_t uid, enum share_seen state);
enum share_seen seen_find(const struct sharing *sh, uint64_t uid);
void early_put(
    struct sharing *sh, uint64_t uid, const struct fact *f, uint64_t response, msec now);
bool early_has(const struct sharing *sh, uint64_t uid);
/* Return the fact of <uid>, which is forgotten by the next early_put(); NULL if there is none. */
const struct early *early_take(struct sharing *sh, uint64_t uid, msec now);

/* ---- share.c ------------------------------------------------------------------------------- */

/* Counters of struct route_share_stats that any thread adds to. */
struct share_counts {
	_Atomic uint64_t put[SHARE_KINDS], applied[SHARE_KINDS];
	_Atomic uint64_t pages_put, pages_skipped, pages_applied;
	_Atomic uint64_t unplaced, repeated, early, ignored, refused, closed_by_lease, closed_as_lost;
	_Atomic uint64_t rounds, sums_dropped;
	_Atomic uint64_t parts_differing, ends_lacked, held_put, held_applied, held_refused;
};

struct sharing {
	struct route_share to;
	struct anchors *anchors;
	struct kept_marks *kept;
	struct share_counts n;
	_Atomic uint32_t losses;	/* calls of route_share_resync() */
	/* under the route's lock */
	struct sibling siblings[SIBLINGS_MAX];
	uint64_t n_open;
	struct seen_place seen[SEEN_PLACES];
	struct early early[EARLY_PLACES];
	/* of the thread that applies */
	msec age_ms;			/* of the entry */
	uint32_t max_pages;
	page_key *pages;		/* [max_pages] */
	uint64_t *chain;		/* [max_pages / ANCHOR_EVERY] */
	struct marks marks;		/* all depths are set */
	struct index_match match;	/* only its cursor is used */
	struct sync *sync;		/* share_sync_in.h */
};

uint64_t sharing_budget(const struct route_opts *o);
void sharing_free(struct sharing *sh);		/* <sh> may be NULL */

/* Return the sibling of this number, or NULL if there are too many. */
struct sibling *sibling_met(struct sharing *sh, share_agent agent);
void sibling_opened(struct sharing *sh, struct sibling *by, struct open_request *o);
void sibling_closed(struct sharing *sh, struct open_request *o);

/* ---- share_lost.c -------------------------------------------------------------------------- */

/* <from> is alive: close entries of it whose end was lost. */
void share_apply_alive(
    struct route *r, share_agent from, const struct share_alive *a, msec now);

/* ---- share_put.c: what this agent tells. Without the route's lock, unless it says so -------- */

/* Entries of different parts come in no order. What depends on another entry has the same part:
 * pages and facts go by the space of their request, sums, ends and wishes by the server. Others:
 *
 *   FACT of an unknown request    by its uid; siblings keep it until the request comes
 *   HEAD                          by its tenant; nothing depends on it
 *   ALIVE                         to all parts; its number is of all: see share_lost.c */
static inline uint32_t share_part(const struct sharing *sh, uint64_t hash)
{
	return (uint32_t)(hash % sh->to.parts);
}

struct share_space share_space_of(const struct route *r, const struct space_key *k);

/* The request of <j> was entered in the ledger, and its pages were committed up to <end>. */
void share_placed(struct route *r, const struct job *j, struct index_place end);
/* <stored>: as in struct fact */
void share_fact(
    struct route *r, uint64_t uid, uint32_t part, const struct fact *f, uint64_t stored);
void share_head(void *route, uint64_t tenant, struct span bytes);	/* a heads_tell_fn */
void share_taken_back(struct route *r, uint64_t uid, uint32_t part, bool served);

/* Under the lock: note that <e> is closed although its end was not reported. */
void share_unheard(
    struct route *r, const struct ledger_entry *e, bool served, struct settling *st);

#endif

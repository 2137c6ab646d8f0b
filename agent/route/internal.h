/* internal.h - the parts of the front door; nobody outside of this folder includes it. */
#ifndef KVROUTE_ROUTE_INTERNAL_H
#define KVROUTE_ROUTE_INTERNAL_H

#include <pthread.h>

#include "agent/base/hash.h"
#include "agent/base/rng.h"
#include "agent/route/fleet.h"
#include "agent/route/ledger.h"
#include "agent/route/route.h"
#include "agent/route/slices.h"
#include "agent/route/space.h"

/* A request whose answer has begun, so that it is closed, but whose log line is to come: that tells
 * how the answer ended, and where the request was refused before. */
struct answered {
	uint64_t uid;		/* 0: none */
	msec sent;
	server_id at, from;	/* who answered; who was to, or SERVER_NONE */
	bool failed;		/* counted as a failure already */
};

#define ANSWERED_MAX	1024	/* a later one takes the place of an earlier, and little is lost */

struct route {
	struct hash_key key;
	struct index *index;		/* locks itself */
	struct heads *heads;		/* locks itself */
	struct slices slices;		/* locks itself */

	pthread_rwlock_t opts_lock;	/* guards <opts> and <tenants>; held for reading while a request is decided */
	struct route_opts opts;
	struct tenant_numbers tenants;

	/* Guards all below. Held for the microseconds of one choice and never while the index or the
	 * scanner works; policy_choose(), which is arithmetic on its arguments, runs under it so that
	 * two requests at once do not both see the same idle server. */
	pthread_mutex_t lock;
	struct fleet fleet;
	struct ledger ledger;
	struct answered answered[ANSWERED_MAX];		/* at uid % ANSWERED_MAX */
	struct rng rng;
	bool by_chance;			/* turns of new servers, not by order of appearance */
	uint64_t nameless;		/* requests without a uid: each gets a number instead */
	msec swept;			/* when servers were last looked through */
	struct route_stats stats;
};

/* Claims to settle with the index once the lock is released: so many at most for one call. The last
 * place is for the entry that must make room. */
#define SETTLE_MAX	64

struct settling {
	struct { index_claim claim; bool confirm; } item[SETTLE_MAX];
	unsigned n;
};

static inline bool settling_full(const struct settling *st)
{
	return st->n >= SETTLE_MAX - 1;
}

/* Needs room. A claim of 0 is no claim. */
static inline void settling_add(struct settling *st, index_claim claim, bool confirm)
{
	if (claim == 0)
		return;
	st->item[st->n].claim = claim;
	st->item[st->n++].confirm = confirm;
}

void settle(struct route *r, struct settling *st, msec now);

uint64_t route_uid(const struct route *r, struct span uid);

/* A load string of the process of <sl> admits so many requests. Close those that HAProxy has ended unseen, those
 * first of which nothing was heard for longest, while <st> has room. What came or was moved here within the last
 * two seconds is left. */
void close_beyond(struct route *r, struct slot *sl, uint32_t admitted, struct settling *st,
		  msec now);

/* ---- keep.c. The route's lock is held, and its options are ------------------------------------------------ */

void keep_server(struct route *r, const struct server *s);	/* it is new */
void keep_options(struct route *r);				/* they are */
void keep_sweep(struct route *r, msec now);
/* Pages that an answer filled, by its bytes, and rather too few; 0: they are not known. <whole>: it was no stream. */
uint32_t keep_output_pages(const struct route_opts *o, const struct fact *f, bool whole);

const struct model_opts *model_options_of(const struct route_opts *o, struct span model);

struct route_scratch {
	struct body *body;
	struct index_match match;
	struct page_vec pages;
	struct candidate candidates[SERVERS_MAX];
	uint32_t depth[SERVERS_MAX];	/* of each candidate, in pages */
	char server[SERVER_NAME_MAX + 1], alt[SERVER_NAME_MAX + 1];
	char model[PROMPT_NAME_MAX + 1];
};

#endif

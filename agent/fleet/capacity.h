/* capacity.h - how large a server's cache is, where nobody says it: inferred from what it forgets.
 *
 *      a prompt is sent       its beginning was used there so many tokens ago: its reuse distance
 *      its first token        came as soon as if that beginning was held, or as late as if it was not
 *
 * A cache that forgets what was not used for longest holds exactly what has a reuse distance (in the
 * literature: LRU stack distance) below its size. So each first token is evidence for the sizes under
 * which it should have come then, and against the others.
 *
 * Distances are kept as the tokens by the time of their last use, in runs; a prompt's tokens go to the newest
 * run, from the one where they were:
 *
 *      oldest run  [ 9k ][ 16k ][ 3k ][ 17k ][ 8k ]  newest         distance of the 9k: all that is right of it
 *
 * Only a request before which little waits is evidence, one at a time. Distances are of what this agent sends:
 * where others send to the same servers, what is inferred is its share. Not locked: the owner is. */
#ifndef KVROUTE_FLEET_CAPACITY_H
#define KVROUTE_FLEET_CAPACITY_H

#include "agent/base/types.h"
#include "agent/policy/policy.h"

/* ---- places in a prompt ------------------------------------------------------------------------- */

#define MARKS_MAX	96u	/* 2^20 pages have some 85 */

/* Depths at which a prompt's beginning is remembered, the same in all prompts: every 16 pages, further down every
 * eighth of the depth. A key stands for all pages down to there, and their space. */
struct marks {
	uint32_t n;
	uint32_t depth[MARKS_MAX];
	uint64_t key[MARKS_MAX];
};

/* O(n). */
void marks_of(struct marks *m, uint64_t space, const page_key *pages, uint32_t n);

/* When each of them was last used at each server; a later one may take an earlier one's place. 2 MiB. */
struct marks_table;
struct marks_table *marks_table_new(void);	/* NULL: no memory */
void marks_table_free(struct marks_table *t);	/* takes NULL */
size_t marks_table_bytes(void);

/* ---- of a server -------------------------------------------------------------------------------- */

#define RUNS_MAX	512u
#define RUN_TOKENS	16384u		/* of a run, at least; so distances are known up to 8 M tokens */
#define CAPACITY_STEPS	8u		/* changes of the distance within one prompt that are looked at */
#define CAPACITY_SIZES	80u		/* that are weighed against each other: */
#define CAPACITY_LEAST	16384.0		/* from here, an eighth of an octave each */
#define PACE_OCTAVES	16u

/* How long a first token takes, by what is to be computed: learned where nothing can be cached. */
struct pace {
	float log2_ratio[PACE_OCTAVES];	/* of seconds taken to those predicted; by log2 of the latter */
	float n[PACE_OCTAVES];
};

/* Evidence against each size, and how many first tokens gave any. */
struct evidence {
	float against[CAPACITY_SIZES];
	float n;
};

/* The request whose first token is waited for. */
struct watched_prompt {
	uint64_t uid;			/* 0: none */
	msec sent;
	uint64_t tokens;
	uint32_t n_steps;
	struct { uint32_t depth, distance; } step[CAPACITY_STEPS];	/* tokens from the start, held if within */
};

struct capacity {
	uint64_t salt;			/* keys of this server in the table; never another's */
	uint32_t run;			/* number of the newest */
	uint32_t live[RUNS_MAX];	/* tokens last used in that run */
	struct watched_prompt watched;
	msec last_first;		/* first token of anyone */
	float unseen;			/* share of prompts that was cut off, smoothed */
	struct evidence own;
	struct pace pace;
	uint64_t recalled;		/* tokens; 0: nothing was */
};

/* All servers of a pool together. */
struct capacity_pool {
	struct evidence all;
	struct pace pace;
};

void capacity_init(struct capacity *c, uint64_t salt);

/* What was just sent there: <tokens> of a prompt with <m>, of which the index says that <matched> pages of
 * <page_tokens> are held. Where more than a tenth of what is sent is not seen, no distance is right, and nothing is watched. */
struct capacity_sent {
	const struct marks *marks;
	uint64_t uid, tokens, unseen;	/* <unseen> of <tokens> are an estimate of what was cut off */
	uint32_t matched, page_tokens;
	uint64_t waiting;	/* tokens there to be computed before it */
};
void capacity_sent(struct capacity *c, struct marks_table *t, const struct capacity_sent *s, msec now);
void capacity_output(struct capacity *c, uint64_t tokens);	/* it generated them */

/* The first token of <uid>; any other end of it: capacity_forget(). True: the estimate may have changed. */
bool capacity_first(struct capacity *c, struct capacity_pool *p, const struct policy_opts *o, uint64_t uid, msec now);
void capacity_forget(struct capacity *c, uint64_t uid);

/* Tokens, 0: not known (yet). <guess>: what it was taken to be before; 0: what is usual. */
uint64_t capacity_estimate(const struct capacity *c, const struct capacity_pool *p, uint64_t guess);

/* Over a restart: <tokens> of capacity_estimate(), whatever bytes they were; returns what they are taken for. They
 * stand in place of a guess. */
uint64_t capacity_recall(struct capacity *c, uint64_t tokens);

#endif

/* capacity.h - the size of a server's cache, if it is neither configured nor reported: inferred.
 *
 *      a prompt is sent    its beginning was last used there so many tokens ago: its reuse distance
 *      its first token     came as soon as if that beginning was cached, or as late as if not
 *
 * A cache that evicts what was not used for longest holds exactly the beginnings whose reuse
 * distance (in the literature: LRU stack distance) is below its size. So each first token is
 * evidence for the sizes under which it should have come then, and against the others.
 *
 * A server's tokens are counted in runs. A prompt's tokens move to the newest run, from the run
 * where they were. An engine evicts nothing that an open request uses, and then in the order of
 * ends, so runs are in the order of their last ends:
 *
 *      oldest run  [ 9k ][ 16k ][ 3k ][ 17k ][ 8k ]  newest    distance of the 9k: all to its right
 *
 * Only a request with little work waiting before it is evidence, one at a time. Distances cover the
 * prompts that this agent knows of: its own, and those that siblings tell. If others send to the
 * same server, or if entries of siblings are lost, distances are too short and so is the result:
 * this agent's share of the cache. Thus of several agents' results the largest is the best
 * (route/share_learned.c), as long as its agent lives and repeats it: an agent that sees an engine
 * restart with less takes its own result back. Not locked: the owner locks.
 *
 * Distances are in capacity_reuse.c, sizes in capacity.c. */
#ifndef KVROUTE_FLEET_CAPACITY_H
#define KVROUTE_FLEET_CAPACITY_H

#include "agent/base/chain.h"
#include "agent/policy/policy.h"

/* ---- places in a prompt -------------------------------------------------------------------- */

#define MARKS_MAX	96u	/* 2^20 pages have some 85 */

/* Depths at which the beginning of a prompt is remembered, the same in all prompts: every 16 pages,
 * and deeper every eighth of the depth, in multiples of 16. A key is the chain hash (base/chain.h):
 * it stands for all pages up to there, and their space. */
#define MARK_EVERY	CHAIN_GROUP

struct marks {
	uint32_t n;
	uint32_t depth[MARKS_MAX];
	uint64_t key[MARKS_MAX];
};

/* Set the marks of a prompt, of which <space> is chain_start(). <every>: NULL, or room for the
 * chain hashes of all n / MARK_EVERY multiples of MARK_EVERY pages. O(n). */
void marks_of(
    struct marks *m, uint64_t space, const page_key *pages, uint32_t n, uint64_t *every);

/* Add to the marks of the first <from> pages, a multiple of MARK_EVERY, those of pages[from] to
 * pages[n - 1]; no page before is read. <h>: chain hash of the first <from>. <every>: NULL, or
 * where the hash after the next MARK_EVERY goes, and so on. */
void marks_go_on(struct marks *m, uint32_t from, uint64_t h, const page_key *pages, uint32_t n,
    uint64_t *every);

/* Set the depths of all MARKS_MAX marks. */
void marks_depths(struct marks *m);

/* When each mark was last used at each server; a later one may replace an earlier one. 2 MiB. */
struct marks_table;
struct marks_table *marks_table_new(void);	/* NULL: no memory */
void marks_table_free(struct marks_table *t);	/* <t> may be NULL */
size_t marks_table_bytes(void);

/* ---- of a server --------------------------------------------------------------------------- */

#define RUNS_MAX	512u
#define RUN_TOKENS	16384u		/* of a run, at least: so distances up to 8 M tokens are known */
#define CAPACITY_STEPS	8u		/* changes of the distance within one prompt that are kept */
#define CAPACITY_SIZES	80u		/* sizes that are compared: */
#define CAPACITY_LEAST	16384.0		/* the least; each is an eighth of an octave above the one before */
#define PACE_OCTAVES	16u

/* Time to first token by the work to be computed; learned from prompts that nothing can be cached
 * of. */
struct pace {
	float log2_ratio[PACE_OCTAVES];	/* seconds taken / predicted; by log2 of predicted */
	float n[PACE_OCTAVES];
};

/* Evidence against each size, and the number of first tokens that gave it. */
struct evidence {
	float against[CAPACITY_SIZES];
	float n;
};

/* The request whose first token will be evidence. */
struct watched_prompt {
	uint64_t uid;			/* 0: none */
	msec sent;
	uint64_t tokens;
	uint32_t n_steps;
	/* tokens from the start, cached if distance < size */
	struct { uint32_t depth, distance; } step[CAPACITY_STEPS];
};

struct capacity {
	uint64_t salt;			/* makes its keys in the table differ from those of other servers */
	msec last_first;		/* first token of any request */
	float unseen;			/* share of prompts that was not seen, smoothed */
	uint32_t run;			/* number of the newest run */
	uint32_t live[RUNS_MAX];	/* tokens last used in that run */
	uint32_t open[RUNS_MAX];	/* requests of it that have not ended */
	uint32_t ended[RUNS_MAX];	/* <ends> at its last end, or when it began */
	uint32_t ends;			/* of requests, ever; may wrap */
	struct watched_prompt watched;
	struct evidence own;
	struct pace pace;
	uint64_t recalled;		/* tokens, from a snapshot; 0: none */
};

/* All servers of a pool together. */
struct capacity_pool {
	struct evidence all;
	struct pace pace;
};

/* Tell if so much of recent prompts was not seen that no inferred size holds any more. */
bool capacity_is_blind(const struct capacity *c);

void capacity_init(struct capacity *c, uint64_t salt);

/* A prompt that was just sent. The index says that <matched> pages of <page_tokens> are cached.
 * What follows is evidence, too, if it was used so long ago that it may have been evicted for lack
 * of <room>: otherwise a size that is too small would never be seen to be. Nothing is watched if
 * more than a tenth of what is sent is unseen, because distances are wrong then. */
struct capacity_sent {
	const struct marks *marks;
	uint64_t room;		/* tokens that the index keeps for the server; 0: any number */
	uint64_t uid, tokens, unseen;	/* <unseen> of <tokens>: estimate of the part not seen */
	uint32_t matched, page_tokens;
	uint64_t waiting;	/* tokens that wait there to be computed before it */
};
void capacity_sent(
    struct capacity *c, struct marks_table *t, const struct capacity_sent *s, msec now);

/* Begin to read the places of <m>, for capacity_sent(). */
void capacity_prefetch(
    const struct capacity *c, const struct marks_table *t, const struct marks *m);

/* The request that was sent last is open. Returns the number of its run, for capacity_ended(). One
 * that is never said to be open counts as ended when it was sent. */
uint32_t capacity_opened(struct capacity *c);
void capacity_ended(struct capacity *c, uint32_t run);

/* The cache is empty: no prompt was used there. What is known of its size stays. */
void capacity_cleared(struct capacity *c);
void capacity_output(struct capacity *c, uint64_t tokens);	/* <tokens> were generated there */

/* The first token of <uid> came; any other end of it is capacity_forget(). Returns true if the
 * estimate may have changed. */
bool capacity_first(struct capacity *c, struct capacity_pool *p, const struct policy_opts *o,
    uint64_t uid, msec now);
void capacity_forget(struct capacity *c, uint64_t uid);

/* Return the size in tokens; 0: unknown. <guess>: expected size before any evidence; 0: a usual
 * one. */
uint64_t capacity_estimate(const struct capacity *c, const struct capacity_pool *p, uint64_t guess);

/* Set <far> to the reuse distance of a prompt's beginning, by the key of its mark. Returns false if
 * it is unknown. O(RUNS_MAX). */
bool capacity_far(
    const struct capacity *c, const struct marks_table *t, uint64_t mark, uint64_t *far);

/* Return the chance that what was last used <far> tokens ago is still cached: that of all sizes
 * above. */
double capacity_chance(
    const struct capacity *c, const struct capacity_pool *p, uint64_t guess, uint64_t far);

/* Return <tokens>, which may be any number, within the sizes that are compared. */
uint64_t capacity_bounded(uint64_t tokens);

/* Use an estimate from a snapshot, or of another agent, in place of a guess. Returns it bounded. */
uint64_t capacity_recall(struct capacity *c, uint64_t tokens);

#endif

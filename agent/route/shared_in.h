/* shared.h - how many requests branch from each prefix: what a copy of it is worth.
 *
 *      system prompt -+- conversation 1: turn, turn, ...     Each new conversation branches from the system
 *                     +- conversation 2: turn, turn, ...     prompt; a next turn only extends its own.
 *
 * A request branches if other prompts already go on from where its deepest match ends. It is counted at every
 * mark (capacity.h) up to there. Counts decay: a prefix that nobody branches from any more loses its count by
 * half in some seven minutes. Entries are found by the marks' keyed hashes, so that one table serves all
 * spaces; where two meet in one place, the one that is used more often has it. Not locked: the owner is. */
#ifndef KVROUTE_ROUTE_SHARED_IN_H
#define KVROUTE_ROUTE_SHARED_IN_H

#include "agent/fleet/capacity.h"

struct shared_table;
struct shared_table *shared_table_new(void);	/* NULL: no memory */
void shared_table_free(struct shared_table *t);	/* takes NULL */
size_t shared_table_bytes(void);

/* Count a request with these marks that branched after <depth> pages. O(marks). */
void shared_branch(struct shared_table *t, const struct marks *m, uint32_t depth, msec now);

/* Write to <n> the decayed number of branching requests at each mark up to <depth>; return how many there are. */
uint32_t shared_counts(const struct shared_table *t, const struct marks *m, uint32_t depth, msec now,
		       float n[MARKS_MAX]);

#endif

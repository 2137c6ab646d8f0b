/* shared_in.h - how many requests branch from each prefix: what a copy of it is worth.
 *
 *   system prompt -+- conversation 1: turn, turn, ...    each new conversation branches from the
 *                  +- conversation 2: turn, turn, ...    system prompt; a turn extends its own
 *
 * A request branches if other prompts already continue from the end of its deepest match. It is
 * counted at every mark (fleet/capacity.h) up to there. Counts decay: a prefix that no request
 * branches from any more loses half of its count in about seven minutes. Entries are found by the
 * marks' keyed hashes, so one table serves all spaces. Of two prefixes in one place the one used
 * more often keeps it. Not locked: the owner locks. */
#ifndef KVROUTE_ROUTE_SHARED_IN_H
#define KVROUTE_ROUTE_SHARED_IN_H

#include "agent/fleet/capacity.h"

struct shared_table;
struct shared_table *shared_table_new(void);	/* NULL: no memory */
void shared_table_free(struct shared_table *t);	/* <t> may be NULL */
size_t shared_table_bytes(void);

/* Begin to read the counts at all marks. O(marks). */
void shared_prefetch(const struct shared_table *t, const struct marks *m);

/* Count a request with these marks that branched after <depth> pages. O(marks). */
void shared_branch(struct shared_table *t, const struct marks *m, uint32_t depth, msec now);

/* Write to <n> the decayed number of branching requests at each mark up to <depth>. Returns the
 * number of marks. */
uint32_t shared_counts(const struct shared_table *t, const struct marks *m, uint32_t depth,
    msec now, float n[MARKS_MAX]);

#endif

/* kept_marks_in.h - the marks of a prefix by its chain hash, so that they need not be computed from
 * all pages again.
 *
 *   a turn of a conversation    p1 ... p512 | p513 p514      its marks are kept under H(512)
 *   the next turn, told by a sibling: anchor H(512), and pages 513 ...
 *
 * A table of fixed size with one place for a hash; a later prefix replaces an earlier one. A place
 * that another thread uses at this moment is passed over, so nothing waits. */
#ifndef KVROUTE_ROUTE_KEPT_MARKS_IN_H
#define KVROUTE_ROUTE_KEPT_MARKS_IN_H

#include "agent/fleet/capacity.h"

struct kept_marks;
struct kept_marks *kept_marks_new(size_t bytes);	/* NULL: no memory */
void kept_marks_free(struct kept_marks *k);		/* <k> may be NULL */

/* Any thread may call these. <hash>: of the first <depth> pages. */

/* Keep those of the marks <m> that are of the first <depth> pages. */
void kept_marks_put(
    struct kept_marks *k, uint64_t hash, uint32_t depth, const struct marks *m);

/* Prefetch the beginning of those of <hash>. */
void kept_marks_prefetch(const struct kept_marks *k, uint64_t hash);

/* Set the keys and the number of <m>. Its depths must be set: marks_depths(). Returns false if
 * they are not kept; <m> is then undefined. */
bool kept_marks_get(struct kept_marks *k, uint64_t hash, struct marks *m);

#endif

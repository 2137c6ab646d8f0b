/* spaces.h - list the spaces of an index, and forget one, while other threads match and commit.
 *
 * Both go through the numbers of all nodes in steps, so that no call takes long. A space that comes
 * or goes meanwhile is seen or not. */
#ifndef KVROUTE_INDEX_SPACES_H
#define KVROUTE_INDEX_SPACES_H

#include "agent/index/index.h"

/* All 0: at the beginning. */
struct spaces_walk {
	uint32_t shard, read;
};

struct space_view {
	uint64_t h[2];			/* as in struct space_key */
	uint32_t tenant;		/* its number; 0: all that are not listed */
	uint32_t openings;		/* different first nodes of its prompts */
};

/* Read <looks> numbers more and call <fn> for each space, with no lock held. Returns false at the
 * end. */
bool index_spaces(struct index *ix, struct spaces_walk *w, uint32_t looks,
    void (*fn)(void *arg, const struct space_view *v), void *arg);

/* Read <looks> numbers more, and cut the pages of <space> that are on these nodes, and then on
 * those above. Claimed pages stay. Adds the number of cut records to <*records>. Returns false at
 * the end. */
bool index_clear_space(struct index *ix, struct spaces_walk *w, const uint64_t space[2],
    uint32_t looks, uint64_t *records);

#endif

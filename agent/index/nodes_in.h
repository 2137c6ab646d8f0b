/* nodes_in.h - private to agent/index: go through all nodes in the order of their numbers, a few
 * under one lock, while other threads change the tree. */
#ifndef KVROUTE_INDEX_NODES_IN_H
#define KVROUTE_INDEX_NODES_IN_H

#include "agent/index/tree_in.h"

#define NODES_LOOKS	64u	/* numbers read under one lock */

/* All 0: at the beginning. */
struct nodes {
	uint32_t shard;			/* n_shards: at the end */
	uint32_t read, last;		/* numbers of this shard: read so far, and to be read */
};

static inline bool nodes_end(const struct index *ix, const struct nodes *at)
{
	return at->shard == ix->n_shards;
}

/* Return the next edge that <fits>; 0 if none of the next few does. Not to be called at the end.
 * <fits> is called with the node's shard locked. */
static inline node_id nodes_next(struct index *ix, struct nodes *at,
    bool (*fits)(void *arg, const struct node *nd), void *arg)
{
	const struct node *nd;
	node_id id = 0;

	shards_lock(ix, 1ull << at->shard);
	if (at->read == 0)
		at->last = ix->shards[at->shard].n_ids;
	for (uint32_t i = 0; i < NODES_LOOKS && id == 0 && at->read < at->last; i++) {
		nd = node_at(ix, ++at->read << SHARD_BITS | at->shard);
		if (nd != NULL && nd->kind == NODE_EDGE && fits(arg, nd))
			id = nd->id;
	}
	shards_unlock(ix, 1ull << at->shard);
	if (id == 0 && at->read >= at->last) {
		at->shard++;
		at->read = 0;
	}
	return id;
}

#endif

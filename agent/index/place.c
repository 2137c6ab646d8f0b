/* place.c - walk from a node up to the root of its space and collect the pages on the way.
 *
 * One shard is locked at a time, as on the way up in follow.c. Between two locks a node may split,
 * so that the part below the split keeps the number; it may be joined with its child, or removed.
 * The walk only goes on while each node ends where the pages collected so far begin, or below. */
#include "agent/index/place.h"
#include "agent/index/tree_in.h"

/* Copy the pages of <id> that are before <upto>. Set <upto> to where they begin, <id> to the
 * parent, and <step> to the object. Returns false if the node has no place there. */
static bool copy_node(struct index *ix, node_id *id, uint32_t *upto, page_key *pages,
    struct index_step *step)
{
	uint64_t locked = shard_bit(ix, *id);
	const struct node *nd;
	bool fits;

	shards_lock(ix, locked);
	nd = node_at(ix, *id);
	fits = nd != NULL && nd->id == *id && nd->kind == NODE_EDGE && node_end(nd) >= *upto;
	if (fits) {
		if (nd->start < *upto) {
			memcpy(pages + nd->start, node_pages(nd), (*upto - nd->start) * sizeof(page_key));
			*upto = nd->start;
		}
		*step = (struct index_step){ nd->id, nd->serial };
		*id = nd->parent;
	}
	shards_unlock(ix, locked);
	return fits;
}

static bool is_root(struct index *ix, node_id id, const struct space_key *space)
{
	uint64_t locked = shard_bit(ix, id);
	const struct node *nd;
	bool is;

	shards_lock(ix, locked);
	nd = node_at(ix, id);
	is = nd != NULL && nd->kind == NODE_ROOT && node_pages(nd)[0] == space->h[0] &&
	    node_pages(nd)[1] == space->h[1];
	shards_unlock(ix, locked);
	return is;
}

bool index_place_pages(struct index *ix, const struct space_key *space, struct index_place at,
    page_key *pages, struct index_match *m)
{
	struct index_step step = { 0, 0 }, lowest = { 0, 0 };
	uint32_t upto = at.depth;
	node_id id = at.node;

	if (at.depth > ix->opts.max_pages)
		return false;
	while (upto > 0) {
		if (!copy_node(ix, &id, &upto, pages, &step))
			return false;
		if (upto < at.depth && lowest.node == 0)
			lowest = step;
	}
	if (at.depth == 0 || !is_root(ix, id, space))
		return false;
	if (m != NULL)
		m->cursor = (struct index_cursor){ reader_of(ix, m) != NULL ? lowest.node : 0, lowest.serial,
			at.depth, 0 };
	return true;
}

/* Return the node of <at> if it is the same, with the same pages up to <at>; its shard is locked.
 * Otherwise NULL. */
static struct node *node_of_place(struct index *ix, const struct index_place *at)
{
	struct node *nd = node_at(ix, at->node);

	return nd != NULL && nd->kind == NODE_EDGE && at->era != 0 && node_era(nd) == at->era &&
	    at->depth > 0 && at->depth <= node_end(nd) ? nd : NULL;
}

/* While a node is locked its parent cannot go, and the pages of both stay. */
struct node *place_lock(struct index *ix, const struct index_place *at, uint64_t *locked)
{
	struct node *nd;
	uint32_t serial;
	node_id id = at->node;

	shards_lock(ix, *locked = shard_bit(ix, id));
	nd = node_of_place(ix, at);
	while (nd != NULL && nd->start >= at->depth) {
		serial = nd->serial;
		if (!shards_more(ix, locked, shard_bit(ix, nd->parent))) {
			nd = node_at(ix, id);
			nd = nd != NULL && nd->serial == serial ? nd : NULL;
			continue;
		}
		nd = node_at(ix, nd->parent);
		id = nd->id;
		shards_unlock(ix, *locked & ~shard_bit(ix, id));
		*locked = shard_bit(ix, id);
	}
	if (nd == NULL)
		shards_unlock(ix, *locked);
	return nd;
}

bool index_place_same(struct index *ix, struct index_place at)
{
	uint64_t locked = shard_bit(ix, at.node);
	const struct node *nd;

	shards_lock(ix, locked);
	if ((nd = node_of_place(ix, &at)) != NULL)
		table_prefetch(ix, node_hash(nd));
	shards_unlock(ix, locked);
	return nd != NULL;
}

bool index_place_exists(struct index *ix, struct index_place at)
{
	uint64_t locked = shard_bit(ix, at.node);
	const struct node *nd;
	bool exists;

	shards_lock(ix, locked);
	nd = node_at(ix, at.node);
	exists = nd != NULL && nd->id == at.node && nd->kind == NODE_EDGE && at.depth > 0 &&
	    at.depth <= node_end(nd);
	shards_unlock(ix, locked);
	return exists;
}

bool index_place_space(struct index *ix, struct index_place at, struct space_key *space)
{
	node_id id = at.node;
	uint64_t locked;
	const struct node *nd;
	bool below = true;

	*space = (struct space_key){ .page_room = 0 };
	while (below) {
		shards_lock(ix, locked = shard_bit(ix, id));
		nd = node_at(ix, id);
		below = nd != NULL && nd->id == id && nd->kind == NODE_EDGE;
		if (below) {
			if (space->page_room == 0)
				space->page_room = nd->page_room;
			id = nd->parent;
		} else if (nd != NULL && nd->id == id) {
			space->h[0] = node_pages(nd)[0];
			space->h[1] = node_pages(nd)[1];
			space->tenant = nd->tenant;
		}
		shards_unlock(ix, locked);
	}
	return nd != NULL && nd->id == id && space->page_room != 0;
}

#define LET_GO_NODES	64u	/* in one call */

/* Between two locks another thread may change the tree: then the record does not end there any
 * more, or it is in no list. */
uint32_t index_let_go(
    struct index *ix, struct index_place at, server_id server, uint32_t keep)
{
	uint32_t room = 0, end = at.depth;
	node_id id = 0;
	uint64_t locked;
	const struct node *nd;

	if (at.node == 0 || (nd = place_lock(ix, &at, &locked)) == NULL)
		return 0;
	id = nd->id;
	shards_unlock(ix, locked);
	for (unsigned i = 0; i < LET_GO_NODES && id != 0 && end > keep; i++)
		room += record_let_go(ix, server, &id, &end, keep);
	return room;
}

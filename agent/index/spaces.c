/* spaces.c - a space is a root; the nodes of it are those whose way up ends there.
 *
 * To forget a space, its leaves are cut, and above each leaf what is a leaf then. So one walk over
 * the nodes is enough, in any order: the last leaf of a node takes the node with it. */
#include "agent/index/nodes_in.h"
#include "agent/index/spaces.h"

/* Lock the shard of the next number. Returns 0, with nothing locked, at the end. */
static node_id next_locked(struct index *ix, struct spaces_walk *w)
{
	while (w->shard < ix->n_shards) {
		shards_lock(ix, 1ull << w->shard);
		if (w->read < ix->shards[w->shard].n_ids)
			return ++w->read << SHARD_BITS | w->shard;
		shards_unlock(ix, 1ull << w->shard);
		w->shard++;
		w->read = 0;
	}
	return 0;
}

static bool walk_ended(const struct index *ix, struct spaces_walk *w)
{
	if (w->shard < ix->n_shards)
		return false;
	*w = (struct spaces_walk){ 0 };
	return true;
}

bool index_spaces(struct index *ix, struct spaces_walk *w, uint32_t looks,
    void (*fn)(void *arg, const struct space_view *v), void *arg)
{
	struct space_view v;
	const struct node *nd;
	node_id id;
	bool is;

	for (; looks > 0 && (id = next_locked(ix, w)) != 0; looks--) {
		nd = node_at(ix, id);
		is = nd != NULL && nd->kind == NODE_ROOT;
		if (is)
			v = (struct space_view){
				.h = { node_pages(nd)[0], node_pages(nd)[1] },
				.tenant = nd->tenant,
				.openings = atomic_load_explicit(&nd->n_children, memory_order_relaxed),
			};
		shards_unlock(ix, shard_bit(ix, id));
		if (is)
			fn(arg, &v);
	}
	return !walk_ended(ix, w);
}

/* Returns whether the way up from <id> ends at <space>. */
static bool is_of_space(struct index *ix, node_id id, const uint64_t space[2])
{
	bool is = false;

	while (id != 0) {
		uint64_t locked = shard_bit(ix, id);
		const struct node *nd;

		shards_lock(ix, locked);
		nd = node_at(ix, id);
		id = nd != NULL && nd->kind == NODE_EDGE ? nd->parent : 0;
		if (nd != NULL && nd->kind == NODE_ROOT)
			is = node_pages(nd)[0] == space[0] && node_pages(nd)[1] == space[1];
		shards_unlock(ix, locked);
	}
	return is;
}

/* Write the servers whose records on <id> may be cut to <out>, and the node above. Returns their
 * number. */
static unsigned servers_of(struct index *ix, node_id id, server_id *out, node_id *above)
{
	uint64_t locked = shard_bit(ix, id);
	const struct node *nd;
	unsigned n = 0, slots;

	*above = 0;
	shards_lock(ix, locked);
	nd = node_at(ix, id);
	if (nd != NULL && nd->kind == NODE_EDGE) {
		*above = nd->parent;
		slots = atomic_load_explicit(&nd->n_slots, memory_order_relaxed);
		for (unsigned i = 0; i < slots; i++) {
			const struct record *r;

			if (atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed) == 0)
				continue;
			r = at(ix, node_records(nd)[i]);
			if (r->listed)
				out[n++] = r->server;
		}
	}
	shards_unlock(ix, locked);
	return n;
}

static uint64_t cut_upwards(struct index *ix, node_id id, const uint64_t space[2])
{
	server_id server[SERVERS_MAX];
	uint64_t cut = 0, before;
	node_id above;
	unsigned n;

	do {
		before = cut;
		n = is_of_space(ix, id, space) ? servers_of(ix, id, server, &above) : 0;
		for (unsigned i = 0; i < n; i++)
			cut += record_cut(ix, id, server[i],
			    (struct cut){ 1, EDGE_MAX, UINT64_MAX, false, false }) > 0;
		id = n > 0 ? above : 0;
	} while (cut > before && id != 0);
	return cut;
}

bool index_clear_space(struct index *ix, struct spaces_walk *w, const uint64_t space[2],
    uint32_t looks, uint64_t *records)
{
	server_id server[SERVERS_MAX];
	node_id id, above;

	for (; looks > 0 && (id = next_locked(ix, w)) != 0; looks--) {
		shards_unlock(ix, shard_bit(ix, id));
		if (servers_of(ix, id, server, &above) > 0)
			*records += cut_upwards(ix, id, space);
	}
	return !walk_ended(ix, w);
}

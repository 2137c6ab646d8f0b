/* follow.c - another server than the claiming one has served the request: give it the pages.
 *
 * A claim of the other server goes down the path to the end of the first claim, which pins that
 * path. At the end it is held; if there is no room it is dropped with everything it had reached.
 * The path is found from its lower end upwards, because the page keys are gone by then. What has
 * changed on it since is looked up again. */
#include "agent/index/evict_in.h"

#define WAY_MAX	256u	/* nodes noted on the way up; a longer path is walked in parts */

struct follow {
	struct index *ix;
	uint32_t c, by;		/* <by> follows <c> */
	uint32_t tick;
	uint32_t full;		/* the shard without room */
};

enum followed { FOLLOW_ON, FOLLOW_CHANGED, FOLLOW_NO_ROOM };

/* Find the nodes from below the node of <by>, or below the lowest node of its server, down to the
 * node of <c>. way[0] is the highest that fits. Returns their number; 0: <by> has arrived. */
static uint32_t way_down(const struct follow *f, struct index_step *way)
{
	node_id id = claim_node(f->ix, f->c), end = claim_node(f->ix, f->by);
	server_id s = claim_server(f->ix, f->by);
	struct index_step up[WAY_MAX];
	uint32_t n = 0, i;
	struct node *nd;
	uint64_t locked;

	while (id != 0 && id != end) {
		shards_lock(f->ix, locked = shard_bit(f->ix, id));
		nd = node_at(f->ix, id);
		id = 0;
		if (nd != NULL && nd->kind == NODE_EDGE) {
			up[n++ % WAY_MAX] = (struct index_step){ nd->id, nd->serial };
			if (end != 0 || node_slot(nd, s) < 0)
				id = nd->parent;
		}
		shards_unlock(f->ix, locked);
	}
	for (i = 0; i < n && i < WAY_MAX; i++)
		way[i] = up[(n - 1 - i) % WAY_MAX];
	return i;
}

/* Lock the shards of the noted object and of its parent. Returns NULL, with nothing locked, if the
 * node has another object by now. */
static struct node *lock_step(struct index *ix, struct index_step at, uint64_t *locked)
{
	struct node *nd;

	shards_lock(ix, *locked = shard_bit(ix, at.node));
	do {
		nd = node_at(ix, at.node);
		if (nd == NULL || nd->serial != at.serial) {
			shards_unlock(ix, *locked);
			return NULL;
		}
	} while (!shards_more(ix, locked, shard_bit(ix, nd->parent)));
	return nd;
}

/* Return whether the server of <by> is on <parent>, or that is the root. <up>: its record there. */
static bool is_next(const struct follow *f, const struct node *parent, const struct record *up)
{
	node_id from = claim_node(f->ix, f->by);

	if (from != 0)
		return parent->id == from;
	return parent->kind == NODE_ROOT || (up != NULL && up->extent == parent->n_pages);
}

/* Move <by> onto <nd>; both nodes are locked. */
static enum followed onto(
    struct follow *f, struct node *nd, const struct node *parent, node_id *left)
{
	server_id s = claim_server(f->ix, f->by);
	struct record *up = parent->kind == NODE_EDGE ? node_record(f->ix, parent, s) : NULL, *r;
	uint32_t depth = claim_depth(f->ix, f->c), end = depth < node_end(nd) ? depth : node_end(nd);

	if (depth <= nd->start || !is_next(f, parent, up))
		return FOLLOW_CHANGED;
	f->full = shard_of(f->ix, nd->id);
	if ((r = node_give(f->ix, &nd, up, s, end - nd->start)) == NULL)
		return FOLLOW_NO_ROOM;
	if (claim_node(f->ix, f->by) != 0) {
		claim_detach(f->ix, f->by);
		*left = parent->n_children == 1 ? parent->id : 0;
	}
	claim_attach(f->ix, f->by, r, end);
	record_touch(f->ix, r, f->tick, claim_at(f->ix, f->by)->priority);
	return FOLLOW_ON;
}

static enum followed follow_on(struct follow *f, struct index_step at)
{
	enum followed is;
	struct node *nd;
	uint64_t locked;
	node_id left = 0;

	if ((nd = lock_step(f->ix, at, &locked)) == NULL)
		return FOLLOW_CHANGED;
	is = onto(f, nd, node_at(f->ix, nd->parent), &left);
	shards_unlock(f->ix, locked);
	node_join(f->ix, left);		/* its other children were removed while the claim was there */
	return is;
}

/* Returns false if there is no room. */
static bool follow(struct follow *f, uint32_t *work)
{
	struct index_step way[WAY_MAX];
	uint32_t n, i, still = 0, n_full = 0;
	enum followed is;

	while ((n = way_down(f, way)) > 0) {
		is = FOLLOW_ON;
		for (i = 0; i < n && is == FOLLOW_ON; i++)
			if ((is = follow_on(f, way[i])) == FOLLOW_ON)
				still = 0;
		if (is == FOLLOW_NO_ROOM && !make_room(f->ix, f->full, n_full++ == 0, work))
			return false;
		if (still++ >= STILL_MAX)
			return false;
	}
	return true;
}

static void hold_for(struct index *ix, uint32_t c, server_id s, uint32_t tick)
{
	uint32_t work = EVICT_MAX, drops = atomic_load(&ix->servers[s].drops);	/* see index_commit() */
	struct follow f = { .ix = ix, .c = c, .tick = tick };

	if (!server_ready(ix, s) || (f.by = claim_take(ix, s, claim_at(ix, c)->priority, NULL, true)) == 0)
		return;
	know_server(ix, s);
	if (follow(&f, &work) && atomic_load(&ix->servers[s].drops) == drops)
		claim_hold(ix, f.by, tick);
	else
		claim_drop(ix, f.by);
	keep_capacity(ix, s, &work);
}

void index_confirm_at(struct index *ix, index_claim id, server_id server, msec now)
{
	uint32_t c = claim_close(ix, id, true);

	if (c == 0)
		return;
	if (server == claim_server(ix, c)) {
		claim_hold(ix, c, tick_of(now));
		return;
	}
	if (server < SERVERS_MAX)
		hold_for(ix, c, server, tick_of(now));
	claim_drop(ix, c);
}

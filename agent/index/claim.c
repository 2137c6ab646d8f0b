/* claim.c - a server was sent these pages: believed and pinned until somebody says how it ended.
 *
 * Claims live in a table of fixed size. The one that <claims_locked> guards holds the list of open ones
 * by age; the record on which a claim hangs, and how far it reaches, are guarded by its node's shard. */
#include "agent/index/internal.h"

/* ---- the table ------------------------------------------------------------------------------------ */

uint32_t claim_take(struct index *ix, server_id server, uint8_t priority)
{
	uint32_t c, generation;
	struct claim *cl;

	claims_lock(ix);
	if ((c = ix->free_claim) != 0) {
		cl = &ix->claims[c];
		ix->free_claim = cl->next;
		generation = cl->generation + 1;
		*cl = (struct claim){ .server = server, .priority = priority, .state = CLAIM_GROWING,
				      .generation = generation ? generation : 1 };
	}
	claims_unlock(ix);
	return c;
}

static void put_back(struct index *ix, uint32_t c)
{
	claims_lock(ix);
	ix->claims[c].state = CLAIM_FREE;
	ix->claims[c].next = ix->free_claim;
	ix->free_claim = c;
	claims_unlock(ix);
}

bool claim_open(struct index *ix, uint32_t c, index_claim *id)
{
	struct claim *cl = &ix->claims[c];
	bool too_many;

	*id = (uint64_t)cl->generation << 32 | c;
	atomic_fetch_add_explicit(&ix->servers[cl->server].speculative, cl->added, memory_order_relaxed);
	claims_lock(ix);
	cl->state = CLAIM_OPEN;
	cl->newer = 0;
	cl->older = ix->newest_claim;
	if (cl->older != 0)
		ix->claims[cl->older].newer = c;
	else
		ix->oldest_claim = c;
	ix->newest_claim = c;
	ix->open_claims++;
	ix->speculative += cl->added;
	too_many = ix->speculative > (int64_t)ix->reserve_pages;
	claims_unlock(ix);
	return too_many;
}

/* Under the claims' lock: from now on it is the caller's alone. */
static void close_claim(struct index *ix, uint32_t c)
{
	struct claim *cl = &ix->claims[c];

	cl->state = CLAIM_CLOSING;
	if (cl->older != 0)
		ix->claims[cl->older].newer = cl->newer;
	else
		ix->oldest_claim = cl->newer;
	if (cl->newer != 0)
		ix->claims[cl->newer].older = cl->older;
	else
		ix->newest_claim = cl->older;
	ix->open_claims--;
	ix->speculative -= cl->added;
	atomic_fetch_sub_explicit(&ix->servers[cl->server].speculative, cl->added, memory_order_relaxed);
}

static uint32_t close_by_id(struct index *ix, index_claim id)
{
	uint32_t c = (uint32_t)id;
	bool known;

	if (c == 0 || c >= ix->n_claims)
		return 0;
	claims_lock(ix);
	known = ix->claims[c].generation == id >> 32 && ix->claims[c].state == CLAIM_OPEN;
	if (known)
		close_claim(ix, c);
	claims_unlock(ix);
	return known ? c : 0;
}

/* ---- on a record ------------------------------------------------------------------------------------- */

void claim_attach(struct index *ix, uint32_t c, struct node *nd, struct record *r, uint32_t depth)
{
	struct claim *cl = &ix->claims[c];

	record_unlist(ix, r);
	cl->next = r->claims;
	r->claims = c;
	cl->depth = depth;
	cl->record = record_ref(ix, r);
	atomic_store_explicit(&cl->node, nd->id, memory_order_relaxed);
}

void claim_detach(struct index *ix, uint32_t c, struct record *r)
{
	uint32_t *p = &r->claims;

	while (*p != c)
		p = &ix->claims[*p].next;
	*p = ix->claims[c].next;
}

uint32_t claim_reach(const struct index *ix, const struct record *r, uint32_t start)
{
	uint32_t c, reach = 0;

	for (c = r->claims; c != 0; c = ix->claims[c].next)
		if (ix->claims[c].depth - start > reach)
			reach = ix->claims[c].depth - start;
	return reach;
}

/* The node on which <c> hangs, with its shard locked; NULL: it has not left the root. */
static struct node *lock_node(struct index *ix, uint32_t c, uint64_t *locked)
{
	struct claim *cl = &ix->claims[c];
	node_id id;

	while ((id = atomic_load_explicit(&cl->node, memory_order_relaxed)) != 0) {
		shards_lock(ix, *locked = shard_bit(ix, id));
		if (atomic_load_explicit(&cl->node, memory_order_relaxed) == id)
			return node_at(ix, id);
		shards_unlock(ix, *locked);
	}
	return NULL;
}

/* ---- how it ends --------------------------------------------------------------------------------------- */

struct climb {			/* on the way up from a claim's node, which it still pins */
	node_id id;
	uint32_t serial;	/* the object that was seen: while it is there, it is on the way */
	uint32_t held;		/* the lowest first page of what is marked already */
};

static void climb_start(struct index *ix, uint32_t c, struct climb *up)
{
	uint64_t locked;
	struct node *nd = lock_node(ix, c, &locked);

	up->id = nd->id;
	up->serial = nd->serial;
	shards_unlock(ix, locked);
}

/* One node up; false: all above is held already. Both nodes are locked. */
static bool climb_on(struct index *ix, struct climb *up, struct node *parent, server_id s)
{
	struct record *r = parent->kind == NODE_EDGE ? node_record(ix, parent, s) : NULL;

	if (r == NULL || (r->held == parent->n_pages && parent->start < up->held))
		return false;
	r->held = parent->n_pages;
	up->held = parent->start < up->held ? parent->start : up->held;
	up->id = parent->id;
	up->serial = parent->serial;
	return true;
}

/* What is above claim <c> is held whole, up to where it is already. */
static void hold_above(struct index *ix, uint32_t c, server_id s)
{
	struct climb up = { .held = UINT32_MAX };
	struct node *nd;
	uint64_t locked;
	bool on = true;

	climb_start(ix, c, &up);
	while (on) {
		shards_lock(ix, locked = shard_bit(ix, up.id));
		nd = node_at(ix, up.id);
		if (nd == NULL || nd->serial != up.serial) {	/* split or joined meanwhile */
			shards_unlock(ix, locked);
			climb_start(ix, c, &up);
			continue;
		}
		if (shards_more(ix, &locked, shard_bit(ix, nd->parent)))
			on = climb_on(ix, &up, node_at(ix, nd->parent), s);
		shards_unlock(ix, locked);
	}
}

/* Take <c> off its record: what it reached is held from now on. */
static void hold(struct index *ix, uint32_t c, uint32_t tick)
{
	struct claim *cl = &ix->claims[c];
	server_id s = cl->server;
	uint64_t locked;
	struct node *nd = lock_node(ix, c, &locked);
	struct record *r;
	node_id id;
	bool first, alone;

	if (nd == NULL)
		return;
	r = at(ix, cl->record);
	first = r->held == 0;
	if (r->held < cl->depth - nd->start)
		r->held = (uint16_t)(cl->depth - nd->start);
	if (first) {
		shards_unlock(ix, locked);
		hold_above(ix, c, s);
		nd = lock_node(ix, c, &locked);
		r = at(ix, cl->record);
	}
	id = nd->id;
	claim_detach(ix, c, r);
	if (!by_entry(order_of(ix, s)))
		r->used = tick;
	alone = nd->n_children == 1;
	record_list(ix, r);
	shards_unlock(ix, locked);
	if (alone)
		node_join(ix, id);
}

void claim_hold(struct index *ix, uint32_t c, uint32_t tick)
{
	hold(ix, c, tick);
	put_back(ix, c);
}

struct record *claim_off(struct index *ix, uint32_t c, struct node **nd, struct node **parent, uint64_t *locked)
{
	struct claim *cl = &ix->claims[c];
	struct record *r;

	*nd = lock_node(ix, c, locked);
	while (*nd != NULL && !shards_more(ix, locked, shard_bit(ix, (*nd)->parent)))
		*nd = node_at(ix, atomic_load_explicit(&cl->node, memory_order_relaxed));
	if (*nd == NULL)
		return NULL;
	*parent = node_at(ix, (*nd)->parent);
	r = at(ix, cl->record);
	claim_detach(ix, c, r);
	return r;
}

void claim_drop(struct index *ix, uint32_t c)
{
	struct node *nd, *parent;
	struct record *r;
	uint64_t locked;

	if ((r = claim_off(ix, c, &nd, &parent, &locked)) != NULL)
		record_settle(ix, nd, parent, r, locked, c);
	put_back(ix, c);
}

/* <c>, or the next newer one of <s>; 0: none. */
static uint32_t one_of(const struct index *ix, uint32_t c, bool of_server, server_id s)
{
	while (of_server && c != 0 && ix->claims[c].server != s)
		c = ix->claims[c].newer;
	return c;
}

static bool expire(struct index *ix, bool of_server, server_id s, bool but_last)
{
	uint32_t c;

	claims_lock(ix);
	c = one_of(ix, ix->oldest_claim, of_server, s);
	if (c != 0 && but_last && one_of(ix, ix->claims[c].newer, of_server, s) == 0)
		c = 0;
	if (c != 0)
		close_claim(ix, c);
	claims_unlock(ix);
	if (c == 0)
		return false;
	claim_drop(ix, c);
	return true;
}

bool claim_expire(struct index *ix, bool of_server, server_id s)
{
	return expire(ix, of_server, s, false);
}

bool claim_expire_but_last(struct index *ix, bool of_server, server_id s)
{
	return expire(ix, of_server, s, true);
}

void index_confirm(struct index *ix, index_claim id, msec now)
{
	uint32_t c = close_by_id(ix, id);

	if (c == 0)
		return;
	hold(ix, c, tick_of(now));
	put_back(ix, c);
	atomic_fetch_add_explicit(&ix->confirmed, 1, memory_order_relaxed);
}

void index_cancel(struct index *ix, index_claim id)
{
	uint32_t c = close_by_id(ix, id);

	if (c == 0)
		return;
	claim_drop(ix, c);
	atomic_fetch_add_explicit(&ix->cancelled, 1, memory_order_relaxed);
}

/* ---- served by another ------------------------------------------------------------------------------------ */

#define WAY_MAX	32u	/* nodes that are remembered on the way up; a longer way is gone in parts */

/* Nodes from where <s> holds nothing more, or its record is no whole one, down to <id>: way[0] is the
 * highest that is missing, of those that fit. */
static uint32_t way_down(struct index *ix, node_id id, server_id s, struct index_step *way)
{
	struct index_step up[WAY_MAX];
	uint32_t n = 0, i;
	struct record *r;
	struct node *nd;
	uint64_t locked;

	while (id != 0) {
		shards_lock(ix, locked = shard_bit(ix, id));
		nd = node_at(ix, id);
		r = nd != NULL && nd->kind == NODE_EDGE ? node_record(ix, nd, s) : NULL;
		if (nd == NULL || nd->kind == NODE_ROOT || (n > 0 && r != NULL && r->held == nd->n_pages)) {
			id = 0;
		} else {
			up[n++ % WAY_MAX] = (struct index_step){ id, nd->serial };
			id = nd->parent;
		}
		shards_unlock(ix, locked);
	}
	for (i = 0; i < n && i < WAY_MAX; i++)
		way[i] = up[(n - 1 - i) % WAY_MAX];
	return i;
}

/* <s> holds the first <depth> pages on <id>, or all of its; false: no room, or the tree has changed. */
static bool hold_on(struct index *ix, struct index_step at, server_id s, uint32_t depth, uint32_t tick, uint8_t priority)
{
	uint64_t locked, want = shard_bit(ix, at.node);
	struct node *nd, *parent;
	struct record *r;
	uint32_t extent;
	bool done = false;

	do {
		shards_lock(ix, locked = want);
		nd = node_at(ix, at.node);
		if (nd == NULL || nd->serial != at.serial)
			break;
		want = locked | shard_bit(ix, nd->parent);
		if (want & ~locked) {
			shards_unlock(ix, locked);
			continue;
		}
		parent = node_at(ix, nd->parent);
		r = parent->kind == NODE_EDGE ? node_record(ix, parent, s) : NULL;
		if (parent->kind == NODE_EDGE && (r == NULL || r->held < parent->n_pages))
			break;
		extent = depth < node_end(nd) ? depth - nd->start : nd->n_pages;
		if (depth <= nd->start || (r = node_give(ix, &nd, r, s, extent)) == NULL)
			break;
		if (r->held < extent)
			r->held = (uint16_t)extent;
		record_touch(ix, r, tick, priority);
		record_list(ix, r);
		done = true;
		break;
	} while (want & ~locked);
	shards_unlock(ix, locked);
	return done;
}

static bool hold_for(struct index *ix, uint32_t c, server_id s, uint32_t tick)
{
	struct claim *cl = &ix->claims[c];
	struct index_step way[WAY_MAX];
	node_id last;
	uint32_t i, n, tries;

	for (tries = 0; tries < 1024; tries++) {
		last = atomic_load_explicit(&cl->node, memory_order_relaxed);
		n = way_down(ix, last, s, way);
		for (i = 0; i < n; i++)
			if (!hold_on(ix, way[i], s, cl->depth, tick, cl->priority))
				break;
		if (i == n && n > 0 && way[n - 1].node == last)
			return true;
		if (i < n && tries > 16)
			return false;
	}
	return false;
}

void index_confirm_at(struct index *ix, index_claim id, server_id server, msec now)
{
	uint32_t c = close_by_id(ix, id);

	if (c == 0)
		return;
	if (server == ix->claims[c].server) {
		hold(ix, c, tick_of(now));
		put_back(ix, c);
	} else {
		if (server_ready(ix, server)) {
			know_server(ix, server);
			hold_for(ix, c, server, tick_of(now));
		}
		claim_drop(ix, c);
	}
	atomic_fetch_add_explicit(&ix->confirmed, 1, memory_order_relaxed);
}

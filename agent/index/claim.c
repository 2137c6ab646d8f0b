/* claim.c - claims: a server was sent these pages, which are pinned until the request ends.
 *
 * Claims lie in a table of fixed size. The open claims of a group of servers form one list by age,
 * and those of each server another, both under the lock of the group. The end of a claim is guarded
 * by the shard of its node:
 *
 *   record:  [ a prompt of 9 pages ]    Claims that end at the same page of one record share a
 *      stop 9: c1 - c7 - c3             stop; the deepest stop is first. So the reach of all claims
 *      stop 4: c2 - c5                  is known at once, a claim leaves in O(1), and a split moves
 *                                       whole stops, of which a record has EDGE_MAX at most.
 *
 * Each claim brings a stop of its own, so there is always a free stop for a claim. */
#include "agent/index/claim_in.h"

/* ---- the table ---- */

static struct claim_group *group_of(struct index *ix, server_id s)
{
	return &ix->groups[s % CLAIM_GROUPS];
}

void claims_init(struct index *ix)
{
	struct claim_group *g;
	uint32_t c;

	for (c = 0; c < CLAIM_GROUPS; c++)
		atomic_store_explicit(&ix->groups[c].oldest_tick, NO_CLAIM, memory_order_relaxed);
	/* in runs, so that claims of different groups do not share a line */
	for (c = ix->n_claims - 1; c > 0; c--) {
		g = &ix->groups[(uint64_t)c * CLAIM_GROUPS / ix->n_claims];
		claim_at(ix, c)->spare = c;
		claim_at(ix, c)->older = g->free;
		g->free = c;
	}
}

static uint32_t pop_free_of(struct index *ix, server_id s)
{
	uint32_t c;

	claims_lock(ix, s);
	if ((c = group_of(ix, s)->free) != 0)
		group_of(ix, s)->free = claim_at(ix, c)->older;
	claims_unlock(ix, s);
	return c;
}

/* Pop a free claim of the server's group, or of the next group that has one. */
static uint32_t pop_free(struct index *ix, server_id s)
{
	uint32_t c = 0, i;

	for (i = 0; i < CLAIM_GROUPS && c == 0; i++)
		c = pop_free_of(ix, (server_id)((s + i) % CLAIM_GROUPS));
	return c;
}

uint32_t claim_take(struct index *ix, server_id server, uint8_t priority,
    const struct space_key *space, bool may_expire)
{
	uint32_t c = pop_free(ix, server), generation;
	struct claim *cl;

	if (c == 0 && may_expire && ix->opts.reserve_percent < 100 && claim_expire(ix, false)) {
		atomic_fetch_add_explicit(&ix->expired, 1, memory_order_relaxed);
		c = pop_free(ix, server);
	}
	if (c == 0)
		return 0;
	cl = claim_at(ix, c);
	generation = atomic_load_explicit(&cl->generation, memory_order_relaxed) + 1;
	cl->priority = priority;
	cl->added_room = 0;
	cl->page_room = space != NULL ? space_page_room(space) : 1;
	cl->part_room = space != NULL ? room_at_most(space->part_room) : 0;
	atomic_store_explicit(&cl->server, server, memory_order_relaxed);
	atomic_store_explicit(&cl->generation, generation ? generation : 1, memory_order_relaxed);
	atomic_store_explicit(&cl->state, CLAIM_GROWING, memory_order_relaxed);
	return c;
}

static void push_free(struct index *ix, uint32_t c)
{
	server_id s = claim_server(ix, c);

	claims_lock(ix, s);
	atomic_store_explicit(&claim_at(ix, c)->state, CLAIM_FREE, memory_order_relaxed);
	claim_at(ix, c)->older = group_of(ix, s)->free;
	group_of(ix, s)->free = c;
	claims_unlock(ix, s);
}

/* ---- open ones ---- */

/* Add to a counter that others read without the lock and nobody writes without it. */
static void add_locked(_Atomic int64_t *n, int64_t more)
{
	atomic_store_explicit(
	    n, atomic_load_explicit(n, memory_order_relaxed) + more, memory_order_relaxed);
}

static void add_open(struct claim_group *g, int32_t more)
{
	atomic_store_explicit(&g->n_open,
	    atomic_load_explicit(&g->n_open, memory_order_relaxed) + (uint32_t)more, memory_order_relaxed);
}

/* Count <more> pages of open claims of <g>. The sum over all groups is on a line that all threads
 * read and that would go from core to core with each claim, so a group adds its uncounted pages
 * only when they are many. */
static void count_pages(struct index *ix, struct claim_group *g, int64_t more)
{
	int64_t new;

	add_locked(&g->pages, more);
	new = atomic_load_explicit(&g->pages, memory_order_relaxed) - g->counted;
	if (new > ix->reserve_step || new < -ix->reserve_step) {
		atomic_fetch_add_explicit(&ix->speculative, new, memory_order_relaxed);
		g->counted += new;
	}
}

/* Count what <cl> has added, or take it off; its group is locked. */
static void count_open(struct index *ix, server_id s, const struct claim *cl, int sign)
{
	add_locked(&ix->servers[s].speculative, sign * (int64_t)cl->added_room);
	add_locked(&ix->servers[s].parts, sign * (int64_t)cl->part_room);
	count_pages(ix, group_of(ix, s), sign * claim_pages(cl));
}

static void open_of_group(struct index *ix, uint32_t c, struct claim_group *g)
{
	struct claim *cl = claim_at(ix, c);

	cl->newer = 0;
	cl->older = g->newest;
	g->newest = c;
	if (cl->older != 0) {
		claim_at(ix, cl->older)->newer = c;
	} else {
		g->oldest = c;
		atomic_store_explicit(&g->oldest_tick, cl->tick, memory_order_relaxed);
	}
	add_open(g, 1);
}

static void open_of_server(struct index *ix, uint32_t c, struct server *srv)
{
	struct claim *cl = claim_at(ix, c);

	cl->newer_same = 0;
	cl->older_same = srv->newest_claim;
	srv->newest_claim = c;
	if (cl->older_same != 0)
		claim_at(ix, cl->older_same)->newer_same = c;
	else
		srv->oldest_claim = c;
}

/* Sum the groups only if their uncounted pages could exceed the limit: near it each commit reads
 * the lines of all groups. */
bool claims_too_many(const struct index *ix)
{
	int64_t most = (int64_t)ix->reserve_pages, sum = 0;
	uint32_t i;

	if (atomic_load_explicit(&ix->speculative, memory_order_relaxed) <=
	    most - (int64_t)CLAIM_GROUPS * ix->reserve_step)
		return false;
	for (i = 0; i < CLAIM_GROUPS; i++)
		sum += atomic_load_explicit(&ix->groups[i].pages, memory_order_relaxed);
	return sum > most;
}

bool claim_open(struct index *ix, uint32_t c, uint32_t tick, index_claim *id)
{
	struct claim *cl = claim_at(ix, c);
	server_id s = claim_server(ix, c);

	*id = (uint64_t)atomic_load_explicit(&cl->generation, memory_order_relaxed) << 32 | c;
	cl->tick = tick;
	claims_lock(ix, s);
	count_open(ix, s, cl, 1);
	atomic_store_explicit(&cl->state, CLAIM_OPEN, memory_order_relaxed);
	open_of_group(ix, c, group_of(ix, s));
	open_of_server(ix, c, &ix->servers[s]);
	claims_unlock(ix, s);
	return claims_too_many(ix);
}

static void close_of_group(struct index *ix, uint32_t c, struct claim_group *g)
{
	const struct claim *cl = claim_at(ix, c);

	if (cl->newer != 0)
		claim_at(ix, cl->newer)->older = cl->older;
	else
		g->newest = cl->older;
	add_open(g, -1);
	if (cl->older != 0) {
		claim_at(ix, cl->older)->newer = cl->newer;
		return;
	}
	g->oldest = cl->newer;
	atomic_store_explicit(&g->oldest_tick, g->oldest ? claim_at(ix, g->oldest)->tick : NO_CLAIM,
	    memory_order_relaxed);
}

static void close_of_server(struct index *ix, uint32_t c, struct server *srv)
{
	const struct claim *cl = claim_at(ix, c);

	if (cl->newer_same != 0)
		claim_at(ix, cl->newer_same)->older_same = cl->older_same;
	else
		srv->newest_claim = cl->older_same;
	if (cl->older_same != 0)
		claim_at(ix, cl->older_same)->newer_same = cl->newer_same;
	else
		srv->oldest_claim = cl->newer_same;
}

/* Take a claim out of the lists of open ones. Its group is locked; afterwards it is the
 * caller's. */
static void close_claim(struct index *ix, uint32_t c)
{
	struct claim *cl = claim_at(ix, c);
	server_id s = claim_server(ix, c);

	atomic_store_explicit(&cl->state, CLAIM_CLOSING, memory_order_relaxed);
	close_of_group(ix, c, group_of(ix, s));
	close_of_server(ix, c, &ix->servers[s]);
	count_open(ix, s, cl, -1);
}

/* The server of a claim is constant while it is open, so it can be read before its group is locked.
 * An unknown claim may have another server by then, but it is not open with this generation. */
uint32_t claim_close(struct index *ix, index_claim id, bool confirmed)
{
	uint32_t c = (uint32_t)id;
	const struct claim *cl;
	struct claim_group *g;
	server_id s;
	bool known;

	if (c == 0 || c >= ix->n_claims)
		return 0;
	cl = claim_at(ix, c);
	s = claim_server(ix, c);
	g = group_of(ix, s);
	claims_lock(ix, s);
	known = claim_server(ix, c) == s &&
	    atomic_load_explicit(&cl->state, memory_order_relaxed) == CLAIM_OPEN &&
	    atomic_load_explicit(&cl->generation, memory_order_relaxed) == id >> 32;
	if (known) {
		close_claim(ix, c);
		g->confirmed += confirmed;
		g->cancelled += !confirmed;
	}
	claims_unlock(ix, s);
	return known ? c : 0;
}

/* ---- on a record ---- */

/* Return the stop of <r> at <depth>. If there is none, make it of <spare>. */
static uint32_t stop_of(struct index *ix, struct record *r, uint32_t depth, uint32_t spare)
{
	uint32_t k = r->claims, before = 0;
	struct stop *stop = stop_at(ix, spare);

	while (k != 0 && stop_at(ix, k)->depth > depth) {
		before = k;
		k = stop_at(ix, k)->shallower;
	}
	if (k != 0 && stop_at(ix, k)->depth == depth)
		return k;
	stop->depth = depth;
	stop->record = record_ref(ix, r);
	stop->first = 0;
	stop->deeper = before;
	stop->shallower = k;
	if (before != 0)
		stop_at(ix, before)->shallower = spare;
	else
		r->claims = spare;
	if (k != 0)
		stop_at(ix, k)->deeper = spare;
	atomic_store_explicit(&stop->node, r->node, memory_order_relaxed);
	return spare;
}

static void stop_remove(struct index *ix, uint32_t k)
{
	struct stop *stop = stop_at(ix, k);

	if (stop->deeper != 0)
		stop_at(ix, stop->deeper)->shallower = stop->shallower;
	else
		((struct record *)at(ix, stop->record))->claims = stop->shallower;
	if (stop->shallower != 0)
		stop_at(ix, stop->shallower)->deeper = stop->deeper;
	atomic_store_explicit(&stop->node, 0, memory_order_relaxed);
}

void claim_attach(struct index *ix, uint32_t c, struct record *r, uint32_t depth)
{
	struct claim *cl = claim_at(ix, c);
	struct stop *stop;

	record_unlist(ix, r);
	cl->stop = stop_of(ix, r, depth, cl->spare);
	if (cl->stop == cl->spare)
		cl->spare = 0;
	stop = stop_at(ix, cl->stop);
	cl->prev = 0;
	cl->next = stop->first;
	if (cl->next != 0)
		claim_at(ix, cl->next)->prev = c;
	stop->first = c;
}

/* The claim takes a stop with it: a spare one, or the stop that has no claim left. */
void claim_detach(struct index *ix, uint32_t c)
{
	struct claim *cl = claim_at(ix, c);
	struct stop *stop = stop_at(ix, cl->stop);
	uint32_t k = cl->stop;

	if (cl->prev != 0)
		claim_at(ix, cl->prev)->next = cl->next;
	else
		stop->first = cl->next;
	if (cl->next != 0)
		claim_at(ix, cl->next)->prev = cl->prev;
	cl->stop = 0;
	if (stop->first == 0) {
		stop_remove(ix, k);
		cl->spare = k;
	} else if (cl->spare == 0) {
		cl->spare = claim_at(ix, stop->first)->spare;
		claim_at(ix, stop->first)->spare = 0;
	}
}

void claims_move(struct index *ix, struct record *from, struct record *to, uint32_t depth)
{
	uint32_t k = from->claims, before = 0;

	while (k != 0 && stop_at(ix, k)->depth > depth) {
		before = k;
		k = stop_at(ix, k)->shallower;
	}
	if (k != 0 && from != to) {
		if (before != 0)
			stop_at(ix, before)->shallower = 0;
		else
			from->claims = 0;
		stop_at(ix, k)->deeper = 0;
		to->claims = k;
	}
	for (; k != 0; k = stop_at(ix, k)->shallower) {
		stop_at(ix, k)->record = record_ref(ix, to);
		atomic_store_explicit(&stop_at(ix, k)->node, to->node, memory_order_relaxed);
	}
}

/* Lock the shard of the node of <c> and return the node; NULL if the claim is still at the root. */
static struct node *lock_node(struct index *ix, uint32_t c, uint64_t *locked)
{
	node_id id;

	while ((id = claim_node(ix, c)) != 0) {
		shards_lock(ix, *locked = shard_bit(ix, id));
		if (claim_node(ix, c) == id)
			return node_at(ix, id);
		shards_unlock(ix, *locked);
	}
	return NULL;
}

static struct record *record_of(struct index *ix, uint32_t c)
{
	return at(ix, stop_at(ix, claim_at(ix, c)->stop)->record);
}

/* ---- how it ends ---- */

struct climb {			/* the way up from the node of a claim, which still pins it */
	node_id id;
	uint32_t serial;	/* while the node has this object, it is on the way */
	uint32_t held;		/* first page of the highest node that is marked */
};

static void climb_start(struct index *ix, uint32_t c, struct climb *up)
{
	uint64_t locked;
	struct node *nd = lock_node(ix, c, &locked);

	up->id = nd->id;
	up->serial = nd->serial;
	shards_unlock(ix, locked);
}

/* Mark the parent as held. Returns false if everything above is held already. Both are locked. */
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

/* Mark the nodes above claim <c> as held, up to the first that is. */
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

/* Return whether all above <nd> is held already: then hold_above() has nothing to do. Locks the
 * parent too. If it returns false, <nd> may have changed. */
static bool is_held_above(struct index *ix, const struct node *nd, server_id s, uint64_t *locked)
{
	const struct node *parent;
	const struct record *r;

	if (!shards_more(ix, locked, shard_bit(ix, nd->parent)))
		return false;
	parent = node_at(ix, nd->parent);
	if (parent->kind != NODE_EDGE)
		return true;
	r = node_record(ix, parent, s);
	return r == NULL || r->held == parent->n_pages;
}

/* Detach <c>; the pages that it reached are held from now on. */
static void hold_record(struct index *ix, uint32_t c, uint32_t tick)
{
	server_id s = claim_server(ix, c);
	uint64_t locked;
	struct node *nd = lock_node(ix, c, &locked);
	struct record *r;
	node_id id;
	bool first, alone;

	if (nd == NULL)
		return;
	r = record_of(ix, c);
	first = r->held == 0;
	if (r->held < claim_depth(ix, c) - nd->start)
		r->held = (uint16_t)(claim_depth(ix, c) - nd->start);
	if (first && !is_held_above(ix, nd, s, &locked)) {
		shards_unlock(ix, locked);
		hold_above(ix, c, s);
		nd = lock_node(ix, c, &locked);
		r = record_of(ix, c);
	}
	id = nd->id;
	claim_detach(ix, c);
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
	hold_record(ix, c, tick);
	push_free(ix, c);
}

struct record *claim_off(
    struct index *ix, uint32_t c, struct node **nd, struct node **parent, uint64_t *locked)
{
	struct record *r;

	*nd = lock_node(ix, c, locked);
	while (*nd != NULL && !shards_more(ix, locked, shard_bit(ix, (*nd)->parent)))
		*nd = node_at(ix, claim_node(ix, c));
	if (*nd == NULL)
		return NULL;
	*parent = node_at(ix, (*nd)->parent);
	r = record_of(ix, c);
	claim_detach(ix, c);
	return r;
}

void claim_drop(struct index *ix, uint32_t c)
{
	struct node *nd, *parent;
	struct record *r;
	uint64_t locked;

	if ((r = claim_off(ix, c, &nd, &parent, &locked)) != NULL)
		record_settle(ix, nd, parent, r, locked, c);
	push_free(ix, c);
}

/* Return the group with the oldest open claim, or CLAIM_GROUPS if none is open. <*n>: number of
 * open claims. */
static uint32_t oldest_group(struct index *ix, uint32_t *n)
{
	uint32_t i, best = CLAIM_GROUPS;
	uint64_t tick, least = 0;

	for (*n = 0, i = 0; i < CLAIM_GROUPS; i++) {
		tick = atomic_load_explicit(&ix->groups[i].oldest_tick, memory_order_relaxed);
		if (tick == NO_CLAIM)
			continue;
		*n += atomic_load_explicit(&ix->groups[i].n_open, memory_order_relaxed);
		if (best < CLAIM_GROUPS && !tick_before((uint32_t)tick, (uint32_t)least))
			continue;
		best = i;
		least = tick;
	}
	return best;
}

bool claim_expire(struct index *ix, bool but_last)
{
	uint32_t c = 0, i, n;

	while (c == 0 && (i = oldest_group(ix, &n)) < CLAIM_GROUPS && (!but_last || n > 1)) {
		claims_lock(ix, (server_id)i);
		if ((c = ix->groups[i].oldest) != 0)
			close_claim(ix, c);
		claims_unlock(ix, (server_id)i);
	}
	if (c == 0)
		return false;
	claim_drop(ix, c);
	return true;
}

bool claim_expire_of(struct index *ix, server_id s)
{
	uint32_t c;

	claims_lock(ix, s);
	if ((c = ix->servers[s].oldest_claim) != 0)
		close_claim(ix, c);
	claims_unlock(ix, s);
	if (c == 0)
		return false;
	claim_drop(ix, c);
	return true;
}

void index_confirm(struct index *ix, index_claim id, msec now)
{
	uint32_t c = claim_close(ix, id, true);

	if (c != 0)
		claim_hold(ix, c, tick_of(now));
}

void index_cancel(struct index *ix, index_claim id)
{
	uint32_t c = claim_close(ix, id, false);

	if (c != 0)
		claim_drop(ix, c);
}

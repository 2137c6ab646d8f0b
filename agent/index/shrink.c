/* shrink.c - remove pages, records and nodes that have no reason to stay, from the end inwards.
 *
 * Cutting or removing a record may leave pages without an owner, a node without owners, a space
 * without nodes, or a node with one child. Each is repaired here; then it is the turn of the record
 * above, which may have lost its last child.
 *
 * A node gets smaller by a copy. If memory is full, or late because a reader still sees old
 * objects, there may be no room for the copy. Such a node takes more bytes than it needs and is
 * correct otherwise. It is put into a list and tried again when its shard has made room, and at
 * each tick. */
#include "agent/index/evict_in.h"

#define SLACK_TRIES	16u	/* nodes tried in one call */
#define JOIN_LINES	6u	/* prefetched; the processor sees by then where the copy goes on */

/* Work in units of one removed record: 0.2 to 0.5 us, most of it waiting for memory. The other
 * numbers are measured against it. */
#define WORK_COPY	1u
#define WORK_JOIN	3u
#define PAGES_A_WORK	128u	/* copied: 1 KiB that is read and written, in no cache */
#define OWNERS_A_WORK	4u	/* each owner has a record to read and change */
#define SLOTS_A_WORK	2048u	/* each owner is searched among those of the other node */

/* Remove <nd>, which has no owner and so no children. */
static void remove_node(struct index *ix, struct node *nd, struct node *parent)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];

	table_remove(ix, nd);
	atomic_store_explicit(&nd->superseded, 1, memory_order_release);
	parent->n_children--;
	parent->child_xor ^= nd->id;
	sh->st.nodes--;
	sh->st.pages -= nd->n_pages;
	node_bury(ix, nd);
	if (parent->kind == NODE_ROOT && parent->n_children == 0)
		root_remove(ix, parent);
}

/* Cut the pages at the end of <nd> that no server has. Returns the work. */
static uint32_t cut_end(struct index *ix, struct node *nd)
{
	uint32_t reach = node_reach(nd);

	if (reach == nd->n_pages)
		return 0;
	if (node_remake(ix, nd, reach, node_cap(nd), NULL) == NULL)
		slack_note(ix, nd);
	return WORK_COPY + reach / PAGES_A_WORK;
}

static uint32_t pages_to_cut(const struct node *nd, const struct record *r, const struct cut *c)
{
	uint32_t n = c->pages < r->extent ? c->pages : r->extent;

	return (uint64_t)room_of(nd, n) > c->room
	    ? (uint32_t)((c->room + nd->page_room - 1) / nd->page_room)
	    : n;
}

/* Take pages from the end of what <r> holds; record_settle() cuts them. */
static void cut_held(struct index *ix, const struct node *nd, struct record *r, struct cut *c)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];
	uint32_t n = pages_to_cut(nd, r, c);

	r->held = (uint16_t)(r->extent - n);
	c->room -= (uint64_t)room_of(nd, n) < c->room ? (uint64_t)room_of(nd, n) : c->room;
	c->records--;
	if (c->evicted) {
		sh->st.evicted_pages += n;
		sh->st.evicted_records += n == r->extent;
	}
}

/* Return whether <up>, which lost its last child, is evicted next: the child was the first of the
 * server's order, used at <used>. Most branches end in several records of one use. */
static bool goes_next(
    struct index *ix, const struct record *up, uint32_t used, const struct cut *c)
{
	enum index_order o = order_of(ix, up->server);

	if (c == NULL || c->records == 0 || c->room == 0 || !record_may_go(up))
		return false;
	if (!server_ready(ix, up->server))
		return true;
	return o != INDEX_LFU && o != INDEX_PRIORITY &&
	    (up->used == used || (o == INDEX_FIFO && tick_before(up->used, used)));
}

/* Returns true if the server's record on <parent> has lost its last child and is not held to its
 * end. Otherwise, if that record is the next to cut, sets <c->next> and leaves it out of the
 * lists. */
static bool remove_record(struct index *ix, struct node *nd, struct node *parent, struct record *r,
    struct cut *c, uint32_t *work)
{
	server_id s = r->server;
	uint32_t used = r->used;
	struct record *up = r->up != 0 ? at(ix, r->up) : NULL;

	record_unlist(ix, r);
	node_disown(ix, nd, r);
	record_free(ix, r);
	if (up != NULL) {
		up->n_children--;
		if (tick_before(up->used, used) && !by_entry(order_of(ix, s)))
			up->used = used;
	}
	if (nd->n_owners == 0)
		remove_node(ix, nd, parent);
	else
		*work += cut_end(ix, nd);
	if (up == NULL || up->n_children > 0)
		return false;
	if (up->held < parent->n_pages)
		return true;
	if (goes_next(ix, up, used, c))
		c->next = up;
	else
		record_list(ix, up);
	return false;
}

/* Returns true if the record above has to be settled as well. */
static bool settle_record(struct index *ix, struct node *nd, struct node *parent, struct record *r,
    struct cut *c, uint32_t *work)
{
	uint32_t reach = claim_reach(ix, r, nd->start);
	uint32_t to = r->n_children ? nd->n_pages : r->held > reach ? r->held : reach;

	if (to == 0)
		return remove_record(ix, nd, parent, r, c, work);
	if (to < r->extent) {
		node_extent(ix, nd, r, to);
		*work += cut_end(ix, nd);
	}
	record_list(ix, r);
	return false;
}

/* Lock <id> and its parent. Returns NULL, with nothing locked, if the server has no record on
 * it. */
static struct record *lock_record(struct index *ix, node_id id, server_id s, struct node **nd,
				  struct node **parent, uint64_t *locked)
{
	struct record *r;

	shards_lock(ix, *locked = shard_bit(ix, id));
	do {
		*nd = node_at(ix, id);
		r = *nd != NULL && (*nd)->kind == NODE_EDGE ? node_record(ix, *nd, s) : NULL;
		if (r == NULL) {
			shards_unlock(ix, *locked);
			return NULL;
		}
	} while (!shards_more(ix, locked, shard_bit(ix, id) | shard_bit(ix, (*nd)->parent)));
	*parent = node_at(ix, (*nd)->parent);
	return r;
}

/* Prefetch the first pages of <nd> and of the node <child>. */
static void join_ahead(const struct index *ix, const struct node *nd, node_id child)
{
	const char *pages = (const char *)node_pages(nd);

	node_prefetch(ix, child, JOIN_LINES);
	for (unsigned i = 0; i < JOIN_LINES; i++)
		__builtin_prefetch(pages + 64 * i);
}

/* Prefetch what comes after the removal of <r>: the record above, if it loses its last child, or
 * the node that is joined with <parent>. */
static void ahead_of_above(
    struct index *ix, const struct node *nd, const struct node *parent, const struct record *r)
{
	const struct record *up = r->up != 0 ? at(ix, r->up) : NULL;

	if (up != NULL && up->n_children == 1)
		record_ahead(ix, up, parent);
	if (parent->n_children == 2 && nd->n_owners == 1)
		join_ahead(ix, parent, parent->child_xor ^ nd->id);
}

static bool has_one_child(const struct node *nd)
{
	return nd != NULL && nd->kind == NODE_EDGE && nd->n_children == 1;
}

/* Lock the record of <s> on <id> if it may be cut, and take pages from what it holds. Returns NULL,
 * with nothing locked, if it may not. */
static struct record *lock_cut(struct index *ix, node_id id, server_id s, struct cut *c,
    struct node **nd, struct node **parent, uint64_t *locked)
{
	struct record *r = lock_record(ix, id, s, nd, parent, locked);

	if (r == NULL)
		return NULL;
	if (!r->listed || (c->old_only && !is_evicted(ix, s, r->used))) {
		shards_unlock(ix, *locked);
		return NULL;
	}
	cut_held(ix, *nd, r, c);
	return r;
}

/* Take pages from <r>, the record on <*parent>, which goes next and is in no list yet. Returns
 * NULL, with nothing changed, if that needs a lock which another thread has. */
static struct record *cut_above(struct index *ix, struct record *r, struct cut *c, struct node **nd,
    struct node **parent, uint64_t *locked)
{
	struct node *on = *parent;

	if ((c->old_only && !is_evicted(ix, r->server, r->used)) ||
	    !shards_pass(ix, locked, shard_bit(ix, on->id) | shard_bit(ix, on->parent)))
		return NULL;
	*nd = on;
	*parent = node_at(ix, on->parent);
	cut_held(ix, on, r, c);
	return r;
}

/* See record_settle(). <cut>: cut the records above as well, if they go next; NULL: do not. */
static uint32_t settle_up(struct index *ix, struct node *nd, struct node *parent, struct record *r,
    uint64_t locked, uint32_t c, struct cut *cut)
{
	node_id id = nd->id, up = parent->id;
	server_id s = r->server;
	bool on, join, join_up;
	struct record *next;
	uint32_t work = 0;

	do {
		work++;
		if (cut != NULL)
			ahead_of_above(ix, nd, parent, r);
		on = settle_record(ix, nd, parent, r, cut, &work);
		if (on && c != 0)	/* before a split or a join moves the record */
			claim_attach(ix, c, node_record(ix, parent, s), node_end(parent));
		join = has_one_child(node_at(ix, id));
		if ((next = cut != NULL ? cut->next : NULL) != NULL) {
			cut->next = NULL;
			if (!join && (r = cut_above(ix, next, cut, &nd, &parent, &locked)) != NULL) {
				id = up;
				up = parent->id;
				continue;
			}
			record_list(ix, next);
		}
		join_up = has_one_child(node_at(ix, up));
		shards_unlock(ix, locked);
		if (join)
			work += node_join(ix, id);
		r = next != NULL ? lock_cut(ix, up, s, cut, &nd, &parent, &locked) : NULL;
		if (!on && r == NULL && join_up)	/* otherwise its record is settled first */
			work += node_join(ix, up);
		if (on)
			r = c != 0 ? claim_off(ix, c, &nd, &parent, &locked) :
				     lock_record(ix, up, s, &nd, &parent, &locked);
		if (r != NULL) {
			id = nd->id;
			up = parent->id;
		}
	} while (r != NULL);
	return work;
}

uint32_t record_settle(struct index *ix, struct node *nd, struct node *parent, struct record *r,
    uint64_t locked, uint32_t c)
{
	return settle_up(ix, nd, parent, r, locked, c, NULL);
}

uint32_t record_cut(struct index *ix, node_id id, server_id server, struct cut c)
{
	struct node *nd, *parent;
	struct record *r;
	uint64_t locked;

	if ((r = lock_cut(ix, id, server, &c, &nd, &parent, &locked)) == NULL)
		return 0;
	return settle_up(ix, nd, parent, r, locked, 0, &c);
}

uint32_t record_cut_locked(struct index *ix, struct record *r, struct cut c)
{
	uint64_t locked = shard_bit(ix, r->node);
	struct node *nd = node_at(ix, r->node), *parent;
	server_id s = r->server;
	node_id id = nd->id;

	if (!shards_more(ix, &locked, shard_bit(ix, nd->parent))) {
		shards_unlock(ix, locked);
		return record_cut(ix, id, s, c);
	}
	parent = node_at(ix, nd->parent);
	cut_held(ix, nd, r, &c);
	return settle_up(ix, nd, parent, r, locked, 0, &c);
}

uint32_t record_let_go(
    struct index *ix, server_id server, node_id *id, uint32_t *end, uint32_t keep)
{
	struct node *nd, *parent;
	struct record *r;
	uint64_t locked;
	uint32_t left, room;

	r = lock_record(ix, *id, server, &nd, &parent, &locked);
	*id = 0;
	if (r == NULL)
		return 0;
	left = keep > nd->start ? keep - nd->start : 0;
	if (!r->listed || nd->start + r->extent != *end || left >= r->extent) {
		shards_unlock(ix, locked);
		return 0;
	}
	*end = nd->start;
	if (left == 0 && parent->kind == NODE_EDGE)
		*id = parent->id;
	room = (uint32_t)room_of(nd, r->extent - left);
	r->held = (uint16_t)left;
	record_settle(ix, nd, parent, r, locked, 0);
	return room;
}

/* ---- a node and its only child ---- */

static bool may_join(struct index *ix, const struct node *nd)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_relaxed);
	const struct record *r;

	if (nd->kind != NODE_EDGE || nd->n_children != 1)
		return false;
	for (i = 0; i < n; i++) {
		if (atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed) == 0)
			continue;
		r = at(ix, node_records(nd)[i]);
		/* the latter is about to be settled */
		if (r->claims != 0 || (r->n_children == 0 && r->held < r->extent))
			return false;
	}
	return true;
}

/* Allocate a record in the child's shard for each owner of <nd> that the child does not have,
 * chained by <in>. */
static bool alloc_movers(
    struct index *ix, const struct node *nd, struct node *child, arena_ref *first)
{
	uint32_t i = atomic_load_explicit(&nd->n_slots, memory_order_relaxed), w;
	struct record *r;

	for (*first = 0; i-- > 0; ) {
		w = atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed);
		if (w == 0 || node_slot(child, word_server(w)) >= 0)
			continue;
		if ((r = record_new(ix, child, word_server(w))) == NULL) {
			while ((r = *first ? at(ix, *first) : NULL) != NULL) {
				*first = r->in[BY_ORDER].next;
				record_free(ix, r);
			}
			return false;
		}
		r->in[BY_ORDER].next = *first;
		*first = record_ref(ix, r);
	}
	return true;
}

static void move_record(
    struct index *ix, struct record *from, struct record *to, struct node *onto)
{
	record_unlist(ix, from);
	to->in[BY_ORDER].next = 0;
	to->extent = from->extent;
	to->held = from->held;
	to->hits = from->hits;
	to->priority = from->priority;
	to->used = from->used;
	to->up = from->up;
	record_free(ix, from);
	node_put(ix, onto, to);
	record_list(ix, to);
}

/* Return whether a list has another record used at the same time after <r>, or an earlier one. */
static bool shares_tick(const struct index *ix, const struct record *r, unsigned list)
{
	const struct record *next = at(ix, r->in[list].next);

	return r->in[list].next != 0 && !tick_before(r->used, next->used);
}

/* The joined record is as used as the more used of both: a hot prefix is not as cold as the last
 * prompt below it. Mostly that is <low>, and its place in the lists is right. Of records used at
 * the same time it goes last, as if it were new. */
static void join_use(struct index *ix, const struct record *r, struct record *low)
{
	enum index_order o = order_of(ix, r->server);
	bool later = tick_before(low->used, r->used) && !by_entry(o);
	bool moves = low->listed && (later || o == INDEX_LFU || o == INDEX_PRIORITY ||
	    shares_tick(ix, low, BY_ORDER) || shares_tick(ix, low, BY_AGE));

	if (moves)
		record_unlist(ix, low);
	low->hits = r->hits > low->hits ? r->hits : low->hits;
	low->priority = r->priority > low->priority ? r->priority : low->priority;
	if (later)
		low->used = r->used;
	if (moves)
		record_list(ix, low);
}

/* The pages that <r> holds of <nd> become pages of <to>. */
static void count_joined(
    struct index *ix, const struct record *r, const struct node *nd, const struct node *to)
{
	if (nd->page_room != to->page_room)
		atomic_fetch_add_explicit(&ix->servers[r->server].room,
		    room_of(to, r->extent) - room_of(nd, r->extent), memory_order_relaxed);
}

static void join_owners(struct index *ix, const struct node *nd, const struct node *child,
    struct node *to, arena_ref moved)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_relaxed);
	struct record *r, *low;

	for (i = 0; i < n; i++) {
		if (atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed) == 0)
			continue;
		r = at(ix, node_records(nd)[i]);
		count_joined(ix, r, nd, to);
		if ((low = node_record(ix, child, r->server)) == NULL) {
			low = at(ix, moved);
			moved = low->in[BY_ORDER].next;
			move_record(ix, r, low, to);
			continue;
		}
		join_use(ix, r, low);
		low->held = low->held ? (uint16_t)(nd->n_pages + low->held) : r->held;
		low->extent = (uint16_t)(low->extent + nd->n_pages);
		low->up = r->up;
		record_free(ix, r);
		node_put(ix, to, low);
	}
}

static uint32_t join_work(const struct node *nd, const struct node *child)
{
	return WORK_JOIN + nd->n_owners / OWNERS_A_WORK +
	    ((uint32_t)nd->n_pages + child->n_pages) / PAGES_A_WORK +
	    (uint32_t)nd->n_owners * child->n_owners / SLOTS_A_WORK;
}

static void join_child(struct index *ix, struct node *above, struct node *nd, struct node *child)
{
	struct shard *sh = &ix->shards[shard_of(ix, child->id)];
	uint32_t cap = nd->n_owners, shard = shard_of(ix, child->id);
	arena_ref moved = 0;
	struct node *to;

	table_prefetch(ix, node_hash(nd));
	table_prefetch(ix, node_hash(child));
	to = node_alloc_spare(
	    ix, shard, NODE_EDGE, nd->start, (uint32_t)nd->n_pages + child->n_pages, cap);
	if (to == NULL || !alloc_movers(ix, nd, child, &moved)) {
		sh->lacked = true;
		if (to != NULL)
			node_free(ix, shard, to);
		slack_note(ix, nd);
		return;
	}
	to->id = child->id;
	to->parent = nd->parent;
	to->tenant = nd->tenant;
	to->page_room = child->page_room;
	to->n_children = child->n_children;
	to->child_xor = child->child_xor;
	slack_move(child, to);
	node_fill_joined(to, nd, child);
	join_owners(ix, nd, child, to, moved);
	node_publish(ix, to);
	/* a reader finds the new object before the old ones are superseded, and the child's entry goes
	 * last */
	table_move(ix, nd, to);
	atomic_store_explicit(&nd->superseded, 1, memory_order_release);
	atomic_store_explicit(&child->superseded, 1, memory_order_release);
	table_remove(ix, child);
	above->child_xor ^= nd->id ^ child->id;
	sh->st.pages += nd->n_pages;
	ix->shards[shard_of(ix, nd->id)].st.pages -= nd->n_pages;
	ix->shards[shard_of(ix, nd->id)].st.nodes--;
	node_bury(ix, nd);
	node_retire(ix, child);
}

uint32_t node_join(struct index *ix, node_id id)
{
	uint64_t locked = id ? shard_bit(ix, id) : 0;
	struct node *nd, *child;
	uint32_t work = 0;

	if (id == 0)
		return 0;
	shards_lock(ix, locked);
	do {
		nd = node_at(ix, id);
		if (nd == NULL || !may_join(ix, nd)) {
			shards_unlock(ix, locked);
			return 0;
		}
	} while (!shards_more(ix, &locked, shard_bit(ix, nd->parent) | shard_bit(ix, nd->child_xor)));
	child = node_at(ix, nd->child_xor);
	if ((uint32_t)nd->n_pages + child->n_pages <= EDGE_MAX) {
		work = join_work(nd, child);
		join_child(ix, node_at(ix, nd->parent), nd, child);
	}
	shards_unlock(ix, locked);
	return work;
}

/* ---- nodes with slack ---- */

void slack_note(struct index *ix, struct node *nd)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];

	if (nd->slack)
		return;
	nd->slack = 1;
	nd->link = 0;
	nd->slack_prev = sh->slack_last;
	if (sh->slack_last != 0)
		node_at(ix, sh->slack_last)->link = nd->id;
	else
		sh->slack_first = nd->id;
	sh->slack_last = nd->id;
	atomic_fetch_add_explicit(&sh->n_slack, 1, memory_order_relaxed);
}

void slack_forget(struct index *ix, struct node *nd)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];

	if (!nd->slack)
		return;
	nd->slack = 0;
	if (nd->slack_prev != 0)
		node_at(ix, nd->slack_prev)->link = nd->link;
	else
		sh->slack_first = nd->link;
	if (nd->link != 0)
		node_at(ix, nd->link)->slack_prev = nd->slack_prev;
	else
		sh->slack_last = nd->slack_prev;
	nd->era = ++sh->serial;
	atomic_fetch_sub_explicit(&sh->n_slack, 1, memory_order_relaxed);
}

/* The list is linked by ids, so its neighbors need no change. Without slack it is the era that
 * moves. */
void slack_move(const struct node *nd, struct node *to)
{
	to->slack = nd->slack;
	to->link = nd->link;
	to->slack_prev = nd->slack_prev;
}

/* Settle the first node of the list, which may become the last. Returns false if there is none. */
static bool settle_one(struct index *ix, uint32_t shard)
{
	node_id id, up = 0;
	struct node *nd;

	shards_lock(ix, 1ull << shard);
	if ((id = ix->shards[shard].slack_first) != 0) {
		nd = node_at(ix, id);
		up = nd->parent;
		slack_forget(ix, nd);
		cut_end(ix, nd);
	}
	shards_unlock(ix, 1ull << shard);
	node_join(ix, up);		/* it was too long for this before */
	node_join(ix, id);
	return id != 0;
}

void slack_settle(struct index *ix, uint32_t shard)
{
	uint32_t n = slack_nodes(ix, shard);

	n = n < SLACK_TRIES ? n : SLACK_TRIES;
	while (n-- > 0 && settle_one(ix, shard))
		;
}

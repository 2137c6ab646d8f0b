/* grow.c - extend a claim, node by node, from the pages its server holds to the end of its prompt.
 *
 * The claim is attached to the record that it has reached, so the path above it is pinned while
 * room is made. A step starts with the node locked and may need the shard of the parent or a child
 * too. If it cannot lock them without releasing what is locked, it starts again with all of
 * them. */
#include "agent/index/claim_in.h"
#include "agent/index/place.h"

#define CAP_FIRST	2u	/* slots of a new node */
#define STEPS		4u	/* with the same shards locked */

/* ---- a server on one more node ---- */

static struct node *with_slot(struct index *ix, struct node *nd)
{
	return node_full(nd) ? node_remake(ix, nd, nd->n_pages, nd->cap * 2u, NULL) : nd;
}

struct record *node_give(
    struct index *ix, struct node **nd, struct record *up, server_id s, uint32_t extent)
{
	struct record *r = node_record(ix, *nd, s);
	struct node *to;

	if (r != NULL) {
		if (r->extent < extent)
			node_extent(ix, *nd, r, extent);
		return r;
	}
	if ((to = with_slot(ix, *nd)) == NULL)
		return NULL;
	*nd = to;
	if ((r = record_new(ix, to, s)) == NULL)
		return NULL;
	r->extent = (uint16_t)extent;
	node_own(ix, to, r);
	if (up != NULL) {
		record_unlist(ix, up);
		up->n_children++;
		r->up = record_ref(ix, up);
	}
	return r;
}

/* ---- split ---- */

static void free_records(struct index *ix, arena_ref first)
{
	struct record *r;

	while (first != 0) {
		r = at(ix, first);
		first = r->in[BY_ORDER].next;
		record_free(ix, r);
	}
}

/* Allocate a record on <upper> for each owner of <nd> that goes beyond it, chained by <in> in the
 * order of owners. */
static bool records_for(
    struct index *ix, const struct node *nd, struct node *upper, arena_ref *first)
{
	uint32_t i = atomic_load_explicit(&nd->n_slots, memory_order_relaxed), w;
	struct record *r;

	for (*first = 0; i-- > 0; ) {
		w = atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed);
		if (w == 0 || word_extent(w) <= upper->n_pages)
			continue;
		if ((r = record_new(ix, upper, word_server(w))) == NULL) {
			free_records(ix, *first);
			return false;
		}
		r->in[BY_ORDER].next = *first;
		*first = record_ref(ix, r);
	}
	return true;
}

/* Split an owner that goes beyond <k>: <r> stays on the lower part, <up> is new. */
static void split_owner(struct index *ix, struct record *r, struct record *up, struct node *upper,
			struct node *lower)
{
	uint32_t k = upper->n_pages;

	up->in[BY_ORDER].next = 0;
	up->extent = (uint16_t)k;
	up->held = r->held < k ? r->held : (uint16_t)k;
	up->hits = r->hits;
	up->priority = r->priority;
	up->used = r->used;
	up->n_children = 1;
	up->up = r->up;
	r->up = record_ref(ix, up);
	r->held = r->held > k ? (uint16_t)(r->held - k) : 0;
	r->extent = (uint16_t)(r->extent - k);
	claims_move(ix, r, up, node_end(upper));	/* the claims that end on the upper part */
	node_put(ix, upper, up);	/* first, so that a reader never sees the server without a page */
	node_put(ix, lower, r);
	record_list(ix, r);
}

static void split_owners(
    struct index *ix, struct node *nd, struct node *upper, struct node *lower, arena_ref ups)
{
	uint32_t i, n = atomic_load_explicit(&nd->n_slots, memory_order_relaxed);
	struct record *r, *up;

	for (i = 0; i < n; i++) {
		if (atomic_load_explicit(&node_words(nd)[i], memory_order_relaxed) == 0)
			continue;
		r = at(ix, node_records(nd)[i]);
		if (r->extent > upper->n_pages) {
			up = at(ix, ups);
			ups = up->in[BY_ORDER].next;
			split_owner(ix, r, up, upper, lower);
			continue;
		}
		r->node = upper->id;
		claims_move(ix, r, r, node_end(upper));
		node_put(ix, upper, r);
	}
}

bool node_split(struct index *ix, struct node *parent, struct node *nd, uint32_t k)
{
	uint32_t shard = shard_of(ix, nd->id), cap = nd->n_owners < CAP_FIRST ? CAP_FIRST : nd->n_owners;
	struct node *upper = node_alloc(ix, shard, NODE_EDGE, nd->start, k, cap);
	struct node *lower = node_alloc(ix, shard, NODE_EDGE, nd->start + k, nd->n_pages - k, cap);
	arena_ref ups = 0;

	if (upper == NULL || lower == NULL || (upper->id = id_take(ix, shard)) == 0)
		goto no_room;
	upper->parent = nd->parent;
	upper->tenant = lower->tenant = nd->tenant;
	upper->page_room = lower->page_room = nd->page_room;
	upper->n_children = 1;
	upper->child_xor = lower->id = nd->id;
	lower->parent = upper->id;
	lower->n_children = nd->n_children;
	lower->child_xor = nd->child_xor;
	node_fill(upper, nd, NULL);
	node_fill(lower, nd, NULL);
	if (!records_for(ix, nd, upper, &ups))
		goto no_room;
	if (!table_add(ix, lower)) {
		free_records(ix, ups);
		goto no_room;
	}
	slack_move(nd, lower);
	split_owners(ix, nd, upper, lower, ups);
	parent->child_xor ^= upper->id ^ nd->id;
	node_publish(ix, upper);
	node_publish(ix, lower);
	table_move(ix, nd, upper);
	atomic_store_explicit(&nd->superseded, 1, memory_order_release);
	node_retire(ix, nd);
	ix->shards[shard].st.nodes++;
	return true;
no_room:
	if (upper != NULL && upper->id != 0)
		id_give(ix, upper->id);
	if (upper != NULL)
		node_free(ix, shard, upper);
	if (lower != NULL)
		node_free(ix, shard, lower);
	return false;
}

/* ---- steps ---- */

static enum grown no_room(struct growth *g, node_id id)
{
	g->full = shard_of(g->ix, id);
	return GROW_NO_ROOM;
}

/* Count <pages> of <nd> that the claim adds to its server. */
static void count_added(struct growth *g, const struct node *nd, uint32_t pages)
{
	claim_add_room(&g->ix->claims[g->c], room_of(nd, pages));
}

/* Move the claim from record <from>, if it is there, to <depth> on <nd>, the node of <r>. <had>:
 * pages of <nd> that its server had before. */
static void claim_reached(struct growth *g, const struct node *nd, struct record *r,
    struct record *from, uint32_t depth, uint32_t had)
{
	const struct claim *cl = &g->ix->claims[g->c];

	count_added(g, nd, r->extent - had);
	if (from != NULL)
		claim_detach(g->ix, g->c);
	claim_attach(g->ix, g->c, r, depth);
	if (g->recalled != 0)
		record_recall(g->ix, r, g->tick, g->recalled, cl->priority);
	else
		record_touch(g->ix, r, g->tick, cl->priority);
}

/* Return how many pages of <nd> are the same as those of the prompt. It is known without a
 * comparison if the match saw this object. */
static uint32_t known_same(const struct growth *g, const struct node *nd)
{
	const struct index_match *m = g->m;
	uint32_t i, d;

	for (i = 0; m != NULL && i < CURSOR_PATH && i < m->cursor.n_walked; i++) {
		if (m->cursor.path[i].node != nd->id || m->cursor.path[i].serial != nd->serial)
			continue;
		d = m->cursor.depth - nd->start;
		return d < nd->n_pages ? d : nd->n_pages;
	}
	return node_same(nd, &g->pages, nd->start);
}

static enum grown into_child(
    struct growth *g, struct node *nd, struct record *up, struct node *child)
{
	server_id s = claim_server(g->ix, g->c);
	uint32_t same = known_same(g, child), had = node_owned(child, s);
	struct record *r = node_give(g->ix, &child, up, s, same);

	if (r == NULL)
		return no_room(g, child->id);
	claim_reached(g, child, r, up, child->start + same, had);
	g->left = nd->n_children == 1 ? nd->id : 0;
	return GROW_ON;
}

/* Move the claim on the same record. */
static void claim_moved(struct growth *g, struct record *r, uint32_t depth)
{
	claim_detach(g->ix, g->c);
	claim_attach(g->ix, g->c, r, depth);
}

static enum grown grow_leaf(struct growth *g, struct node *nd, struct record *r)
{
	uint32_t left = g->pages.n - node_end(nd), room = EDGE_MAX - nd->n_pages, had = r->extent;
	struct node *to = node_remake(
	    g->ix, nd, nd->n_pages + (left < room ? left : room), node_cap(nd), &g->pages);

	if (to == NULL)
		return no_room(g, nd->id);
	node_extent(g->ix, to, r, to->n_pages);
	count_added(g, to, r->extent - had);
	claim_moved(g, r, node_end(to));
	return GROW_ON;
}

static struct node *new_child(struct growth *g, const struct node *nd, uint32_t shard)
{
	uint32_t start = node_end(nd), n = g->pages.n - start < EDGE_MAX ? g->pages.n - start : EDGE_MAX;
	struct node *child = node_alloc(g->ix, shard, NODE_EDGE, start, n, CAP_FIRST);

	if (child == NULL)
		return NULL;
	if ((child->id = id_take(g->ix, shard)) == 0) {
		node_free(g->ix, shard, child);
		return NULL;
	}
	child->parent = nd->id;
	child->tenant = nd->tenant;
	child->page_room = space_page_room(g->space);
	node_fill_new(child, &g->pages);
	return child;
}

static void unmake_child(struct growth *g, struct node *child, struct record *r, uint32_t shard)
{
	if (r != NULL) {
		node_disown(g->ix, child, r);
		record_free(g->ix, r);
	}
	id_give(g->ix, child->id);
	node_free(g->ix, shard, child);
}

static enum grown add_child(struct growth *g, struct node *nd, struct record *up, uint32_t shard)
{
	struct index *ix = g->ix;
	struct node *child = new_child(g, nd, shard);
	struct record *r;

	g->full = shard;
	if (child == NULL)
		return GROW_NO_ROOM;
	if ((r = record_new(ix, child, claim_server(ix, g->c))) != NULL) {
		r->extent = child->n_pages;
		node_own(ix, child, r);
	}
	if (r == NULL || !table_add(ix, child)) {
		unmake_child(g, child, r, shard);
		return GROW_NO_ROOM;
	}
	node_publish(ix, child);
	nd->n_children++;
	nd->child_xor ^= child->id;
	if (up != NULL) {
		up->n_children++;
		r->up = record_ref(ix, up);
	}
	ix->shards[shard].st.nodes++;
	ix->shards[shard].st.pages += child->n_pages;
	claim_reached(g, child, r, up, node_end(child), 0);
	return GROW_ON;
}

/* Go on below <nd>: the claim reaches its end, or <nd> is the root. <up>: the record on it, or
 * NULL. */
static enum grown grow_below(struct growth *g, struct node *nd, struct record *up, uint64_t *locked)
{
	page_key first = g->pages.p[node_end(nd)];
	uint64_t wanted = *locked;
	struct node *child = NULL;
	uint32_t shard;

	/* a conversation that goes on ends at a node without children */
	if (atomic_load_explicit(&nd->n_children, memory_order_relaxed) > 0)
		child = table_find(g->ix, nd->id, first, *locked, &wanted);
	if (child == NULL && wanted != *locked) {
		if (!shards_more(g->ix, locked, wanted))
			return GROW_ON;
		child = table_find(g->ix, nd->id, first, *locked, &wanted);
	}
	if (child != NULL)
		return into_child(g, nd, up, child);
	if (up != NULL && nd->n_children == 0 && nd->n_pages < EDGE_MAX)
		return grow_leaf(g, nd, up);
	shard = (uint32_t)(table_hash(nd->id, first) >> 32) & (g->ix->n_shards - 1);
	return shards_more(g->ix, locked, 1ull << shard) ? add_child(g, nd, up, shard) : GROW_ON;
}

/* Go on within <nd>, where the claim ends. */
static enum grown grow_within(struct growth *g, struct node *nd, struct record *r, uint64_t *locked)
{
	uint32_t depth = claim_depth(g->ix, g->c);
	struct node *parent;
	node_id only = nd->n_children == 1 ? nd->id : 0;
	uint32_t same = node_same(nd, &g->pages, depth), to = depth + same - nd->start;

	if (same > 0) {
		if (r->extent < to) {
			count_added(g, nd, to - r->extent);
			node_extent(g->ix, nd, r, to);
		}
		claim_moved(g, r, depth + same);
		return GROW_ON;
	}
	if (!shards_more(g->ix, locked, shard_bit(g->ix, nd->parent)))
		return GROW_ON;
	parent = node_at(g->ix, nd->parent);
	/* no server has its end: there was no memory to cut it */
	if (node_reach(nd) == depth - nd->start) {
		nd = node_remake(g->ix, nd, depth - nd->start, node_cap(nd), NULL);
		g->left_above = parent->kind == NODE_EDGE && parent->n_children == 1 ? parent->id : 0;
		return nd ? GROW_ON : no_room(g, claim_node(g->ix, g->c));
	}
	if (!node_split(g->ix, parent, nd, depth - nd->start))
		return no_room(g, nd->id);
	/* each part may be short enough now to be joined with its only neighbor */
	g->left = only;		/* the id of <nd>, which may be gone */
	g->left_above = parent->kind == NODE_EDGE && parent->n_children == 1 ? parent->id : 0;
	return GROW_ON;
}

static struct node *new_root(struct growth *g, uint32_t shard)
{
	struct index *ix = g->ix;
	struct tenant *t = &ix->tenants[g->space->tenant];
	struct node *root;

	g->crowded = atomic_load_explicit(&t->spaces, memory_order_relaxed) >= ix->opts.max_spaces;
	if (g->crowded || (root = node_alloc(ix, shard, NODE_ROOT, 0, 0, 0)) == NULL)
		return NULL;
	if ((root->id = id_take(ix, shard)) == 0)
		goto no_id;
	root->tenant = (uint8_t)g->space->tenant;
	node_pages(root)[0] = g->space->h[0];
	node_pages(root)[1] = g->space->h[1];
	if (!table_add(ix, root))
		goto no_entry;
	node_publish(ix, root);
	ix->shards[shard].st.spaces++;
	atomic_fetch_add_explicit(&ix->tenants[root->tenant].spaces, 1, memory_order_relaxed);
	return root;
no_entry:
	id_give(ix, root->id);
no_id:
	node_free(ix, shard, root);
	return NULL;
}

void root_remove(struct index *ix, struct node *root)
{
	struct shard *sh = &ix->shards[shard_of(ix, root->id)];

	table_remove(ix, root);
	atomic_store_explicit(&root->superseded, 1, memory_order_release);
	sh->st.spaces--;
	atomic_fetch_sub_explicit(&ix->tenants[root->tenant].spaces, 1, memory_order_relaxed);
	node_bury(ix, root);
}

static enum grown from_root(struct growth *g, uint64_t *locked)
{
	uint32_t shard =
	    (uint32_t)(table_hash(g->space->h[1], g->space->h[0]) >> 32) & (g->ix->n_shards - 1);
	uint64_t wanted = *locked | 1ull << shard;
	struct node *root;
	enum grown is;

	if (!shards_more(g->ix, locked, wanted))
		return GROW_ON;
	root = table_find_root(g->ix, g->space, *locked, &wanted);
	if (root == NULL && (root = new_root(g, shard)) == NULL) {
		g->full = shard;
		return GROW_NO_ROOM;
	}
	is = grow_below(g, root, NULL, locked);
	if (is == GROW_NO_ROOM && root->n_children == 0)
		root_remove(g->ix, root);
	return is;
}

static enum grown grow_step(struct growth *g, node_id id, uint64_t *locked)
{
	const struct stop *stop = &g->ix->stops[g->ix->claims[g->c].stop];
	struct record *r;
	struct node *nd;

	if (id == 0)
		return from_root(g, locked);
	nd = node_at(g->ix, id);
	r = at(g->ix, stop->record);
	return stop->depth < node_end(nd) ? grow_within(g, nd, r, locked) : grow_below(g, nd, r, locked);
}

/* Do as many steps as these shards allow, but only a few, because other threads wait for them. */
static enum grown grow_steps(struct growth *g, uint64_t *locked)
{
	enum grown is = GROW_ON;
	node_id id;
	unsigned i;

	for (i = 0; i < STEPS && is == GROW_ON && (g->left | g->left_above) == 0; i++) {
		id = claim_node(g->ix, g->c);
		if (id != 0 && (shard_bit(g->ix, id) & ~*locked) != 0)
			break;
		if (claim_depth(g->ix, g->c) < g->pages.n)
			is = grow_step(g, id, locked);
		if (is == GROW_ON && claim_depth(g->ix, g->c) == g->pages.n)
			is = GROW_DONE;
	}
	if (is == GROW_DONE) {
		g->end = claim_node(g->ix, g->c);
		g->era = node_era(node_at(g->ix, g->end));
		g->ix->shards[shard_of(g->ix, g->end)].st.commits++;
	}
	return is;
}

static enum grown unlock_and_join(struct growth *g, uint64_t locked, enum grown is)
{
	shards_unlock(g->ix, locked);
	if (g->left != 0)
		node_join(g->ix, g->left);	/* its other children were removed while a claim was there */
	if (g->left_above != 0)
		node_join(g->ix, g->left_above);
	g->left = g->left_above = 0;
	return is;
}

enum grown grow(struct growth *g)
{
	node_id id = claim_node(g->ix, g->c);
	uint64_t locked = id ? shard_bit(g->ix, id) : 0;
	enum grown is;

	shards_lock(g->ix, locked);
	is = grow_steps(g, &locked);
	return unlock_and_join(g, locked, is);
}

/* ---- where the match ended ---- */

static bool start_on(struct growth *g, struct node *nd, uint32_t depth)
{
	struct record *r;
	uint32_t had;

	if (nd->kind != NODE_EDGE || (r = node_record(g->ix, nd, claim_server(g->ix, g->c))) == NULL)
		return false;
	had = r->extent;
	if (had < depth - nd->start)
		node_extent(g->ix, nd, r, depth - nd->start);
	claim_reached(g, nd, r, NULL, depth, had);
	return true;
}

/* Return the object of <id> if it is the one of <serial>, or NULL. */
static struct node *seen_object(struct index *ix, node_id id, uint32_t serial)
{
	struct node *nd = node_at(ix, id);

	return nd != NULL && nd->serial == serial && nd->kind == NODE_EDGE ? nd : NULL;
}

/* Attach the claim to the deepest record of its server on the path to the cursor, and go on from
 * there as far as that shard allows. The claim stays at the root if there is no such record, or if
 * the cursor is out of date. */
enum grown grow_from_cursor(struct growth *g)
{
	struct index *ix = g->ix;
	node_id id = g->m->cursor.node;
	uint32_t serial = g->m->cursor.serial, depth = g->m->cursor.depth;
	uint64_t locked = shard_bit(ix, id);
	struct node *nd;

	shards_lock(ix, locked);
	while ((nd = seen_object(ix, id, serial)) != NULL) {
		if (start_on(g, nd, depth)) {
			enum grown is = grow_steps(g, &locked);

			return unlock_and_join(g, locked, is);
		}
		if (nd->start == 0)
			break;
		if (!shards_more(ix, &locked, shard_bit(ix, nd->parent)))
			continue;
		depth = nd->start;
		nd = node_at(ix, nd->parent);
		id = nd->id;
		serial = nd->serial;
		if (shard_bit(ix, id) != locked) {	/* only the shard above is needed from here on */
			shards_unlock(ix, locked & ~shard_bit(ix, id));
			locked = shard_bit(ix, id);
		}
	}
	return unlock_and_join(g, locked, GROW_ON);
}

/* ---- where a place ends ---- */

bool grow_from_place(struct growth *g, const struct index_place *at, enum grown *is)
{
	uint64_t locked;
	struct node *nd = place_lock(g->ix, at, &locked);

	if (nd == NULL)
		return false;
	if (!start_on(g, nd, at->depth)) {
		shards_unlock(g->ix, locked);
		return false;
	}
	*is = grow_steps(g, &locked);
	unlock_and_join(g, locked, *is);
	return true;
}

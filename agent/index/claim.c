/* claim.c - what was promised: commit opens a claim, confirm and cancel close it.
 *
 * A claim is (leaf, server). Each record from the leaf to the root counts it, which pins them; so
 * closing is one walk up. Splits leave the leaf's object where it is, joins never take the lower
 * object, and a leaf that is claimed has a record, so the pointer stays good while the claim is open.
 *
 * Claims live in one array. The handle is the slot (low 24 bits) and how often the slot was used,
 * so a handle that was closed, or whose server was dropped, is not known again for 2^40 uses. */
#include "agent/index/tree.h"

#define SLOT_BITS	24
#define SLOT_MASK	((1u << SLOT_BITS) - 1)

static struct claim *slot_take(struct index *ix)
{
	struct claim *c;

	if (ix->free_claim != 0) {
		c = &ix->claims[ix->free_claim - 1];
		ix->free_claim = c->next_free;
	} else {
		c = &ix->claims[ix->top_claims];
		c->id = ix->top_claims++;
	}
	c->id += 1ull << SLOT_BITS;
	ix->st.claims++;
	return c;
}

static void slot_give(struct index *ix, struct claim *c)
{
	c->leaf = NULL;
	c->next_free = ix->free_claim;
	ix->free_claim = (uint32_t)(c - ix->claims) + 1;
	ix->st.claims--;
}

static struct claim *claim_get(struct index *ix, index_claim id)
{
	uint32_t slot = (uint32_t)(id & SLOT_MASK);
	struct claim *c;

	if (slot >= ix->top_claims)
		return NULL;
	c = &ix->claims[slot];
	return c->leaf != NULL && c->id == id ? c : NULL;
}

/* ---- one server on one path, from the leaf up -------------------------------------------- */

static int pin(struct index *ix, struct node *nd, server_id server)
{
	struct record *r = record_find(nd, server);

	if (r == NULL && (r = record_add(ix, nd, server)) == NULL)
		return -1;
	r->n_claims++;
	record_touch(ix, r);
	return 0;
}

static void unpin(struct index *ix, struct node *nd, server_id server, bool confirmed)
{
	struct record *r = record_find(nd, server);

	r->n_claims--;
	r->confirmed |= confirmed;
	if (r->n_claims > 0 || r->confirmed)
		record_touch(ix, r);
	else
		record_del(ix, r);
}

static int pin_path(struct index *ix, struct node *leaf, server_id server)
{
	struct node *nd, *done;

	for (nd = leaf; nd->parent != NULL; nd = nd->parent)
		if (pin(ix, nd, server) < 0)
			goto fail;
	return 0;
fail:
	for (done = leaf; done != nd; done = done->parent)
		unpin(ix, done, server, false);
	return -1;
}

static void touch_path(struct index *ix, struct node *nd, server_id server)
{
	struct record *r;

	for (; nd != NULL && nd->parent != NULL; nd = nd->parent)
		if ((r = record_find(nd, server)) != NULL)
			record_touch(ix, r);
}

/* ---- open ----------------------------------------------------------------------------------- */

static size_t node_cost(uint32_t n_pages, uint32_t n_owners)
{
	return room_cost(sizeof(struct node)) + room_cost(n_pages * sizeof(page_key)) +
	       room_cost((n_owners + 1) * sizeof(struct owner)) +
	       n_owners * room_cost(sizeof(struct record));
}

/* What a commit of <n> pages will take, at most: a space, a leaf, a split, and a record on each node
 * of the path where the server is not yet, which are the lowest ones. */
static size_t commit_cost(struct spot at, uint32_t n, server_id server)
{
	const struct node *nd = at.node;
	size_t need = 0;

	if (nd == NULL)
		need += room_cost(sizeof(struct space));
	if (at.depth < n)
		need += node_cost(n - at.depth, 1);
	if (nd != NULL && at.depth < node_end(nd))
		need += node_cost(nd->n_pages, nd->n_owners + 1u);
	for (; nd != NULL && nd->parent != NULL && record_find(nd, server) == NULL; nd = nd->parent)
		need += room_cost(sizeof(struct record)) +
			room_cost((nd->cap_owners * 2u + 2) * sizeof(struct owner));
	return need;
}

/* Make room at the place of <at>, which eviction may change: it is looked up again until what is
 * needed fits. What the server already holds of the path is touched first, so that the very pages
 * that are asked for go last. */
static bool make_room(struct index *ix, const struct space_key *key, const page_key *pages,
		      uint32_t n, server_id server, struct spot *at)
{
	size_t need;

	if (ix->fixed_bytes + room_cost(sizeof(struct space)) + node_cost(n, 1) > ix->opts.max_bytes)
		return false;		/* not even alone: nobody has to go for it */
	touch_path(ix, at->node, server);
	while (need = commit_cost(*at, n, server), !room_fits(ix, need, 3)) {
		if (!room_make(ix, need, 3))
			return false;
		*at = tree_walk(ix, key, pages, n);
	}
	return true;
}

/* The node whose last page is the last of the prompt; NULL: no memory, and the tree is as it was. */
static struct node *make_leaf(struct index *ix, const struct space_key *key, const page_key *pages,
			      uint32_t n, struct spot at)
{
	struct node *nd = at.node, *leaf;

	if (nd == NULL && (nd = tree_space(ix, key)) == NULL)
		return NULL;
	if (at.depth < node_end(nd) && (nd = tree_split(ix, nd, at.depth - nd->start)) == NULL)
		return NULL;
	if (at.depth == n)
		return nd;
	if ((leaf = tree_leaf(ix, nd, pages + at.depth, n - at.depth)) == NULL)
		tree_tidy(ix, nd);
	return leaf;
}

index_claim claim_open(struct index *ix, const struct space_key *key, const page_key *pages,
		       uint32_t n, struct spot at, server_id server)
{
	struct node *leaf;
	struct claim *c;

	ix->tick++;
	if (ix->free_claim == 0 && ix->top_claims == ix->cap_claims)
		return 0;
	if (!make_room(ix, key, pages, n, server, &at))
		return 0;
	if ((leaf = make_leaf(ix, key, pages, n, at)) == NULL)
		return 0;
	if (pin_path(ix, leaf, server) < 0) {
		tree_tidy(ix, leaf);
		return 0;
	}
	c = slot_take(ix);
	c->leaf = leaf;
	c->server = server;
	return c->id;
}

/* ---- close ---------------------------------------------------------------------------------- */

/* Without confirmation, records that no other claim counts and nothing ever confirmed go: from the
 * leaf up, as far as no other prompt of the server passes. What stays counts as just used. */
bool claim_close(struct index *ix, index_claim claim, bool confirmed)
{
	struct claim *c = claim_get(ix, claim);
	struct node *nd;

	if (c == NULL)
		return false;
	ix->tick++;
	for (nd = c->leaf; nd->parent != NULL; nd = nd->parent)
		unpin(ix, nd, c->server, confirmed);
	nd = c->leaf;
	slot_give(ix, c);
	if (!confirmed)
		tree_tidy(ix, nd);
	return true;
}

/* The claim's own records pin its path meanwhile, so making room leaves the leaf where it is. */
static bool hold_at(struct index *ix, struct node *leaf, server_id server)
{
	size_t need = 0;
	struct node *nd;

	for (nd = leaf; nd->parent != NULL; nd = nd->parent)
		need += room_cost(sizeof(struct record)) +
			room_cost((nd->cap_owners * 2u + 2) * sizeof(struct owner));
	if (!room_make(ix, need, 3) || pin_path(ix, leaf, server) < 0)
		return false;
	for (nd = leaf; nd->parent != NULL; nd = nd->parent)
		unpin(ix, nd, server, true);
	return true;
}

bool claim_close_at(struct index *ix, index_claim claim, server_id server)
{
	struct claim *c = claim_get(ix, claim);

	if (c == NULL)
		return false;
	if (c->server == server)
		return claim_close(ix, claim, true);
	ix->tick++;
	hold_at(ix, c->leaf, server);
	return claim_close(ix, claim, false);
}

/* The ring of a server has a node behind everything below it, so taking records from its front
 * empties the tree from the tails inwards. */
void claim_drop_server(struct index *ix, server_id server)
{
	struct list *records = &ix->servers[server].records;
	struct record *r;
	struct node *nd;
	uint32_t i;

	for (i = 0; i < ix->top_claims; i++) {
		if (ix->claims[i].leaf != NULL && ix->claims[i].server == server)
			slot_give(ix, &ix->claims[i]);
	}
	while (!list_empty(records)) {
		r = list_entry(records->next, struct record, mine);
		nd = r->node;
		record_del(ix, r);
		tree_tidy(ix, nd);
	}
}

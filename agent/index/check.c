/* check.c - every invariant of the index, checked by walking all of it; for tests.
 *
 * Whatever is counted as it changes is counted again from nothing here, and compared. The other
 * files say what must hold at their tops; each sentence below is one of those. */
#include <stdlib.h>

#include "agent/index/tree.h"

struct tally {
	size_t bytes;
	uint64_t nodes, spaces, pages, records, unpinned;
	uint64_t server_pages[SERVERS_MAX];
};

/* Claims that end at a node, sorted by (leaf, server), with their number. */
struct ends {
	struct claim *c;
	size_t n;
};

static int by_leaf(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;

	if (x->leaf != y->leaf)
		return (uintptr_t)x->leaf < (uintptr_t)y->leaf ? -1 : 1;
	return (x->server > y->server) - (x->server < y->server);
}

static int ends_fill(struct ends *e, const struct index *ix)
{
	uint32_t i;

	e->n = 0;
	if ((e->c = mem_calloc(ix->top_claims, sizeof(*e->c))) == NULL)
		return -1;
	for (i = 0; i < ix->top_claims; i++)
		if (ix->claims[i].leaf != NULL)
			e->c[e->n++] = ix->claims[i];
	qsort(e->c, e->n, sizeof(*e->c), by_leaf);
	return 0;
}

/* How many claims of <r>'s server end at its node. */
static uint32_t ends_at(const struct ends *e, const struct record *r)
{
	struct claim like = { .leaf = r->node, .server = r->server };
	size_t lo = 0, hi = e->n, mid, from;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (by_leaf(&e->c[mid], &like) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (from = lo; lo < e->n && by_leaf(&e->c[lo], &like) == 0; lo++)
		;
	return (uint32_t)(lo - from);
}

static const char *check_record(const struct record *r, const struct ends *ends)
{
	const struct node *nd = r->node;
	const struct record *o;
	uint64_t below = ends_at(ends, r);
	const struct list *l;

	if (nd->parent->parent != NULL) {
		o = record_find(nd->parent, r->server);
		if (o == NULL)
			return "a server is on a node but not on the node above it";
		if (r->confirmed && !o->confirmed)
			return "a record is confirmed, the one above it is not";
		if (o->used < r->used)
			return "a record was used after the one above it";
	}
	for (l = nd->children.next; l != &nd->children; l = l->next)
		if ((o = record_find(list_entry(l, struct node, sibling), r->server)) != NULL)
			below += o->n_claims;
	if (below != r->n_claims)
		return "the claims of a record are not those that end at its node and below";
	if (!r->confirmed && r->n_claims == 0)
		return "a record is neither confirmed nor claimed";
	if ((r->n_claims == 0) == list_empty(&r->lru))
		return "a record is pinned and in the LRU, or neither";
	return NULL;
}

static const char *check_owners(const struct node *nd, const struct ends *ends, struct tally *t)
{
	const struct record *r;
	const char *bad;
	uint32_t i;

	for (i = 0; i < nd->n_owners; i++) {
		r = nd->owners[i].rec;
		if (i > 0 && nd->owners[i - 1].server >= nd->owners[i].server)
			return "the owners of a node are not in order";
		if (r->node != nd || r->server != nd->owners[i].server)
			return "an owner's record is another's";
		if ((bad = check_record(r, ends)) != NULL)
			return bad;
		t->records++;
		t->unpinned += r->n_claims == 0;
		t->server_pages[r->server] += nd->n_pages;
		t->bytes += room_cost(sizeof(*r));
	}
	if (nd->owners != NULL)
		t->bytes += room_cost(nd->cap_owners * sizeof(*nd->owners));
	return NULL;
}

static const char *check_node(const struct index *ix, const struct node *nd,
			      const struct ends *ends, struct tally *t)
{
	const struct list *l;
	uint32_t n = 0;

	for (l = nd->children.next; l != &nd->children; l = l->next, n++)
		if (list_entry(l, struct node, sibling)->parent != nd)
			return "a node's child has another parent";
	if (n != nd->n_children)
		return "a node's children are not counted right";
	if (nd->parent == NULL) {
		t->spaces++;
		t->bytes += room_cost(sizeof(struct space));
		if (n == 0 || nd->n_owners > 0 || nd->n_pages > 0)
			return "the root of a space has no child, or has owners or pages";
		if (&table_space(ix, &((const struct space *)nd)->key)->root != nd)
			return "a space is not found under its key";
		return NULL;
	}
	t->nodes++;
	t->pages += nd->n_pages;
	t->bytes += room_cost(sizeof(*nd)) + room_cost(nd->cap_pages * sizeof(*nd->pages));
	if (nd->n_pages == 0 || nd->n_pages > nd->cap_pages)
		return "a node has no page, or more than fit";
	if (nd->n_owners == 0)
		return "a node has no owner";
	if (nd->start != node_end(nd->parent))
		return "a node does not start where its parent ends";
	if (list_empty(&nd->sibling) || table_child(ix, nd->parent, nd->pages[0]) != nd)
		return "a node is not found under its first page";
	return check_owners(nd, ends, t);
}

static const char *check_lru(const struct index *ix, const struct tally *t)
{
	const struct list *l;
	const struct record *r, *prev = NULL;
	uint64_t n = 0;

	for (l = ix->lru.next; l != &ix->lru; l = l->next, prev = r, n++) {
		r = list_entry(l, struct record, lru);
		if (r->n_claims > 0)
			return "a pinned record is in the LRU";
		if (prev != NULL && prev->used > r->used)
			return "the LRU is not in order of use";
	}
	return n == t->unpinned ? NULL : "the LRU does not hold every record that is not pinned";
}

static const char *check_rings(const struct index *ix, const struct tally *t)
{
	const struct list *l, *ring;
	const struct record *r, *prev;
	uint64_t n = 0;
	size_t i;

	for (i = 0; i < SERVERS_MAX; i++) {
		ring = &ix->servers[i].records;
		for (prev = NULL, l = ring->next; l != ring; l = l->next, prev = r, n++) {
			r = list_entry(l, struct record, mine);
			if (r->server != i)
				return "a record is in another server's ring";
			if (prev != NULL && prev->used > r->used)
				return "a server's ring is not in order of use";
		}
		if (ix->servers[i].pages != t->server_pages[i])
			return "a server's pages are not counted right";
	}
	return n == t->records ? NULL : "the servers' rings do not hold every record";
}

static const char *check_totals(const struct index *ix, struct tally *t, size_t n_claims)
{
	t->bytes += room_cost(sizeof(*ix)) + room_cost(ix->n_slots * sizeof(*ix->slots)) +
		    room_cost(ix->cap_claims * sizeof(*ix->claims));
	if (t->bytes != ix->bytes)
		return "the bytes are not counted right";
	if (ix->bytes > ix->opts.max_bytes)
		return "there are more bytes than the budget allows";
	if (t->nodes + t->spaces != ix->used_slots || t->nodes != ix->st.nodes ||
	    t->spaces != ix->st.spaces)
		return "the nodes or spaces are not counted right";
	if (t->pages != ix->st.pages || t->records != ix->st.records || n_claims != ix->st.claims)
		return "the pages, records or claims are not counted right";
	return NULL;
}

static const char *check_all(const struct index *ix, const struct ends *ends, struct tally *t)
{
	const char *bad;
	uint32_t i;

	for (i = 0; i < ix->n_slots; i++)
		if (ix->slots[i] != NULL && (bad = check_node(ix, ix->slots[i], ends, t)) != NULL)
			return bad;
	for (i = 0; i < ends->n; i++)
		if (record_find(ends->c[i].leaf, ends->c[i].server) == NULL)
			return "a claim ends at a node without its server";
	if ((bad = check_lru(ix, t)) != NULL || (bad = check_rings(ix, t)) != NULL)
		return bad;
	return check_totals(ix, t, ends->n);
}

const char *index_check(struct index *ix)
{
	const char *bad = "no memory to check with";
	struct tally *t = mem_alloc(sizeof(*t));
	struct ends ends = { 0 };

	pthread_rwlock_rdlock(&ix->lock);
	if (t != NULL && ends_fill(&ends, ix) == 0)
		bad = check_all(ix, &ends, t);
	pthread_rwlock_unlock(&ix->lock);
	mem_free(ends.c);
	mem_free(t);
	return bad;
}

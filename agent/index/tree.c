/* tree.c - nodes: found, made, cut in two, put together, taken out.
 *
 * A compressed trie of page keys: an edge's pages stand in its lower node, and a child is found
 * under its first page (table.c). What is compared is always the keys themselves, so a match is
 * exact in the keys.
 *
 * Nodes come where prompts part and where one ends inside an edge; they go when their last record
 * goes. A node left with one child is put together with it when that loses nothing: the same
 * servers with the same claims and no other record between them in the order of use. It is tried
 * only where something was just taken out, so it is O(1) nodes a call; a chain that grew turn by
 * turn stays a chain, which lets eviction trim it turn by turn.
 *
 * Cost: a walk is one probe a node and one comparison a page; split and join copy an edge. */
#include "agent/index/tree.h"

static uint32_t common_pages(const page_key *a, const page_key *b, uint32_t n)
{
	uint32_t i = 0;

	while (n - i >= 32 && memcmp(a + i, b + i, 32 * sizeof(*a)) == 0)
		i += 32;
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

struct spot tree_walk(const struct index *ix, const struct space_key *key, const page_key *pages,
		      uint32_t n)
{
	struct space *sp = table_space(ix, key);
	struct spot at = { sp ? &sp->root : NULL, 0 };
	struct node *nd;
	uint32_t left;

	while (at.node != NULL && at.depth == node_end(at.node) && at.depth < n) {
		if ((nd = table_child(ix, at.node, pages[at.depth])) == NULL)
			break;
		left = n - at.depth;
		at.depth += common_pages(nd->pages, pages + at.depth,
					 left < nd->n_pages ? left : nd->n_pages);
		at.node = nd;
	}
	return at;
}

static void node_init(struct node *nd)
{
	list_init(&nd->children);
	list_init(&nd->sibling);
}

/* A node of the first <n> of <pages>, in no tree yet. */
static struct node *node_new(struct index *ix, const page_key *pages, uint32_t n)
{
	struct node *nd;

	if ((nd = room_take(ix, sizeof(*nd))) == NULL)
		return NULL;
	if ((nd->pages = room_take(ix, n * sizeof(*pages))) == NULL) {
		room_give(ix, nd, sizeof(*nd));
		return NULL;
	}
	memcpy(nd->pages, pages, n * sizeof(*pages));
	nd->n_pages = nd->cap_pages = n;
	node_init(nd);
	return nd;
}

void tree_free_node(struct index *ix, struct node *nd)
{
	record_free_all(ix, nd);
	room_give(ix, nd->pages, nd->cap_pages * sizeof(*nd->pages));
	room_give(ix, nd, nd->parent ? sizeof(*nd) : sizeof(struct space));
}

/* A node is told from a root by its parent, so the memory of one that is in no tree goes here. */
static void node_discard(struct index *ix, struct node *nd)
{
	room_give(ix, nd->pages, nd->cap_pages * sizeof(*nd->pages));
	room_give(ix, nd, sizeof(*nd));
}

static void node_link(struct index *ix, struct node *nd, struct node *parent)
{
	nd->parent = parent;
	nd->start = node_end(parent);
	list_append(&parent->children, &nd->sibling);
	parent->n_children++;
	table_add(ix, nd);
	ix->version++;
}

static void node_unlink(struct index *ix, struct node *nd)
{
	table_del(ix, nd);
	list_remove(&nd->sibling);
	nd->parent->n_children--;
	ix->version++;
}

struct node *tree_space(struct index *ix, const struct space_key *key)
{
	struct space *sp = table_space(ix, key);

	if (sp != NULL)
		return &sp->root;
	if ((sp = room_take(ix, sizeof(*sp))) == NULL)
		return NULL;
	sp->key = *key;
	node_init(&sp->root);
	table_add(ix, &sp->root);
	ix->version++;
	ix->st.spaces++;
	return &sp->root;
}

struct node *tree_leaf(struct index *ix, struct node *parent, const page_key *pages, uint32_t n)
{
	struct node *nd = node_new(ix, pages, n);

	if (nd == NULL)
		return NULL;
	node_link(ix, nd, parent);
	ix->st.nodes++;
	ix->st.pages += n;
	return nd;
}

/* Shrink the array to its pages; when that fails the larger one does no harm. */
static void pages_fit(struct index *ix, struct node *nd)
{
	page_key *p = room_resize(ix, nd->pages, nd->cap_pages * sizeof(*p),
				  nd->n_pages * sizeof(*p));

	if (p == NULL)
		return;
	nd->pages = p;
	nd->cap_pages = nd->n_pages;
}

/* Cut <nd> behind its first <k> pages. The old object keeps the tail, with its children and the
 * claims that end there; every claim on it passes through the new one too, so counts are copied.
 *
 *   parent                     parent
 *     |                          |
 *   nd [A B C D] s1 s2   ->    up [A B] s1 s2
 *     |                          |
 *   children                   nd [C D] s1 s2
 *                                |
 *                              children                                                      */
struct node *tree_split(struct index *ix, struct node *nd, uint32_t k)
{
	struct node *up = node_new(ix, nd->pages, k), *parent = nd->parent;

	if (up == NULL)
		return NULL;
	if (record_copy_all(ix, up, nd) < 0) {
		node_discard(ix, up);
		return NULL;
	}
	node_unlink(ix, nd);
	nd->n_pages -= k;
	memmove(nd->pages, nd->pages + k, nd->n_pages * sizeof(*nd->pages));
	pages_fit(ix, nd);
	node_link(ix, up, parent);
	node_link(ix, nd, up);
	ix->st.nodes++;
	return up;
}

/* Nothing would be lost if <up> and its only child were one: no claim ends at <up>, and forgetting
 * them together changes no order. */
static bool same_records(const struct node *up, const struct node *low)
{
	const struct record *u, *l;
	uint32_t i;

	if (up->n_owners != low->n_owners)
		return false;
	for (i = 0; i < up->n_owners; i++) {
		u = up->owners[i].rec;
		l = low->owners[i].rec;
		if (u->server != l->server || u->n_claims != l->n_claims ||
		    u->confirmed != l->confirmed)
			return false;
		if (u->n_claims == 0 && l->lru.next != &u->lru)
			return false;
	}
	return true;
}

/* The reverse of a split: the lower object stays, and takes the pages of <up> in front of its own. */
static void try_join(struct index *ix, struct node *up)
{
	struct node *low, *parent = up->parent;
	page_key *p;
	uint32_t n;

	if (parent == NULL || up->n_children != 1)
		return;
	low = list_entry(up->children.next, struct node, sibling);
	if (!same_records(up, low))
		return;
	n = up->n_pages + low->n_pages;
	p = room_resize(ix, low->pages, low->cap_pages * sizeof(*p), n * sizeof(*p));
	if (p == NULL)
		return;
	low->pages = p;
	low->cap_pages = n;
	node_unlink(ix, low);
	node_unlink(ix, up);
	memmove(p + up->n_pages, p, low->n_pages * sizeof(*p));
	memcpy(p, up->pages, up->n_pages * sizeof(*p));
	low->n_pages = n;
	node_link(ix, low, parent);
	tree_free_node(ix, up);
	ix->st.nodes--;
}

/* Take out <nd> and what is above it as far as no server is left there, then the space if that
 * was its last node; where a node stays, see whether it and its neighbours still need a border. */
void tree_tidy(struct index *ix, struct node *nd)
{
	struct node *up;

	while (nd->parent != NULL && nd->n_owners == 0) {
		up = nd->parent;
		node_unlink(ix, nd);
		ix->st.nodes--;
		ix->st.pages -= nd->n_pages;
		tree_free_node(ix, nd);
		nd = up;
	}
	if (nd->parent == NULL) {
		if (nd->n_children > 0)
			return;
		table_del(ix, nd);
		ix->version++;
		ix->st.spaces--;
		tree_free_node(ix, nd);
		return;
	}
	up = nd->parent;
	try_join(ix, nd);
	try_join(ix, up);
}

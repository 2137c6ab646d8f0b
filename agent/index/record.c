/* record.c - servers on nodes.
 *
 * A node keeps its owners in an array sorted by server id: a match reads it front to back, a commit
 * searches it, and a root that all servers share stays a handful of cache lines. Arrays double and
 * are halved when three quarters are empty. Invariants that index_check() verifies:
 *
 *   - a server on a node is on all its ancestors; where it is confirmed, they are
 *   - n_claims of a record is at least the sum over the same server's records on the children; the
 *     rest are claims that end at the node
 *   - a record is in the LRU ring if and only if n_claims is 0
 *   - in both rings a record comes behind all records of its server that are below it */
#include "agent/index/tree.h"

#define OWNERS_FIRST	2u	/* fits the smallest chunk of the heap */

/* Where <server> is among the owners, or would be. */
static uint32_t owner_at(const struct node *nd, server_id server)
{
	uint32_t lo = 0, hi = nd->n_owners, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (nd->owners[mid].server < server)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct record *record_find(const struct node *nd, server_id server)
{
	uint32_t i = owner_at(nd, server);

	return i < nd->n_owners && nd->owners[i].server == server ? nd->owners[i].rec : NULL;
}

static int owners_resize(struct index *ix, struct node *nd, uint32_t cap)
{
	struct owner *o = room_resize(ix, nd->owners, nd->cap_owners * sizeof(*o),
				      cap * sizeof(*o));

	if (o == NULL)
		return -1;
	nd->owners = o;
	nd->cap_owners = (uint16_t)cap;
	return 0;
}

struct record *record_add(struct index *ix, struct node *nd, server_id server)
{
	uint32_t i = owner_at(nd, server);
	uint32_t cap = nd->cap_owners ? nd->cap_owners * 2u : OWNERS_FIRST;
	struct record *r;

	if (nd->n_owners == nd->cap_owners && owners_resize(ix, nd, cap) < 0)
		return NULL;
	if ((r = room_take(ix, sizeof(*r))) == NULL)
		return NULL;
	r->node = nd;
	r->server = server;
	list_init(&r->lru);
	list_init(&r->mine);
	memmove(nd->owners + i + 1, nd->owners + i, (nd->n_owners - i) * sizeof(*nd->owners));
	nd->owners[i] = (struct owner){ r, server };
	nd->n_owners++;
	ix->servers[server].pages += nd->n_pages;
	ix->st.records++;
	record_touch(ix, r);
	return r;
}

static void record_free(struct index *ix, struct record *r)
{
	list_remove(&r->lru);
	list_remove(&r->mine);
	ix->st.records--;
	room_give(ix, r, sizeof(*r));
}

void record_del(struct index *ix, struct record *r)
{
	struct node *nd = r->node;
	uint32_t i = owner_at(nd, r->server);

	nd->n_owners--;
	memmove(nd->owners + i, nd->owners + i + 1, (nd->n_owners - i) * sizeof(*nd->owners));
	ix->servers[r->server].pages -= nd->n_pages;
	record_free(ix, r);
	if (nd->n_owners > OWNERS_FIRST && nd->n_owners <= nd->cap_owners / 4)
		(void)owners_resize(ix, nd, nd->cap_owners / 2u);	/* a larger array does no harm */
}

void record_touch(struct index *ix, struct record *r)
{
	r->used = ix->tick;
	list_remove(&r->mine);
	list_append(&ix->servers[r->server].records, &r->mine);
	list_remove(&r->lru);
	if (r->n_claims == 0)
		list_append(&ix->lru, &r->lru);
}

/* Give <to>, which has no owners and will be the parent of <from>, the same records with the same
 * claims, each just behind its original in the rings. Nothing is changed on failure. */
int record_copy_all(struct index *ix, struct node *to, const struct node *from)
{
	struct record *r, *like;
	uint32_t i;

	if (owners_resize(ix, to, from->n_owners) < 0)
		return -1;
	for (i = 0; i < from->n_owners; i++) {
		like = from->owners[i].rec;
		if ((r = room_take(ix, sizeof(*r))) == NULL)
			goto fail;
		*r = *like;
		r->node = to;
		list_append(like->mine.next, &r->mine);
		list_init(&r->lru);
		if (r->n_claims == 0)
			list_append(like->lru.next, &r->lru);
		to->owners[to->n_owners++] = (struct owner){ r, r->server };
		ix->st.records++;
	}
	return 0;
fail:
	record_free_all(ix, to);
	return -1;
}

void record_free_all(struct index *ix, struct node *nd)
{
	uint32_t i;

	for (i = 0; i < nd->n_owners; i++)
		record_free(ix, nd->owners[i].rec);
	room_give(ix, nd->owners, nd->cap_owners * sizeof(*nd->owners));
	nd->owners = NULL;
	nd->n_owners = nd->cap_owners = 0;
}

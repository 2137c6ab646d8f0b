/* check.c - check every invariant of an index with all locks held.
 *
 * Returns the first sentence that does not hold. Counts are made anew from the nodes and compared
 * with the counters. */
#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

struct counts {
	uint64_t nodes, spaces, records, pages;
	int64_t server_room[SERVERS_MAX];
	int64_t tenant_bytes[TENANTS_MAX];
};

#define HOLD(cond, text)	do { if (!(cond)) return text; } while (0)

/* All claims at one stop are linked, and all but one have a spare stop. */
static const char *check_stop(const struct index *ix, uint32_t k, server_id s)
{
	uint32_t c, before = 0, without = 0;

	for (c = ix->stops[k].first; c != 0; before = c, c = ix->claims[c].next) {
		HOLD(ix->claims[c].prev == before && ix->claims[c].stop == k, "a claim is in another list");
		HOLD(atomic_load(&ix->claims[c].server) == s, "a claim is of another server");
		without += ix->claims[c].spare == 0;
	}
	HOLD(without == 1, "the stops are not as many as the claims");
	return NULL;
}

static const char *check_stops(
    const struct index *ix, const struct node *nd, const struct record *r)
{
	uint32_t k, before = 0, depth = node_end(nd) + 1;
	const struct stop *stop;
	const char *bad;

	for (k = r->claims; k != 0; before = k, depth = stop->depth, k = stop->shallower) {
		stop = &ix->stops[k];
		HOLD(atomic_load(&stop->node) == nd->id, "a claim is of another node");
		HOLD(stop->record == record_ref(ix, r), "a claim is of another record");
		HOLD(stop->depth > nd->start && stop->depth < depth, "a claim ends elsewhere");
		HOLD(stop->deeper == before && stop->first != 0, "the stops of a record are torn");
		if ((bad = check_stop(ix, k, r->server)) != NULL)
			return bad;
	}
	return NULL;
}

static const char *check_record(
    struct index *ix, const struct node *nd, uint32_t slot, struct counts *n)
{
	uint32_t w = atomic_load(&node_words(nd)[slot]), reach;
	const struct record *r = at(ix, node_records(nd)[slot]);
	const struct node *parent = node_at(ix, nd->parent);
	const struct record *up =
	    parent->kind == NODE_EDGE ? node_record(ix, parent, word_server(w)) : NULL;
	const char *bad;

	HOLD(r->node == nd->id, "a record is of another node");
	HOLD(r->server == word_server(w) && r->extent == word_extent(w),
	    "a record is not as its owner word");
	HOLD(r->extent > 0 && r->extent <= nd->n_pages && r->held <= r->extent, "an extent is too long");
	if ((bad = check_stops(ix, nd, r)) != NULL)
		return bad;
	reach = claim_reach(ix, r, nd->start);
	if (r->n_children != 0)
		HOLD(r->extent == nd->n_pages, "a record with children does not hold its node");
	else
		HOLD(r->extent == (r->held > reach ? r->held : reach), "an extent has no reason");
	HOLD(r->listed == (r->n_children == 0 && r->claims == 0),
	    "a record is in the lists, or is not, and should");
	HOLD(r->up == (up ? record_ref(ix, up) : 0), "a record names another one above it");
	if (parent->kind == NODE_EDGE)
		HOLD(up != NULL && up->extent == parent->n_pages, "a server does not hold what is above");
	n->records++;
	n->server_room[word_server(w)] += room_of(nd, word_extent(w));
	return NULL;
}

static const char *check_alone(
    const struct index *ix, const struct node *nd, const struct node *child)
{
	uint32_t i;

	if (nd->n_pages + (uint32_t)child->n_pages > EDGE_MAX || nd->slack)
		return NULL;
	for (i = 0; i < nd->n_slots; i++)
		if (node_words(nd)[i] != 0 && ((struct record *)at(ix, node_records(nd)[i]))->claims != 0)
			return NULL;
	return "a node has one child and no reason for it";
}

static const char *check_edge(struct index *ix, const struct node *nd, struct counts *n)
{
	const struct node *parent = node_at(ix, nd->parent), *child;
	uint32_t i, owners = 0;
	const char *bad;

	HOLD(parent != NULL, "a parent is gone");
	HOLD(nd->start == node_end(parent), "a node begins elsewhere than its parent ends");
	HOLD(nd->n_pages > 0 && nd->n_pages <= EDGE_MAX, "an edge is empty or too long");
	HOLD(node_digests_right(nd), "a digest is not that of its keys");
	HOLD(nd->page_room > 0, "a page takes no room");
	HOLD(nd->tenant == parent->tenant, "a node is of another tenant than its parent");
	for (i = 0; i < nd->n_slots; i++) {
		if (node_words(nd)[i] == 0)
			continue;
		owners++;
		if ((bad = check_record(ix, nd, i, n)) != NULL)
			return bad;
	}
	HOLD(owners > 0 && owners == nd->n_owners, "a node has no owner, or counts them wrong");
	HOLD(node_reach(nd) == nd->n_pages || nd->slack, "the last page of a node has no owner");
	HOLD(table_child(ix, node_hash(nd), nd->parent, node_pages(nd)[0]) == nd,
	    "a node is not found by its first page");
	if (nd->n_children == 1) {
		child = node_at(ix, nd->child_xor);
		HOLD(child != NULL && child->parent == nd->id, "an only child is not known");
		if ((bad = check_alone(ix, nd, child)) != NULL)
			return bad;
	}
	n->pages += nd->n_pages;
	n->nodes++;
	return NULL;
}

static const char *check_node(
    struct index *ix, node_id id, struct counts *n, uint32_t *children, node_id *xors)
{
	const struct shard *sh = &ix->shards[shard_of(ix, id)];
	const struct node *nd = node_at(ix, id);

	if (nd == NULL)
		return NULL;
	HOLD(nd->id == id, "an id names another node");
	HOLD(!nd->superseded, "an id names an old object");
	n->tenant_bytes[nd->tenant] += (int64_t)arena_size(&sh->arena, node_ref(ix, nd));
	HOLD(nd->n_children == children[id >> SHARD_BITS], "children are counted wrong");
	HOLD(nd->child_xor == xors[id >> SHARD_BITS], "children are mixed wrong");
	if (nd->kind == NODE_EDGE)
		return check_edge(ix, nd, n);
	HOLD(nd->n_children > 0, "a space is empty");
	n->spaces++;
	return NULL;
}

struct family {			/* counted from the children of each node, by shard and number */
	uint32_t *children[SHARDS_MAX];
	node_id *xors[SHARDS_MAX];
};

static bool family_take(const struct index *ix, struct family *f)
{
	uint32_t i;

	for (i = 0; i < ix->n_shards; i++) {
		f->children[i] = mem_calloc(ix->shards[i].n_ids + 1, sizeof(uint32_t));
		f->xors[i] = mem_calloc(ix->shards[i].n_ids + 1, sizeof(node_id));
		if (f->children[i] == NULL || f->xors[i] == NULL)
			return false;
	}
	return true;
}

static void family_give(const struct index *ix, struct family *f)
{
	uint32_t i;

	for (i = 0; i < ix->n_shards; i++) {
		mem_free(f->children[i]);
		mem_free(f->xors[i]);
	}
}

static const char *family_count(struct index *ix, struct family *f)
{
	uint32_t i, k, p;
	struct node *nd, *parent;

	for (i = 0; i < ix->n_shards; i++) {
		for (k = 1; k <= ix->shards[i].n_ids; k++) {
			nd = node_at(ix, k << SHARD_BITS | i);
			if (nd == NULL || nd->kind == NODE_ROOT)
				continue;
			HOLD((parent = node_at(ix, nd->parent)) != NULL, "a parent is gone");
			p = nd->parent >> SHARD_BITS;
			f->children[shard_of(ix, nd->parent)][p]++;
			f->xors[shard_of(ix, nd->parent)][p] ^= nd->id;
		}
	}
	return NULL;
}

static const char *check_lists(struct index *ix, const struct shard *sh)
{
	uint64_t n = 0, by_server = 0;
	arena_ref ref, before = 0;
	const struct record *r;
	size_t k;

	for (k = 0; k < TENANTS_MAX; k++) {
		for (before = 0, ref = sh->tenants[k].by_age.first; ref != 0;
		     before = ref, ref = r->in[BY_AGE].next, n++) {
			r = at(ix, ref);
			HOLD(r->in[BY_AGE].prev == before && r->listed, "a list by age is torn");
			HOLD(node_at(ix, r->node)->tenant == k, "a record is in the list of another tenant");
		}
		HOLD(sh->tenants[k].by_age.last == before, "a list by age ends elsewhere");
	}
	for (k = 0; k < (size_t)SERVERS_MAX * ix->orders_each; k++) {
		for (before = 0, ref = sh->orders[k].first; ref != 0;
		     before = ref, ref = r->in[BY_ORDER].next, by_server++) {
			r = at(ix, ref);
			HOLD(r->in[BY_ORDER].prev == before && r->server == k / ix->orders_each,
			    "a server's list is torn");
		}
		HOLD(sh->orders[k].last == before, "a server's list ends elsewhere");
	}
	HOLD(n == by_server, "the lists do not have the same records");
	return NULL;
}

/* Each slab counts its free records, and slabs with room are linked. */
static const char *check_slabs(const struct index *ix, const struct shard *sh)
{
	arena_ref ref, before = 0, free;
	const struct slab *sl;
	uint32_t n;

	for (ref = sh->slabs; ref != 0; before = ref, ref = sl->next) {
		sl = at(ix, ref);
		HOLD(sl->prev == before && sl->free != 0 && sl->n_used > 0, "the list of slabs is torn");
		for (n = 0, free = sl->free; free != 0 && n < SLAB_RECORDS; n++)
			free = *(const arena_ref *)at(ix, free);
		HOLD(free == 0 && n + sl->n_used == SLAB_RECORDS, "records of a slab are counted wrong");
	}
	return NULL;
}

static const char *check_slack(struct index *ix, const struct shard *sh, uint32_t shard)
{
	node_id id, before = 0;
	const struct node *nd;
	uint32_t n = 0;

	for (id = sh->slack_first; id != 0; before = id, id = nd->link, n++) {
		HOLD(shard_of(ix, id) == shard && (nd = node_at(ix, id)) != NULL, "a node with slack is gone");
		HOLD(nd->slack && nd->slack_prev == before, "the list of nodes with slack is torn");
	}
	HOLD(sh->slack_last == before && atomic_load(&sh->n_slack) == n,
	    "nodes with slack are counted wrong");
	return NULL;
}

int64_t index_tenant_bytes(const struct index *ix, uint32_t tenant)
{
	int64_t n = 0;
	uint32_t i;

	for (i = 0; i < ix->n_shards; i++)
		n += atomic_load(&ix->shards[i].tenants[tenant].bytes);
	return n;
}

static const char *check_totals(struct index *ix, const struct counts *n)
{
	struct counts had = { 0 };
	uint32_t i;

	for (i = 0; i < ix->n_shards; i++) {
		had.nodes += ix->shards[i].st.nodes;
		had.spaces += ix->shards[i].st.spaces;
		had.records += ix->shards[i].st.records;
		had.pages += ix->shards[i].st.pages;
	}
	HOLD(had.nodes == n->nodes && had.spaces == n->spaces, "nodes or spaces are counted wrong");
	HOLD(had.records == n->records && had.pages == n->pages, "records or pages are counted wrong");
	for (i = 0; i < SERVERS_MAX; i++)
		HOLD(atomic_load(&ix->servers[i].room) == n->server_room[i], "a server's room is counted wrong");
	for (i = 0; i < TENANTS_MAX; i++)
		HOLD(index_tenant_bytes(ix, i) == n->tenant_bytes[i], "a tenant's bytes are counted wrong");
	return NULL;
}

static const char *check_group(const struct index *ix, uint32_t group, int64_t *added)
{
	const struct claim_group *g = &ix->groups[group];
	uint32_t c, n = 0, before = 0;
	const struct claim *cl;

	for (c = g->oldest; c != 0; before = c, c = cl->newer, n++) {
		cl = &ix->claims[c];
		HOLD(cl->older == before && atomic_load(&cl->state) == CLAIM_OPEN, "the list of claims is torn");
		HOLD(claim_server(ix, c) % CLAIM_GROUPS == group, "a claim is in another group");
		*added += claim_pages(cl);
	}
	HOLD(g->newest == before && n == atomic_load(&g->n_open), "open claims are counted wrong");
	HOLD(atomic_load(&g->oldest_tick) == (g->oldest ? ix->claims[g->oldest].tick : NO_CLAIM),
	    "the oldest claim is not known");
	return NULL;
}

static const char *check_claims_of(const struct index *ix, server_id s, uint32_t *n)
{
	const struct server *srv = &ix->servers[s];
	uint32_t c, before = 0;
	int64_t added = 0, parts = 0;

	for (c = srv->oldest_claim; c != 0; before = c, c = ix->claims[c].newer_same, ++*n) {
		HOLD(ix->claims[c].older_same == before && claim_server(ix, c) == s &&
			atomic_load(&ix->claims[c].state) == CLAIM_OPEN,
		    "a server's list of claims is torn");
		added += ix->claims[c].added_room;
		parts += ix->claims[c].part_room;
	}
	HOLD(srv->newest_claim == before, "a server's list of claims ends elsewhere");
	HOLD(added == atomic_load(&srv->speculative), "what a server's claims added is counted wrong");
	HOLD(parts == atomic_load(&srv->parts), "the part pages of a server's claims are counted wrong");
	return NULL;
}

static const char *check_claims(const struct index *ix)
{
	uint32_t i, n = 0, n_open = 0;
	const char *bad = NULL;
	int64_t added, counted = 0;

	for (i = 0; bad == NULL && i < CLAIM_GROUPS; i++) {
		const struct claim_group *g = &ix->groups[i];

		added = 0;
		bad = check_group(ix, i, &added);
		HOLD(bad != NULL || added == atomic_load(&g->pages), "what claims added is counted wrong");
		HOLD(added - g->counted <= ix->reserve_step && g->counted - added <= ix->reserve_step,
		    "a group has not counted what its claims added");
		n_open += atomic_load(&g->n_open);
		counted += g->counted;
	}
	for (i = 0; bad == NULL && i < SERVERS_MAX; i++)
		bad = check_claims_of(ix, (server_id)i, &n);
	if (bad != NULL)
		return bad;
	HOLD(n == n_open, "not every open claim is in the list of its server");
	HOLD(counted == atomic_load(&ix->speculative), "what groups counted is counted wrong");
	return NULL;
}

static const char *check_shard(struct index *ix, uint32_t i, struct counts *n, struct family *f)
{
	const char *bad = check_lists(ix, &ix->shards[i]);
	uint32_t k;

	if (bad == NULL)
		bad = check_slabs(ix, &ix->shards[i]);
	if (bad == NULL)
		bad = check_slack(ix, &ix->shards[i], i);
	for (k = 1; bad == NULL && k <= ix->shards[i].n_ids; k++)
		bad = check_node(ix, k << SHARD_BITS | i, n, f->children[i], f->xors[i]);
	return bad ? bad : arena_check(&ix->shards[i].arena);
}

static const char *check_all(struct index *ix, struct counts *n, struct family *f)
{
	const char *bad = family_take(ix, f) ? family_count(ix, f) : "no memory for the check";
	uint32_t i;

	for (i = 0; bad == NULL && i < ix->n_shards; i++)
		bad = check_shard(ix, i, n, f);
	if (bad == NULL)
		bad = check_totals(ix, n);
	if (bad == NULL)
		bad = table_check(ix, n->nodes + n->spaces);
	return bad ? bad : check_claims(ix);
}

const char *index_check(struct index *ix)
{
	uint64_t all = ix->n_shards == 64 ? UINT64_MAX : (1ull << ix->n_shards) - 1;
	struct counts *n = mem_alloc(sizeof(*n));
	struct family f = { { NULL }, { NULL } };
	const char *bad;
	uint32_t i;

	if (n == NULL)
		return "no memory for the check";
	shards_lock(ix, all);
	for (i = 0; i < CLAIM_GROUPS; i++)
		claims_lock(ix, (server_id)i);
	bad = check_all(ix, n, &f);
	for (i = 0; i < CLAIM_GROUPS; i++)
		claims_unlock(ix, (server_id)i);
	shards_unlock(ix, all);
	family_give(ix, &f);
	mem_free(n);
	return bad;
}

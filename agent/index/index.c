/* index.c - the index as others see it: options, the lock, matching, counters.
 *
 * One reader-writer lock for the whole index: matches share it, everything that changes the tree
 * has it alone, and nothing outside the module is called while it is held. Writers go first, or a
 * steady stream of matches would keep commits out.
 *
 * The order of use is the order of calls, which is what an LRU needs; <now> says no more. */
#include "agent/index/tree.h"

#define MIN_BYTES	65536u		/* below it nothing but the fixed part would fit */
#define BYTES_A_NODE	160u		/* budget for each slot of the table; a node takes 220 or more */
#define BYTES_A_CLAIM	1024u
#define CLAIMS_MAX	((1u << 24) - 1)

void index_defaults(struct index_opts *o)
{
	*o = (struct index_opts){ .max_bytes = 256u << 20, .max_pages = 65536 };
}

static int lock_init(pthread_rwlock_t *l)
{
	pthread_rwlockattr_t a;
	int rc;

	if (pthread_rwlockattr_init(&a) != 0)
		return -1;
	pthread_rwlockattr_setkind_np(&a, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	rc = pthread_rwlock_init(l, &a);
	pthread_rwlockattr_destroy(&a);
	return rc == 0 ? 0 : -1;
}

/* Sizes follow the budget, so that they never change while the index lives. */
static void size_tables(struct index *ix)
{
	size_t slots = 1, claims = ix->opts.max_bytes / BYTES_A_CLAIM;

	while (slots * 2 <= ix->opts.max_bytes / BYTES_A_NODE && slots < 1u << 30)
		slots *= 2;
	ix->n_slots = (uint32_t)slots;
	ix->cap_claims = claims < CLAIMS_MAX ? (uint32_t)claims : CLAIMS_MAX;
}

struct index *index_new(const struct index_opts *o)
{
	struct index *ix;
	size_t i;

	if ((ix = mem_alloc(sizeof(*ix))) == NULL)
		return NULL;
	if (lock_init(&ix->lock) < 0) {
		mem_free(ix);
		return NULL;
	}
	ix->opts = *o;
	if (ix->opts.max_bytes < MIN_BYTES)
		ix->opts.max_bytes = MIN_BYTES;
	size_tables(ix);
	ix->version = 1;
	list_init(&ix->lru);
	for (i = 0; i < SERVERS_MAX; i++)
		list_init(&ix->servers[i].records);
	ix->bytes = room_cost(sizeof(*ix));
	ix->slots = room_take(ix, ix->n_slots * sizeof(*ix->slots));
	ix->claims = room_take(ix, ix->cap_claims * sizeof(*ix->claims));
	ix->fixed_bytes = ix->bytes;
	if (ix->slots != NULL && ix->claims != NULL)
		return ix;
	index_free(ix);
	return NULL;
}

void index_free(struct index *ix)
{
	uint32_t i;

	if (ix == NULL)
		return;
	for (i = 0; ix->slots != NULL && i < ix->n_slots; i++)
		if (ix->slots[i] != NULL)
			tree_free_node(ix, ix->slots[i]);
	mem_free(ix->slots);
	mem_free(ix->claims);
	pthread_rwlock_destroy(&ix->lock);
	mem_free(ix);
}

/* ---- match -------------------------------------------------------------------------------- */

int index_match_init(struct index_match *m)
{
	*m = (struct index_match){ .cap = SERVERS_MAX };
	m->bands = mem_calloc(m->cap, sizeof(*m->bands));
	return m->bands ? 0 : -1;
}

void index_match_fini(struct index_match *m)
{
	mem_free(m->bands);
	*m = (struct index_match){ 0 };
}

/* The owners of <nd> that are not <seen> are a band; returns how many they are. */
static uint32_t add_band(struct index_match *m, const struct node *nd, uint32_t depth,
			 struct server_set *seen)
{
	struct index_band *b = NULL;
	uint32_t i, n = 0;
	server_id id;

	for (i = 0; i < nd->n_owners; i++) {
		id = nd->owners[i].server;
		if (server_set_has(seen, id))
			continue;
		if (n++ == 0) {
			if (m->n_bands == m->cap)
				return 0;
			b = &m->bands[m->n_bands++];
			*b = (struct index_band){ .depth = depth };
		}
		server_set_add(&b->servers, id);
		server_set_add(seen, id);
	}
	return n;
}

/* Owners only grow in number on the way up: once as many as the top node has are seen, no node
 * in between has a new one. */
static void fill_bands(struct index_match *m, struct spot at)
{
	struct server_set seen = { { 0 } };
	const struct node *nd, *top = at.node;
	uint32_t depth = at.depth, n_seen = 0;

	if (at.node == NULL || at.node->parent == NULL)
		return;
	while (top->parent->parent != NULL)
		top = top->parent;
	for (nd = at.node; nd->parent != NULL && n_seen < top->n_owners; nd = nd->parent) {
		n_seen += add_band(m, nd, depth, &seen);
		depth = nd->start;
	}
}

static uint32_t clamp_pages(const struct index *ix, size_t n)
{
	return n < ix->opts.max_pages ? (uint32_t)n : ix->opts.max_pages;
}

void index_match(struct index *ix, const struct space_key *space, const page_key *pages, size_t n,
		 struct index_match *m)
{
	struct spot at;

	m->n_bands = 0;
	m->n_pages = clamp_pages(ix, n);
	pthread_rwlock_rdlock(&ix->lock);
	at = tree_walk(ix, space, pages, m->n_pages);
	fill_bands(m, at);
	m->cursor.node = (uintptr_t)at.node;
	m->cursor.version = ix->version;
	m->cursor.depth = at.depth;
	pthread_rwlock_unlock(&ix->lock);
	atomic_fetch_add_explicit(&ix->n_matches, 1, memory_order_relaxed);
}

uint32_t index_match_depth(const struct index_match *m, server_id id)
{
	uint32_t i;

	if (id >= SERVERS_MAX)
		return 0;
	for (i = 0; i < m->n_bands; i++)
		if (server_set_has(&m->bands[i].servers, id))
			return m->bands[i].depth;
	return 0;
}

/* ---- claims ------------------------------------------------------------------------------- */

index_claim index_commit(struct index *ix, const struct space_key *space, const page_key *pages,
			 size_t n, const struct index_match *m, server_id server, msec now)
{
	uint32_t n_pages = clamp_pages(ix, n);
	index_claim claim = 0;
	struct spot at;

	pthread_rwlock_wrlock(&ix->lock);
	if (n_pages > 0 && server < SERVERS_MAX) {
		if (m != NULL && m->n_pages == n_pages && m->cursor.version == ix->version)
			at = (struct spot){ (struct node *)(uintptr_t)m->cursor.node, m->cursor.depth };
		else
			at = tree_walk(ix, space, pages, n_pages);
		claim = claim_open(ix, space, pages, n_pages, at, server);
		ix->st.commits += claim != 0;
		ix->st.refused += claim == 0;
	}
	pthread_rwlock_unlock(&ix->lock);
	return claim;
}

void index_confirm(struct index *ix, index_claim claim, msec now)
{
	pthread_rwlock_wrlock(&ix->lock);
	ix->st.confirmed += claim_close(ix, claim, true);
	pthread_rwlock_unlock(&ix->lock);
}

void index_cancel(struct index *ix, index_claim claim)
{
	pthread_rwlock_wrlock(&ix->lock);
	ix->st.cancelled += claim_close(ix, claim, false);
	pthread_rwlock_unlock(&ix->lock);
}

void index_confirm_at(struct index *ix, index_claim claim, server_id server, msec now)
{
	if (server >= SERVERS_MAX)
		return;
	pthread_rwlock_wrlock(&ix->lock);
	ix->st.confirmed += claim_close_at(ix, claim, server);
	pthread_rwlock_unlock(&ix->lock);
}

void index_drop_server(struct index *ix, server_id server)
{
	if (server >= SERVERS_MAX)
		return;
	pthread_rwlock_wrlock(&ix->lock);
	claim_drop_server(ix, server);
	pthread_rwlock_unlock(&ix->lock);
}

/* ---- counters ----------------------------------------------------------------------------- */

void index_stats(struct index *ix, struct index_stats *s)
{
	pthread_rwlock_rdlock(&ix->lock);
	*s = ix->st;
	s->bytes = ix->bytes;
	s->max_bytes = ix->opts.max_bytes;
	pthread_rwlock_unlock(&ix->lock);
	s->matches = atomic_load_explicit(&ix->n_matches, memory_order_relaxed);
}

uint64_t index_server_pages(struct index *ix, server_id server)
{
	uint64_t n;

	if (server >= SERVERS_MAX)
		return 0;
	pthread_rwlock_rdlock(&ix->lock);
	n = ix->servers[server].pages;
	pthread_rwlock_unlock(&ix->lock);
	return n;
}

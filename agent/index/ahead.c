/* ahead.c - prefetch what evictions read.
 *
 * An eviction waits for memory: the record, its node's ref, the node, its entry in the child table,
 * the node above. Each is found by reading the one before. The waits of one record cannot overlap,
 * those of the records that are evicted next can. server_ahead() goes step by step through one or
 * two records of each shard; order_ahead() through a list of one shard, a step at each eviction. */
#include "agent/index/tree_in.h"

/* Prefetch the neighbors of <r> in <list>, its slab, the record above and the ref of its node. */
static void ahead_of_links(struct index *ix, const struct record *r, unsigned list)
{
	__builtin_prefetch(at(ix, r->in[list].next));
	__builtin_prefetch(at(ix, r->in[list].prev));
	__builtin_prefetch(record_slab(ix, r));
	__builtin_prefetch(at(ix, r->up));
}

/* Prefetch the entries of <nd> and of its parent. */
static void ahead_of_entries(struct index *ix, const struct node *nd)
{
	table_prefetch(ix, node_hash(nd));
	__builtin_prefetch(node_kept(ix, nd->parent));
}

/* Prefetch <nd>, with the tag of its block, its first owners and its first page. */
static void ahead_of_node(const struct node *nd)
{
	__builtin_prefetch((const char *)nd - ARENA_TAG);
	__builtin_prefetch((const char *)nd + 64);
}

void record_ahead(struct index *ix, const struct record *r, const struct node *nd)
{
	__builtin_prefetch(record_slab(ix, r));
	__builtin_prefetch(at(ix, r->up));
	table_prefetch(ix, node_hash(nd));
	node_prefetch(ix, nd->parent, 2);
}

/* Each step prefetches what the next step reads, so that a record comes here five times. */
void order_ahead(struct index *ix, const struct record *r, unsigned list)
{
	bool back = list == BY_ORDER && last_goes(order_of(ix, r->server));
	arena_ref ref;
	uint32_t i;

	for (i = 0; i < 5; i++) {
		if ((ref = back ? r->in[list].prev : r->in[list].next) == 0)
			break;
		r = at(ix, ref);
		if (i == 4) {
			__builtin_prefetch(r);
		} else if (i == 3) {
			__builtin_prefetch(node_kept(ix, r->node));
		} else if (i == 2) {
			ahead_of_node(node_at(ix, r->node));
		} else if (i == 1) {
			ahead_of_links(ix, r, 1 - list);
			ahead_of_entries(ix, node_at(ix, r->node));
		} else {
			node_prefetch(ix, node_at(ix, r->node)->parent, 2);
		}
	}
}

static uint32_t ticks_between(uint32_t a, uint32_t b)
{
	return tick_before(a, b) ? b - a : a - b;
}

/* Keep those of <n> records that are likely to be evicted next: as many as shards, if the mean of
 * the time from <used> to the first of each shard is as long as the evictions of so many take.
 * Returns their number. */
static uint32_t soon(const struct record **r, uint32_t n, uint32_t n_first, uint32_t used)
{
	uint64_t sum = 0;
	uint32_t i, k;

	for (i = 0; i < n_first; i++)
		sum += ticks_between(r[i]->used, used);
	for (i = k = 0; i < n; i++)
		if ((uint64_t)ticks_between(r[i]->used, used) * n_first <= sum)
			r[k++] = r[i];
	return k;
}

/* Write to <r> the records of <s> in the shards of <locked> that are likely to be evicted next,
 * after one used at <used>. Returns their number. */
static uint32_t next_records(
    struct index *ix, server_id s, uint32_t used, uint64_t locked, const struct record **r)
{
	bool back = last_goes(order_of(ix, s));
	uint32_t n = 0, i, n_first;
	struct shard *sh;
	uint64_t left;
	arena_ref ref;

	for (left = locked; left != 0; left &= left - 1)
		__builtin_prefetch(&ix->shards[__builtin_ctzll(left)].orders[s * ix->orders_each]);
	for (left = locked; left != 0; left &= left - 1) {
		sh = &ix->shards[__builtin_ctzll(left)];
		if ((r[n] = order_first(ix, sh, s)) == NULL)
			continue;
		__builtin_prefetch(r[n++]);
		/* the search for the place of another record begins there */
		__builtin_prefetch(at(ix, sh->orders[s * ix->orders_each].last));
	}
	for (n_first = n, i = 0; i < n_first; i++) {
		ref = back ? r[i]->in[BY_ORDER].prev : r[i]->in[BY_ORDER].next;
		if (ref != 0)
			__builtin_prefetch(r[n++] = at(ix, ref));
	}
	return soon(r, n, n_first, used);
}

/* The locks of all shards at once, for less than a microsecond, cost less than each one again for
 * every step. */
void server_ahead(struct index *ix, server_id s, uint32_t used)
{
	const struct record *r[2 * SHARDS_MAX];
	const struct node *nd[2 * SHARDS_MAX];
	uint64_t locked = shards_try(ix, UINT64_MAX >> (64 - ix->n_shards));
	uint32_t i, n = next_records(ix, s, used, locked, r);

	for (i = 0; i < n; i++) {
		__builtin_prefetch(node_kept(ix, r[i]->node));
		ahead_of_links(ix, r[i], BY_AGE);
	}
	for (i = 0; i < n; i++)
		ahead_of_node(nd[i] = node_at(ix, r[i]->node));
	for (i = 0; i < n; i++)
		ahead_of_entries(ix, nd[i]);
	for (i = 0; i < n; i++)
		node_prefetch(ix, nd[i]->parent, 2);
	shards_unlock(ix, locked);
}

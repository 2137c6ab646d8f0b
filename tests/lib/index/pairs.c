/* pairs.c - list which server holds which page, one by one. */
#include "agent/base/chain.h"
#include "agent/index/claim_in.h"
#include "tests/lib/index/index_test.h"

/* Return the hash of all pages before <nd>, from its root down. */
static struct chain prefix_before(
    struct index *ix, const struct hash_key *key, const struct node *nd)
{
	const struct node *up = node_at(ix, nd->parent);
	struct chain c;

	if (up->kind == NODE_ROOT)
		return (struct chain){ .base = chain_start(key, node_pages(up)) };
	c = prefix_before(ix, key, up);
	for (uint32_t i = 0; i < up->n_pages; i++)
		chain_add(&c, node_pages(up)[i]);
	return c;
}

static void each_of(struct index *ix, const struct hash_key *key, const struct node *nd,
    bool claimed, void (*fn)(void *arg, server_id server, uint64_t prefix), void *arg)
{
	struct chain before = prefix_before(ix, key, nd), c;
	const struct record *r;

	for (uint32_t o = 0; o < nd->n_slots; o++) {
		if (node_words(nd)[o] == 0)
			continue;
		r = at(ix, node_records(nd)[o]);
		c = before;
		for (uint32_t p = 0; p < (claimed ? r->extent : r->held); p++) {
			chain_add(&c, node_pages(nd)[p]);
			fn(arg, r->server, chain_hash(&c));
		}
	}
}

void index_each_pair(struct index *ix, const struct hash_key *key, bool claimed,
    void (*fn)(void *arg, server_id server, uint64_t prefix), void *arg)
{
	const struct node *nd;

	for (uint32_t s = 0; s < ix->n_shards; s++) {
		for (uint32_t i = 1; i <= ix->shards[s].n_ids; i++) {
			nd = node_at(ix, i << SHARD_BITS | s);
			if (nd != NULL && nd->kind == NODE_EDGE)
				each_of(ix, key, nd, claimed, fn, arg);
		}
	}
}

/* table.c - one open-addressing table for all nodes: (parent, first page) -> child, key -> space.
 *
 * One table and not one for each node: most nodes have one child or none, and a table each costs
 * more than the pages do. Linear probing; entries are pointers, and what is compared is read from
 * the node, which a walk that finds it needs next anyway. Deletion shifts entries back, so there are
 * no tombstones and a table never ages. Never more than 7/8 full (room_fits).
 *
 * The parent's address is part of the hash. A split leaves the node that has the children in place,
 * so they never have to be hashed again. Page keys are keyed hashes already; mixing only spreads
 * what a test or a single parent makes regular. */
#include "agent/index/tree.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b >> 32) * 0x9e3779b97f4a7c15ull;	/* odd constants of splitmix64 */

	h = (h ^ h >> 29 ^ b) * 0xbf58476d1ce4e5b9ull;
	return h ^ h >> 32;
}

static uint64_t hash_of_child(const struct node *parent, page_key first)
{
	return mix((uintptr_t)parent >> 4, first);
}

static const struct space *space_of(const struct node *root)
{
	return (const struct space *)root;
}

static uint64_t hash_of(const struct node *nd)
{
	if (nd->parent != NULL)
		return hash_of_child(nd->parent, nd->pages[0]);
	return mix(space_of(nd)->key.h[0], space_of(nd)->key.h[1]);
}

struct node *table_child(const struct index *ix, const struct node *parent, page_key first)
{
	uint32_t mask = ix->n_slots - 1, i = (uint32_t)hash_of_child(parent, first) & mask;
	struct node *nd;

	for (; (nd = ix->slots[i]) != NULL; i = (i + 1) & mask)
		if (nd->parent == parent && nd->pages[0] == first)
			return nd;
	return NULL;
}

struct space *table_space(const struct index *ix, const struct space_key *key)
{
	uint32_t mask = ix->n_slots - 1, i = (uint32_t)mix(key->h[0], key->h[1]) & mask;
	struct node *nd;

	for (; (nd = ix->slots[i]) != NULL; i = (i + 1) & mask)
		if (nd->parent == NULL && memcmp(&space_of(nd)->key, key, sizeof(*key)) == 0)
			return (struct space *)nd;
	return NULL;
}

void table_add(struct index *ix, struct node *nd)
{
	uint32_t mask = ix->n_slots - 1, i = (uint32_t)hash_of(nd) & mask;

	while (ix->slots[i] != NULL)
		i = (i + 1) & mask;
	ix->slots[i] = nd;
	ix->used_slots++;
}

/* Fill the hole with the next entry of the run whose home is not behind the hole, and go on with
 * the hole that leaves:   home(d) <= hole    [a][x][c][d][ ]  ->  [a][d][c][ ][ ]            */
void table_del(struct index *ix, struct node *nd)
{
	uint32_t mask = ix->n_slots - 1, hole = (uint32_t)hash_of(nd) & mask, i, home;

	while (ix->slots[hole] != nd)
		hole = (hole + 1) & mask;
	for (i = (hole + 1) & mask; ix->slots[i] != NULL; i = (i + 1) & mask) {
		home = (uint32_t)hash_of(ix->slots[i]) & mask;
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		ix->slots[hole] = ix->slots[i];
		hole = i;
	}
	ix->slots[hole] = NULL;
	ix->used_slots--;
}

/* room.c - the byte budget of the index, and what is forgotten to stay inside it.
 *
 * Every byte is counted at what the heap takes for it, not at what was asked for, so that the
 * budget is near to what the process grows by. The table and the claims are taken once, in
 * proportion to the budget: nothing ever has to be rehashed under the lock, or can fail to be.
 *
 * Who goes first: the least recently used record that no open claim pins. A path is always touched
 * from the leaf to the root, so within a server a node is never older than what is below it, and the
 * oldest record of all has no record of its server below: taking it keeps the tree whole, from the
 * tail inwards. Pinned records are not in the ring, so finding the oldest is O(1) whatever is
 * pinned. One record may be a long edge, whose pages then go together.
 *
 * Why one ring and not one for each server: the budget is one for all of them. */
#include "agent/index/tree.h"

#define HEAP_WORD	16u	/* glibc: chunks are multiples of 16, with 8 bytes of its own */
#define HEAP_MIN	32u
#define HEAP_MMAP	131072u	/* above it a chunk may be mapped, in whole pages */
#define HEAP_PAGE	4096u

size_t room_cost(size_t n)
{
	size_t c = (n + 8 + HEAP_WORD - 1) & ~(size_t)(HEAP_WORD - 1);

	if (c >= HEAP_MMAP)
		return (c + HEAP_WORD + HEAP_PAGE - 1) & ~(size_t)(HEAP_PAGE - 1);
	return c < HEAP_MIN ? HEAP_MIN : c;
}

/* A commit estimates what it needs and makes room first; that nothing passes here is what turns the
 * estimate into a promise. */
void *room_take(struct index *ix, size_t n)
{
	size_t cost = room_cost(n);
	void *p;

	if (cost > ix->opts.max_bytes - ix->bytes)
		return NULL;
	if ((p = mem_alloc(n)) != NULL)
		ix->bytes += cost;
	return p;
}

void *room_resize(struct index *ix, void *p, size_t from, size_t to)
{
	size_t old = p ? room_cost(from) : 0, cost = room_cost(to);
	void *q;

	if (cost > ix->opts.max_bytes - ix->bytes + old)
		return NULL;
	if ((q = mem_resize(p, to, 1)) != NULL)
		ix->bytes += cost - old;
	return q;
}

void room_give(struct index *ix, void *p, size_t n)
{
	if (p == NULL)
		return;
	ix->bytes -= room_cost(n);
	mem_free(p);
}

/* An open-addressing table must keep some free slots, or a miss would never end. */
bool room_fits(const struct index *ix, size_t need, uint32_t slots)
{
	return need <= ix->opts.max_bytes - ix->bytes &&
	       slots <= ix->n_slots - ix->n_slots / 8 - ix->used_slots;
}

static bool evict_oldest(struct index *ix)
{
	struct record *r;
	struct node *nd;

	if (list_empty(&ix->lru))
		return false;
	r = list_entry(ix->lru.next, struct record, lru);
	nd = r->node;
	ix->st.evicted_records++;
	ix->st.evicted_pages += nd->n_pages;
	record_del(ix, r);
	tree_tidy(ix, nd);
	return true;
}

bool room_make(struct index *ix, size_t need, uint32_t slots)
{
	while (!room_fits(ix, need, slots))
		if (!evict_oldest(ix))
			return false;
	return true;
}

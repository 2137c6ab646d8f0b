/* grace.c - objects that are out of the tree wait until no reader can be looking at them.
 *
 * A reader that comes in writes the epoch into its slot, and 0 when it leaves. An object that was
 * unlinked waits in its shard; a batch of them is closed by taking the epoch one further, and may be
 * used again when no slot holds the epoch of the batch or one before.
 *
 * Why this is enough, in the terms of C11: the slot is changed by exchange and looked at by a
 * read-modify-write, so that of a reader coming in and a writer looking, one comes first in the slot's
 * order. If the writer does, the reader synchronises with it and finds the object unlinked; if the
 * reader does, the writer sees its epoch. A reader with a later epoch has read it from a writer that
 * had closed the batch, so it finds the object unlinked as well. No fence is needed, and
 * ThreadSanitizer understands all of it. */
#include "agent/index/tree_in.h"

#define BATCH	64u		/* objects that wait before somebody looks at the slots */

struct reader *reader_of(struct index *ix, struct index_match *m)
{
	uint32_t i, none, used;

	if (m->ix == ix)
		return &ix->readers[m->reader];
	for (i = 0; i < READERS_MAX; i++) {
		none = 0;
		if (!atomic_compare_exchange_strong(&ix->readers[i].taken, &none, 1))
			continue;
		if (m->ix != NULL)
			atomic_store(&m->ix->readers[m->reader].taken, 0);
		m->ix = ix;
		m->reader = i;
		memset(m->bands, 0, m->cap * sizeof(*m->bands));	/* of another index, maybe with more servers */
		used = atomic_load(&ix->readers_used);
		while (used < i + 1 && !atomic_compare_exchange_weak(&ix->readers_used, &used, i + 1))
			;
		return &ix->readers[i];
	}
	return NULL;
}

void reader_enter(struct index *ix, struct reader *r)
{
	uint64_t now = atomic_load_explicit(&ix->epoch, memory_order_acquire);

	atomic_exchange_explicit(&r->at, now, memory_order_acq_rel);
}

void reader_leave(struct reader *r)
{
	atomic_store_explicit(&r->at, 0, memory_order_release);
}

/* The oldest epoch that a reader is in; UINT64_MAX when all are out. */
static uint64_t oldest_reader(struct index *ix)
{
	uint32_t i, n = atomic_fetch_add(&ix->readers_used, 0);	/* changed as the slots are, for the same reason */
	uint64_t oldest = UINT64_MAX, at;

	for (i = 0; i < n; i++) {
		at = atomic_fetch_add_explicit(&ix->readers[i].at, 0, memory_order_acq_rel);
		if (at != 0 && at < oldest)
			oldest = at;
	}
	return oldest;
}

static void free_closed(struct index *ix, struct shard *sh)
{
	uint32_t ref, next;

	for (ref = sh->closed; ref != 0; ref = next) {
		const struct node *nd = at(ix, ref);

		next = nd->link;
		if (nd->dead)
			id_give(ix, nd->id);
		sh->late -= arena_size(&sh->arena, ref);
		arena_free(&sh->arena, ref);
	}
	sh->closed = 0;
	node_spare(sh);
}

static void close_waiting(struct index *ix, struct shard *sh)
{
	sh->closed_at = atomic_fetch_add_explicit(&ix->epoch, 1, memory_order_acq_rel);
	sh->closed = sh->waiting;
	sh->waiting = sh->n_waiting = 0;
}

/* <hard>: memory is needed now. */
void grace_collect(struct index *ix, struct shard *sh, bool hard)
{
	if (sh->closed == 0 && sh->waiting != 0)
		close_waiting(ix, sh);
	if (sh->closed != 0 && oldest_reader(ix) > sh->closed_at)
		free_closed(ix, sh);
	if (hard && sh->closed == 0 && sh->waiting != 0) {
		close_waiting(ix, sh);
		if (oldest_reader(ix) > sh->closed_at)
			free_closed(ix, sh);
	}
}

void node_retire(struct index *ix, struct node *nd)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];

	nd->link = sh->waiting;
	sh->waiting = node_ref(ix, nd);
	sh->late += arena_size(&sh->arena, sh->waiting);
	node_count_bytes(ix, nd, -1);
	if (++sh->n_waiting >= BATCH)
		grace_collect(ix, sh, false);
}

/* An id that was given to another node at once would lead a reader who is still at <nd> to the other's
 * children. */
void node_bury(struct index *ix, struct node *nd)
{
	slack_forget(ix, nd);
	ix->shards[shard_of(ix, nd->id)].refs[nd->id >> SHARD_BITS] = 0;
	nd->dead = 1;
	node_retire(ix, nd);
}

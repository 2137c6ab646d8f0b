/* grace.c - objects that left the tree wait until no reader can see them.
 *
 * A reader writes the current epoch into its slot when it enters, and 0 when it leaves. A retired
 * object waits in its shard. A batch of them is closed by incrementing the epoch; it is freed when
 * no slot holds the epoch of the batch or an earlier one.
 *
 * Why this is enough in C11: the slot is changed by exchange and read by read-modify-write. So of a
 * reader that enters and a writer that looks, one comes first in the order of the slot. If it is
 * the writer, the reader synchronizes with it and finds the object unlinked. If it is the reader,
 * the writer sees its epoch. A reader with a later epoch has read it from a writer that had closed
 * the batch, so it finds the object unlinked too. No fence is needed, and ThreadSanitizer
 * understands it. */
#include "agent/index/tree_in.h"

#define BATCH	64u		/* objects that wait before the slots are read */

struct index_readers *readers_new(void)
{
	struct index_readers *all = mem_alloc_line(sizeof(*all));

	if (all != NULL)
		atomic_store(&all->n_users, 1);
	return all;
}

void readers_unref(struct index_readers *all)
{
	if (all != NULL && atomic_fetch_sub(&all->n_users, 1) == 1)
		mem_free_line(all);
}

void reader_give(struct index_match *m)
{
	if (m->readers == NULL)
		return;
	atomic_store(&m->readers->slots[m->reader].taken, 0);
	readers_unref(m->readers);
	m->readers = NULL;
}

struct reader *reader_of(struct index *ix, struct index_match *m)
{
	struct index_readers *all = ix->readers;
	uint32_t i, none, used;

	if (m->readers == all)
		return &all->slots[m->reader];
	for (i = 0; i < READERS_MAX; i++) {
		none = 0;
		if (!atomic_compare_exchange_strong(&all->slots[i].taken, &none, 1))
			continue;
		reader_give(m);
		atomic_fetch_add(&all->n_users, 1);
		m->readers = all;
		m->reader = i;
		/* they are of another index, perhaps with more servers */
		if (m->cap > 0)
			memset(m->bands, 0, m->cap * sizeof(*m->bands));
		used = atomic_load(&all->used);
		while (used < i + 1 && !atomic_compare_exchange_weak(&all->used, &used, i + 1))
			;
		return &all->slots[i];
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

/* Return the oldest epoch of a reader, or UINT64_MAX if all are outside. */
static uint64_t oldest_reader(struct index *ix)
{
	/* read-modify-write, for the same reason as the slots */
	uint32_t i, n = atomic_fetch_add(&ix->readers->used, 0);
	uint64_t oldest = UINT64_MAX, at;

	for (i = 0; i < n; i++) {
		at = atomic_fetch_add_explicit(&ix->readers->slots[i].at, 0, memory_order_acq_rel);
		if (at != 0 && at < oldest)
			oldest = at;
	}
	return oldest;
}

/* Returns the number of objects. */
static uint32_t free_closed(struct index *ix, struct shard *sh)
{
	uint32_t ref, next, n = 0;

	for (ref = sh->closed; ref != 0; ref = ((const struct node *)at(ix, ref))->link)
		arena_ahead(&sh->arena, ref);
	for (ref = sh->closed; ref != 0; ref = next, n++) {
		const struct node *nd = at(ix, ref);

		next = nd->link;
		if (nd->dead)
			id_give(ix, nd->id);
		sh->late -= arena_size(&sh->arena, ref);
		arena_free(&sh->arena, ref);
	}
	sh->closed = 0;
	node_spare(sh);
	return n;
}

static void close_waiting(struct index *ix, struct shard *sh)
{
	sh->closed_at = atomic_fetch_add_explicit(&ix->epoch, 1, memory_order_acq_rel);
	sh->closed = sh->waiting;
	sh->waiting = sh->n_waiting = 0;
}

/* Free what can be freed; with <hard>, because memory is needed now, close the next batch as
 * well. */
uint32_t grace_collect(struct index *ix, struct shard *sh, bool hard)
{
	uint32_t n = 0;

	if (sh->closed == 0 && sh->waiting != 0)
		close_waiting(ix, sh);
	if (sh->closed != 0 && oldest_reader(ix) > sh->closed_at)
		n += free_closed(ix, sh);
	if (hard && sh->closed == 0 && sh->waiting != 0) {
		close_waiting(ix, sh);
		if (oldest_reader(ix) > sh->closed_at)
			n += free_closed(ix, sh);
	}
	return n;
}

void node_retire(struct index *ix, struct node *nd)
{
	struct shard *sh = &ix->shards[shard_of(ix, nd->id)];
	size_t bytes = arena_size(&sh->arena, node_ref(ix, nd));

	nd->link = sh->waiting;
	sh->waiting = node_ref(ix, nd);
	sh->late += bytes;
	tenant_add_bytes(sh, nd->tenant, -(int64_t)bytes);
	if (++sh->n_waiting >= BATCH)
		grace_collect(ix, sh, false);
}

/* If the id were given to another node at once, a reader still at <nd> would find that node's
 * children. */
void node_bury(struct index *ix, struct node *nd)
{
	slack_forget(ix, nd);
	atomic_store_explicit(node_kept(ix, nd->id), 0, memory_order_relaxed);
	nd->dead = 1;
	node_retire(ix, nd);
}

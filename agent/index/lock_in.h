/* lock_in.h - locks of shards and claim groups (lock.c), and retired objects (grace.c).
 *
 * Shards are locked in ascending order; out of order a lock is only tried. The locks of a claim
 * group and of an output may be taken under those of shards, and no other lock under them. */
#ifndef KVROUTE_INDEX_LOCK_IN_H
#define KVROUTE_INDEX_LOCK_IN_H

#include "agent/index/state_in.h"

void small_lock(_Atomic uint32_t *l);

static inline void small_unlock(_Atomic uint32_t *l)
{
	atomic_store_explicit(l, 0, memory_order_release);
}

/* Lock or unlock the shards whose bits are set. */
void shards_lock(struct index *ix, uint64_t mask);

static inline void shards_unlock(struct index *ix, uint64_t mask)
{
	for (; mask != 0; mask &= mask - 1)
		small_unlock(&ix->shards[__builtin_ctzll(mask)].locked);
}

/* Lock the shards of <want> as well and add them to <*locked>. Returns false if all locks were
 * released on the way: then the tree may have changed, and all of them are locked now. */
bool shards_more(struct index *ix, uint64_t *locked, uint64_t want);

/* Lock the shards of <to> instead of those of <*locked>, without waiting. Returns false, with
 * nothing changed, if another thread has one of them. */
bool shards_pass(struct index *ix, uint64_t *locked, uint64_t to);

/* Lock those shards of <want> that no other thread has. Returns their bits. */
uint64_t shards_try(struct index *ix, uint64_t want);

/* Lock or unlock the claim group of <s>. */
void claims_lock(struct index *ix, server_id s);
void claims_unlock(struct index *ix, server_id s);

/* ---- grace.c ---- */

struct index_readers *readers_new(void);	/* with one user; NULL: no memory */
void readers_unref(struct index_readers *all);	/* NULL is ignored */

/* Return the reader slot of <m>, or NULL if all are taken; give it back. */
struct reader *reader_of(struct index *ix, struct index_match *m);
void reader_give(struct index_match *m);
void reader_enter(struct index *ix, struct reader *r);
void reader_leave(struct reader *r);

/* Free <nd> when no reader can see it. The caller has unlinked it and set <superseded>. */
void node_retire(struct index *ix, struct node *nd);

/* Do the same, and free its id as well. */
void node_bury(struct index *ix, struct node *nd);

/* Add <bytes>, which may be negative, to those of the nodes of <tenant>. */
static inline void tenant_add_bytes(struct shard *sh, uint32_t tenant, int64_t bytes)
{
	_Atomic int64_t *at = &sh->tenants[tenant].bytes;
	int64_t had = atomic_load_explicit(at, memory_order_relaxed);

	atomic_store_explicit(at, had + bytes, memory_order_relaxed);
}

/* Free the retired objects of <sh> that no reader can see. <hard>: memory is needed now. Returns
 * their number. */
uint32_t grace_collect(struct index *ix, struct shard *sh, bool hard);

#endif

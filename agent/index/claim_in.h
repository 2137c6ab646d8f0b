/* claim_in.h - claims and the stops where they end (claim.c). */
#ifndef KVROUTE_INDEX_CLAIM_IN_H
#define KVROUTE_INDEX_CLAIM_IN_H

#include "agent/index/tree_in.h"

/* Make all claims free. */
void claims_init(struct index *ix);

/* Take a free claim; if there is none and <expire> allows it, expire the oldest. Returns 0 if no
 * claim can be had. */
uint32_t claim_take(struct index *ix, server_id server, uint8_t priority,
    const struct space_key *space, bool expire);

/* Open a claim that has grown to its end, and write its handle to <*id>. Returns true if claims
 * together have added more than the reserve. */
bool claim_open(struct index *ix, uint32_t c, uint32_t tick, index_claim *id);

/* Attach a claim to <r> at <depth>; its node is locked. O(deeper stops of it), EDGE_MAX at most. */
void claim_attach(struct index *ix, uint32_t c, struct record *r, uint32_t depth);

/* Detach a claim from its record, whose node is locked. */
void claim_detach(struct index *ix, uint32_t c);

/* Move the claims of <from> that reach at most <depth> pages to <to>. Both may be the same record,
 * if its node has changed. */
void claims_move(struct index *ix, struct record *from, struct record *to, uint32_t depth);

/* Confirm a claim that was never opened. */
void claim_hold(struct index *ix, uint32_t c, uint32_t tick);

/* Detach a claim and lock its node and the parent. Returns its record. Returns NULL, with nothing
 * locked, if the claim is still at the root. */
struct record *claim_off(
    struct index *ix, uint32_t c, struct node **nd, struct node **parent, uint64_t *locked);

/* Give up a claim that did not grow to its end, or that was closed. */
void claim_drop(struct index *ix, uint32_t c);

/* Close an open claim, which the caller then holds or drops. Returns 0 if <id> is unknown. */
uint32_t claim_close(struct index *ix, index_claim id, bool confirmed);

/* Expire the oldest claim: of all, or of a server. O(1). Returns false if there is none, or with
 * <but_last> only one. */
bool claim_expire(struct index *ix, bool but_last);
bool claim_expire_of(struct index *ix, server_id s);

/* Return whether claims together have added more than the reserve. */
bool claims_too_many(const struct index *ix);

static inline struct claim *claim_at(const struct index *ix, uint32_t c)
{
	return &ix->claims[c];
}

/* Return the pages that <cl> has added. An estimate if the room of a page has changed since. */
static inline int64_t claim_pages(const struct claim *cl)
{
	return cl->added_room / cl->page_room;
}

/* Add to the counter, which stops at its maximum. */
static inline void claim_add_room(struct claim *cl, int64_t room)
{
	uint64_t sum = cl->added_room + (uint64_t)room;

	cl->added_room = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static inline struct stop *stop_at(const struct index *ix, uint32_t k)
{
	return &ix->stops[k];
}

/* Return how many pages of the node that starts at <start> claims on <r> reach. O(1). */
static inline uint32_t claim_reach(const struct index *ix, const struct record *r, uint32_t start)
{
	return r->claims ? stop_at(ix, r->claims)->depth - start : 0;
}

/* Return where a claim ends that the caller works on; 0: at the root. */
static inline uint32_t claim_depth(const struct index *ix, uint32_t c)
{
	return stop_at(ix, claim_at(ix, c)->stop)->depth;
}

static inline node_id claim_node(const struct index *ix, uint32_t c)
{
	return atomic_load_explicit(
	    &stop_at(ix, claim_at(ix, c)->stop)->node, memory_order_relaxed);
}

static inline server_id claim_server(const struct index *ix, uint32_t c)
{
	return atomic_load_explicit(&claim_at(ix, c)->server, memory_order_relaxed);
}

#endif

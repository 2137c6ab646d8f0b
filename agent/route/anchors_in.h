/* anchors_in.h - places in the index by the hash of all pages before them, so that agents need not
 * send pages that the other has.
 *
 *   pages   p1 p2 ... p16 | p17 ... p32 | p33 ...     H(d): chain hash (base/chain.h)
 *   anchors           H(16)         H(32)
 *
 * The table says where in the own index a prefix is, with the era of its node (index/place.h). A
 * place may be out of date: then the receiver collects the pages and computes H(d) again. A place
 * is entered by each commit, own or applied, for the pages that are new. So the place that the next
 * turn of a conversation looks for is the newest one.
 *
 * 16 bytes a place, in groups of four that share a cache line; a new one replaces the oldest of its
 * group. No lock: an entry is its value, and its hash, depth and value in one. An entry that is
 * read while another thread writes it does not match. */
#ifndef KVROUTE_ROUTE_ANCHORS_IN_H
#define KVROUTE_ROUTE_ANCHORS_IN_H

#include "agent/base/chain.h"
#include "agent/fleet/capacity.h"
#include "agent/index/place.h"

#define ANCHOR_EVERY	MARK_EVERY	/* pages; only at multiples of it there are anchors */

/* Return H(n), and write H(16), H(32), ... to <at>, which has room for n / ANCHOR_EVERY. <h>:
 * H(0). */
uint64_t chain_of(uint64_t h, const page_key *pages, uint32_t n, uint64_t *at);

struct anchors;
struct anchors *anchors_new(size_t bytes);	/* NULL: no memory */
void anchors_free(struct anchors *t);		/* <t> may be NULL */

/* Any thread may call these. */
uint64_t anchors_count(const struct anchors *t);	/* places in use */
bool anchors_get(
    const struct anchors *t, uint64_t hash, uint32_t depth, struct index_place *at);

/* Prefetch where the places of <n> hashes are. */
void anchors_prefetch(const struct anchors *t, const uint64_t *chain, uint32_t n);

/* Enter all anchors of a prompt from depth <from> on, a multiple of ANCHOR_EVERY. <from> itself is
 * entered again, because its node is newer now. <chain>: as chain_of() writes it. <end>: where a
 * claim of all its pages ends; does nothing if it is (0, 0). */
void anchors_enter(
    struct anchors *t, const uint64_t *chain, uint32_t from, struct index_place end);

#endif

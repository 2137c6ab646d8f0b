/* place.h - a prefix by the number of a node below it, in place of its pages.
 *
 *   root --[ A B C D ]--+--[ E F ]   node 7      (7, 6) is the prefix A B C D E F
 *                       `--[ X ]     node 9      (9, 3) is the prefix A B C
 *
 * A node keeps its number as long as the pages above it are the same, however nodes split and join.
 * So a place stays right until pages are cut from the end of its node, which may grow others then,
 * or until the node is gone and its number given to another one. The era of the node tells: while
 * it is the same, so are the pages. If it is not, the caller must know from elsewhere which pages
 * they should be, such as from their chain hash. An era comes again after 2^32 changes to the nodes
 * of a shard. */
#ifndef KVROUTE_INDEX_PLACE_H
#define KVROUTE_INDEX_PLACE_H

#include "agent/index/index.h"

struct index_place {
	uint32_t node;		/* 0: none */
	uint32_t depth;		/* pages from the start; they end on <node> or above it */
	uint32_t era;		/* of the node; 0: unknown */
};

/* Do what index_commit() does, and write to <end> where the claim ends. It is (0, 0) without a
 * claim. */
index_claim index_commit_at(struct index *ix, const struct space_key *space, const page_key *pages,
    size_t n, const struct index_match *m, server_id server, msec now, unsigned priority,
    struct index_place *end);

/* Do the same for pages of which the first at.depth are those of <at>: they are not read. Returns
 * false, and changes nothing, if the place is not known to be the same, or if <server> has none of
 * the node on which it ends. Otherwise sets <claim> to what index_commit_at() returns. */
bool index_commit_from(struct index *ix, const struct space_key *space, struct index_place at,
    const page_key *pages, size_t n, server_id server, msec now, unsigned priority,
    index_claim *claim, struct index_place *end);

/* Let <server> hold the pages up to <at> no longer, from the end down to <keep> pages, as far as it
 * holds them for that end alone: up to the first branch, and nothing if a claim or a longer prompt
 * needs them. Returns their room. O(nodes). */
uint32_t index_let_go(
    struct index *ix, struct index_place at, server_id server, uint32_t keep);

/* Return whether the place is known to be the same, by its era. Prefetches what a commit of more
 * pages changes. O(1). */
bool index_place_same(struct index *ix, struct index_place at);

/* Return whether the node exists and <at> may lie on it or above it. O(1). */
bool index_place_exists(struct index *ix, struct index_place at);

/* Write the pages from the start to <at> to <pages>, which has room for at.depth of them. Set the
 * cursor of <m>, which may be NULL, so that a commit of these pages and more need not compare them
 * again. Returns false if there is no such place in <space>; <pages> is then undefined. Locks one
 * shard at a time: other threads may change the tree meanwhile, and a place whose node is another
 * one by now may give pages that never followed each other. O(depth). */
bool index_place_pages(struct index *ix, const struct space_key *space, struct index_place at,
    page_key *pages, struct index_match *m);

/* Set <space> to that of the node, with the room of its pages; .part_room is 0. Returns false if
 * there is no such place. O(nodes above it). */
bool index_place_space(struct index *ix, struct index_place at, struct space_key *space);

#endif

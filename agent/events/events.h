/* events.h - the second door: which blocks the engines say they hold, from their own events.
 *
 *   (holder, handle)                      chain                        holder: one rank of one server
 *   h0 0x91.. -.                       .- c1: h0 h1
 *   h0 0x4e.. -+-> record {chain, ---->+- c2: h0        c1 = hash(root of the space, pages of block 1)
 *   h1 0x07.. -'   holder, copies}     '- c9: h1        c2 = hash(c1, pages of block 2)
 *
 *   stored   blocks behind a parent, which the engine names by handle: each gets a record
 *   removed  a copy in a tier is gone; without a copy in any tier, so is the record
 *   cleared  a rank is empty: masked at once, its records are taken apart bit by bit
 *   match    of the pages of a prompt: how far each server goes, and in which tiers
 *
 * Why the blocks do not hang on the nodes of the tree (index.h): the tree says what we believe after
 * our own commits, it splits, joins and evicts for reasons that no engine knows, and it grows pages
 * only below pages. An event is the truth about one block, also about one whose parent is gone. A
 * block's node is therefore its chain, the hash of all pages from the start of the space up to its end:
 * nothing moves when something else comes or goes, engines with blocks of any size stand side by side,
 * and a block whose parent was removed stays, unseen, until the parent is stored again.
 *
 * Contiguity is counted for each rank, and a server goes as far as the best of its ranks: a rank is a
 * cache of its own, so what one holds of a prompt and another of the rest is no prefix for either.
 *
 * Handles come from outside and are hashed under the key with their holder: they cannot be crafted to
 * collide. Two of one holder are mixed up with a chance of 2^-58 a pair, two chains with 2^-64; that
 * would cost speed, never an answer.
 *
 * Memory is taken whole by events_new(): 32 bytes a record or a little less, everything counted
 * (a little more below 16 MiB). A full budget
 * forgets the blocks that the rank with most of the server with most has stored longest ago. That is
 * likely to break prefixes that are still in use (a system prompt is stored once and first), so the
 * budget should hold what the engines hold; <evicted> says when it does not.
 *
 * One thread at a time calls what changes something. Any number of threads may match beside it: they
 * take no lock and wait for nobody.
 *
 * Nothing calls this yet: feed/kvevent will, with the decoded events of vLLM and SGLang. */
#ifndef KVROUTE_EVENTS_H
#define KVROUTE_EVENTS_H

#include "agent/base/types.h"

struct events;
struct hash_key;

enum events_tier {		/* best first */
	EVENTS_DEVICE,
	EVENTS_HOST,
	EVENTS_DISK,
	EVENTS_OTHER,
	EVENTS_TIERS
};

#define EVENTS_COPIES_MAX	15	/* of a block in one tier of a rank; more are not counted */
#define EVENTS_SIZES_MAX	16	/* different block sizes at a time */
#define EVENTS_HOLDERS_MAX	4096

struct events_opts {
	size_t max_bytes;	/* of everything; 64 MiB, at least 256 KiB are taken; from 500 MiB on no more
				 * is used: 2^24 records */
	uint32_t max_holders;	/* ranks of all servers together, cleared ones that are not taken apart yet
				 * among them; 1024, at most EVENTS_HOLDERS_MAX */
	uint32_t max_parked;	/* blocks whose parent is unknown; 4096, fewer if they took more than 1/16 */
	bool prefault;		/* all memory is there when events_new() returns */
	const struct hash_key *key;	/* copied; there must be one */
};

void events_defaults(struct events_opts *o);
struct events *events_new(const struct events_opts *o);		/* NULL: no memory, or no key */
void events_free(struct events *ev);

/* Blocks that follow each other, as one event names them. */
struct events_run {
	server_id server;
	uint16_t rank;
	enum events_tier tier;
	uint32_t n;			/* blocks */
	uint32_t block_pages;		/* pages of each: the engine's block size in pages of ours */
	const uint64_t *handles;	/* [n] */
	const page_key *keys;		/* [n * block_pages]; NULL: the event had no tokens */
	const uint64_t *space;		/* [2] of the prompt, hashed; read only if there is no parent */
	bool has_parent;		/* any handle may be a parent's, 0 as well */
	uint64_t parent;
};

/* Another copy of each block of the run is in its tier. A block whose parent is not known is parked,
 * up to max_parked of them, the oldest going first, and joined when the parent is stored. Without keys,
 * blocks that are known get a copy, and others are ignored. Refused is, with the rest of its run:
 *   - a block whose handle is known with other pages or another parent (<odd>)
 *   - a block of another size than the blocks that its rank has (<odd>)
 *   - a block when there is no room for it (<refused>): all holders or block sizes are in use, or too
 *     many hold what is hashed beside it
 * Returns how many blocks were taken, parked ones among them. O(n * block_pages). */
uint32_t events_stored(struct events *ev, const struct events_run *run);

/* A copy of each is gone from <tier>. What stood behind it stays, but counts for nobody until it is
 * stored again. Returns how many were known there; the others are counted as <unknown>. */
uint32_t events_removed(struct events *ev, server_id server, uint16_t rank, const uint64_t *handles, uint32_t n,
			enum events_tier tier);

/* The rank, or all ranks of the server, hold nothing any more, in no tier. In no match from now on; the
 * work is left to events_tick(). O(1), and O(max_parked) if the rank has parked blocks. */
void events_cleared(struct events *ev, server_id server, uint16_t rank);
void events_drop_server(struct events *ev, server_id server);

/* Blocks that each rank of <server> has room for; 0: nobody knows. With more, those stored longest ago
 * go: it bounds what lost or doubled events leave behind. */
void events_set_capacity(struct events *ev, server_id server, uint32_t blocks);

/* Take up to <work> records of cleared ranks apart. True: there are more. */
bool events_tick(struct events *ev, uint32_t work);

struct events_hit {
	server_id server;
	uint16_t rank;			/* that goes furthest; of several, with more in better tiers */
	uint32_t pages;			/* from the start, without a hole, in whole blocks of that rank */
	uint32_t in_tier[EVENTS_TIERS];	/* of these, by the best tier that holds them; they add up to <pages> */
};

/* Belongs to one thread at a time. */
struct events_match {
	struct events_hit *hits;	/* one a server, in no order; room for SERVERS_MAX */
	uint32_t n_hits;
	struct events_scratch *scratch;
};

int events_match_init(struct events_match *m);	/* -1: no memory */
void events_match_fini(struct events_match *m);

/* Fill <m> for <n> pages of <space>, which is 2 words: every server that holds the first block. Changes nothing. */
void events_match(const struct events *ev, const uint64_t *space, const page_key *keys, size_t n,
		  struct events_match *m);

/* Pages that <server> goes; 0 when it is no hit. O(hits). */
uint32_t events_match_pages(const struct events_match *m, server_id server);

struct events_stats {
	uint64_t max_bytes;		/* all that was taken */
	uint64_t records, max_records;	/* cleared ones that are still there among them */
	uint64_t holders, parked;	/* there now */
	uint64_t sets, max_sets;	/* chains with many holders, which have bits instead of entries */
	uint64_t stored, removed, cleared;	/* blocks, blocks, ranks */
	uint64_t joined;		/* parked blocks whose parent came */
	uint64_t parked_dropped;	/* the oldest, for want of room */
	uint64_t evicted;		/* records, for want of room or over a capacity */
	uint64_t unknown;		/* copies removed of which nothing was known; blocks without keys as well */
	uint64_t odd, refused;		/* blocks */
};

/* From any thread. */
void events_stats(const struct events *ev, struct events_stats *s);

/* Records of a server, of all its ranks that are not cleared. From the thread that changes things. */
uint32_t events_server_records(const struct events *ev, server_id server);

/* Walk everything and check every invariant of events_in.h; for tests. Returns NULL when all hold, else a static
 * sentence. O(everything), and nothing may change meanwhile. */
const char *events_check(const struct events *ev);

#endif

/* events.h - which blocks the engines report to hold, from their own events.
 *
 *   handles of a holder               runs: up to 64 blocks of a chain in a row, and who has which
 *   h0: 0x91.. -> run 1, block 0      run 1 [A B C D E]      h0 11111  h1 11111  h2 11011
 *       0x4e.. -> run 1, block 1               '-> run 2 [F G]      h0 11
 *   h1: 0x07.. -> run 1, block 0
 *                                     holder: one rank of one server
 *
 *   stored   blocks that follow a parent, which the engine names by handle: each gets a record
 *   removed  a copy in a tier is gone; without a copy in any tier, the record is removed
 *   cleared  a rank is empty: masked at once, its records are removed step by step
 *   match    for the pages of a prompt: how many each server has, and in which tiers
 *
 * Blocks are not attached to the nodes of the tree (index.h). The tree is an estimate from our own
 * commits; it splits, joins and evicts for reasons that no engine knows, and it adds pages only
 * below pages. An event is a fact about one block, even about one whose parent is gone. So the
 * place of a block is its chain: all pages from the start of the space to its end. Nothing moves
 * when another block comes or goes, blocks of any size can be mixed, and a block whose parent was
 * removed stays, unseen, until the parent is stored again.
 *
 * Contiguity is counted for each rank, because each rank is a cache of its own: what one holds of a
 * prompt and another of the rest is no prefix for either. A server has as many pages as its best
 * rank.
 *
 * Handles come from outside and are hashed under the key, so they cannot be crafted to collide. A
 * record has 51 bits of the hash: with 20,000 records at a rank, an unknown handle is taken for a
 * known one with a chance of 2^-36. A block that is stored so is found to be another one, and
 * refused as <odd>. Keys of blocks are compared in full.
 *
 * Memory is taken from the system as it is needed, up to the budget: about 23 bytes a record with
 * conversations of 500 blocks, 26 with 40 blocks a run, and the same after 20 times as many blocks
 * came and went. A match costs about 3 ns a block, a stored one 130, a removed one 60, on two busy
 * cores of an EPYC 7xx3, where a prefetched cache line takes 10 ns (`make bench-events`). A full
 * budget evicts the blocks stored longest ago, of the largest rank of the largest server, each run
 * from its end. Prefixes that many ranks share go last. The budget should be as large as the
 * engines' caches; <evicted> shows when it is not.
 *
 * One thread at a time may call functions that change something. Any number of threads may match
 * meanwhile; they take no lock and never wait. */
#ifndef KVROUTE_EVENTS_H
#define KVROUTE_EVENTS_H

#include "agent/base/err.h"
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
/* Added to a rank: other blocks of the same rank, stored apart because they have another size or
 * expire. They extend what the rank itself has of a prompt; a hit has the rank without it. */
#define EVENTS_APART		0x8000u
#define EVENTS_AGES		4u	/* parts of a time to live in which blocks expire together */

struct events_opts {
	size_t max_bytes;	/* of everything; 64 MiB, at least 1 MiB, at most 32 GiB is used */
	/* ranks of all servers together, with cleared ones that are not removed yet; 1024, at most
	 * EVENTS_HOLDERS_MAX */
	uint32_t max_holders;
	/* blocks with an unknown parent; 4096, fewer if they would take more than 1/16 */
	uint32_t max_parked;
	bool prefault;		/* events_new() makes all memory of the budget present */
	const struct hash_key *key;	/* copied; required */
};

void events_defaults(struct events_opts *o);
struct events *events_new(const struct events_opts *o);		/* NULL: no memory, or no key */
void events_free(struct events *ev);

/* Consecutive blocks of one event. */
struct events_run {
	server_id server;
	uint16_t rank;
	enum events_tier tier;
	uint32_t n;			/* blocks */
	uint32_t block_pages;		/* pages of each: the engine's block size in our pages */
	const uint64_t *handles;	/* [n] */
	const page_key *keys;		/* [n * block_pages]; NULL: the event had no tokens */
	const uint64_t *space;		/* [2] of the prompt, hashed; read only if there is no parent */
	bool has_parent;		/* because any handle may be a parent's, even 0 */
	uint64_t parent;
	/* all blocks of this rank expire so long after they were stored last; 0: never */
	msec ttl_ms;
};

/* Add a copy of each block of the run to its tier. A block with an unknown parent is parked, up to
 * max_parked of them (the oldest is dropped first), and joined when the parent is stored. Without
 * keys, known blocks get a copy and others are ignored. A block is refused, with the rest of its
 * run, if
 *   - its handle is known with other pages or another parent (<odd>)
 *   - it has another size than the blocks of its rank (<odd>)
 *   - there is no room for it (<refused>): all holders or block sizes are in use, or evicting
 *     others does not make enough
 * Without any room, a further copy or another tier of a known block is not counted.
 * Returns the number of blocks stored, with parked ones. O(n * block_pages). */
uint32_t events_stored(struct events *ev, const struct events_run *run);

/* Remove a copy of each block from <tier>. Blocks that follow it stay, but do not count until it is
 * stored again. Returns how many were known there; the others count as <unknown>. Without any room
 * for a hole in a run that many share, the block stays and counts as <refused>, too. */
uint32_t events_removed(struct events *ev, server_id server, uint16_t rank, const uint64_t *handles,
    uint32_t n, enum events_tier tier);

/* Clear one rank, or all ranks of a server, in all tiers. They are in no match from now on;
 * events_tick() removes the records. O(1), or O(max_parked) if the rank has parked blocks. */
void events_cleared(struct events *ev, server_id server, uint16_t rank);
void events_drop_server(struct events *ev, server_id server);

/* Set the number of blocks that each rank of <server> has room for; 0: unknown. Beyond it the
 * blocks stored longest ago are evicted, 1/32 more than needed, because each time all records of
 * the rank are looked at: that bounds the effect of lost or repeated events. */
void events_set_capacity(struct events *ev, server_id server, uint32_t blocks);

/* Remove up to <work> records of cleared ranks. Returns true if there are more. */
bool events_tick(struct events *ev, uint32_t work);

/* Tell the time, and remove expired records: those stored last more than their time to live ago, at
 * most 1/EVENTS_AGES of it later if this is called often enough. Looks at up to <work> lines of 5
 * records and ranks; ages of a rank go on once all its records were looked at. Returns true if some
 * were left. */
bool events_expire(struct events *ev, msec now, uint32_t work);

/* Tell if a rank has a record of <handle>, or it is parked. O(1). */
bool events_has(const struct events *ev, server_id server, uint16_t rank, uint64_t handle);

struct events_hit {
	server_id server;
	/* with the most pages; of several, the one with more in better tiers. Without EVENTS_APART */
	uint16_t rank;
	uint32_t pages;			/* from the start, without a gap, in whole blocks of that rank */
	/* of these, by the best tier that has them; their sum is <pages> */
	uint32_t in_tier[EVENTS_TIERS];
};

/* Belongs to one thread at a time. */
struct events_match {
	struct events_hit *hits;	/* one a server, in no order; room for SERVERS_MAX */
	uint32_t n_hits;
	struct events_scratch *scratch;
};

int events_match_init(struct events_match *m);	/* -1: no memory */
void events_match_fini(struct events_match *m);

/* Fill <m> for <n> pages of <space> (2 words): every server that holds the first block. Changes
 * nothing. */
void events_match(const struct events *ev, const uint64_t *space, const page_key *keys, size_t n,
		  struct events_match *m);

/* Return the pages of <server>; 0 if it is no hit. O(hits). */
uint32_t events_match_pages(const struct events_match *m, server_id server);

struct events_stats {
	uint64_t max_bytes, bytes;	/* of everything; in use */
	uint64_t records;		/* with those of cleared ranks that are not removed yet */
	uint64_t holders, parked;	/* at present */
	uint64_t runs, blocks;		/* distinct blocks, in so many runs; some may have no holder */
	uint64_t sets;			/* of ranks that hold the same blocks of a run */
	uint64_t stored, removed, cleared;	/* blocks, blocks, ranks */
	uint64_t joined;		/* parked blocks whose parent came */
	uint64_t parked_dropped;	/* the oldest, for lack of room */
	uint64_t evicted;		/* records, for lack of room or over a capacity */
	uint64_t expired;		/* records */
	/* removed copies that were not known; stored blocks without keys that were not known */
	uint64_t unknown;
	uint64_t odd, refused;		/* blocks */
};

/* May be called from any thread. */
void events_stats(const struct events *ev, struct events_stats *s);

/* Return the number of records of a server's ranks that are not cleared. Called from the thread
 * that changes things. */
uint32_t events_server_records(const struct events *ev, server_id server);

/* Return how many records of a server were evicted, and blocks or further copies of it not stored,
 * for lack of room: the budget, holders, block sizes or max_parked; not those over its capacity.
 * events_drop_server() sets it to 0. May be called from any thread. */
uint64_t events_server_lost(const struct events *ev, server_id server);

/* ---- as bytes: save.c, load.c ----
 *
 * All ranks with their blocks, so that an agent that starts again has them; the caller keeps the
 * cursor of each rank next to it. They have no token and not the key. Handles and pages are hashes
 * under that key and mean nothing under another one, so such bytes are refused. Parked blocks are
 * left out, and when blocks were stored: their time to live begins anew with the next store. */

#define EVENTS_SAVE_VERSION	1u

/* Take the next bytes; return other than 0 on failure. */
typedef int events_put(void *arg, const void *bytes, size_t n);

/* Write everything. Nothing may change meanwhile; others may match. About 16 bytes a record and 8 a
 * distinct block. Returns -1 if <put> failed or there is no memory. */
int events_save(const struct events *ev, events_put *put, void *arg);

/* Return the present number of the server that had <number>, or a negative number if it is gone. */
typedef int events_server(void *arg, server_id number);

struct events_loaded {
	uint64_t holders, records;	/* that are in the index now */
	uint64_t skipped;		/* records of servers that are gone */
	uint64_t left_out;		/* records without room, and those that were there */
};

/* Load <n> bytes. Takes 24 bytes a run and 8 a block meanwhile. All is checked first: returns -1,
 * sets <e> and changes nothing if the bytes are refused. Nothing is evicted. */
int events_load(struct events *ev, const uint8_t *bytes, size_t n, events_server *server, void *arg,
    struct events_loaded *l, struct err *e);

/* Check every invariant of events_in.h; for tests. Returns NULL if all hold, else a static
 * sentence. O(everything); nothing may change meanwhile. */
const char *events_check(const struct events *ev);

#endif

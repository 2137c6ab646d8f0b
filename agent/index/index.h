/* index.h - which server holds which pages: a radix tree for each space, bounded in bytes.
 *
 *   space s:   (root)             A letter is a page; a node is a run of pages and, below it, the
 *              /    \             servers on it, each with how many of the pages it holds.
 *         [A B C]   [X]
 *          a b c:2   c            A server on a node holds the whole of every node above it, so one
 *          /   \                  walk down finds all. For A B C D E: a holds 4 pages, b 3, c 2.
 *        [D]   [E F]
 *         a      b
 *
 *   match   reads and keeps nothing: bands of (depth, servers), and a cursor to commit at
 *   commit  says that a server was sent the pages: a claim, speculative until confirmed
 *   confirm the engine has served it: the claim's pages are held now
 *   cancel  it died before its first token: what nobody else claims or holds is taken out at once
 *
 * Pages are keyed hashes (page_key), never tokens or text. Two prompts whose first pages differ in
 * one byte share nothing behind it: the tree is the chain, so keys need not be chained.
 * A false match needs two different pages under one 64-bit keyed hash at the same place, 2^-64 a
 * page; it would cost speed, never an answer.
 *
 * All functions may be called from any thread; a match waits for nobody and nobody waits for it.
 * Memory is taken whole by index_new(). Nothing here reads a clock: <now> only orders, in steps of
 * 16 ms; within one, the order of calls counts where one shard is concerned. */
#ifndef KVROUTE_INDEX_INDEX_H
#define KVROUTE_INDEX_INDEX_H

#include "agent/base/types.h"

struct index;

#define TENANTS_MAX	256	/* tenants that may have a floor; number 0 is all others */

/* What goes when a server has more pages than its engine has room for. */
enum index_order {
	INDEX_LRU,		/* not used for the longest time: vLLM, SGLang, TensorRT-LLM by default */
	INDEX_LFU,		/* used least often, of those the oldest */
	INDEX_FIFO,		/* entered first */
	INDEX_MRU,		/* used last */
	INDEX_FILO,		/* entered last */
	INDEX_PRIORITY,		/* lowest priority, of those the oldest: SGLang's radix-eviction-policy */
};

#define INDEX_PRIORITIES	32u	/* 0 goes first; pages keep the highest priority of their commits */

#define SHARDS_MAX	64u
#define SHARD_BYTES_MAX	((uint64_t)4 << 30)

struct index_opts {
	size_t max_bytes;	/* all nodes, records, tables and claims; default 256 MiB;
				 * at least 64 KiB are taken, and one open claim for each 2 KiB */
	uint32_t max_pages;	/* of one prompt; what is beyond is neither matched nor kept; 65536 */
	uint32_t shards;	/* of SHARD_BYTES_MAX at most, what is beyond stays unused; a power of two up to 64, default 16; fewer if one had under 256 KiB */
	uint32_t max_spaces;	/* of one tenant; for one more, what it used longest ago goes; 65536 */
	uint32_t reserve_percent;	/* of the bytes that claims may take before the oldest goes; 10;
					 * 100: none goes, and a commit without room is refused */
	enum index_order order;		/* of servers for which index_set_order() says no other */
	bool mixed;		/* some server goes by lfu or priority though <order> is another */
	bool prefault;		/* all memory is there when index_new() returns */
};

void index_defaults(struct index_opts *o);
struct index *index_new(const struct index_opts *o);	/* NULL: no memory */
void index_free(struct index *ix);			/* after its matches were ended by index_match_fini() */

/* What may share cache, hashed by the caller from all its parts. */
struct space_key {
	uint64_t h[2];
	uint32_t tenant;	/* whose floor and max_spaces it counts for; below TENANTS_MAX */
	uint32_t part_room;	/* that a prompt takes beside its pages until it is confirmed or cancelled: the block
				 * that it fills in part, which goes back when the answer ends */
	uint32_t page_room;	/* that one of its pages takes in a server's cache, in the unit of index_set_capacity();
				 * 0 is taken for 1; ROOM_MAX at most. Is not part of the key: pages keep the room with
				 * which they came */
};

#define ROOM_MAX	65535u	/* of one page */

struct server_set {
	uint64_t w[SERVERS_MAX / 64];
};

static inline void server_set_add(struct server_set *s, server_id id)
{
	s->w[id / 64] |= 1ull << (id % 64);
}

static inline void server_set_del(struct server_set *s, server_id id)
{
	s->w[id / 64] &= ~(1ull << (id % 64));
}

static inline bool server_set_has(const struct server_set *s, server_id id)
{
	return s->w[id / 64] >> (id % 64) & 1;
}

/* How far each server goes. A server is in one band only, its deepest; a band's servers hold
 * <depth> pages from the start (held or claimed). No band has depth 0. */
struct index_band {
	uint32_t depth;
	struct server_set servers;
};

#define CURSOR_PATH	16	/* nodes of the way that a commit need not compare again */

struct index_step {
	uint32_t node, serial;
};

struct index_cursor {		/* the index's own business */
	uint32_t node, serial, depth, n_walked;
	struct index_step path[CURSOR_PATH];
};

/* Belongs to one thread at a time. Of one index, 256 may be in use. */
struct index_match {
	struct index_band *bands;	/* deepest first; room for <cap>, at most SERVERS_MAX used */
	uint32_t n_bands, cap;
	uint32_t n_pages;		/* asked for, after max_pages */
	uint32_t beyond;		/* pages in the tree after the end of the match, on one way; UINT32_MAX: it
					 * parts there */
	struct index_cursor cursor;
	struct index *ix;		/* that it was used with last, and its place there */
	uint32_t reader;
};

int index_match_init(struct index_match *m);	/* allocates the bands; -1: no memory */
void index_match_fini(struct index_match *m);

/* Fill <m> for <n> pages of <space>. Changes nothing, not even what is oldest. */
void index_match(struct index *ix, const struct space_key *space, const page_key *pages, size_t n,
		 struct index_match *m);

/* The depth of one server in a match; 0 when it holds nothing. O(bands). */
uint32_t index_match_depth(const struct index_match *m, server_id id);

/* A claim is a small handle of the index's own; 0 is none. It pins its pages until it is confirmed
 * or cancelled, which should happen exactly once. A claim that is not known any more is ignored: the
 * oldest are cancelled when all open ones together need more than reserve_percent of the budget. */
typedef uint64_t index_claim;

/* <server> was sent these pages: it claims all of them, and is touched as used at <now>. <m> is the
 * match of the same pages (its cursor saves the second walk where nothing has changed), or NULL.
 * Older pages are evicted when a budget asks for it, on 64 records at most, and fewer where nodes must
 * be copied or joined for it; the rest is left to index_tick(). Returns 0, with nothing claimed, when <n> is 0, the server is leaving, or memory and
 * budget leave no room. */
index_claim index_commit(struct index *ix, const struct space_key *space, const page_key *pages,
			 size_t n, const struct index_match *m, server_id server, msec now, unsigned priority);
void index_confirm(struct index *ix, index_claim claim, msec now);
void index_cancel(struct index *ix, index_claim claim);

/* Confirm, but at the server that really served it: <server> holds the claim's pages now, and the
 * server that had claimed them is left as by index_cancel(). Older pages are evicted as by a commit. Where
 * that leaves no room, or <server> is leaving, it holds no part of them: only the cancel happens. */
void index_confirm_at(struct index *ix, index_claim claim, server_id server, msec now);

/* Room in the cache of <server>, in any unit that space_key.page_room has as well; 0: nobody
 * knows, and only bytes count. A server is kept within it in the order that its engine has: what
 * is claimed takes its room at once, as the engine serves what was sent before what will be
 * sent. So a match tells what will be there when the next prompt's turn comes. Claims never
 * evict each other: where they alone need more than the capacity, they stand beside it. */
void index_set_capacity(struct index *ix, server_id server, uint64_t room);
uint64_t index_server_capacity(struct index *ix, server_id server);

/* The order in which pages of <server> go; only where it holds and claims nothing: before its first commit
 * or after its drop. */
void index_set_order(struct index *ix, server_id server, enum index_order order);

/* <server> generated what takes so much room, and nobody will match it: it counts against the
 * capacity, ages like pages that are held, and goes when it is the oldest. Where no capacity is
 * known, nothing is counted. */
void index_add_output(struct index *ix, server_id server, uint32_t room, msec now);
uint64_t index_server_output(struct index *ix, server_id server);	/* room of what is left of it */

/* A tenant with no more than <bytes> of nodes loses none of them to another's need. */
void index_set_floor(struct index *ix, uint32_t tenant, uint64_t bytes);

/* Evict what is over a budget, on 64 records at most, as above, and make nodes smaller that found no room
 * for it before. True: there is more to do. */
bool index_tick(struct index *ix);

/* Forget everything about a server: its id may be given to another afterwards. Its open claims
 * become unknown. It is in no match as soon as the first step has begun; a step works on <work>
 * records at most, as above, and returns true when nothing is left. */
bool index_drop_step(struct index *ix, server_id server, uint32_t work);

struct index_stats {
	uint64_t bytes, max_bytes;	/* <bytes> with the tables, of which <fixed_bytes> are always there */
	uint64_t fixed_bytes;
	uint64_t spaces, nodes, records, pages;	/* records: (node, server); pages: on nodes, each once */
	uint64_t claims;			/* open ones */
	uint64_t matches, commits, confirmed, cancelled, expired;
	uint64_t evicted_records, evicted_pages;
	uint64_t refused;			/* commits that found no room */
	uint64_t slack;				/* nodes that could be smaller and wait for room to become so */
	uint64_t shards;
};

void index_stats(struct index *ix, struct index_stats *s);

/* Of shard <i>, below the number of shards: its bytes, records and the commits that ended on it. */
struct index_shard_stats {
	uint64_t bytes, max_bytes, nodes, records, commits;
};

uint32_t index_shards(const struct index *ix);
void index_shard_stats(struct index *ix, uint32_t i, struct index_shard_stats *s);

/* Room of the pages that a server holds or claims, over all spaces: their number where each
 * takes 1. */
uint64_t index_server_room(struct index *ix, server_id server);

#endif

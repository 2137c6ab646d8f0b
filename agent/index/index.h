/* index.h - which server holds which pages: a radix tree for each space, bounded in bytes.
 *
 *   space s:   (root)             A letter is a page. A node is a run of pages with, below it, the
 *              /    \             servers on it; "c:2" holds only the first 2 of its pages.
 *         [A B C]   [X]
 *          a b c:2   c            A server on a node holds all pages of every node above it, so one
 *          /   \                  walk down finds all. For A B C D E: a holds 4 pages, b 3, c 2.
 *        [D]   [E F]
 *         a      b
 *
 *   match   reads only: bands of (depth, servers), and a cursor for the commit
 *   commit  a server was sent the pages: it claims them, which is speculative until confirmed
 *   confirm the engine has served them: the server holds the pages of the claim
 *   cancel  the request died before its first token: remove the pages that no other claim or
 *           server needs
 *
 * Pages are keyed hashes (page_key), never tokens or text. The tree is the chain, so keys need not
 * be chained: two prompts that differ in their first page share nothing after it. A false match
 * needs two different pages with the same 64-bit keyed hash at the same place, or two different
 * runs of 64 with the same digest of these hashes: 2^-64 a page. It would cost speed, never a wrong
 * answer.
 *
 * Any thread may call any function; a match never waits and makes no other thread wait. index_new()
 * allocates all memory. Nothing here reads a clock: <now> only orders, in steps of 16 ms. Within
 * one step and one shard the order of calls counts. */
#ifndef KVROUTE_INDEX_INDEX_H
#define KVROUTE_INDEX_INDEX_H

#include "agent/base/types.h"

struct index;

#define TENANTS_MAX	256	/* tenants that may have a floor; number 0 is all others */

/* What an engine evicts first when its cache is full. */
enum index_order {
	INDEX_LRU,		/* least recently used: default of vLLM, SGLang, TensorRT-LLM */
	INDEX_LFU,		/* least often used, of equals the oldest */
	INDEX_FIFO,		/* first entered */
	INDEX_MRU,		/* most recently used */
	INDEX_FILO,		/* last entered */
	INDEX_PRIORITY,		/* lowest priority, of equals the oldest: SGLang's radix-eviction-policy */
};

/* 0 is evicted first; a page keeps the highest priority of its commits */
#define INDEX_PRIORITIES	32u

#define SHARDS_MAX	64u
#define SHARD_BYTES_MAX	((uint64_t)4 << 30)

struct index_opts {
	/* of nodes, records, tables and claims; default 256 MiB, at least 64 KiB; one open claim for each
	 * 2 KiB */
	size_t max_bytes;
	uint32_t max_pages;	/* of one prompt; later pages are neither matched nor kept; 65536 */
	/* a power of two up to 64; default 16; fewer if one would have less than 256 KiB. Each uses
	 * SHARD_BYTES_MAX at most */
	uint32_t shards;
	/* of one tenant; if it needs one more, its least recently used one is evicted; 65536 */
	uint32_t max_spaces;
	/* of the bytes that claims may take before the oldest claim expires; 10. With 100 none expires,
	 * and a commit without room is refused */
	uint32_t reserve_percent;
	enum index_order order;		/* of servers without an order of their own: index_set_order() */
	bool mixed;		/* some server goes by lfu or priority although <order> is another */
	bool prefault;		/* index_new() makes all memory present */
};

void index_defaults(struct index_opts *o);
struct index *index_new(const struct index_opts *o);	/* NULL: no memory */
/* No call may be in progress. Its matches stay as they are: their cursors count for no other index,
 * and index_match() or index_match_fini() may follow. */
void index_free(struct index *ix);

/* The prompts that may share cache, as a hash of everything that separates them. */
struct space_key {
	uint64_t h[2];
	uint32_t tenant;	/* whose floor and max_spaces count; below TENANTS_MAX */
	/* room of the block that a prompt fills only in part; taken until the claim is confirmed or
	 * cancelled */
	uint32_t part_room;
	/* room of one page in a server's cache, in the unit of index_set_capacity(); 0 counts as 1; at
	 * most ROOM_MAX. Not part of the key: pages keep the room with which they came */
	uint32_t page_room;
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

/* The servers of one depth. A server is in one band only, its deepest: it holds or claims <depth>
 * pages from the start. No band has depth 0. */
struct index_band {
	uint32_t depth;
	struct server_set servers;
};

#define CURSOR_PATH	16	/* nodes of the path that a commit need not compare again */

struct index_step {
	uint32_t node, serial;
};

struct index_cursor {		/* private to the index */
	uint32_t node, serial, depth, n_walked;
	struct index_step path[CURSOR_PATH];
};

/* Belongs to one thread at a time. One index allows 256 of them. */
struct index_match {
	struct index_band *bands;	/* deepest first; room for <cap>, at most SERVERS_MAX used */
	uint32_t n_bands, cap;
	uint32_t n_pages;		/* of the prompt, after max_pages */
	/* pages in the tree after the end of the match; UINT32_MAX: the tree branches there */
	uint32_t beyond;
	struct index_cursor cursor;
	struct index_readers *readers;	/* of the index of the last match, and the slot there */
	uint32_t reader;
};

int index_match_init(struct index_match *m);	/* allocates the bands; -1: no memory */
void index_match_fini(struct index_match *m);

/* Fill <m> for <n> pages of <space>. Changes nothing, not even the time of the last use. */
void index_match(struct index *ix, const struct space_key *space, const page_key *pages, size_t n,
		 struct index_match *m);

/* Return the depth of one server in a match; 0 if it holds nothing. O(bands). */
uint32_t index_match_depth(const struct index_match *m, server_id id);

/* The handle of a claim; 0: none. A claim pins its pages until it is confirmed or cancelled, which
 * should happen once. An unknown claim is ignored: if all open claims together need more than
 * reserve_percent of the budget, the oldest are cancelled. */
typedef uint64_t index_claim;

/* Let <server> claim the pages, and mark them as used at <now>. <m>: the match of the same pages,
 * whose cursor saves the second walk if nothing has changed; or NULL. A match in another index,
 * which may be gone, counts as NULL. If a budget is exceeded,
 * older pages are evicted: 40 records at most, and fewer if nodes must be copied or joined;
 * index_tick() does the rest. Returns 0, and claims nothing, if <n> is 0, if the server is leaving,
 * or if there is no room. */
index_claim index_commit(struct index *ix, const struct space_key *space, const page_key *pages,
			 size_t n, const struct index_match *m, server_id server, msec now, unsigned priority);
void index_confirm(struct index *ix, index_claim claim, msec now);
void index_cancel(struct index *ix, index_claim claim);

/* Confirm a claim for another server than the one that claimed: <server> holds the pages now, and
 * the claim is cancelled. Older pages are evicted as by a commit. If there is no room, or <server>
 * is leaving, the claim is only cancelled. */
void index_confirm_at(struct index *ix, index_claim claim, server_id server, msec now);

/* Set the room in the cache of <server>, in the unit of space_key.page_room; 0: unknown, and only
 * bytes count. Pages beyond it are evicted in the order of its engine. Claims take their room at
 * once, because the engine serves requests in the order in which they were sent; so a match
 * predicts the cache at the time when the next prompt is served. Claims never evict each other: if
 * they alone need more than the capacity, they exceed it. */
void index_set_capacity(struct index *ix, server_id server, uint64_t room);
uint64_t index_server_capacity(struct index *ix, server_id server);

/* Set the order in which pages of <server> are evicted. Only while it holds and claims nothing:
 * before its first commit or after its drop. */
void index_set_order(struct index *ix, server_id server, enum index_order order);

/* Count <room> for tokens that <server> generated and that no prompt will match. It counts against
 * the capacity, ages like held pages and is evicted like them. Does nothing if the capacity is
 * unknown. */
void index_add_output(struct index *ix, server_id server, uint32_t room, msec now);
/* room of its generated tokens that are not evicted */
uint64_t index_server_output(struct index *ix, server_id server);
/* Return whether the output of <server> up to <then> was evicted. False if the capacity is unknown,
 * or if the youngest is evicted first. */
bool index_output_gone(struct index *ix, server_id server, msec then);
/* The same, but also true if pages last used <then> were evicted: for output that did not count. */
bool index_output_is_past(struct index *ix, server_id server, msec then);
/* Take <room> off the output of <server> at <then>, because pages hold those tokens from now on. */
void index_take_output(struct index *ix, server_id server, uint32_t room, msec then);
/* Undo index_take_output(): count <room> again, as old as it was. Only if index_output_is_past()
 * returns false. Does nothing if the capacity is unknown. */
void index_give_output(struct index *ix, server_id server, uint32_t room, msec then);

/* While the nodes of a tenant take no more than <bytes>, other tenants evict none of them. */
void index_set_floor(struct index *ix, uint32_t tenant, uint64_t bytes);

/* Evict what exceeds a budget, 40 records at most as above, and make nodes smaller for which there
 * was no memory before. Returns true if there is more to do. */
bool index_tick(struct index *ix);

/* Forget everything about a server, whose id may then be given to another. Its open claims become
 * unknown. The server is in no match once the first step has begun. A step works on <work> records
 * at most, as above. Returns true if nothing is left. */
bool index_drop_step(struct index *ix, server_id server, uint32_t work);

struct index_stats {
	uint64_t bytes, max_bytes;	/* <bytes> includes the tables, which are <fixed_bytes> */
	uint64_t fixed_bytes;
	uint64_t spaces, nodes, records, pages;	/* records: (node, server); pages: of nodes, each once */
	uint64_t claims;			/* open */
	uint64_t matches, commits, confirmed, cancelled, expired;
	uint64_t evicted_records, evicted_pages;
	uint64_t refused;			/* commits without room */
	uint64_t slack;				/* nodes that could be smaller but lacked memory for it */
	uint64_t shards;
};

void index_stats(struct index *ix, struct index_stats *s);

/* Counters of shard <i>: bytes, records, and the commits that ended on it. */
struct index_shard_stats {
	uint64_t bytes, max_bytes, nodes, records, commits;
};

uint32_t index_shards(const struct index *ix);
void index_shard_stats(struct index *ix, uint32_t i, struct index_shard_stats *s);

/* Return the room of the pages that a server holds or claims in all spaces; their number if each
 * page takes 1. */
uint64_t index_server_room(struct index *ix, server_id server);

#endif

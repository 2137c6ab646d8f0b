/* state_in.h - the data of an index: nodes, records, claims, shards, and the locks that guard them.
 *
 *   region:  [ child table | claims, stops | shard 0: ids, arena | shard 1: ids, arena | ... ]
 *
 * A node is an object in the arena of its shard. The place and the pages of an object never change
 * after it is published: a node that grows, splits, joins or is cut gets a new object. The old one
 * is freed when no reader can see it any more (grace.c). Only owner words change in place.
 * A node keeps its id through all that; the low bits of the id are its shard. After a split the
 * lower part keeps the id, so the table entries of its children, which hash that id, stay valid.
 *
 * Readers take no lock: child table -> object -> owner words. If a reader ends at an object that is
 * <superseded> by then, it walks again.
 * Writers lock the shards of all nodes that they change, in ascending order. The lock of the shard
 * of node N guards
 *   N's current object, owner words, n_children, child_xor    the records and claims on N
 *   N's entry in the child table                              the lists that hold those records
 *
 * Invariants while the shards of a node and of its parent are locked (tests/lib/index/check.c):
 *   - a server on a node holds all pages above it, up to the first page of the space
 *   - if a record has children, its extent is the whole node; otherwise it is the longer of the
 *     held pages and the pages that claims reach
 *   - every node except the root has an owner, and so has its last page
 *   - a node is not the only child of its parent, unless both together are longer than EDGE_MAX or
 *     the parent has claims
 *   - a node that breaks one of the last two for want of memory has slack; shrink.c tries it again
 *   - a record is in the lists if and only if it has neither children nor claims */
#ifndef KVROUTE_INDEX_STATE_IN_H
#define KVROUTE_INDEX_STATE_IN_H

#include <stdatomic.h>

#include "agent/base/mem.h"
#include "agent/index/arena_in.h"
#include "agent/index/index.h"

#define SHARD_BITS	6u
_Static_assert(SHARDS_MAX == 1u << SHARD_BITS, "an id's low bits name each shard");
#define EDGE_MAX	512u	/* pages of a node: bounds the cost of a copy */
/* Work of one call, in records; a copied node counts more (shrink.c). It bounds the longest call,
 * which bench_index -e measures. */
#define EVICT_MAX	40u
/* Tries in a row that bring a claim no page further, because other threads change the tree. */
#define STILL_MAX	64u
#define ORDERS_MAX	INDEX_PRIORITIES	/* lists of a server that goes by hits or priority */
#define ROOM_LEAST	6208u	/* bytes of the largest node with up to 250 owners */
#define NODE_MOST \
	(sizeof(struct node) + SERVERS_MAX * 2 * sizeof(uint32_t) + \
	 (EDGE_MAX + EDGE_MAX / DIGEST_PAGES) * sizeof(page_key))
#define DIGEST_PAGES	64u	/* pages of a block, whose digest takes 8 bytes (pages.c) */
#define FREE_PART	32u	/* a tick keeps 1 / FREE_PART of a shard free; spare memory is as much */
/* Pages that an eviction for bytes cuts from a record at once: all, as a copy needs memory too. */
#define TRIM_PAGES	EDGE_MAX

typedef uint32_t node_id;	/* number in the shard << SHARD_BITS | shard; 0: none */

enum node_kind { NODE_EDGE, NODE_ROOT };

/* Owner words [cap], their records [cap], page keys [n_pages] and their digests follow it. A root
 * has no pages, but two keys, which name its space. */
struct node {
	_Alignas(8) node_id id;
	node_id parent;
	uint32_t start;			/* number of pages above it */
	uint16_t n_pages, cap;
	_Atomic uint16_t n_slots;	/* owner words in use; some of them are 0 */
	uint8_t kind;
	_Atomic uint8_t superseded;
	_Atomic uint32_t n_children;	/* matches read it without the lock */
	node_id child_xor;		/* XOR of the ids of all children: the id of an only child */
	uint32_t serial;		/* no other recent object of the shard has it */
	uint32_t link;			/* next retired object, or next node with slack */
	uint8_t tenant;
	uint8_t dead : 1;		/* free the id together with the object */
	uint8_t slack : 1;		/* in its shard's list of nodes with slack: <link>, <slack_prev> */
	uint16_t page_room;		/* of each page; 0 in a root */
	uint16_t n_owners;
	union {
		node_id slack_prev;	/* with slack */
		/* without: serial of the object that began it. The same until the id is given to another
		 * node, pages are cut from its end, or it has had slack: place.h */
		uint32_t era;
	};
};

_Static_assert(sizeof(struct node) == 48, "the arrays after a node are in words of 8 bytes");

struct links {
	arena_ref prev, next;
};

/* One server on one node. */
struct record {
	node_id node;
	server_id server;
	uint16_t extent;		/* pages from the start of the node; as in the owner word */
	uint16_t held;			/* of these, confirmed */
	uint8_t hits;
	uint8_t priority : 5, listed : 1;
	uint8_t recalled : 1;		/* search longer for its place in the lists */
	uint8_t in_slab;		/* its number in its slab */
	arena_ref up;			/* record of the server on the node above; 0: that is the root */
	uint32_t n_children;		/* records of the server on children of the node */
	uint32_t claims;		/* deepest stop of claims on it; 0: none */
	uint32_t used;			/* tick */
	struct links in[2];		/* BY_ORDER of (shard, server), BY_AGE of (shard, tenant) */
};

enum { BY_ORDER, BY_AGE };

#define RECORD_BYTES	48u		/* of each in a slab: refs count in units of 16 */
_Static_assert(sizeof(struct record) <= RECORD_BYTES, "a record fits into its place");

/* The head of a block of SLAB_RECORDS records. Records are allocated in slabs because single ones
 * between the nodes would leave gaps that are too small for a long node. */
struct slab {
	arena_ref next, prev;		/* slabs of the shard that have room */
	arena_ref free;			/* first free record; linked by their first word */
	uint32_t n_used;
};

#define SLAB_RECORDS	20u
_Static_assert(sizeof(struct slab) == ARENA_UNIT, "records begin where refs can name them");

/* The claims that end on one record at the same depth. A record with thousands of claims has few
 * stops, deepest first, and a split or a join moves stops instead of claims. */
struct stop {
	_Atomic node_id node;
	arena_ref record;
	uint32_t depth;			/* pages from the start; constant while a claim is on it */
	uint32_t first;			/* claim */
	uint32_t deeper, shallower;	/* stops of the same record */
};

/* The shard of the stop's node guards <stop> to <prev>; the thread that works on the claim may read
 * <stop> without it. The claim group guards the links of free claims. The group of the server
 * guards the links of open ones, <added_room> and <tick>. */
struct claim {			/* one line */
	_Alignas(64) uint32_t stop;	/* 0: at the root with no page yet, or off all records */
	uint32_t spare;			/* an unused stop. All claims at one stop but one have it */
	uint32_t next, prev;		/* at the same stop */
	uint32_t older, newer;		/* open claims of the group; free: <older> is the next free one */
	uint32_t older_same, newer_same;	/* open claims of the server */
	uint32_t added_room;		/* room of the pages that the server did not have before */
	uint32_t tick;			/* at which it was opened */
	_Atomic uint32_t generation;
	_Atomic server_id server;
	_Atomic uint8_t state;
	uint8_t priority;
	uint16_t page_room;		/* of its space */
	uint16_t part_room;		/* of the page that the prompt fills in part; 0: not counted */
};

_Static_assert(sizeof(struct claim) == 64, "there are many of them");

enum claim_state { CLAIM_FREE, CLAIM_GROWING, CLAIM_OPEN, CLAIM_CLOSING };

#define CLAIM_GROUPS	16u	/* so that claims of different servers seldom share a lock */
#define NO_CLAIM	UINT64_MAX

struct claim_group {		/* claims of the servers with the same number modulo CLAIM_GROUPS */
	_Alignas(64) _Atomic uint32_t locked;	/* guards the rest; no other lock is taken under it */
	_Atomic uint32_t n_open;
	uint32_t free, oldest, newest;
	_Atomic uint64_t oldest_tick;	/* of the oldest open claim; NO_CLAIM: none */
	uint64_t confirmed, cancelled;
	/* pages that the open claims added; of these, how many <speculative> of the index has */
	_Atomic int64_t pages;
	int64_t counted;
};

_Static_assert(sizeof(struct claim_group) == 64, "a commit writes one line of its group");

struct ends {
	arena_ref first, last;		/* <first> is evicted first */
};

/* What a shard keeps of one tenant. */
struct shard_tenant {
	struct ends by_age;		/* its records */
	arena_ref near_age;		/* a record of <by_age>, where one was last added */
	uint32_t unused;
	_Atomic int64_t bytes;		/* of its nodes; written under the lock */
};

/* What a commit reads and writes lies together on its first lines. */
struct shard {
	_Alignas(64) _Atomic uint32_t locked;
	uint32_t n_ids, free_id;
	arena_ref first;		/* of the arena; <refs> counts from it */
	/* [id >> SHARD_BITS]: ref of the current object - the arena's first + 1; of a free id the next
	 * free one | ID_FREE; 0: neither. */
	_Atomic uint32_t *refs;		/* other shards read it to prefetch, without the lock */
	struct ends *orders;		/* [server * buckets + bucket] */
	uint32_t serial;
	arena_ref slabs;		/* first with room for a record */
	uint32_t waiting, n_waiting;	/* retired objects, linked by link */
	size_t late;			/* bytes of these and of the closed batch */
	uint32_t closed;		/* a batch that only readers of <closed_at> and before can see */
	arena_ref spare;		/* memory for operations that free more than they take; 0: used up */
	struct {
		uint64_t nodes, spaces, records, pages, commits, evicted_records, evicted_pages;
	} st;
	_Alignas(64) struct arena arena;
	_Alignas(64) struct shard_tenant tenants[TENANTS_MAX];	/* mostly the first, on one line */
	uint64_t closed_at;
	uint32_t max_ids;
	uint32_t spare_bytes;		/* enough for the largest node, unless the arena is small */
	bool lacked;			/* since the last tick such an operation found too little memory */
	uint8_t short_ticks;		/* number of ticks in a row with <lacked> */
	node_id slack_first, slack_last;	/* nodes that could not be made smaller for want of memory */
	_Atomic uint32_t n_slack;
};

#define NOT_ONE	UINT64_MAX
#define ID_FREE	0x80000000u	/* in <refs>; an arena has 2^28 refs at most */
_Static_assert(ARENA_BYTES_MAX / ARENA_UNIT < ID_FREE, "the ref of an object is no free id");

struct reader {
	_Alignas(64) _Atomic uint64_t at;	/* epoch in which the reader entered; 0: outside */
	_Atomic uint64_t matches;
	_Atomic uint32_t taken;
};

#define READERS_MAX	256u

/* The slots of an index. The index and each match with a slot count, so that a match may outlive
 * its index: no other index has this address while a match knows it. */
struct index_readers {
	_Atomic uint32_t n_users;
	_Alignas(64) _Atomic uint32_t used;	/* slots that were ever taken */
	struct reader slots[READERS_MAX];
};

struct server {			/* one line */
	_Alignas(64) _Atomic int64_t room;	/* of its held and claimed pages */
	_Atomic int64_t speculative;	/* of these, the part that its open claims added */
	_Atomic int64_t parts;		/* room of the part pages of its open claims */
	_Atomic uint64_t capacity;
	_Atomic uint64_t output;	/* room of its generated tokens */
	_Atomic uint64_t evicted;	/* EVICTED_ANY | tick: pages used until then are gone; 0: none */
	_Atomic uint32_t drops;
	uint32_t oldest_claim, newest_claim;	/* open ones; guarded by its group */
	_Atomic uint8_t leaving;
	_Atomic uint8_t order;		/* enum index_order; constant while the server has records */
};

_Static_assert(sizeof(struct server) == 64, "a commit writes one line of its server");

#define EVICTED_ANY	((uint64_t)1 << 32)

#define OUTPUT_BUCKETS	64u

struct output_bucket {
	uint32_t tick, room;
};

struct output {
	_Atomic uint32_t locked;	/* guards the rest; no other lock is taken under it */
	uint32_t first, n;
	uint32_t gone;			/* tick of the bucket evicted last, if <any_gone> */
	bool any_gone;
	struct output_bucket ring[OUTPUT_BUCKETS];
};

struct tenant {
	_Atomic uint64_t floor;
	_Atomic uint32_t spaces;
};

struct bucket;

struct index {
	struct index_opts opts;
	struct region region;
	/* [server][shard]: bucket << 32 | tick of the record that goes first; NOT_ONE: none. A hint. */
	_Atomic uint64_t *first_used;
	uint32_t n_shards, orders_each;
	struct bucket *buckets;
	size_t n_table;			/* number of buckets */
	size_t fixed_bytes;		/* of the region, in no arena */
	struct index_readers *readers;
	struct claim *claims;
	struct stop *stops;		/* as many as claims */
	uint32_t n_claims;
	uint64_t reserve_pages;		/* pages that claims may add before the oldest claim expires */
	int64_t reserve_step;		/* a group adds to <speculative> so many at once */
	/* Every match reads the fields above; every commit writes those below. */
	_Alignas(64) _Atomic int64_t speculative;	/* at most CLAIM_GROUPS * reserve_step off */
	_Atomic uint64_t expired, refused;
	_Alignas(64) _Atomic uint64_t epoch;
	_Atomic uint32_t server_words, n_leaving, tenants_used;
	struct claim_group groups[CLAIM_GROUPS];
	struct server servers[SERVERS_MAX];
	struct tenant tenants[TENANTS_MAX];
	struct shard shards[SHARDS_MAX];
	struct output outputs[SERVERS_MAX];
};

/* ---- access ---- */

static inline void *at(const struct index *ix, arena_ref ref)
{
	return region_at(&ix->region, ref);
}

static inline arena_ref region_ref(const struct region *r, const void *p)
{
	return (arena_ref)((size_t)((const uint8_t *)p - r->base) / ARENA_UNIT);
}

static inline uint32_t shard_of(const struct index *ix, node_id id)
{
	return id & (ix->n_shards - 1);
}

/* Return the entry of <id> in the refs of its shard. */
static inline _Atomic uint32_t *node_kept(const struct index *ix, node_id id)
{
	return &ix->shards[shard_of(ix, id)].refs[id >> SHARD_BITS];
}

static inline _Atomic uint32_t *node_words(const struct node *nd)
{
	return (_Atomic uint32_t *)(uintptr_t)(nd + 1);
}

static inline arena_ref *node_records(const struct node *nd)
{
	return (arena_ref *)(uintptr_t)(node_words(nd) + nd->cap);
}

static inline uint32_t node_end(const struct node *nd)
{
	return nd->start + nd->n_pages;
}

/* Return the first block that begins at page <start> or later, and the end of those that end at
 * page <end> or before. */
static inline uint32_t first_block(uint32_t start)
{
	return start / DIGEST_PAGES + (start % DIGEST_PAGES != 0);
}

static inline uint32_t end_block(uint32_t end)
{
	return end / DIGEST_PAGES;
}

/* Return the number of digests of a node. */
static inline uint32_t digests_of(uint32_t start, uint32_t n_pages)
{
	uint32_t first = first_block(start), end = end_block(start + n_pages);

	return first < end ? end - first : 0;
}

static inline page_key *node_pages(const struct node *nd)
{
	return (page_key *)(uintptr_t)(node_records(nd) + nd->cap);
}

static inline uint64_t *node_digests(const struct node *nd)
{
	return node_pages(nd) + nd->n_pages;
}

static inline int64_t room_of(const struct node *nd, uint32_t pages)
{
	return (int64_t)pages * nd->page_room;
}

static inline uint32_t word_of(server_id s, uint32_t extent)
{
	return (uint32_t)s << 16 | extent;
}

static inline server_id word_server(uint32_t w)
{
	return (server_id)(w >> 16);
}

static inline uint32_t word_extent(uint32_t w)
{
	return w & 0xffff;
}

static inline enum index_order order_of(const struct index *ix, server_id s)
{
	return (enum index_order)atomic_load_explicit(&ix->servers[s].order, memory_order_relaxed);
}

/* Return whether the newest page of a server with this order is evicted first. */
static inline bool last_goes(enum index_order o)
{
	return o == INDEX_MRU || o == INDEX_FILO;
}

/* Return whether a record keeps the tick of its first use. */
static inline bool by_entry(enum index_order o)
{
	return o == INDEX_FIFO || o == INDEX_FILO;
}

/* Return whether the oldest page of a server with this order is evicted first. */
static inline bool by_time(enum index_order o)
{
	return o == INDEX_LRU || o == INDEX_FIFO;
}

static inline uint32_t tick_of(msec now)
{
	return (uint32_t)((uint64_t)now >> 4);
}

#define TICK_AGE_MAX	(1u << 30)	/* half a year; older counts as that */

/* Return the tick of <ago> before <now>. That may lie before the start of the clock, which is the
 * boot of this machine: other agents tell what they used before. */
static inline uint32_t tick_ago(msec now, msec ago)
{
	return tick_of(now - (ago < (msec)TICK_AGE_MAX << 4 ? ago : (msec)TICK_AGE_MAX << 4));
}

static inline bool tick_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline uint16_t room_at_most(uint32_t room)
{
	return room < ROOM_MAX ? (uint16_t)room : ROOM_MAX;
}

static inline uint16_t space_page_room(const struct space_key *space)
{
	return space->page_room == 0 ? 1 : room_at_most(space->page_room);
}

/* The page keys of one prompt, borrowed from the caller. */
struct page_run {
	const page_key *p;
	uint32_t n;
};

/* Limit <n> pages to opts.max_pages. */
static inline struct page_run page_run(const struct index *ix, const page_key *p, size_t n)
{
	return (struct page_run){ p, n < ix->opts.max_pages ? (uint32_t)n : ix->opts.max_pages };
}

static inline uint64_t shard_bit(const struct index *ix, node_id id)
{
	return 1ull << shard_of(ix, id);
}

static inline bool server_ready(const struct index *ix, server_id s)
{
	return s < SERVERS_MAX &&
	       atomic_load_explicit(&ix->servers[s].leaving, memory_order_relaxed) == 0;
}

#endif

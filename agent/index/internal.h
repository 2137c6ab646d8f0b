/* internal.h - what the files of the index share: nodes, records, shards, and who may touch what.
 *
 *   region:  [ child table | claims, stops | shard 0: ids, arena | shard 1: ids, arena | ... ]
 *
 * A node is an object in the arena of its shard. What a reader looks at (place, pages) never
 * changes after the object was published: a node that grows, splits, joins or is cut gets a new object,
 * and the old one waits until no reader can see it (grace.c). Only owner words change in place.
 * A node keeps its id over all that; the id's low bits are its shard. Of a split, the lower part keeps
 * the id, so that entries of the children, which are keyed by their parent's id, stay as they are.
 *
 * Readers take no lock: child table -> object -> owner words. A reader whose walk ends at an object
 * that is <superseded> by then walks again.
 * Writers lock the shards of all nodes they change, in ascending order. lock(shard of N) guards
 *   N's current object, owner words, n_children, child_xor    the records and claims on N
 *   N's entry in the child table                              the lists in which those records are
 *
 * What must hold whenever a node's shard and its parent's are locked (index_check() says so):
 *   - a server on a node holds the whole of the node above it, up to the first page of the space
 *   - a record's extent is the whole node if it has children, else the longer of what is held and
 *     what claims reach
 *   - a node but the root has an owner; its last page has one; it is not alone below its parent,
 *     unless both together were longer than EDGE_MAX or there are claims on the parent. A node that
 *     there was no room to make so has slack and is in a list; shrink.c looks at it again
 *   - a record is in the lists exactly if it has neither children nor claims */
#ifndef KVROUTE_INDEX_INTERNAL_H
#define KVROUTE_INDEX_INTERNAL_H

#include <stdatomic.h>

#include "agent/base/mem.h"
#include "agent/index/arena.h"
#include "agent/index/index.h"

#define SHARD_BITS	6u
_Static_assert(SHARDS_MAX == 1u << SHARD_BITS, "an id's low bits name each shard");
#define EDGE_MAX	512u		/* pages on a node: what copying one costs at most */
#define EVICT_MAX	64u		/* work in one call: a record, or more where nodes are copied (shrink.c) */
#define STILL_MAX	64u		/* tries in a row that bring a claim no page further, as others change the tree */
#define ORDERS_MAX	INDEX_PRIORITIES	/* lists of a server that goes by hits or priority */
#define ROOM_LEAST	6144u		/* the largest object there is with a few owners */
#define NODE_MOST	(sizeof(struct node) + SERVERS_MAX * 2 * sizeof(uint32_t) + EDGE_MAX * sizeof(page_key))
#define FREE_PART	32u		/* a tick keeps one part of so many of a shard free; a small one's spare is as much */
#define TRIM_PAGES	EDGE_MAX	/* of a record in one go when bytes are needed: all, as a shorter copy needs room */

typedef uint32_t node_id;	/* local number << SHARD_BITS | shard; 0 is none */

enum node_kind { NODE_EDGE, NODE_ROOT };

/* Behind it: owner words [cap], records of them [cap], page keys [n_pages]. */
struct node {
	_Alignas(8) node_id id;
	node_id parent;
	uint32_t start;			/* pages above it */
	uint16_t n_pages, cap;
	_Atomic uint16_t n_slots;	/* owner words in use, some of them 0 */
	uint8_t kind;
	_Atomic uint8_t superseded;
	_Atomic uint32_t n_children;	/* read by matches without the lock */
	node_id child_xor;		/* of all children's ids: with one child, its id */
	uint32_t serial;		/* no other object of the shard has had it for a long time */
	uint32_t link;			/* the next that waits for readers to leave, or the next with slack */
	uint8_t tenant;
	uint8_t dead : 1;		/* its id goes with it */
	uint8_t slack : 1;		/* it is in its shard's list of nodes with slack, by <link> and <slack_prev> */
	uint16_t page_room;		/* of each of its pages; a root: 0 */
	uint16_t n_owners;
	node_id slack_prev;
};

_Static_assert(sizeof(struct node) == 48, "what is behind a node is in words of 8 bytes");

struct links {
	arena_ref prev, next;
};

/* One server on one node. */
struct record {
	node_id node;
	server_id server;
	uint16_t extent;		/* pages of the node, from its start; as in the owner word */
	uint16_t held;			/* of those, confirmed */
	uint8_t hits;
	uint8_t priority : 5, listed : 1;
	uint32_t n_children;		/* records of the server on children of the node */
	uint32_t claims;		/* the deepest stop of claims on it; 0: none */
	uint32_t used;			/* ticks */
	struct links in[2];		/* BY_ORDER of (shard, server), BY_AGE of (shard, tenant) */
	arena_ref slab;			/* that it lies in */
};

enum { BY_ORDER, BY_AGE };

#define RECORD_BYTES	48u		/* of each in a slab: refs count in units of 16 */
_Static_assert(sizeof(struct record) <= RECORD_BYTES, "a record fits into its place");

/* Records lie together, SLAB_RECORDS in one block of the arena: each on its own would lie between nodes, and what
 * these leave would never again be room for a long one. In front of them: */
struct slab {
	arena_ref next, prev;		/* of those in the shard that have room */
	arena_ref free;			/* the first free record; they are in a list by their first word */
	uint32_t n_used;
};

#define SLAB_RECORDS	20u
_Static_assert(sizeof(struct slab) == ARENA_UNIT, "records begin where refs can name them");

/* Where claims on one record end: all that reach the same depth share one. So a record that thousands hang on
 * has few of them, the deepest first, and what happens to the record is done to these. */
struct stop {
	_Atomic node_id node;
	arena_ref record;
	uint32_t depth;			/* pages from the start; never changes while a claim is here */
	uint32_t first;			/* claim */
	uint32_t deeper, shallower;	/* on the same record */
};

/* <stop> to <prev> are guarded by the shard of the stop's node, <stop> may be read by who is at
 * work on the claim; the links of free ones by their group; those of the open ones, <added_room>
 * and <tick> by the group of the server. */
struct claim {
	uint32_t stop;			/* 0: at the root with nothing yet, or on no record any more */
	uint32_t spare;			/* a stop that nobody uses. Of the claims at one stop, all but one have one */
	uint32_t next, prev;		/* at the same stop */
	uint32_t older, newer;		/* open ones of the group; of a free one <older> is the next free one */
	uint32_t older_same, newer_same;	/* and of the server */
	uint32_t added_room;		/* of the pages the server did not hold before */
	uint32_t tick;			/* when it was opened */
	_Atomic uint32_t generation;
	_Atomic server_id server;
	_Atomic uint8_t state;
	uint8_t priority;
	uint16_t page_room;		/* of its space */
	uint16_t part_room;		/* of the page that its prompt fills in part; 0: it is not counted */
};

_Static_assert(sizeof(struct claim) == 52, "there are many of them");

enum claim_state { CLAIM_FREE, CLAIM_GROWING, CLAIM_OPEN, CLAIM_CLOSING };

#define CLAIM_GROUPS	16u	/* so that those who open and close claims of different servers seldom meet */
#define NO_CLAIM	UINT64_MAX

struct claim_group {		/* of the servers with the same number modulo CLAIM_GROUPS */
	_Alignas(64) _Atomic uint32_t locked;	/* guards the rest; no other lock is taken under it */
	_Atomic uint32_t n_open;
	uint32_t free, oldest, newest;
	_Atomic uint64_t oldest_tick;	/* of the oldest; NO_CLAIM: there is none */
	uint64_t confirmed, cancelled;
};

struct ends {
	arena_ref first, last;		/* first goes first */
};

struct shard {
	_Alignas(64) _Atomic uint32_t locked;
	struct arena arena;
	uint32_t *refs;			/* [id >> SHARD_BITS]: the current object, counted from the arena's first + 1;
					 * a free id: the next free one | ID_FREE; 0: neither */
	uint32_t n_ids, max_ids, free_id;
	uint32_t serial;
	struct ends by_age[TENANTS_MAX];
	struct ends *orders;		/* [server * buckets + bucket] */
	arena_ref slabs;		/* the first with room for a record */
	_Atomic int64_t tenant_bytes[TENANTS_MAX];	/* of nodes; changed under the lock */
	uint32_t waiting, n_waiting;	/* objects that are superseded, by link */
	uint32_t closed;		/* those that only readers of <closed_at> and before can see */
	uint64_t closed_at;
	size_t late;			/* bytes of both */
	arena_ref spare;		/* so that what makes things smaller finds room to do it; 0: it was used */
	uint32_t spare_bytes;		/* enough for the largest node, where the arena is not a small one */
	bool lacked;			/* it did not, since the last tick */
	uint8_t short_ticks;		/* ticks in a row that found it so */
	node_id slack_first, slack_last;	/* nodes that could be smaller, and found no room to become so */
	_Atomic uint32_t n_slack;
	struct {
		uint64_t nodes, spaces, records, pages, commits, evicted_records, evicted_pages;
	} st;
};

#define NOT_ONE	UINT64_MAX
#define ID_FREE	0x80000000u	/* in <refs>; an arena has 2^28 refs at most */
_Static_assert(ARENA_BYTES_MAX / ARENA_UNIT < ID_FREE, "the ref of an object is no free id");

struct reader {
	_Alignas(64) _Atomic uint64_t at;	/* the epoch in which it came in; 0: it is out */
	_Atomic uint64_t matches;
	_Atomic uint32_t taken;
};

#define READERS_MAX	256u

struct server {
	_Alignas(64) _Atomic int64_t room;	/* of what it holds and claims */
	_Atomic int64_t speculative;	/* of that, what its open claims have added */
	_Atomic int64_t parts;		/* of the part pages of its open claims */
	_Atomic uint64_t capacity;
	_Atomic uint32_t leaving, drops;
	_Atomic uint64_t output;	/* room of what it generated */
	_Atomic uint8_t order;		/* enum index_order; never changes while it has records */
	uint32_t oldest_claim, newest_claim;	/* open ones; guarded by its group */
};

#define OUTPUT_BUCKETS	64u

struct output_bucket {
	uint32_t tick, room;
};

struct output {
	_Atomic uint32_t locked;	/* guards the rest; no other lock is taken under it */
	uint32_t first, n;
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
	_Atomic uint64_t *first_used;	/* [server][shard]: a hint at its first record; NOT_ONE: there is none */
	uint32_t n_shards, orders_each;
	struct bucket *buckets;
	size_t n_table;			/* buckets */
	size_t fixed_bytes;		/* of the region, in no arena */
	struct claim *claims;
	struct stop *stops;		/* as many */
	uint32_t n_claims;
	uint64_t reserve_pages;		/* that claims may add together before the oldest goes */
	/* every match reads what is above, every commit writes what is below */
	_Alignas(64) _Atomic int64_t speculative;
	_Atomic uint64_t expired, refused;
	_Alignas(64) _Atomic uint64_t epoch;
	_Atomic uint32_t server_words, n_leaving, readers_used, tenants_used;
	struct claim_group groups[CLAIM_GROUPS];
	struct server servers[SERVERS_MAX];
	struct tenant tenants[TENANTS_MAX];
	struct shard shards[SHARDS_MAX];
	struct reader readers[READERS_MAX];
	struct output outputs[SERVERS_MAX];
};

/* ---- objects ------------------------------------------------------------------------------- */

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

static inline _Atomic uint32_t *node_words(const struct node *nd)
{
	return (_Atomic uint32_t *)(uintptr_t)(nd + 1);
}

static inline arena_ref *node_records(const struct node *nd)
{
	return (arena_ref *)(uintptr_t)(node_words(nd) + nd->cap);
}

static inline page_key *node_pages(const struct node *nd)
{
	return (page_key *)(uintptr_t)(node_records(nd) + nd->cap);
}

static inline uint32_t node_end(const struct node *nd)
{
	return nd->start + nd->n_pages;
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

/* Of what such a server has, what came or was used last goes. */
static inline bool last_goes(enum index_order o)
{
	return o == INDEX_MRU || o == INDEX_FILO;
}

/* A record keeps the tick of its first use. */
static inline bool by_entry(enum index_order o)
{
	return o == INDEX_FIFO || o == INDEX_FILO;
}

static inline uint32_t tick_of(msec now)
{
	return (uint32_t)((uint64_t)now >> 4);
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

/* The pages of one prompt, borrowed from the caller. */
struct page_run {
	const page_key *p;
	uint32_t n;
};

static inline struct page_run page_run(const struct index *ix, const page_key *p, size_t n)
{
	return (struct page_run){ p, n < ix->opts.max_pages ? (uint32_t)n : ix->opts.max_pages };
}

/* ---- lock.c ----------------------------------------------------------------------------------- */

void small_lock(_Atomic uint32_t *l);
void small_unlock(_Atomic uint32_t *l);
void shards_lock(struct index *ix, uint64_t mask);
void shards_unlock(struct index *ix, uint64_t mask);
/* Lock <want> as well. False: all were given up on the way, so that what was seen may have changed. */
bool shards_more(struct index *ix, uint64_t *locked, uint64_t want);
/* Of the group of <s>. */
void claims_lock(struct index *ix, server_id s);
void claims_unlock(struct index *ix, server_id s);

static inline uint64_t shard_bit(const struct index *ix, node_id id)
{
	return 1ull << shard_of(ix, id);
}

/* ---- grace.c ---------------------------------------------------------------------------------- */

struct reader *reader_of(struct index *ix, struct index_match *m);
void reader_enter(struct index *ix, struct reader *r);
void reader_leave(struct reader *r);
void node_retire(struct index *ix, struct node *nd);	/* marked superseded by the caller, unlinked */
void node_count_bytes(struct index *ix, const struct node *nd, int sign);	/* its tenant's */
void node_bury(struct index *ix, struct node *nd);	/* the same, and its id is no node any more */
void grace_collect(struct index *ix, struct shard *sh, bool hard);

/* ---- table.c ---------------------------------------------------------------------------------- */

size_t table_bytes(size_t n_buckets);
/* For readers. <hash>: table_hash(parent, first). */
const struct node *table_child(const struct index *ix, uint64_t hash, node_id parent, page_key first);
void table_prefetch(const struct index *ix, uint64_t hash);
const struct node *table_root(const struct index *ix, const struct space_key *space);
/* For writers. The child's object if its shard is in <locked>; else NULL, and its shard's bit is added
 * to <wanted>: one entry or more there may be it. */
struct node *table_find(struct index *ix, node_id parent, page_key first, uint64_t locked, uint64_t *wanted);
struct node *table_find_root(struct index *ix, const struct space_key *space, uint64_t locked, uint64_t *wanted);
bool table_add(struct index *ix, const struct node *nd);		/* false: no room */
void table_move(struct index *ix, const struct node *from, const struct node *to);	/* same parent, same first page */
void table_remove(struct index *ix, const struct node *nd);
uint64_t table_hash(uint64_t a, uint64_t b);
uint64_t node_hash(const struct node *nd);
const char *table_check(struct index *ix, uint64_t n_nodes);	/* spaces too; NULL: it is right */

/* ---- node.c ----------------------------------------------------------------------------------- */

struct node *node_at(struct index *ix, node_id id);	/* NULL: no such node; its shard is locked */
/* An object in <shard> with room for owners and pages, all counts 0; NULL: no room. */
struct node *node_alloc(struct index *ix, uint32_t shard, enum node_kind kind, uint32_t start,
			uint32_t n_pages, uint32_t cap);
/* The same, from the shard's spare memory if it must be: only for what gives more back than it takes. */
struct node *node_alloc_spare(struct index *ix, uint32_t shard, enum node_kind kind, uint32_t start,
			      uint32_t n_pages, uint32_t cap);
void node_spare(struct shard *sh);	/* memory was freed: put some aside for them, if there is not enough */
void node_free(struct index *ix, uint32_t shard, struct node *nd);	/* never published */
arena_ref node_ref(const struct index *ix, const struct node *nd);
node_id id_take(struct index *ix, uint32_t shard);	/* 0: none left */
void id_give(struct index *ix, node_id id);	/* no reader may know it any more */
void node_publish(struct index *ix, struct node *nd);	/* now the object of its id */
int node_slot(const struct node *nd, server_id s);	/* -1: not an owner */
struct record *node_record(const struct index *ix, const struct node *nd, server_id s);
bool node_full(const struct node *nd);			/* no slot for one more owner */
uint32_t node_cap(const struct node *nd);		/* slots that its owners want: a power of two */
void node_own(struct index *ix, struct node *nd, struct record *r);
void node_extent(struct index *ix, struct node *nd, struct record *r, uint32_t extent);
void node_disown(struct index *ix, struct node *nd, struct record *r);
uint32_t node_reach(const struct node *nd);		/* the longest extent of an owner */
void node_copy_owners(const struct index *ix, const struct node *from, struct node *to);
/* Count the keys of <run>, from its page <from> on, that are the same on <nd>. */
uint32_t node_same(const struct node *nd, const struct page_run *run, uint32_t from);
/* Copy the keys of <from> that are on <to> too; those of pages beyond <from> come from <run>. */
void node_fill(struct node *to, const struct node *from, const struct page_run *run);
void node_fill_new(struct node *nd, const struct page_run *run);
uint32_t node_owned(const struct node *nd, server_id s);	/* pages, 0: not an owner */
/* The same node as a new object of <n_pages> pages and room for <cap> owners; pages that both have
 * are there. In the place of <nd>, which is retired. NULL: no room. */
struct node *node_remake(struct index *ix, struct node *nd, uint32_t n_pages, uint32_t cap,
			 const struct page_run *run);

/* ---- record.c --------------------------------------------------------------------------------- */

struct record *record_new(struct index *ix, struct node *nd, server_id s);	/* NULL: no room */
void record_free(struct index *ix, struct record *r);
void record_list(struct index *ix, struct record *r);		/* into the lists */
void record_unlist(struct index *ix, struct record *r);
void record_touch(struct index *ix, struct record *r, uint32_t tick, uint8_t priority);
void record_recall(struct index *ix, struct record *r, uint32_t tick, uint8_t hits, uint8_t priority);
bool first_before(enum index_order o, uint64_t a, uint64_t b);	/* of two hints of a server: <a> goes first */
struct record *order_first(struct index *ix, struct shard *sh, server_id s);
/* The next in the list after <r>, which goes now, will go soon: ask for their memory. The shard is locked. */
void order_ahead(struct index *ix, const struct shard *sh, const struct record *r, unsigned list);
arena_ref record_ref(const struct index *ix, const struct record *r);
struct shard *record_shard(struct index *ix, const struct record *r);

/* ---- shrink.c: what nobody has a reason to hold goes ----------------------------------------------- */

/* Bring <r> to the extent that it has a reason for, and so on upwards. It is on <nd>; this and its parent are
 * locked, as <locked> says, and on return nothing is. <c>: the claim that was the reason, which goes up with it and
 * is off all records at the end; 0: what is above is held. Returns the work that it was: 1 for each record, and more
 * where nodes were copied and joined. */
uint32_t record_settle(struct index *ix, struct node *nd, struct node *parent, struct record *r, uint64_t locked,
		       uint32_t c);
/* <nd> could be smaller. Its shard is locked, as for the next two. */
void slack_note(struct index *ix, struct node *nd);
void slack_forget(struct index *ix, struct node *nd);	/* or not */
void slack_move(const struct node *nd, struct node *to);	/* <to> is the node with this id from now on */
/* Make nodes with slack smaller, of <shard>; no lock is held by the caller. */
void slack_settle(struct index *ix, uint32_t shard);
/* No lock is held by the caller of these. Take pages from the end of a record that may go;
 * returns the work. */
struct cut {
	uint32_t pages;		/* at most, */
	uint64_t room;		/* and no more than what gives back so much */
	bool evicted;		/* they count as that */
};
uint32_t record_cut(struct index *ix, node_id id, server_id server, const struct cut *c);
uint32_t node_join(struct index *ix, node_id id);	/* with its only child, if it has just one and that is right; the work */

/* ---- grow.c ------------------------------------------------------------------------------------- */

enum grown { GROW_DONE, GROW_ON, GROW_NO_ROOM };

struct growth {			/* one claim on its way down */
	struct index *ix;
	struct page_run pages;
	const struct space_key *space;
	const struct index_match *m;	/* of the same pages, or NULL */
	uint32_t c, tick;
	uint8_t recalled;		/* hits, when the claim is one of a snapshot; else 0 */
	uint32_t full;			/* the shard that had no room */
	bool crowded;			/* or the tenant has all the spaces it may have */
	node_id left, left_above;	/* nodes with one child only, without a claim or next to a split; or 0 */
};

enum grown grow_from_cursor(struct growth *g);
enum grown grow(struct growth *g);		/* a few steps */
bool node_split(struct index *ix, struct node *parent, struct node *nd, uint32_t k);
struct record *node_give(struct index *ix, struct node **nd, struct record *up, server_id s, uint32_t extent);
void root_remove(struct index *ix, struct node *root);	/* it has no children */

/* ---- claim.c ------------------------------------------------------------------------------------ */

void claims_init(struct index *ix);		/* all are free */
/* 0: none is free, and none may go for it: <expire> says if the oldest may. */
uint32_t claim_take(struct index *ix, server_id server, uint8_t priority, const struct space_key *space, bool expire);
/* It has grown: from now on others know it. True: claims have added more than there is room for. */
bool claim_open(struct index *ix, uint32_t c, uint32_t tick, index_claim *id);
/* On <r>, whose node is locked. O(stops of it that are deeper), EDGE_MAX at most. */
void claim_attach(struct index *ix, uint32_t c, struct record *r, uint32_t depth);
void claim_detach(struct index *ix, uint32_t c);	/* from its record, whose node is locked */
/* Those on <from> that reach <depth> pages at most are on <to> from now on, which may be the same record on another node. */
void claims_move(struct index *ix, struct record *from, struct record *to, uint32_t depth);
void claim_hold(struct index *ix, uint32_t c, uint32_t tick);	/* it has grown, and is confirmed unopened */
/* The record that it was on, with the node and its parent locked; NULL: it has not left the root, and nothing is. */
struct record *claim_off(struct index *ix, uint32_t c, struct node **nd, struct node **parent, uint64_t *locked);
void claim_drop(struct index *ix, uint32_t c);			/* it did not grow to the end */
/* Nobody else knows it any more, and it is to be held or dropped. 0: it is not known. */
uint32_t claim_close(struct index *ix, index_claim id, bool confirmed);
/* The oldest goes, of all or of a server; O(1). False: there is none. <but_last>: or only one. */
bool claim_expire(struct index *ix, bool but_last);
bool claim_expire_of(struct index *ix, server_id s);
bool claims_too_many(const struct index *ix);	/* they have added more than there is room for */

static inline struct claim *claim_at(const struct index *ix, uint32_t c)
{
	return &ix->claims[c];
}

/* Pages that <cl> has added, as far as they are counted in bytes: where room has changed, about
 * so many. */
static inline int64_t claim_pages(const struct claim *cl)
{
	return cl->added_room / cl->page_room;
}

/* Prompts that are too large for the counter take all that it can say. */
static inline void claim_add_room(struct claim *cl, int64_t room)
{
	uint64_t sum = cl->added_room + (uint64_t)room;

	cl->added_room = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

static inline struct stop *stop_at(const struct index *ix, uint32_t k)
{
	return &ix->stops[k];
}

/* Pages of its node that claims on <r> reach. O(1). */
static inline uint32_t claim_reach(const struct index *ix, const struct record *r, uint32_t start)
{
	return r->claims ? stop_at(ix, r->claims)->depth - start : 0;
}

/* Where a claim ends that its caller is at work on; 0: at the root. */
static inline uint32_t claim_depth(const struct index *ix, uint32_t c)
{
	return stop_at(ix, claim_at(ix, c)->stop)->depth;
}

static inline node_id claim_node(const struct index *ix, uint32_t c)
{
	return atomic_load_explicit(&stop_at(ix, claim_at(ix, c)->stop)->node, memory_order_relaxed);
}

static inline server_id claim_server(const struct index *ix, uint32_t c)
{
	return atomic_load_explicit(&claim_at(ix, c)->server, memory_order_relaxed);
}

/* ---- evict.c ------------------------------------------------------------------------------------ */

/* Another try in <shard> may do. Nothing is evicted the <first> time if there is room once old objects are
 * collected. <*work>: records that may still be worked on. */
bool make_room(struct index *ix, uint32_t shard, bool first, uint32_t *work);
/* The same, for one space more of <tenant>: what it used longest ago goes. */
bool make_space(struct index *ix, uint32_t tenant, uint32_t *work);
void keep_capacity(struct index *ix, server_id s, uint32_t *work);
void keep_reserve(struct index *ix, uint32_t *work);

/* ---- output.c ----------------------------------------------------------------------------------- */

/* Take up to <most> room of what <s> generated, if it goes before its record of the tick <used>.
 * False: it does not. */
bool output_cut(struct index *ix, server_id s, bool is_record, uint32_t used, uint64_t most);
void output_drop(struct index *ix, server_id s);

/* ---- index.c --------------------------------------------------------------------------- */

void know_server(struct index *ix, server_id s);	/* before it owns anything */

struct held_end {		/* as a snapshot tells it */
	struct space_key space;
	server_id server;
	uint8_t hits, priority;
	uint32_t tick;
};

/* The server holds all of <pages>. False: there is no room without evicting. They should come with the last
 * used first. */
bool commit_held(struct index *ix, const page_key *pages, size_t n, const struct held_end *h);

static inline bool server_ready(const struct index *ix, server_id s)
{
	return s < SERVERS_MAX && atomic_load_explicit(&ix->servers[s].leaving, memory_order_relaxed) == 0;
}

#endif

/* tree_in.h - the tree: child table, nodes, records, and how they grow and shrink.
 *
 * Unless a comment says otherwise, the caller has locked the shards of the nodes that it passes. */
#ifndef KVROUTE_INDEX_TREE_IN_H
#define KVROUTE_INDEX_TREE_IN_H

#include "agent/base/hash.h"
#include "agent/index/lock_in.h"

/* ---- table.c: (parent, first page) -> node ---- */

/* Odd numbers without a pattern. They need not be secret, because page keys are keyed hashes. */
#define HASH_SEED_A	0x9e3779b97f4a7c15u
#define HASH_SEED_B	0xd6e8feb86659fd93u

static inline uint64_t table_hash(uint64_t a, uint64_t b)
{
	return hash_folded(a ^ HASH_SEED_A, b ^ HASH_SEED_B);
}

static inline uint64_t node_hash(const struct node *nd)
{
	const page_key *p = node_pages(nd);

	return nd->kind == NODE_ROOT ? table_hash(p[0], ~p[1]) : table_hash(nd->parent, p[0]);
}

size_t table_bytes(size_t n_buckets);

/* Find a child or the root of a space, for readers without a lock. <hash>: table_hash(parent,
 * first). Return NULL if there is none. */
const struct node *table_child(
    const struct index *ix, uint64_t hash, node_id parent, page_key first);
const struct node *table_root(const struct index *ix, const struct space_key *space);

/* Prefetch the first bucket of <hash>. */
void table_prefetch(const struct index *ix, uint64_t hash);

/* Find the same for a writer. Return NULL if it is not in a shard of <locked>, and add to <*wanted>
 * the bits of the shards that may have it. */
struct node *table_find(
    struct index *ix, node_id parent, page_key first, uint64_t locked, uint64_t *wanted);
struct node *table_find_root(
    struct index *ix, const struct space_key *space, uint64_t locked, uint64_t *wanted);

/* Add the entry of <nd>. Returns false if its buckets are full. */
bool table_add(struct index *ix, const struct node *nd);

/* Let the entry of <from> point to <to>, which has the same parent and first page. */
void table_move(struct index *ix, const struct node *from, const struct node *to);
void table_remove(struct index *ix, const struct node *nd);

/* Check that the table has one correct entry for each of <n_nodes> nodes and spaces. Returns NULL,
 * or a sentence. For tests; here because the layout of a bucket is private. */
const char *table_check(struct index *ix, uint64_t n_nodes);

/* ---- node.c ---- */

/* Return the current object of <id>, or NULL if there is no such node. */
static inline struct node *node_at(struct index *ix, node_id id)
{
	struct shard *sh = &ix->shards[shard_of(ix, id)];
	uint32_t i = id >> SHARD_BITS, kept;

	if (i == 0 || i > sh->n_ids)
		return NULL;
	kept = atomic_load_explicit(&sh->refs[i], memory_order_relaxed);
	if (kept == 0 || (kept & ID_FREE) != 0)
		return NULL;
	return at(ix, kept - 1 + sh->first);
}

/* Prefetch the first <lines> cache lines of the current object of <id>. Its shard need not be
 * locked. */
void node_prefetch(const struct index *ix, node_id id, unsigned lines);

/* Return the era of <nd>; 0 if it has none. */
static inline uint32_t node_era(const struct node *nd)
{
	return nd->slack ? 0 : nd->era;
}

/* Allocate an object in <shard> with room for <cap> owners and <n_pages> pages; all counts are 0.
 * Returns NULL if there is no memory. */
struct node *node_alloc(struct index *ix, uint32_t shard, enum node_kind kind, uint32_t start,
    uint32_t n_pages, uint32_t cap);

/* Do the same, and use the spare memory of the shard if necessary. Only for operations that free
 * more than they take. */
struct node *node_alloc_spare(struct index *ix, uint32_t shard, enum node_kind kind,
    uint32_t start, uint32_t n_pages, uint32_t cap);

/* Refill the spare memory of <sh> if it is short, after memory was freed. */
void node_spare(struct shard *sh);
void node_free(struct index *ix, uint32_t shard, struct node *nd);	/* one never published */
arena_ref node_ref(const struct index *ix, const struct node *nd);
node_id id_take(struct index *ix, uint32_t shard);	/* 0: none left */
void id_give(struct index *ix, node_id id);		/* no reader may know it any more */

/* Make <nd> the current object of its id. */
void node_publish(struct index *ix, struct node *nd);

/* Return the slot, the record, or the number of pages of server <s>; -1, NULL or 0: no owner. */
int node_slot(const struct node *nd, server_id s);
struct record *node_record(const struct index *ix, const struct node *nd, server_id s);
uint32_t node_owned(const struct node *nd, server_id s);

bool node_full(const struct node *nd);		/* no slot is left for one more owner */
uint32_t node_cap(const struct node *nd);	/* slots for its owners: a power of two */
uint32_t node_reach(const struct node *nd);	/* longest extent of an owner */

/* Add the owner of <r>; set its extent; remove it. The room of the server follows. */
void node_own(struct index *ix, struct node *nd, struct record *r);
void node_extent(struct index *ix, struct node *nd, struct record *r, uint32_t extent);
void node_disown(struct index *ix, struct node *nd, struct record *r);

/* Add the owner of <r> without its room: a split or a join hardly ever changes that, and all
 * threads write it. */
void node_put(struct index *ix, struct node *nd, struct record *r);
void node_copy_owners(const struct index *ix, const struct node *from, struct node *to);

/* Replace <nd> by an object of <n_pages> pages with room for <cap> owners, and retire <nd>. New
 * pages come from <run>. Returns the object, or NULL if there is no memory. */
struct node *node_remake(struct index *ix, struct node *nd, uint32_t n_pages, uint32_t cap,
    const struct page_run *run);

/* ---- pages.c ---- */

/* Count the keys of <run>, from its page <from> on, that are the same on <nd>. */
uint32_t node_same(const struct node *nd, const struct page_run *run, uint32_t from);

/* Prefetch the keys of <nd> after its last block, and its first digest. */
void node_pages_ahead(const struct node *nd);

/* Copy the keys of <from> that <to> covers too; keys of pages after <from> come from <run>. */
void node_fill(struct node *to, const struct node *from, const struct page_run *run);
void node_fill_new(struct node *nd, const struct page_run *run);

/* Copy the keys of <nd> and of its only child. */
void node_fill_joined(struct node *to, const struct node *nd, const struct node *child);

/* Return whether each digest is that of its keys. For tests. */
bool node_digests_right(const struct node *nd);

/* ---- record.c ---- */

struct record *record_new(struct index *ix, struct node *nd, server_id s);	/* NULL: no memory */
void record_free(struct index *ix, struct record *r);
arena_ref record_ref(const struct index *ix, const struct record *r);
struct shard *record_shard(struct index *ix, const struct record *r);

static inline struct slab *record_slab(const struct index *ix, const struct record *r)
{
	const uint32_t units = RECORD_BYTES / ARENA_UNIT;

	return at(ix, record_ref(ix, r) - r->in_slab * units - 1);
}

/* Return whether a record may be evicted. One that is not held to its end is about to be settled by
 * a thread. */
static inline bool record_may_go(const struct record *r)
{
	return r->n_children == 0 && r->claims == 0 && r->held >= r->extent;
}

/* Put a record into the lists if it may be evicted; take it out. */
void record_list(struct index *ix, struct record *r);
void record_unlist(struct index *ix, struct record *r);

/* Count a use at <tick>. */
void record_touch(struct index *ix, struct record *r, uint32_t tick, uint8_t priority);

/* Count a use that a snapshot reports, with <hits>. */
void record_recall(
    struct index *ix, struct record *r, uint32_t tick, uint8_t hits, uint8_t priority);

/* Return the record of <s> in <sh> that is evicted first, or NULL. */
struct record *order_first(struct index *ix, struct shard *sh, server_id s);

/* ---- ahead.c: prefetch what evictions read ---- */

/* Prefetch what removing <r>, on <nd>, reads; it is in no list yet. */
void record_ahead(struct index *ix, const struct record *r, const struct node *nd);

/* Prefetch the records that follow <r> in its list, because they are evicted soon after it. */
void order_ahead(struct index *ix, const struct record *r, unsigned list);

/* Prefetch what removing the next few records of <s> reads, after one used at <used>, in the shards
 * that no other thread has locked. The caller holds no lock. Worth it if most of them are evicted
 * now. */
void server_ahead(struct index *ix, server_id s, uint32_t used);

/* ---- shrink.c: pages, records and nodes without a reason are removed ---- */

/* Set the extent of <r> to what claims, children and held pages need, and go on upwards. <r> is on
 * <nd>; <locked> covers <nd> and <parent>, and nothing is locked on return. <c>: the claim that was
 * the reason; it goes up with it and is off all records at the end. 0: the pages above are held.
 * Returns the work done: 1 a record, more if nodes were copied or joined. */
uint32_t record_settle(struct index *ix, struct node *nd, struct node *parent, struct record *r,
    uint64_t locked, uint32_t c);

/* Note that <nd> could be smaller; forget it; <to> replaces <nd> under the same id, and has its
 * era. */
void slack_note(struct index *ix, struct node *nd);
void slack_forget(struct index *ix, struct node *nd);
void slack_move(const struct node *nd, struct node *to);

static inline uint32_t slack_nodes(const struct index *ix, uint32_t shard)
{
	return atomic_load_explicit(&ix->shards[shard].n_slack, memory_order_relaxed);
}

/* Try again to make nodes with slack smaller. The caller holds no lock, as for the next two. */
void slack_settle(struct index *ix, uint32_t shard);

struct cut {
	uint32_t records;	/* at most: the first, and those above it that go next */
	uint32_t pages;		/* of each, at most */
	uint64_t room;		/* no more pages than free so much */
	bool evicted;		/* count them as evicted */
	bool old_only;		/* only if they were used until the server's horizon (evict_in.h) */
	struct record *next;	/* private: the record above, if it goes next */
};

/* Cut pages from the end of a record, if it is in the lists, and of those above it. Returns the
 * work done. */
uint32_t record_cut(struct index *ix, node_id id, server_id server, struct cut c);

/* Do the same with a record in the lists. The caller has locked its shard and no other; nothing is
 * locked on return. */
uint32_t record_cut_locked(struct index *ix, struct record *r, struct cut c);

/* Cut the record of <server> on <*id>, if it ends at page <*end> and may be evicted, down to <keep>
 * pages from the root. Sets <*end> to where that node began, and <*id> to the node above; 0: the
 * cut ends here. Returns the room of the pages. */
uint32_t record_let_go(
    struct index *ix, server_id server, node_id *id, uint32_t *end, uint32_t keep);

/* Join a node with its only child, if it may. Returns the work done. */
uint32_t node_join(struct index *ix, node_id id);

/* ---- grow.c ---- */

enum grown { GROW_DONE, GROW_ON, GROW_NO_ROOM };

/* One claim on its way down. */
struct growth {
	struct index *ix;
	struct page_run pages;
	const struct space_key *space;
	const struct index_match *m;	/* of the same pages, or NULL */
	uint32_t c, tick;
	uint8_t recalled;		/* hits, if a snapshot is being loaded; else 0 */
	node_id end;			/* once it is done: the node where the claim ended then */
	uint32_t era;			/* of that node */
	uint32_t full;			/* the shard that had no memory */
	bool crowded;			/* instead, the tenant has as many spaces as it may have */
	node_id left, left_above;	/* nodes that may be joined with their only child now, or 0 */
};

/* Start at the end of the match instead of the root. */
enum grown grow_from_cursor(struct growth *g);

/* Start at <at>, and set <is> to what has come of it; pages before it are not read. Returns false,
 * with the claim still at the root, if the place is not known to be the same, or if the server has
 * no record where it ends. */
struct index_place;
bool grow_from_place(struct growth *g, const struct index_place *at, enum grown *is);

/* Do a few steps. */
enum grown grow(struct growth *g);

/* Make pages [0, k) of <nd> a node of its own above the rest, which keeps the id. Returns false,
 * and changes nothing, if there is no memory. */
bool node_split(struct index *ix, struct node *parent, struct node *nd, uint32_t k);

/* Make <s> an owner of at least <extent> pages of <*nd>, which may be replaced by a larger object.
 * <up>: its record on the node above; NULL at the root. Returns its record, or NULL: no memory. */
struct record *node_give(
    struct index *ix, struct node **nd, struct record *up, server_id s, uint32_t extent);

/* Remove a root without children. */
void root_remove(struct index *ix, struct node *root);

/* ---- place.c ---- */

/* Lock the shard of the node on which <at> ends, and return the node. Returns NULL, with nothing
 * locked, if the place is not known to be the same. */
struct node *place_lock(struct index *ix, const struct index_place *at, uint64_t *locked);

/* ---- index.c ---- */

/* Note the number of a server before it owns anything. */
void know_server(struct index *ix, server_id s);

/* The end of a prefix that a server holds, as a snapshot describes it. */
struct held_end {
	struct space_key space;
	server_id server;
	uint8_t hits, priority;
	uint32_t tick;
};

/* Let the server hold all <n> pages, and write to <end> where they end. A load of a snapshot calls
 * it for the last used end first. Returns false if there is no room without an eviction. */
bool commit_held(struct index *ix, const page_key *pages, size_t n, const struct held_end *h,
    struct index_place *end);

#endif

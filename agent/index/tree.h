/* tree.h - inside the index: the structs its files share. Nobody else includes this.
 *
 *   index -> table -> space.root          Every node hangs in one table under (parent, first page),
 *                       |                 every space under its key, so a walk is one probe a node
 *                     node -- owners[]    and no node has a table of its own.
 *                      / \       |
 *                  node   node  record    A record is a server on a node. It is in two rings: its
 *                                         server's (all of them) and the LRU (those not pinned).
 *
 * All functions here want the lock of the index held: for writing, but those that take a const
 * struct index, for which reading is enough. */
#ifndef KVROUTE_INDEX_TREE_H
#define KVROUTE_INDEX_TREE_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/base/list.h"
#include "agent/base/mem.h"
#include "agent/index/index.h"

struct record {
	struct list lru;	/* in index.lru when n_claims is 0, else alone */
	struct list mine;	/* in index.servers[server].records */
	struct node *node;
	uint64_t used;		/* index.tick of the last touch */
	uint32_t n_claims;	/* open claims that end at this node or below it; above 0: pinned */
	server_id server;
	bool confirmed;
};

struct owner {
	struct record *rec;
	server_id server;	/* here too, so that a match reads nothing but this array */
};

struct node {
	struct node *parent;	/* NULL: the root of a space, which has no pages and no owners */
	page_key *pages;
	struct owner *owners;	/* by server id */
	struct list children, sibling;
	uint32_t start;		/* pages from the root to the first of these */
	uint32_t n_pages, cap_pages;
	uint32_t n_children;
	uint16_t n_owners, cap_owners;
};

struct space {
	struct node root;	/* first: a root is its space */
	struct space_key key;
};

struct claim {
	struct node *leaf;	/* NULL: the slot is free */
	uint64_t id;		/* the handle; it changes each time the slot is used */
	uint32_t next_free;	/* a slot + 1, 0 at the end */
	server_id server;
};

struct index {
	struct index_opts opts;
	atomic_uint_least64_t n_matches;	/* the one thing that a reader writes */

	pthread_rwlock_t lock;		/* guards everything below */
	size_t bytes, fixed_bytes;	/* as room.c counts them; the part that never goes away */
	uint64_t version;		/* changes whenever a node comes, goes or is cut: for cursors */
	uint64_t tick;			/* one more for each commit, confirm and cancel */
	struct node **slots;
	uint32_t n_slots, used_slots;	/* n_slots is a power of two */
	struct claim *claims;
	uint32_t cap_claims, top_claims, free_claim;	/* slots; ever used; a slot + 1, 0: none */
	struct list lru;		/* of records, oldest first */
	struct {
		struct list records;	/* in order of use, oldest first */
		uint64_t pages;
	} servers[SERVERS_MAX];
	struct index_stats st;		/* all but bytes, max_bytes and matches */
};

/* ---- room.c: bytes ------------------------------------------------------------------------ */

size_t room_cost(size_t n);	/* what <n> bytes of the heap are counted as */
void *room_take(struct index *ix, size_t n);	/* zeroed; NULL: no memory, or above the budget */
void *room_resize(struct index *ix, void *p, size_t from, size_t to);
void room_give(struct index *ix, void *p, size_t n);

/* Evict until <need> more bytes and <slots> more nodes fit. False: all that is left is pinned.
 * Any node may be gone afterwards. */
bool room_make(struct index *ix, size_t need, uint32_t slots);
bool room_fits(const struct index *ix, size_t need, uint32_t slots);

/* ---- table.c: (parent, first page) -> node, key -> space ------------------------------------ */

struct node *table_child(const struct index *ix, const struct node *parent, page_key first);
struct space *table_space(const struct index *ix, const struct space_key *key);
void table_add(struct index *ix, struct node *nd);
void table_del(struct index *ix, struct node *nd);	/* before its parent or first page change */

/* ---- record.c: servers on nodes --------------------------------------------------------------- */

struct record *record_find(const struct node *nd, server_id server);
struct record *record_add(struct index *ix, struct node *nd, server_id server);	/* or NULL */
void record_del(struct index *ix, struct record *r);
void record_touch(struct index *ix, struct record *r);	/* newest; in the LRU unless pinned */
int record_copy_all(struct index *ix, struct node *to, const struct node *from);	/* for a split */
void record_free_all(struct index *ix, struct node *nd);	/* their pages are not counted down */

/* ---- tree.c: nodes ----------------------------------------------------------------------------- */

/* Where a walk ended: <depth> pages matched, the last of them in <node>. */
struct spot {
	struct node *node;	/* NULL: no such space */
	uint32_t depth;
};

static inline uint32_t node_end(const struct node *nd)
{
	return nd->start + nd->n_pages;
}

struct spot tree_walk(const struct index *ix, const struct space_key *key, const page_key *pages,
		      uint32_t n);
struct node *tree_space(struct index *ix, const struct space_key *key);	/* its root; made if new */
struct node *tree_leaf(struct index *ix, struct node *parent, const page_key *pages, uint32_t n);
struct node *tree_split(struct index *ix, struct node *nd, uint32_t k);	/* the new, upper part */
void tree_tidy(struct index *ix, struct node *nd);	/* after <nd> lost a record or a child */
void tree_free_node(struct index *ix, struct node *nd);	/* memory only; records too */

/* ---- claim.c --------------------------------------------------------------------------------- */

index_claim claim_open(struct index *ix, const struct space_key *key, const page_key *pages,
		       uint32_t n, struct spot at, server_id server);
bool claim_close(struct index *ix, index_claim claim, bool confirmed);
bool claim_close_at(struct index *ix, index_claim claim, server_id server);
void claim_drop_server(struct index *ix, server_id server);

#endif

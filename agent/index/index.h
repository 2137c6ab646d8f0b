/* index.h - which server holds which pages: a radix tree for each space, bounded in bytes.
 *
 *   space s:   (root)             A letter is a page; a node is a run of pages and, below it,
 *              /    \             the servers that hold all of them.
 *         [A B C]   [X]
 *          a b c     c            A server on a node is on every node above it, so one walk down
 *          /   \                  finds all. For A B C D E: a holds 4 pages, b and c hold 3.
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
 * All functions may be called from any thread. Nothing here reads a clock: <now> only orders. */
#ifndef KVROUTE_INDEX_INDEX_H
#define KVROUTE_INDEX_INDEX_H

#include "agent/base/types.h"

struct index;

struct index_opts {
	size_t max_bytes;	/* all nodes, records, tables and claims; default 256 MiB;
				 * at least 64 KiB are taken, and one open claim a KiB */
	uint32_t max_pages;	/* of one prompt; what is beyond is neither matched nor kept; 65536 */
};

void index_defaults(struct index_opts *o);
struct index *index_new(const struct index_opts *o);
void index_free(struct index *ix);

/* What may share cache, hashed by the caller from all its parts. */
struct space_key {
	uint64_t h[2];
};

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

struct index_match {
	struct index_band *bands;	/* deepest first; room for <cap>, at most SERVERS_MAX used */
	uint32_t n_bands, cap;
	uint32_t n_pages;		/* asked for, after max_pages */
	struct { uint64_t node, version; uint32_t depth; } cursor;	/* the index's own business */
};

int index_match_init(struct index_match *m);	/* allocates the bands; -1: no memory */
void index_match_fini(struct index_match *m);

/* Fill <m> for <n> pages of <space>. Changes nothing, not even what is oldest. */
void index_match(struct index *ix, const struct space_key *space, const page_key *pages, size_t n,
		 struct index_match *m);

/* The depth of one server in a match; 0 when it holds nothing. O(bands). */
uint32_t index_match_depth(const struct index_match *m, server_id id);

/* A claim is a small handle of the index's own; 0 is none. It pins its pages until it is confirmed
 * or cancelled, which must happen exactly once (a claim that is not known any more is ignored). */
typedef uint64_t index_claim;

/* <server> was sent these pages: it claims all of them, and is touched as used at <now> from the
 * leaf to the root. <m> is the match of the same pages (its cursor saves the second walk when
 * nothing has changed), or NULL. Older pages are evicted when the budget asks for it. Returns 0,
 * with nothing claimed, when <n> is 0 or memory and budget leave no room. */
index_claim index_commit(struct index *ix, const struct space_key *space, const page_key *pages,
			 size_t n, const struct index_match *m, server_id server, msec now);
void index_confirm(struct index *ix, index_claim claim, msec now);
void index_cancel(struct index *ix, index_claim claim);

/* Confirm, but at the server that really served it: <server> holds the claim's pages now, and the
 * server that had claimed them is left as by index_cancel(). No room: only the cancel happens. */
void index_confirm_at(struct index *ix, index_claim claim, server_id server, msec now);

/* Forget everything about a server: its id may be given to another afterwards. Its open claims
 * become unknown. */
void index_drop_server(struct index *ix, server_id server);

struct index_stats {
	uint64_t bytes, max_bytes;
	uint64_t spaces, nodes, records, pages;	/* records: (node, server); pages: on nodes, each once */
	uint64_t claims;			/* open ones */
	uint64_t matches, commits, confirmed, cancelled;
	uint64_t evicted_records, evicted_pages;	/* by the budget */
	uint64_t refused;			/* commits that found no room */
};

void index_stats(struct index *ix, struct index_stats *s);

/* Pages held or claimed by a server, over all spaces. */
uint64_t index_server_pages(struct index *ix, server_id server);

/* Walk everything and check every invariant named above and in the .c; for tests. Returns NULL when
 * all hold, else a static sentence. O(everything). */
const char *index_check(struct index *ix);

/* The tree of a space as text, children in page order, for tests and for people:
 * "[A B C] a b c\n  [D] a\n" with keys in hex and servers as numbers, '*' behind a server that
 * only claims. Calls <put> with pieces. */
void index_dump(struct index *ix, const struct space_key *space,
		void (*put)(void *arg, const char *text, size_t n), void *arg);

#endif

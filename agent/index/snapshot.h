/* snapshot.h - the index as bytes, so that a restart remembers what the engines still hold.
 *
 *   header    magic, version, page sizes, id of the hash key, checksum     numbers: little endian
 *   sections  kind, bytes, checksum of the payload, payload:
 *     names   number of a server, its name
 *     tree    spaces and nodes, each after its parent: pages, and for each server how many of them
 *             it holds, how long it has not used them, how often it has
 *     end     counts, and a checksum over everything before it
 *
 * A snapshot has the pages that servers hold, never those that they only claim. It contains no
 * token, no text and not the hash key. Pages are hashes under that key and mean nothing under
 * another one, so such a snapshot is refused.
 *
 * It is written in slices while others match and commit. A part that changes meanwhile appears in
 * its old state, in its new state, or in both; but a server has a prefix only if it held it at some
 * time during the writing. A snapshot is loaded whole or not at all: all of it is checked first. */
#ifndef KVROUTE_INDEX_SNAPSHOT_H
#define KVROUTE_INDEX_SNAPSHOT_H

#include "agent/base/err.h"
#include "agent/index/index.h"

#define SNAPSHOT_VERSION	2u		/* that is written */
#define SNAPSHOT_VERSION_OLD	1u	/* the previous one, which is read, too: doc/stable.md */
#define SNAPSHOT_NAME_MAX	512u	/* bytes of a server's name */

/* Values at writing; at loading the first three must be the same. */
struct snapshot_of {
	uint64_t key_id;			/* hash_key_id() */
	uint32_t text_page, token_page;		/* bytes of a text page, ids of a token page */
	uint64_t tenants;			/* identifies the meaning of tenant numbers; if it differs, all become 0 */
	int64_t wall_ms;			/* the wall clock at <now>, need not be the same; 0: unknown */
};

struct snapshot_stats {
	uint64_t bytes, spaces, nodes, pages;	/* in the snapshot; pages of all nodes */
	uint64_t records;			/* (node, server) */
	uint64_t servers;			/* named in it; at a load: those that were found */
	/* at a load: */
	uint64_t servers_skipped;		/* unknown servers, with all they held */
	uint64_t held;				/* ends of held prefixes that were loaded */
	uint64_t left_out;			/* the oldest ends, for which the budget has no room */
};

/* ---- writing ---- */

/* Take the next bytes; return other than 0 on failure. Called without a lock. */
typedef int snapshot_put(void *arg, const void *bytes, size_t n);

struct snapshot_writer;

/* Start a snapshot. Returns NULL if there is no memory. Name the servers before the first step:
 * servers without a name are left out, and servers that are dropped after this call. The writer
 * takes 8 bytes a node until it is freed. */
struct snapshot_writer *snapshot_writer_new(
    struct index *ix, const struct snapshot_of *of, msec now, snapshot_put *put, void *arg);
void snapshot_writer_name(struct snapshot_writer *w, server_id id, struct span name);

/* Write <nodes> more, each under the lock of its shard. Returns 0 if there is more, 1 if all is
 * written. Returns -1, now and from then on, if <put> failed or there is no memory. */
int snapshot_write(struct snapshot_writer *w, uint32_t nodes);
void snapshot_writer_stats(const struct snapshot_writer *w, struct snapshot_stats *s);
void snapshot_writer_free(struct snapshot_writer *w);

/* Return the largest size of a snapshot of an index of <max_bytes>: each part is larger in memory,
 * and what changes during the writing may be in it twice. */
uint64_t snapshot_bytes_most(size_t max_bytes);

/* ---- loading ---- */

#define SNAPSHOT_HEAD_BYTES	48u

/* Check the first SNAPSHOT_HEAD_BYTES before the rest is read. Returns -1 and sets <e> if no
 * snapshot of this format begins so. */
int snapshot_begins(const uint8_t *head, struct err *e);

/* Return the length of the snapshot at the start of <n> bytes, by its sections; other bytes may
 * follow it. Returns 0 if it is cut short. Nothing else is checked. */
size_t snapshot_length(const uint8_t *bytes, size_t n);

/* Return the current number of the server of this name, or a negative number if it is unknown.
 * Called once a name, after everything was checked and before anything is loaded. */
typedef int snapshot_server(void *arg, struct span name);

/* Load <n> bytes into <ix>, beside what it holds; others may use it meanwhile. The last use of a
 * prefix that it does not hold is as long before <now> as it was before the start of the snapshot,
 * and the time between the two, if both wall clocks are known and this one is later. The newest
 * come first, until the budget is full: nothing is evicted. Takes 24 bytes a node and 12 a record
 * meanwhile. Returns -1, sets <e> and changes nothing if the snapshot is refused. */
int snapshot_load(struct index *ix, const struct snapshot_of *of, const uint8_t *bytes, size_t n,
		  snapshot_server *server, void *arg, msec now, struct snapshot_stats *s, struct err *e);

/* The same in steps of about 0.1 ms, if the sections are as snapshot_write() makes them. <bytes>
 * and <arg> are borrowed until the loader is freed. Returns NULL if there is no memory. */
struct snapshot_loader;
struct snapshot_loader *snapshot_loader_new(struct index *ix, const struct snapshot_of *of,
    const uint8_t *bytes, size_t n, snapshot_server *server, void *arg, msec now);

/* Returns 0 if there is more; 1, with <s>, if all is loaded; -1, with <e>, if the snapshot is
 * refused. A server that is dropped between two steps gets nothing from then on. */
int snapshot_load_step(struct snapshot_loader *l, struct snapshot_stats *s, struct err *e);
void snapshot_loader_free(struct snapshot_loader *l);	/* at any time; <l> may be NULL */

/* Return the most memory for loading a snapshot of an index of <max_bytes> that did not change much
 * while it was written: with its bytes, which are fewer than this. */
uint64_t snapshot_load_bytes(size_t max_bytes);

/* ---- comparing ---- */

/* A server holds a prefix. <prefix>: hash of its space and of all its pages. */
typedef void snapshot_pair(void *arg, struct span server, uint64_t prefix);

/* Call <pair> for each server and each page that it holds, in no order. Two snapshots have the same
 * pairs if what the servers held was the same. The <n> bytes are as snapshot_write() made them: the
 * checksums are not read. Returns -1 if they are cut short, or there is no memory. */
int snapshot_pairs(const uint8_t *bytes, size_t n, snapshot_pair *pair, void *arg);

#endif

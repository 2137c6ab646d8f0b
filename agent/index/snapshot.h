/* snapshot.h - the index as bytes, so that a restart does not forget what the engines still hold.
 *
 *   header    magic, version, page sizes, id of the hash key, checksum         numbers: little endian
 *   sections  kind, bytes, checksum of the payload, payload:
 *     names   number of a server, its name
 *     tree    spaces and nodes, each behind the one above it: pages, and for each server how many
 *             pages it holds, how long it has not used them, how often it has
 *     end     counts, and a checksum over all that is before
 *
 * What servers hold is there, never what they only claim; and no token, text, nor the hash key. Pages are
 * hashes under that key: with another one they would mean nothing, so such a snapshot is refused.
 *
 * Written in slices beside readers and writers: what changes meanwhile is there as it was before, as it is
 * after, or as both, but a server is said to hold a prefix only if it did at some time of the writing.
 * Loaded whole or not at all: nothing is believed before all of it was looked at. */
#ifndef KVROUTE_INDEX_SNAPSHOT_H
#define KVROUTE_INDEX_SNAPSHOT_H

#include "agent/base/err.h"
#include "agent/index/index.h"

#define SNAPSHOT_VERSION	2u
#define SNAPSHOT_NAME_MAX	512u	/* bytes of a server's name */

/* What must be the same where it is written and where it is loaded. */
struct snapshot_of {
	uint64_t key_id;			/* hash_key_id() */
	uint32_t text_page, token_page;		/* sizes of a page, of text and of token ids */
	uint64_t tenants;			/* of what the numbers of tenants mean; where that is another, all are 0 */
};

struct snapshot_stats {
	uint64_t bytes, spaces, nodes, pages;	/* in the snapshot; pages of all nodes */
	uint64_t records;			/* (node, server) */
	uint64_t servers;			/* named in it; at a load: those that were found */
	/* at a load: */
	uint64_t servers_skipped;		/* not found, with all they held */
	uint64_t held;				/* ends of what a server holds that were taken over, */
	uint64_t left_out;			/* and the oldest, for which the budget has no room */
};

/* ---- writing ----------------------------------------------------------------------------------- */

/* Takes the next bytes; not 0: it cannot. Called without a lock. */
typedef int snapshot_put(void *arg, const void *bytes, size_t n);

struct snapshot_writer;

/* NULL: no memory. Name the servers before the first step: those without a name are left out, and so is one that
 * is dropped after snapshot_writer_new(). Takes 8 bytes a node until it is freed. */
struct snapshot_writer *snapshot_writer_new(struct index *ix, const struct snapshot_of *of, msec now,
					    snapshot_put *put, void *arg);
void snapshot_writer_name(struct snapshot_writer *w, server_id id, struct span name);

/* Write <nodes> more, each under the lock of its shard. 0: come back; 1: all is written; -1: <put> could not,
 * or there is no memory, and so it stays. */
int snapshot_write(struct snapshot_writer *w, uint32_t nodes);
void snapshot_writer_stats(const struct snapshot_writer *w, struct snapshot_stats *s);
void snapshot_writer_free(struct snapshot_writer *w);

/* A snapshot of an index of <max_bytes> has no more bytes than this: in memory each of its parts is
 * larger, and what changes while it is written may be in it twice. */
uint64_t snapshot_bytes_most(size_t max_bytes);

/* ---- loading ----------------------------------------------------------------------------------- */

#define SNAPSHOT_HEAD_BYTES	48u

/* Does a snapshot begin with these SNAPSHOT_HEAD_BYTES? Before the rest is read. -1: <e>. */
int snapshot_begins(const uint8_t *head, struct err *e);

/* The number that a server of this name has now; negative: nobody knows it. Called once for each name, after
 * all was looked at and before anything is loaded. */
typedef int snapshot_server(void *arg, struct span name);

/* Load <n> bytes into <ix>, which is new; the last use of each prefix is as long before <now> as it was when
 * the snapshot was begun. The newest come first, until the budget is full: nothing is evicted. Meanwhile it takes
 * 24 bytes a node and 13 a record. -1: <e> says why, and nothing was changed. */
int snapshot_load(struct index *ix, const struct snapshot_of *of, const uint8_t *bytes, size_t n,
		  snapshot_server *server, void *arg, msec now, struct snapshot_stats *s, struct err *e);

#endif

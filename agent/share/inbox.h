/* inbox.h - batches of siblings: each is applied once, in its order, and what is missing is found.
 *
 * A stream of the store holds the batches of one part, of all agents. For each agent and part the
 * inbox knows the last number:
 *
 *     last + 1      NEW        applied
 *     above         HOLE       applied; the batches between are lost: compare digests
 *     in a hole     LATE       applied, if it is one of the last 64: the store had refused it, but
 *                              not the one after it
 *     up to last    REPEATED   skipped
 *     the first     NEW, if its number is 1; otherwise JOINED, applied: what the agent told
 *                   before is known from a snapshot, or by comparing digests
 *
 * An agent that was silent for SHARE_LEASE_MS in all parts is gone. Its numbers are kept while
 * there is room for them, so a hole is found if it returns. If there is none, an agent is gone too
 * whose last batch was made so long before that of another one: its run ended in an old stream.
 *
 * new() allocates all memory. One thread at a time calls these functions. */
#ifndef KVROUTE_SHARE_INBOX_H
#define KVROUTE_SHARE_INBOX_H

#include "agent/share/share.h"

#define SHARE_LEASE_MS		3000
#define SHARE_SIBLINGS_MAX	256u

enum share_read {
	SHARE_READ_NEW,
	SHARE_READ_JOINED,
	SHARE_READ_HOLE,
	SHARE_READ_LATE,
	SHARE_READ_REPEATED,	/* this and all below: not applied */
	SHARE_READ_OWN,		/* we wrote it */
	SHARE_READ_STRANGER,	/* of a fleet with another key */
	SHARE_READ_DAMAGED,	/* or of another part */
	SHARE_READ_NEWER,	/* its version is unknown */
	SHARE_READ_CROWDED,	/* there are SHARE_SIBLINGS_MAX agents */
	SHARE_READS
};

struct share_inbox;

/* Apply an entry, which is borrowed for the call. */
typedef void share_apply_fn(void *arg, share_agent from, const struct share_entry *e);
typedef void share_gone_fn(void *arg, share_agent agent);

/* <key> is borrowed until the inbox is freed. <parts>: 1 to SHARE_PARTS_MAX. Returns NULL if there
 * is no memory. Needs 150 KB, and 4 KB a part. */
struct share_inbox *share_inbox_new(const struct hash_key *key, share_agent self, uint32_t parts);
void share_inbox_free(struct share_inbox *i);

/* Read one batch of the stream of <part> and call <apply> for each of its entries. Entries that
 * cannot be read are skipped and counted. <wall_ms>: the wall clock. The lag of the batch is added
 * to what its entries call a time ago (grown, unused, cleared): by then it has passed as well. */
enum share_read share_inbox_read(struct share_inbox *i, uint32_t part, struct span bytes, msec now,
    int64_t wall_ms, share_apply_fn *apply, void *arg);

/* Call <gone> for each agent whose lease has ended. To be called every 100 ms or so, but not while
 * the store is not read: silence then says nothing about the siblings (share_inbox_renew). */
void share_inbox_age(struct share_inbox *i, msec now, share_gone_fn *gone, void *arg);

/* All agents that are not gone get a whole lease from <now> on, because nothing was read for a
 * while. */
void share_inbox_renew(struct share_inbox *i, msec now);

struct share_sibling {
	share_agent agent;
	msec heard;		/* its last batch */
	int64_t lag_ms;		/* of that: from the wall clock there to ours; below 0: clocks differ */
	/* since when each batch had a lag beyond SHARE_COMPARED_MS, or below its negative; -1: the last
	 * had not. Clocks differ, or old batches are being read. */
	msec off_since;
	bool told;		/* it has sent SHARE_ALIVE, which has: */
	struct share_alive alive;
	uint64_t batches, holes;
};

/* Write to <s> the agents that are not gone, at most <max>, in no order. Returns their number. */
size_t share_inbox_siblings(const struct share_inbox *i, struct share_sibling *s, size_t max);

struct share_inbox_stats {
	uint64_t batches[SHARE_READS];	/* by result */
	uint64_t entries[SHARE_KINDS];	/* applied, by kind; [0] is unused */
	uint64_t missing;		/* batches in holes */
	uint64_t unknown_kinds, bad_entries;	/* skipped */
	uint64_t bytes;			/* of applied batches */
	uint64_t siblings;		/* not gone */
	uint64_t gone;			/* leases that ended */
};

void share_inbox_stats(const struct share_inbox *i, struct share_inbox_stats *s);

#endif

/* outbox.h - entries on their way to the store, as batches of each part.
 *
 *             put            64 KiB, or taken            take              sent
 *   entry ---------> open batch ---------> waiting -------------> taken ---------> freed
 *                                             |   <------------------
 *                                             v    take_again, as after a lost connection
 *                                          dropped: no room
 *
 * The first entry after a pause leaves at once. While entries come all the time, a batch leaves
 * each SHARE_DELAY_MS, so the work of the store and of the siblings is bounded whatever the load.
 *
 * While the store takes nothing, batches fill up to SHARE_DELAY_BYTES, but for SHARE_OPEN_MS at the
 * most: siblings take the age of the first entry for that of all.
 *
 * Batches of a part are numbered 1, 2, 3 ... and taken in this order. If the outbox may use no more
 * memory, the oldest waiting batch of all parts is dropped; then the numbers have a hole, and
 * siblings repair what it held by comparing digests. A number is also left out for an entry that
 * found no room.
 *
 * An agent puts SHARE_ALIVE every SHARE_ALIVE_MS into each part: it keeps its lease, and a hole
 * before it is detected even if nothing else is said.
 *
 * Any thread may put. Only one thread calls the other functions. A mutex is held for the time of a
 * copy; no call waits for anything else. */
#ifndef KVROUTE_SHARE_OUTBOX_H
#define KVROUTE_SHARE_OUTBOX_H

#include "agent/share/share.h"

#define SHARE_DELAY_MS		5	/* between two batches of a part, and the most that an entry waits */
#define SHARE_DELAY_BYTES	((size_t)64 << 10)	/* a larger batch is due at once */
#define SHARE_OPEN_MS		2000	/* entries of one batch lie so far apart at the most */
#define SHARE_ALIVE_MS		500
#define SHARE_OUTBOX_MIN	((size_t)1 << 20)	/* least <max_bytes> */

struct share_outbox;

/* <key> is borrowed until the outbox is freed. <parts>: 1 to SHARE_PARTS_MAX. <max_bytes>: of all
 * batches; at least SHARE_OUTBOX_MIN. Returns NULL if there is no memory. */
struct share_outbox *share_outbox_new(const struct hash_key *key, share_agent self, uint32_t parts,
    size_t max_bytes);
void share_outbox_free(struct share_outbox *o);

/* Add an entry to the open batch of <part>, which is below <parts>. Returns true if the sender
 * should look at the part again: it had nothing to send before, or a batch has just become
 * large. */
bool share_outbox_put(struct share_outbox *o, uint32_t part, const struct share_entry *e, msec now);

/* Return whether <part> has a batch to take, and set <due_at> to <now>. Otherwise set it to the
 * time when it will have one, or to INT64_MAX. */
bool share_outbox_due(struct share_outbox *o, uint32_t part, msec now, msec *due_at);

/* Take the oldest waiting batch of <part>, or its open one, due or not. <wall_ms>: the wall clock
 * at <now>. The bytes stay until the batch is sent or taken again, so several batches may be under
 * way; the caller limits their number, because they cannot be dropped. Returns an empty span if
 * there is none. */
struct span share_outbox_take(struct share_outbox *o, uint32_t part, msec now, int64_t wall_ms);

/* The store has the oldest taken batch of <part>: free it. Does nothing if none is taken. */
void share_outbox_sent(struct share_outbox *o, uint32_t part);

/* No answer will come for the taken batches of <part>: they wait again and will be taken with the
 * same numbers and bytes. Those that the store has already are repeated ones for the siblings. */
void share_outbox_take_again(struct share_outbox *o, uint32_t part);

struct share_outbox_stats {
	uint64_t entries[SHARE_KINDS];	/* put, by kind; [0] is unused */
	uint64_t batches, bytes;	/* sent */
	uint64_t dropped_batches, dropped_entries;	/* for lack of room */
	uint64_t refused;		/* entries that cannot be written: a name is too long */
	uint64_t waiting_bytes;		/* memory of all batches now */
	uint64_t waiting_batches;	/* not sent yet, with the taken ones */
};

void share_outbox_stats(struct share_outbox *o, struct share_outbox_stats *s);	/* any thread */

#endif

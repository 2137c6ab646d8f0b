/* kvlog.h - the KV cache events of a simulated engine: what its cache stores and removes, in
 * batches, one a step.
 *
 *   admission   blocks evicted for it, the oldest first              removed  -.
 *   each step   blocks that the step completes                        stored  --+-> batch, due
 *   end         blocks of the answer; blocks beyond the room  stored, removed  -'   <delay> later
 *
 * A block of the trace has its number as name. A block of an answer has a name above all of these,
 * never given twice. A block that is computed again in place is not reported again. */
#ifndef KVROUTE_SIM_KVLOG_H
#define KVROUTE_SIM_KVLOG_H

#include "agent/base/types.h"

#define KVLOG_NO_PARENT	UINT64_MAX
#define KVLOG_GENERATED	((uint64_t)1 << 32)	/* names from here on are blocks of answers */

struct kvlog_event {
	bool stored;		/* else removed */
	uint64_t block, parent;	/* names; <parent> of stored ones: the block before, in the same prompt */
};

struct kvlog_batch {
	struct kvlog_batch *next;
	double at;		/* when it arrives */
	uint64_t seq;		/* counts the batches of an engine, from 0 */
	size_t n;
	struct kvlog_event events[];
};

struct kvlog {
	double delay_s;			/* from the end of a step to the arrival of its batch */
	bool *fresh;			/* [blocks of the trace]: admitted, and not computed yet */
	uint64_t generated;		/* names given */
	struct kvlog_event *pending;	/* of the step that is being put together */
	size_t n, cap;
	uint64_t seq;
	struct kvlog_batch *first, **end;	/* published, and not taken yet */
	double latest;			/* arrival of the last of these */
	bool no_memory;			/* events are missing */
};

int kvlog_init(struct kvlog *l, uint32_t n_blocks, double delay_s);	/* -1: no memory */
void kvlog_fini(struct kvlog *l);

/* Add an event to the pending ones. */
void kvlog_stored(struct kvlog *l, uint64_t block, uint64_t parent);
void kvlog_removed(struct kvlog *l, uint64_t block);

/* Make the pending events a batch of the step from <start> to <end>. It arrives <delay_s> after
 * the end, but not before the start or the batch before it. Does nothing if none is pending. */
void kvlog_publish(struct kvlog *l, double start, double end);

/* Return when the first published batch arrives; INFINITY: there is none. kvlog_take(): take it;
 * the caller frees it by mem_free(). */
double kvlog_next(const struct kvlog *l);
struct kvlog_batch *kvlog_take(struct kvlog *l);

#endif

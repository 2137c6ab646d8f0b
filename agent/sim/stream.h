/* stream.h - what agents write for their siblings: each batch arrives at every other agent after a
 * delay, in the order written, if it is not lost.
 *
 *	agent 0 --batch--> store --delay--> agents 1, 2, 3 ...    each copy is lost by its own chance
 *
 * During the cut, the first half of the agents and the rest do not hear each other: what is written
 * then is lost for the other half, as in a store that was trimmed before the cut healed. */
#ifndef KVROUTE_SIM_STREAM_H
#define KVROUTE_SIM_STREAM_H

#include "agent/base/rng.h"
#include "agent/base/types.h"

struct stream_opts {
	unsigned n;			/* agents */
	double delay_s;
	double loss;			/* share of the copies */
	double cut_from, cut_to;	/* seconds; equal: no cut */
	uint64_t seed;
};

struct stream_copy {
	struct stream_copy *next;
	double at;			/* when it arrives */
	unsigned from, to;
	uint32_t part;
	size_t n;
	uint8_t bytes[];
};

struct stream {
	struct stream_opts opts;
	struct rng rng;
	struct stream_copy *first, **end;
	uint64_t batches, bytes;	/* written */
	uint64_t copies, lost, cut;	/* sent to siblings; of them lost by chance, and in the cut */
};

void stream_init(struct stream *s, const struct stream_opts *o);
void stream_fini(struct stream *s);

/* Write a batch of agent <from>. Returns -1 if there is no memory; then copies are missing. */
int stream_write(struct stream *s, unsigned from, uint32_t part, struct span bytes, double now);

/* Return when the next copy arrives; INFINITY: there is none. stream_take(): take it; the caller
 * frees it by mem_free(). */
double stream_next(const struct stream *s);
struct stream_copy *stream_take(struct stream *s);

#endif

/* trace.h - the requests of a simulation: recorded, or made up by workload.h.
 *
 *      {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, ...]}
 *
 * a line, as the Mooncake traces are published: milliseconds, tokens, and an id for each block of the
 * prompt that stands for all of the prompt up to the end of that block. A line may have a "session", a
 * string or a number; without, sessions are guessed from prompts that go on where others ended.
 * Ids become small numbers here, in the order they come.
 *
 * What an agent recorded (record.file, agent/route/traffic_text.h) has more fields: the block's size, so that nobody has to
 * say it, and what became of the request. Its failures are left out, and what has blocks of another size than the
 * first line's: prompts that are counted in unlike pages cannot be compared. */
#ifndef KVROUTE_SIM_TRACE_H
#define KVROUTE_SIM_TRACE_H

#include "agent/base/err.h"
#include "agent/base/types.h"

#define SIM_BLOCK_DEFAULT	512u		/* tokens; that of the Mooncake traces */
#define SIM_BLOCK_MAX		65536u
#define SIM_TOKENS_MAX		(1u << 24)	/* of a prompt, of an answer */
#define SIM_REQUESTS_MAX	(1u << 24)
#define SIM_SERVERS_MAX		256u		/* of those that a recording names, that are counted */
#define SIM_ALONE	UINT32_MAX
#define SIM_IDS_MAX		(1u << 30)	/* of all prompts together */

struct sim_request {
	double at;		/* seconds since the first */
	uint32_t n_in, n_out;	/* tokens, at least 1 each */
	uint32_t first, n_ids;	/* in trace.ids; the last may be of a part block */
	uint32_t n_full;	/* of them whole blocks */
	uint32_t max_hit;	/* blocks that an engine may find cached: the last token is always computed */
	uint32_t session;
	uint32_t number;	/* in the order added */
	uint32_t after;		/* number of the request whose answer it waits for, or SIM_ALONE; then it comes */
	double pause_s;		/* so long after the end of that answer, and <at> is only where it is sorted */
};

struct sim_trace {
	struct sim_request *r;	/* in the order of arrival */
	size_t n, cap;
	uint32_t *ids;
	size_t n_ids, cap_ids;
	uint32_t n_blocks;	/* ids are below it */
	uint32_t block;		/* tokens */
	struct sim_recorded {
		size_t n;		/* requests with what an agent recorded; 0: the trace is none of its */
		uint32_t servers;	/* that were named */
		uint64_t tokens, cached;	/* of their prompts; of these believed to be cached where they went */
		size_t n_first;		/* whose first token was reported, */
		double first_s;		/* and the seconds to these, together */
		size_t failed, unlike;	/* left out: answered with an error; blocks of another size */
	} recorded;
};

struct trace_opts {
	uint32_t block;		/* 0: as the first line says; SIM_BLOCK_DEFAULT if it does not */
	size_t limit;		/* the first so many requests; 0: all */
	bool keep_stamps;	/* of requests with the same timestamp: do not spread them to the next one */
};

/* Fill <t> with the trace <text>. -1: <e> says which line is wrong and what to do, and <t> is empty. */
int trace_read(struct sim_trace *t, struct span text, const struct trace_opts *o, struct err *e);

/* Tokens of a block, from the file beside the trace: {"block_size": 512}. 0: it does not say. */
uint32_t trace_block_of(struct span meta);

/* The first half of trace_read(), for generators: an empty trace; one more request, whose ids are counted
 * from 0 and never twice in a prompt. -1: no memory. */
void trace_init(struct sim_trace *t, uint32_t block);
int trace_add(struct sim_trace *t, double at, uint32_t n_in, uint32_t n_out, const uint32_t *ids,
	      size_t n_ids, uint32_t session);
/* The request added last comes <pause_s> after the end of the answer to the one added before it. */
void trace_after(struct sim_trace *t, double pause_s);
/* Move each arrival by chance, at most half of the mean gap to either side, so that repeats of one trace differ. */
void trace_jitter(struct sim_trace *t, uint64_t seed);
/* Sort by time, from 0. */
void trace_finish(struct sim_trace *t);
void trace_free(struct sim_trace *t);

#endif

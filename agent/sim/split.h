/* split.h - prompts that one engine computes and another decodes: the last engines of a run are
 * prefill servers, if sim_opts.prefills says so.
 *
 *      arrival --> prefill server: the prompt, one token --> transfer --> decode server: the last
 *                                                                         token of the prompt, and
 *                                                                         the answer
 *
 * The transfer takes transfer_ms, and transfer_1k_ms for each 1000 tokens that the decode server
 * does not have when it starts. Its cache takes the prompt when the engine admits the request; the
 * prefill server's keeps it as every other. */
#ifndef KVROUTE_SIM_SPLIT_H
#define KVROUTE_SIM_SPLIT_H

#include "agent/sim/due.h"

struct sim;

struct split_leg {
	struct sim_job job;		/* first: the prefill server's engine has only this */
	struct sim_request q;
	struct sim_job *whole;
};

struct split {
	struct split_leg *legs;		/* [trace->n]; NULL: there are no prefill servers */
	struct due moving;		/* jobs whose KV is on its way */
	size_t n;			/* jobs that were split */
};

/* Returns -1 if there is no memory. */
int split_init(struct sim *f);
void split_fini(struct split *s);

/* <j> arrives, and j->prefill is to compute it. */
void split_arrive(struct sim *f, struct sim_job *j, double now);
/* The KV of the next job has come. */
void split_moved(struct sim *f, double now);

#endif

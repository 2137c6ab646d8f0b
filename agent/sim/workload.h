/* workload.h - generated requests, one situation a workload.
 *
 *      chat       conversations that grow turn by turn, four system prompts
 *      agents     many quick steps each, under 8K tokens of tools
 *      agentic    sessions of coding agents, 20K to 180K tokens a prompt: agentic.h. Each subagent
 *                 has a session number of its own
 *      system     one system prompt for all, nothing else in common
 *      prefixes   thousands of documents, few of them requested often
 *      siblings   bursts of up to 16 at once that share a new prompt
 *      cold       chat, judged by its first eighth
 *      join       chat, and the last engine comes up after 40 %
 *      leave      chat, and the first engine goes down then
 *      slow       chat, and the first engine is half as fast
 *      fail       chat, and the first engine answers 500 at once between 40 % and 60 %
 *      limit      long chats of which HAProxy passes 16 KB each
 *      crowd-N    conversations that share N long system prompts; with -zipf some of these are much
 *                 more frequent; with -loop a turn comes a pause after the answer to the one
 *                 before; with -beat all these pauses are equal, so that requests answered together
 *                 return together
 *
 * The same name, number and seed give the same requests. Rates keep <engines> about half busy
 * without a calibration. */
#ifndef KVROUTE_SIM_WORKLOAD_H
#define KVROUTE_SIM_WORKLOAD_H

#include "agent/sim/sim.h"

#define WORKLOAD_REQUESTS	5000	/* enough for stable figures */

struct workload {
	struct sim_trace trace;
	struct sim_event events[SIM_EVENTS_MAX];
	unsigned n_events;
	double first_speed;	/* of the first engine; 1 */
	size_t body_limit;	/* 0: none */
	size_t first;		/* judge only the first so many; 0: all except the warm-up */
};

const char *workload_at(size_t i);	/* NULL after the last */

/* Returns -1 and sets <e> if there is no such workload, or no memory. */
int workload_make(struct workload *w, struct span name, size_t n, unsigned engines, uint64_t seed,
		  struct err *e);
void workload_free(struct workload *w);

#endif

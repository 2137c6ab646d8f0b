/* workload.h - requests made up: what a router meets, one thing at a time.
 *
 *      chat       conversations that grow turn by turn, four system prompts
 *      agents     many quick steps each, under 8K tokens of tools
 *      system     one system prompt for all, nothing else in common
 *      prefixes   thousands of documents, few of them asked for often
 *      siblings   bursts of up to 16 at once that share a prompt never seen before
 *      cold       chat, judged by its first eighth
 *      join       chat, and the last engine comes up when 40 % are over
 *      leave      chat, and the first engine goes down then
 *      slow       chat, and the first engine is half as fast
 *      fail       chat, and the first engine answers 500 at once between 40 % and 60 %
 *      limit      long chats of which HAProxy shows 16 KB each
 *      crowd-N    conversations that share N long system prompts; with -zipf some of these are wanted much more
 *                 often than others; with -loop a turn comes a pause after the answer to the one before, with
 *                 -beat all these pauses are alike, so that those answered together come back together
 *
 * The same name, number and seed give the same requests. Rates fit <engines> about half busy, for those who
 * do not calibrate. */
#ifndef KVROUTE_SIM_WORKLOAD_H
#define KVROUTE_SIM_WORKLOAD_H

#include "agent/sim/sim.h"

#define WORKLOAD_REQUESTS	5000	/* a good number of them */

struct workload {
	struct sim_trace trace;
	struct sim_event events[SIM_EVENTS_MAX];
	unsigned n_events;
	double first_speed;	/* of the first engine; 1 */
	size_t body_limit;	/* 0: none */
	size_t first;		/* to be judged by so many; 0: by all but those that warm up */
};

const char *workload_at(size_t i);	/* NULL behind the last */

/* -1: there is no such workload, or no memory: <e>. */
int workload_make(struct workload *w, struct span name, size_t n, unsigned engines, uint64_t seed,
		  struct err *e);
void workload_free(struct workload *w);

#endif

/* agents.h - the measured chooser, several times: requests are spread over N agents, each of which
 * decides from what it knows.
 *
 *      request --in turn, or by chance--> HAProxy i --> agent i: which engine?
 *                                                        |    ^
 *                                    entries of what it --'    '-- entries of its siblings,
 *                                    alone knows                   a delay later: stream.h
 *
 * Each agent has an HAProxy of its own, which counts the connections of its own requests only and
 * reports their answers to its own agent. Or there is one HAProxy: it counts all connections, and
 * its log lines go to every agent. Agents that do not share know nothing of what their siblings
 * decided.
 *
 * Simulated time, chance and bytes are the same in every run with the same arguments; microseconds
 * are not. */
#ifndef KVROUTE_SIM_AGENTS_H
#define KVROUTE_SIM_AGENTS_H

#include "agent/route/share.h"
#include "agent/sim/router.h"

#define AGENTS_MAX	16u

enum agents_spread { AGENTS_IN_TURN, AGENTS_BY_CHANCE };

struct agents_opts {
	unsigned n;			/* 1 to AGENTS_MAX */
	enum agents_spread spread;
	bool one_haproxy;
	bool share;
	double delay_s;			/* from the write of a batch to its arrival */
	double loss;			/* share of the copies of batches that do not arrive */
	/* during these shares of the arrivals' time the two halves of the agents do not hear each other;
	 * equal: never */
	double cut_from, cut_to;
	/* at this share of the arrivals' time agent 0 dies, and its successor starts AGENTS_DOWN_S later;
	 * 0: never */
	double restart_at;
	struct router_opts router;	/* of each; <agent>, <process>, <conns> and <lines> are set here */
};

#define AGENTS_DOWN_S	2.0

struct agents;

/* Let <c> use them until agents_free(). Returns NULL if there is no memory. */
struct agents *agents_new(
    const struct agents_opts *o, const struct sim_trace *t, struct chooser *c);
void agents_free(struct agents *a);

/* After the run: let time pass until all agents have the same pairs and no request is open in any
 * of them, <most_s> seconds at most.
 * Returns -1 if there is no memory. Not if they do not share. */
int agents_settle(struct agents *a, double most_s);

struct agents_result {
	/* Means in microseconds, all 0 without a clock: of a decision without what follows; of writing the
	 * entries of a request; of applying them, in one sibling; of repairs, a request */
	double decide_us, encode_us, apply_us, repair_us;
	/* Entries about a request; their bytes in batches with many others; and the bytes of batches with
	 * one of them each. <wire>: bytes of all batches, a request */
	double entries_median, entries_mean, bytes_median, bytes_mean, bytes_p99;
	double alone_median, alone_mean, wire_mean;
	uint64_t batches, copies, lost, cut;	/* struct stream */
	uint64_t resyncs;		/* asked for because of a hole or a sibling met */
	uint64_t pairs, differing;	/* (server, page) that any agent has; that not all have */
	uint64_t lacked;		/* by the agent that lacks the most */
	double settled_s;		/* time after the run until this was so; negative: it is not */
	uint64_t open;			/* requests open in any ledger after that time: their ends were lost */
	struct route_share_stats share;	/* the sum of all agents */
	double fresh_hit, others_hit;	/* of what the successor, and the others, decided since it started */
	size_t fresh_requests;
};

/* Returns -1 if there is, or was, no memory for it. */
int agents_result(struct agents *a, struct agents_result *r);

#endif

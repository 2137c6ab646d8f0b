/* poll_peers_in.h - whoever is asked at an interval: HAProxy's stats sockets, and engines for their metrics.
 *
 * All of it lives in the side thread and goes to the core at once. A new list, at a reload, leaves those alone
 * that are in it and in the old one. */
#ifndef KVROUTE_LOOP_POLL_PEERS_IN_H
#define KVROUTE_LOOP_POLL_PEERS_IN_H

#include "agent/base/list.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/poll_client_in.h"

/* Written by the side thread. */
struct poll_counters {
	uint64_t peers;			/* that are asked now */
	uint64_t answered;
	uint64_t unreachable;		/* refused, cut off, or too late */
	uint64_t bad;			/* answered with something else */
	uint64_t items, items_bad;	/* rows; reports, and lines in them that make no sense */
	uint64_t bytes;
	uint64_t us;			/* from question to answer, of those answered */
};

/* What a configuration says of it. */
struct poll_peers_opts {
	char stats[LISTEN_MAX][ADDR_MAX];
	msec stats_interval_ms, stats_timeout_ms, engine_interval_ms, engine_timeout_ms;
	size_t n_engines;
	struct engine_opts engines[];
};

struct poll_peers_opts *poll_peers_opts_new(const struct loop_opts *o);	/* NULL: no memory */

struct poll_peers {
	struct agent *agent;
	struct ev_loop *loop;
	struct list stats, engines;
	struct poll_counters stats_count, engines_count;
};

void poll_peers_start(struct poll_peers *p, struct agent *a, struct ev_loop *loop);
void poll_peers_apply(struct poll_peers *p, const struct poll_peers_opts *o);
void poll_peers_stop(struct poll_peers *p);

#endif

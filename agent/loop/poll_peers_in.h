/* poll_peers_in.h - the peers that are polled: HAProxy's stats sockets, and engines for their
 * metrics.
 *
 *      stats socket --rows--> core
 *            '---- addresses of servers --> list of engines --> polls of their metrics
 *                                                  '----------> <on_engines>: readers of events
 *
 * They belong to the background thread, and what they report goes to the core at once. A reload
 * applies a new configuration, and an answer of a stats socket may change the list of engines;
 * peers in both lists are not interrupted. */
#ifndef KVROUTE_LOOP_POLL_PEERS_IN_H
#define KVROUTE_LOOP_POLL_PEERS_IN_H

#include "agent/base/list.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/poll_client_in.h"
#include "agent/loop/server_addresses.h"

/* Written by the background thread. */
struct poll_counters {
	uint64_t peers;			/* polled now */
	uint64_t answered;
	uint64_t unreachable;		/* refused, cut off, or timed out */
	uint64_t bad;			/* invalid answers */
	uint64_t items, items_bad;	/* rows; reports and their invalid lines */
	uint64_t bytes;
	uint64_t us;			/* time from request to answer, of those answered */
};

/* The options of the configuration. */
struct poll_peers_opts {
	char stats[LISTEN_MAX][ADDR_MAX];
	msec stats_interval_ms, stats_timeout_ms, engine_interval_ms, engine_timeout_ms;
	size_t n_engines;
	struct engine_opts engines[];
};

struct poll_peers_opts *poll_peers_opts_new(const struct loop_opts *o);	/* NULL: no memory */

struct poll_peers {
	/* set by the owner; <list> is valid until the call returns */
	void (*on_engines)(void *arg, const struct engine_opts *list, size_t n);
	/* the process of <e> began at <started>, which differs from before */
	void (*on_start)(void *arg, const struct engine_opts *e, double started);
	void *arg;

	struct agent *agent;
	struct ev_loop *loop;
	struct list stats, engines;
	struct poll_counters stats_count, engines_count;
	struct poll_peers_opts *opts;	/* NULL: none applied yet */
	struct server_addresses addresses;
	uint32_t sockets;		/* numbers in use, a bit each */
	ev_timer told;			/* runs while engines have told something that is not applied */
};

void poll_peers_start(struct poll_peers *p, struct agent *a, struct ev_loop *loop);
void poll_peers_apply(struct poll_peers *p, struct poll_peers_opts *o);	/* takes <o> */
void poll_peers_stop(struct poll_peers *p);

/* An engine has told something else about its events: the list of engines is made anew soon, once
 * for all that do so at about the same time. */
void poll_peers_told(struct poll_peers *p);

#endif

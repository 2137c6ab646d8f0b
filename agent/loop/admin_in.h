/* admin_in.h - the metrics listener: GET /metrics, /decisions, /compare, /live and /ready, over
 * HTTP/1. */
#ifndef KVROUTE_LOOP_ADMIN_IN_H
#define KVROUTE_LOOP_ADMIN_IN_H

#include <ev.h>

#include "agent/base/list.h"
#include "agent/loop/acceptor_in.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/metrics_text_in.h"

#define ADMIN_CONNS_MAX	16
#define ADMIN_MS	10000	/* longest time of a connection, from accept to close */
#define ADMIN_SEND	65536u	/* most bytes sent at once, because the kernel would copy megabytes */

struct admin_counters {
	uint64_t requests, refused;	/* answered with 200; with any other status */
	uint64_t accept_errors, pushed_out, timeouts;
};

struct admin {
	struct agent *agent;
	struct ev_loop *loop;
	struct acceptor acceptor[LISTEN_MAX];
	struct list conns;		/* oldest first */
	unsigned n_conns;
	unsigned snapshots;		/* being sent */
	struct list pages;		/* connections whose page is being written; they take turns */
	ev_prepare turn_end;
	ev_idle idle;			/* active while there are such pages */
	/* Writes the text of /metrics. */
	void (*render)(void *arg, struct metric_page *p);
	void *arg;
	struct admin_counters count;
};

/* Start serving. <render> and <arg> are set before. */
void admin_start(struct admin *ad, struct agent *a, struct ev_loop *loop);
void admin_sweep(struct admin *ad, msec now);	/* closes connections that exceed ADMIN_MS */
void admin_stop(struct admin *ad);

#endif

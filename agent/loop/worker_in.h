/* worker_in.h - one SPOP thread: a loop, and its connections from accept to close. */
#ifndef KVROUTE_LOOP_WORKER_IN_H
#define KVROUTE_LOOP_WORKER_IN_H

#include <ev.h>

#include "agent/base/list.h"
#include "agent/loop/acceptor_in.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/conn_buf_in.h"
#include "agent/loop/overload_in.h"

#define LARGE_SPARES	4

/* Phases of a connection. Each has a list ordered by the time of the last frame. */
enum sock_phase {
	SOCK_HELLO,		/* accepted; no HELLO yet */
	SOCK_OPEN,
	SOCK_LINGER,		/* all sent; waiting for the peer to close */
	SOCK_PHASES
};

/* Written by the worker, read by /metrics. All are counters except <open>. */
struct sock_counters {
	uint64_t open;
	uint64_t accepted, accept_errors, refused_full, refused_memory;
	uint64_t closed_eof, closed_error, closed_hello, closed_idle, closed_drain, closed_protocol;
	uint64_t closed_peer;	/* with a DISCONNECT, or after a health check */
	uint64_t closed_memory;
	uint64_t bytes_in, bytes_out, writes;
	uint64_t paused;	/* times reading stopped because the peer did not read */
};

struct worker {
	struct agent *agent;
	unsigned number;
	pthread_t thread;
	bool running;
	struct ev_loop *loop;
	ev_async wake;
	ev_timer sweep, drain_end;
	ev_check pass, turn;	/* before and after all other events of a turn of the loop */
	ev_prepare turn_end;
	usec pass_start;	/* when the loop last returned from waiting */
	usec queried;		/* when it queried the ready sockets, for this turn */
	usec looked;		/* the same for the last turn before that found a ready socket */
	bool found;		/* this turn found one */
	usec turn_ended;	/* when the last wait began */
	bool rested;		/* that wait blocked, because there was nothing to do */
	uint64_t turns;		/* read by the watchdog */
	struct list ready;	/* connections with bytes to read, next first */
	struct overload overload;
	struct arrivals *judged;	/* of the connection whose frames serve handles */
	struct acceptor acceptor[LISTEN_MAX];
	struct list socks[SOCK_PHASES];
	struct conn_buf spare_in, spare_out;	/* given to connections that have bytes */
	struct conn_buf large_in[LARGE_SPARES];	/* more of the large ones */
	unsigned n_large;
	struct spop_memory fragments;		/* from agent->budget */
	unsigned sweeps_small;	/* sweeps since an input buffer held more than a first one can */
	bool dirty;		/* the scanner has held a prompt since its last wipe */
	uint64_t notifies_swept;	/* count.notifies at the last sweep */
	uint64_t notifies_touched;	/* and when pages were last added to the heap */
	struct serve_env env;
	bool draining;
	struct serve_counters count;
	struct serve_pools pools;
	struct sock_counters socks_count;
};

/* Create a worker. Returns NULL with <e>. Its thread runs from worker_start() until it is told to
 * drain and all connections have ended. */
struct worker *worker_new(struct agent *a, unsigned number, struct err *e);
int worker_start(struct worker *w, struct err *e);
void worker_wake(struct worker *w);	/* checks agent->draining; from any thread */
void worker_join(struct worker *w);
void worker_free(struct worker *w);

/* Add up the counters of all workers, which go on counting. */
void workers_count(
    const struct agent *a, struct serve_counters *serve, struct sock_counters *socks);

#endif

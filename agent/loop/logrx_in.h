/* logrx_in.h - the log feed: HAProxy's log lines over TCP (newline-separated) and UDP, as facts. */
#ifndef KVROUTE_LOOP_LOGRX_IN_H
#define KVROUTE_LOOP_LOGRX_IN_H

#include <ev.h>

#include "agent/base/list.h"
#include "agent/feed/logline.h"
#include "agent/loop/acceptor_in.h"
#include "agent/loop/agent_in.h"

/* Written by the side thread. */
struct logrx_counters {
	uint64_t open;			/* connections now */
	uint64_t accepted, accept_errors, refused_full;
	uint64_t pushed_out;		/* connections that had to make room */
	uint64_t lines, lines_bad, lines_long;	/* taken; without sense; above LOGLINE_MAX */
	uint64_t lines_other;		/* without an object: HAProxy's own notices, as a rule */
	uint64_t no_token, wrong_token;	/* lines that are not believed */
	uint64_t datagrams, bytes;
	uint64_t dropped;		/* datagrams that the kernel had no room for */
};

struct logrx {
	struct agent *agent;
	struct ev_loop *loop;
	struct acceptor acceptor[LISTEN_MAX];
	ev_io udp[LISTEN_MAX];
	struct list conns;
	struct logline line;			/* scratch for one */
	char datagram[65536];
	uint32_t drops[LISTEN_MAX];		/* of each socket, as the kernel last counted them */
	struct logrx_counters count;
};

/* Sockets are <agent>'s, opened before. The struct is the caller's. */
void logrx_start(struct logrx *rx, struct agent *a, struct ev_loop *loop);
void logrx_tick(struct logrx *rx);	/* a few times a second */
void logrx_stop(struct logrx *rx);

#endif

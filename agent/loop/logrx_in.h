/* logrx_in.h - the log feed: HAProxy's log lines over TCP (newline-separated) and UDP, as facts. */
#ifndef KVROUTE_LOOP_LOGRX_IN_H
#define KVROUTE_LOOP_LOGRX_IN_H

#include <ev.h>

#include "agent/base/list.h"
#include "agent/feed/logline.h"
#include "agent/loop/acceptor_in.h"
#include "agent/loop/agent_in.h"

/* Written by the background thread. */
struct logrx_counters {
	uint64_t open;			/* connections now */
	uint64_t accepted, accept_errors, refused_full;
	uint64_t pushed_out;		/* connections closed to make room */
	uint64_t lines, lines_bad, lines_long;	/* accepted; invalid; longer than LOGLINE_MAX */
	uint64_t lines_other;		/* without JSON: usually HAProxy's own notices */
	uint64_t no_token, wrong_token;	/* lines rejected because of their token */
	uint64_t datagrams, bytes;
	uint64_t dropped;		/* datagrams that the kernel dropped */
};

struct logrx {
	struct agent *agent;
	struct ev_loop *loop;
	struct acceptor acceptor[LISTEN_MAX];
	ev_io udp[LISTEN_MAX];
	struct list conns;
	struct logline line;			/* scratch for one line */
	char datagram[65536];
	uint32_t drops[LISTEN_MAX];		/* of each socket: the kernel's last count */
	struct logrx_counters count;
};

/* Start receiving. The sockets are open and belong to <a>; the struct belongs to the caller. */
void logrx_start(struct logrx *rx, struct agent *a, struct ev_loop *loop);
void logrx_tick(struct logrx *rx);	/* a few times a second */
void logrx_stop(struct logrx *rx);

#endif

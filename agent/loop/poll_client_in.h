/* poll_client_in.h - poll one peer with the same request at an interval, without blocking.
 *
 *      idle --interval--> connecting --> sending --> reading --+--> idle; keeps the connection
 *       ^                      |            |           |      |
 *       '-- after a growing pause ----------+-----------'      '--> the owner is told
 *
 * An error, or a request that takes longer than <timeout_ms> in all, ends the request and the
 * connection. The pause after it doubles each time, up to POLL_CLIENT_PATIENCE_MS. A slow peer gets
 * a pause of at least half an interval. If a kept connection turns out to be closed, the request is
 * tried once on a new one, which is not a failure. */
#ifndef KVROUTE_LOOP_POLL_CLIENT_IN_H
#define KVROUTE_LOOP_POLL_CLIENT_IN_H

#include <ev.h>

#include "agent/os/addr.h"

#define POLL_CLIENT_PATIENCE_MS	10000

enum poll_client_reply {
	POLL_CLIENT_MORE,		/* the answer goes on */
	POLL_CLIENT_KEEP,		/* the answer is complete, and the connection can be used again */
	POLL_CLIENT_CLOSE,		/* the answer is complete */
	POLL_CLIENT_BAD		/* the answer is invalid; the owner has kept the reason */
};

struct poll_client {
	/* set by the owner; only the times may change between poll_client_start() and
	 * poll_client_stop() */
	struct ev_loop *loop;
	struct addr to;
	struct span request;
	msec interval_ms, timeout_ms;
	void *arg;
	void (*begin)(void *arg);	/* a request begins: forget the last answer */
	/* n is 0: the peer closed the connection */
	enum poll_client_reply (*feed)(void *arg, const char *p, size_t n);
	/* NULL: answered; "": POLL_CLIENT_BAD; else an error text */
	void (*ended)(void *arg, const char *error);

	ev_io io;			/* fd -1: not connected */
	ev_timer timer;
	enum { POLL_CLIENT_IDLE, POLL_CLIENT_CONNECTING, POLL_CLIENT_SENDING, POLL_CLIENT_READING } at;
	size_t sent;
	bool reused;			/* the connection has answered before */
	bool got_bytes;			/* of the current answer */
	unsigned failures;		/* in a row */
	msec began, took;		/* start of the open request; duration of the last one answered */
};

void poll_client_start(struct poll_client *k, msec after);
void poll_client_stop(struct poll_client *k);

/* Returns how long an answer that arrives now is valid: three intervals, or the time that three
 * requests take. */
msec poll_client_holds_ms(const struct poll_client *k);

#endif

/* poll_client_in.h - one peer that is asked the same thing again and again, and never waited for.
 *
 *      idle --interval--> connecting --> sending --> reading --+--> idle, the connection kept where it can be
 *       ^                      |            |           |      |
 *       '----- longer and longer -----------+-----------'      '--> and the owner is told
 *
 * What goes wrong, or takes longer than <timeout_ms> in all, ends the question and the connection. After it the
 * wait doubles each time, up to POLL_CLIENT_PATIENCE_MS. A peer that is slow gets at least half an interval of peace. A
 * kept connection that turns out to be closed costs one more try, on a new one, and is no failure. */
#ifndef KVROUTE_LOOP_POLL_CLIENT_IN_H
#define KVROUTE_LOOP_POLL_CLIENT_IN_H

#include <ev.h>

#include "agent/os/addr.h"

#define POLL_CLIENT_PATIENCE_MS	10000

enum poll_client_reply {
	POLL_CLIENT_MORE,		/* the answer goes on */
	POLL_CLIENT_KEEP,		/* it is whole, and the connection may be asked again */
	POLL_CLIENT_CLOSE,		/* it is whole */
	POLL_CLIENT_BAD		/* no sense to be made of it; the owner has kept why */
};

struct poll_client {
	/* the owner's; not to be changed between poll_client_start() and poll_client_stop(), but for the times */
	struct ev_loop *loop;
	struct addr to;
	struct span request;
	msec interval_ms, timeout_ms;
	void *arg;
	void (*begin)(void *arg);	/* an answer begins: forget the last one */
	enum poll_client_reply (*feed)(void *arg, const char *p, size_t n);	/* n is 0: the peer has ended it */
	void (*ended)(void *arg, const char *error);	/* NULL: answered; "": POLL_CLIENT_BAD; else a few words */

	ev_io io;			/* fd -1: not connected */
	ev_timer timer;
	enum { POLL_CLIENT_IDLE, POLL_CLIENT_CONNECTING, POLL_CLIENT_SENDING, POLL_CLIENT_READING } at;
	size_t sent;
	bool reused;			/* of the connection: it has answered before */
	bool got_bytes;			/* something of this answer has come */
	unsigned failures;		/* in a row */
	msec began, took;		/* the question that is open; the last that was answered */
};

void poll_client_start(struct poll_client *k, msec after);
void poll_client_stop(struct poll_client *k);

/* How long an answer that comes now may be believed, from now: three intervals, or as long as it takes to get three. */
msec poll_client_holds_ms(const struct poll_client *k);

#endif

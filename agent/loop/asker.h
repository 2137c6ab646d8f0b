/* asker.h - one peer that is asked the same thing again and again, and never waited for.
 *
 *      idle --interval--> connecting --> sending --> reading --+--> idle, the connection kept where it can be
 *       ^                      |            |           |      |
 *       '----- longer and longer -----------+-----------'      '--> and the owner is told
 *
 * What goes wrong, or takes longer than <timeout_ms> in all, ends the question and the connection. After it the
 * wait doubles each time, up to ASKER_PATIENCE_MS. A peer that is slow gets at least half an interval of peace. A
 * kept connection that turns out to be closed costs one more try, on a new one, and is no failure. */
#ifndef KVROUTE_LOOP_ASKER_H
#define KVROUTE_LOOP_ASKER_H

#include <ev.h>

#include "agent/os/addr.h"

#define ASKER_PATIENCE_MS	10000

enum asker_says {
	ASKER_MORE,		/* the answer goes on */
	ASKER_KEEP,		/* it is whole, and the connection may be asked again */
	ASKER_CLOSE,		/* it is whole */
	ASKER_BAD		/* no sense to be made of it; the owner has kept why */
};

struct asker {
	/* the owner's; not to be changed between asker_start() and asker_stop(), but for the times */
	struct ev_loop *loop;
	struct addr to;
	struct span question;
	msec interval_ms, timeout_ms;
	void *arg;
	void (*begin)(void *arg);	/* an answer begins: forget the last one */
	enum asker_says (*take)(void *arg, const char *p, size_t n);	/* n is 0: the peer has ended it */
	void (*over)(void *arg, const char *error);	/* NULL: answered; "": ASKER_BAD; else a few words */

	ev_io io;			/* fd -1: not connected */
	ev_timer timer;
	enum { ASKER_IDLE, ASKER_CONNECTING, ASKER_SENDING, ASKER_READING } at;
	size_t sent;
	bool reused;			/* of the connection: it has answered before */
	bool heard;			/* something of this answer has come */
	unsigned failures;		/* in a row */
	msec began, took;		/* the question that is open; the last that was answered */
};

void asker_start(struct asker *k, msec after);
void asker_stop(struct asker *k);

/* How long an answer that comes now may be believed, from now: three intervals, or as long as it takes to get three. */
msec asker_holds_ms(const struct asker *k);

#endif

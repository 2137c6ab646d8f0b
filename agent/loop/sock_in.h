/* sock_in.h - one SPOP connection on its socket: all of it happens on its worker's thread. */
#ifndef KVROUTE_LOOP_SOCK_IN_H
#define KVROUTE_LOOP_SOCK_IN_H

#include "agent/loop/worker_in.h"

#define SOCK_IN_FIRST	(16384u + SPOP_LENGTH_BYTES)	/* an input buffer; long frames ask for more */
#define SOCK_OUT_BYTES	(16384u + SERVE_OUT_MIN)	/* an output buffer */

/* Give <w> the spare buffers it lacks. False: no memory, or not in the budget. */
bool sock_spares(struct worker *w);

/* Take over <fd>, or close it when there are too many. */
void sock_open(struct worker *w, int fd, const union sockaddr_any *peer);

/* Read from the sockets that are ready, one after the other, and answer: for about a millisecond. What
 * is left comes in the next turn of the loop, which does not wait then. */
void sock_turn(struct worker *w);

/* End what is too old; called once in a while. Looks at no connection that is young. */
void sock_sweep(struct worker *w, msec now);

/* The worker drains: every connection ends as soon as nothing is half-way on it. */
void sock_drain_all(struct worker *w);

/* Close what is left, at once. */
void sock_close_all(struct worker *w);

/* Connections that still have something to say (SOCK_LINGER ones have not). */
bool sock_any(const struct worker *w);

#endif

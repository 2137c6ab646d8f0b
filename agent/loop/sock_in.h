/* sock_in.h - one SPOP connection on its socket. Everything runs on the thread of its worker. */
#ifndef KVROUTE_LOOP_SOCK_IN_H
#define KVROUTE_LOOP_SOCK_IN_H

#include "agent/loop/worker_in.h"

/* an input buffer; long frames need a larger one */
#define SOCK_IN_FIRST	(16384u + SPOP_LENGTH_BYTES)
#define SOCK_OUT_BYTES	(16384u + SERVE_OUT_MIN)	/* an output buffer */

/* Allocate the spare buffers that <w> lacks. Returns false if there is no memory or the budget is
 * used up. */
bool sock_spares(struct worker *w);

/* Wipe them; to be called from time to time, because they hold bytes of prompts. */
void sock_wipe_spares(struct worker *w);

void sock_free_spares(struct worker *w);

/* Take over <fd>; close it if there are too many connections. */
void sock_open(struct worker *w, int fd, const union sockaddr_any *peer);

/* Read from the ready sockets in turn, and answer, for about a millisecond. The rest follows in the
 * next turn of the loop, which then does not wait. */
void sock_turn(struct worker *w);

/* Close connections that have timed out. Called from time to time; looks only at the oldest. */
void sock_sweep(struct worker *w, msec now);

/* Drain: each connection ends as soon as nothing on it is incomplete. */
void sock_drain_all(struct worker *w);

/* Close all connections at once. */
void sock_close_all(struct worker *w);

/* Returns true if a connection still has something to send (not those in SOCK_LINGER). */
bool sock_any(const struct worker *w);

#endif

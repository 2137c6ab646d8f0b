/* doctor_live.h - what "doctor --live" asks HAProxy and the agent. */
#ifndef KVROUTE_CTL_DOCTOR_LIVE_H
#define KVROUTE_CTL_DOCTOR_LIVE_H

#include "agent/ctl/doctor.h"

struct live {
	struct doctor *d;
	const struct doctor_args *a;
	const char *metrics;
	struct doctor_way way;
	size_t n_sent;			/* bytes of the request */
	char uid[128], be[128], srv[128], want[128], why[64], err[64];
	double decisions, done, lines;	/* counters before the request */
	int status;			/* of the agent's last answer; 0: none */
	struct buf last;		/* the last line of the ring before the request */
};

/* Append what the peer sends until it closes, and a NUL. Returns 0, or -1. */
int live_read(int fd, struct buf *to);

/* Send a command to HAProxy's stats socket, and read as live_read(). Returns 0, or -1 with a
 * sentence in <why>. */
int live_ask_haproxy(const struct live *l, const char *command, struct buf *to, const char **why);

/* Append the lines of the ring, and read as live_read(). Returns 0, or -1. */
int live_ask_ring(const struct live *l, struct buf *to);

/* Set l->last to the last line of the ring and a NUL; empty if there is none. */
void live_mark_ring(struct live *l);

/* Get a page of the agent, and a NUL. Returns 0, or -1 with a sentence in <why>; sets l->status. */
int live_ask_agent(struct live *l, const char *path, struct buf *to, const char **why);

/* Read the counters of decisions, ends of requests and lines of the log feed. */
bool live_counters(struct live *l, double *decisions, double *done, double *lines,
		   const char **why);

/* Write the request, with a body of random size and text, and set l->n_sent. */
void live_request(struct live *l, const char *url, struct buf *to);

#endif

/* doctor_live.h - what "doctor --live" asks HAProxy and the agent. */
#ifndef KVROUTE_CTL_DOCTOR_LIVE_H
#define KVROUTE_CTL_DOCTOR_LIVE_H

#include "agent/ctl/doctor.h"

#include <sys/types.h>

#define LIVE_AGENTS	(2 * DOCTOR_AGENTS)
#define LIVE_TLS	"https://"

/* An agent that HAProxy may ask. */
struct live_agent {
	const char *metrics;		/* address */
	bool answers;			/* it did before the request */
	double decisions, done, lines;	/* counters before the request */
	int status;			/* of its last answer; 0: none */
};

struct live {
	struct doctor *d;
	const struct doctor_args *a;
	struct live_agent agent[LIVE_AGENTS];
	unsigned n_agents;
	struct doctor_way way;
	size_t n_sent;			/* bytes of the request */
	char uid[128], be[128], srv[128], want[128], why[64], err[64];
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

/* Get a page of an agent, and a NUL. Returns 0, or -1 with a sentence in <why>; sets x->status. */
int live_ask_agent(struct live_agent *x, const char *path, struct buf *to, const char **why);

/* Read the counters of decisions, ends of requests and lines of the log feed. */
bool live_counters(struct live_agent *x, double *decisions, double *done, double *lines,
		   const char **why);

/* Connect to <address> through TLS; any certificate will do. Returns a descriptor, and the process
 * that live_end_tls() ends; or -1 with a sentence in <why>, which is NULL without openssl. */
int live_connect_tls(const char *address, pid_t *child, const char **why);
void live_end_tls(pid_t child);

/* Print the result of a station; lost() returns -1. */
void live_passed(const char *station, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int live_lost(const char *station, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Wait before try <i>, which counts from 0. Returns false after --wait seconds. */
bool live_next_try(const struct live *l, unsigned i);
/* Copy the value of <name> of a JSON line. */
bool live_take_field(const char *line, size_t n, const char *name, char *to, size_t room);

/* See which agents answer; find the one that saw the request, and wait for its end there. */
int live_check_agents(struct live *l);
int live_await_end(struct live *l);
int live_await_counters(struct live *l, const char *reason);

/* Return the URL that requests go to, "" if none is known; and its part after the scheme. */
const char *live_url(const struct live *l);
const char *live_host(const char *url);

/* Append the head of the request, up to the length of the body. */
void live_head(const struct live *l, const char *url, struct buf *to);

/* Count the page faults of HAProxy for requests that never end, and print the verdict. Returns 0,
 * or -1 if its buffers return to the kernel. */
int live_check_heap(const struct live *l);

/* Write the request, with a body of random size and text, and set l->n_sent. */
void live_request(struct live *l, const char *url, struct buf *to);

#endif

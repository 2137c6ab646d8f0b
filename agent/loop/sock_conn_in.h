/* sock_conn_in.h - a SPOP connection from the inside, for the files sock*.c.
 *
 *      sock.c          opening, readiness, reading, the turn: who is read from next
 *      sock_answer.c   what was read to serve, its answers to the socket
 *      sock_end.c      timeouts, draining, closing
 *      sock_log.c      lines of the log
 *
 * Functions that may free <s> say so. */
#ifndef KVROUTE_LOOP_SOCK_CONN_IN_H
#define KVROUTE_LOOP_SOCK_CONN_IN_H

#include "agent/loop/count_in.h"
#include "agent/loop/sock_in.h"
#include "agent/os/clock.h"

struct sock {
	struct list link;	/* in worker->socks[phase] */
	struct list ready;	/* in worker->ready while bytes wait in the socket */
	enum sock_phase phase;
	struct worker *w;
	ev_io io;
	msec since;		/* last frame; or when the phase began */
	struct conn_buf in, out;
	size_t sent;		/* of out */
	struct arrivals arrivals;
	uint64_t read_turn;	/* of worker->turns, when it was last read from */
	bool ending;		/* nothing more will be said after <out> */
	bool losing;		/* of the frame in <in> only the head is kept; */
	size_t skip;		/* so many bytes of it are still to come */
	union sockaddr_any peer;
	struct serve serve;
};

/* sock.c */
void sock_set_phase(struct sock *s, enum sock_phase phase);
void sock_watch(struct sock *s, int events);
void sock_read(struct sock *s);			/* may free <s> */
void sock_keep_spares(struct worker *w, struct sock *s);	/* may free <s> */

/* sock_answer.c */
void sock_answer(struct sock *s);		/* may free <s> */
void sock_write(struct sock *s);		/* may free <s> */
/* One send() of all there is. 0: all sent; 1: the peer must read first; -1: <s> is freed. */
int sock_flush(struct sock *s);
void sock_say_goodbye(struct sock *s, int status);	/* an AGENT-DISCONNECT after what <out> holds */

/* sock_end.c */
void sock_free(struct sock *s, uint64_t *reason);	/* <reason>: a counter, or NULL */
void sock_no_memory(struct sock *s);		/* frees <s> */
void sock_linger(struct sock *s);		/* everything is sent: wait for the peer to see it */
bool sock_linger_read(struct sock *s);		/* throw away what comes; true: more may come */

/* sock_log.c */
bool sock_log_begin(struct log_line *ln, struct sock *s, enum log_level level, enum log_kind kind,
		    const char *msg);
void sock_log_losing(struct sock *s, size_t bytes);
/* <first>: what its last bytes began with; before a HELLO they tell the protocol. */
void sock_log_closing(struct sock *s, const struct spop_rd *first);
void sock_log_late(struct sock *s);
void sock_log_full(struct worker *w, uint32_t max);

#endif

/* sock_conn_in.h - the internals of a SPOP connection, for the files sock*.c.
 *
 *      sock.c          opening, readiness, reading, the order of reads in a turn
 *      sock_answer.c   received bytes to serve, answers to the socket
 *      sock_end.c      timeouts, draining, closing
 *      sock_spare.c    spare buffers
 *      sock_log.c      log lines
 *
 * Functions that may free <s> say so. */
#ifndef KVROUTE_LOOP_SOCK_CONN_IN_H
#define KVROUTE_LOOP_SOCK_CONN_IN_H

#include "agent/base/count.h"
#include "agent/loop/sock_in.h"
#include "agent/os/clock.h"

struct sock {
	struct list link;	/* in worker->socks[phase] */
	struct list ready;	/* in worker->ready while bytes wait in the socket */
	enum sock_phase phase;
	struct worker *w;
	ev_io io;
	msec since;		/* time of the last frame, or of the start of the phase */
	struct conn_buf in, out;
	size_t sent;		/* bytes of <out> */
	struct arrivals arrivals;
	uint64_t read_turn;	/* value of worker->turns at the last read */
	bool ending;		/* nothing follows <out> */
	bool losing;		/* <in> holds only the head of a frame; */
	size_t skip;		/* this many bytes of the frame follow */
	union sockaddr_any peer;
	struct serve serve;
};

/* sock.c */
void sock_set_phase(struct sock *s, enum sock_phase phase);
void sock_watch(struct sock *s, int events);
void sock_read(struct sock *s);			/* may free <s> */
void sock_look(struct sock *s, usec now);	/* notes how many bytes wait, if it is time for that */

/* sock_answer.c */
void sock_answer(struct sock *s);		/* may free <s> */
void sock_write(struct sock *s);		/* may free <s> */
/* Send all of <out> with one send(). Returns 0 if all is sent, 1 if the peer must read first, or -1
 * if <s> was freed. */
int sock_flush(struct sock *s);
void sock_say_goodbye(struct sock *s, int status);	/* appends an AGENT-DISCONNECT to <out> */

/* sock_end.c */
void sock_free(struct sock *s, uint64_t *reason);	/* <reason>: a counter, or NULL */
void sock_no_memory(struct sock *s);		/* frees <s> */
void sock_linger(struct sock *s);		/* everything is sent: wait for the peer to read it */
bool sock_linger_read(struct sock *s);		/* discards input; returns true if more may come */

/* sock_spare.c */
/* Restore the spare buffers after each event of <s>. If one is missing and cannot be allocated,
 * close <s>, which has it. May free <s>. */
void sock_keep_spares(struct worker *w, struct sock *s);
/* Exchange the input buffer for one of at least <cap> bytes, with the same content. Returns false
 * if there is no memory or the budget is used up. */
bool sock_grow_in(struct sock *s, size_t cap);
/* Move the last <n> bytes of the input buffer, at most SOCK_IN_FIRST, to a first buffer, and return
 * the old one. Returns false, with nothing changed, if there is no memory or the budget is used
 * up. */
bool sock_shrink_in(struct sock *s, size_t n);
void sock_return_in(struct sock *s);
void sock_trim_spares(struct worker *w);	/* at each sweep */

/* sock_log.c */
bool sock_log_begin(struct log_line *ln, struct sock *s, enum log_level level, enum log_kind kind,
		    const char *msg);
void sock_log_losing(struct sock *s, size_t bytes);
/* <first> is the start of the last bytes received; before a HELLO it shows the protocol. */
void sock_log_closing(struct sock *s, const struct spop_rd *first);
void sock_log_late(struct sock *s);
void sock_log_full(struct worker *w, uint32_t max);

#endif

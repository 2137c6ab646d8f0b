/* serve.h - one SPOP connection in memory: bytes in, bytes out. SPOP meets the core here.
 *
 * One NOTIFY gets exactly one ACK with at least one action, whatever goes wrong in between. An ACK
 * that sets no server means "balance as you would without us". */
#ifndef KVROUTE_SERVE_SERVE_H
#define KVROUTE_SERVE_SERVE_H

#include "agent/route/route.h"
#include "spoe/spop.h"

#define SERVE_SECONDS_BUCKETS	16

/* Messages of one NOTIFY that are looked at. HAProxy sends those of one event or group, a few; a
 * forged frame of 1 MiB could hold 150,000 and would keep its thread busy. */
#define SERVE_MESSAGES_MAX	16

/* What a thread counts; its owner adds the threads up. Written by one thread with relaxed stores. */
struct serve_counters {
	uint64_t frames, notifies, acks, messages, messages_unknown, args_bad;
	uint64_t hellos, healthchecks, aborts, fragments;
	uint64_t lost;		/* of the notifies: answered without a look, for want of memory */
	uint64_t uncompared;	/* route messages decided without the rules of policy.compare */
	uint64_t hurried;	/* route messages decided in a hurry */
	uint64_t closed_by_peer, closed_bad[SPOP_STATUS_UNKNOWN + 1];
	uint64_t us_sum, us_count, us_bucket[SERVE_SECONDS_BUCKETS];	/* agent time of route messages */
};

extern const uint32_t serve_us_bounds[SERVE_SECONDS_BUCKETS];	/* upper bounds; the last is no bound */

/* Time as messages tell it in <now_ms>, for simulations: it never goes back, and the core is ticked by it. All
 * threads share it. */
struct message_clock {
	msec now, ticked;	/* atomics */
};

/* How long a frame has waited for its answer, against what HAProxy waits. */
enum serve_wait {
	SERVE_IN_TIME,
	SERVE_BUSY,	/* leave out what changes no answer: the rules of policy.compare */
	SERVE_HURRY,	/* decide from what is cheap to know */
	SERVE_LATE	/* answer "overload" */
};

/* What connections of one thread share. */
struct serve_env {
	struct route *route;
	struct route_scratch *scratch;
	struct serve_counters *count;
	usec (*clock)(void *arg);	/* monotonic */
	void *clock_arg;
	int64_t (*wall)(void *arg);	/* seconds since 1970, UTC; NULL: not told */
	struct message_clock *message_clock;	/* NULL: the core goes by <clock> */
	/* Asked once for each message that wants a decision; NULL: all are in time. <now>: when its frame was begun,
	 * <asked>: when HAProxy asked, ms by a clock of its own, -1 if it does not say. */
	enum serve_wait (*wait)(void *arg, usec now, msec asked);
	void *wait_arg;
};

struct serve {
	struct spop_conn conn;
	struct serve_env *env;
	bool closing;		/* write what is in <out>, then close */
	struct spop_event why;	/* the event that asked for it */
};

void serve_init(struct serve *s, struct serve_env *env, const struct spop_conn_opts *o);
void serve_fini(struct serve *s);

/* Take as many whole frames of <in> as there are and write all answers to <out>, which needs room
 * for at least SERVE_OUT_MIN bytes; when it runs short the rest of <in> waits for the next call.
 * Returns the bytes used, <= n. Check <closing> afterwards. */
#define SERVE_OUT_MIN	4096u
size_t serve_feed(struct serve *s, const uint8_t *in, size_t n, struct spop_wr *out);

/* The frame that begins in <in> was thrown away but for its first <n> >= SPOP_HEAD_MAX bytes, for want
 * of memory: answer it all the same. Room in <out> as above; uses all of <in>. */
void serve_lose(struct serve *s, const uint8_t *in, size_t n, struct spop_wr *out);

/* Drain: an AGENT-DISCONNECT behind the last ACK. */
void serve_stop(struct serve *s, int status, struct spop_wr *out);

#endif

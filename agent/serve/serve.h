/* serve.h - one SPOP connection in memory: bytes in, bytes out. It joins SPOP and the core.
 *
 * One NOTIFY gets exactly one ACK with at least one action, also after errors. An ACK that sets no
 * server means "balance as you would without us". */
#ifndef KVROUTE_SERVE_SERVE_H
#define KVROUTE_SERVE_SERVE_H

#include "agent/base/histogram.h"
#include "agent/route/route.h"
#include "spoe/spop.h"

#define SERVE_SECONDS_BUCKETS	16

/* Messages of one NOTIFY that are read. HAProxy sends the few of one event or group; a forged frame
 * of 1 MiB could hold 150,000 and keep its thread busy. */
#define SERVE_MESSAGES_MAX	16

/* Counters of one thread, which writes them with relaxed stores. The owner adds up all threads. */
struct serve_counters {
	uint64_t frames, notifies, acks, messages, messages_unknown, args_bad;
	uint64_t hellos, healthchecks, aborts, fragments;
	uint64_t lost;		/* NOTIFYs answered without being read, because memory ran out */
	uint64_t uncompared;	/* route messages decided without the rules of policy.compare */
	uint64_t hurried;	/* route messages decided with less work */
	uint64_t closed_by_peer, closed_bad[SPOP_STATUS_UNKNOWN + 1];
	/* agent time of route messages: until the ACK, and to finish the decision after it */
	uint64_t us_sum, us_count, us_bucket[SERVE_SECONDS_BUCKETS];
};

/* Histograms of one pool in one thread: time of its route messages in us, prompt tokens of its
 * requests. The ends keep other threads' data out of its cache lines. */
struct serve_pool {
	char before[64];
	struct histogram us, tokens;
	char after[64];
};

/* Of one thread, by route_answer.pool; NULL: no request yet. Only this thread adds one, and any may
 * read. */
#define SERVE_POOLS_MAX	4096u
struct serve_pools {
	struct serve_pool *of[SERVE_POOLS_MAX];
};

/* Upper bounds of <tokens>. Those of <us> are serve_us_bounds. */
extern const uint32_t serve_token_bounds[HISTOGRAM_BUCKETS - 1];

void serve_pools_free(struct serve_pools *p);	/* the histograms; not <p> */

/* upper bounds; the last is infinite */
extern const uint32_t serve_us_bounds[SERVE_SECONDS_BUCKETS];

/* Time from <now_ms> of messages, for simulations. It never goes back, and the core is ticked by
 * it. All threads share it. */
struct message_clock {
	msec now, ticked;	/* atomics */
};

/* How long a frame has waited, compared with HAProxy's timeout. */
enum serve_wait {
	SERVE_IN_TIME,
	SERVE_BUSY,	/* leave out work that changes no answer: the rules of policy.compare */
	SERVE_HURRY,	/* decide with cheap work only */
	SERVE_LATE	/* answer "overload" */
};

/* The last list of variables and its meaning: it comes with each request and rarely changes. */
#define SERVE_LIST_KEPT	123u	/* bytes; a longer list is read each time */

struct serve_list {
	uint32_t vars;
	uint8_t n;		/* 0: none yet */
	char text[SERVE_LIST_KEPT];
};

/* What the connections of one thread have in common. */
struct serve_env {
	struct route *route;
	struct route_scratch *scratch;
	struct serve_counters *count;
	struct serve_pools *pools;	/* NULL: no histograms by pool */
	usec (*clock)(void *arg);	/* monotonic */
	void *clock_arg;
	int64_t (*wall)(void *arg);	/* seconds since 1970, UTC; NULL: unknown */
	struct message_clock *message_clock;	/* NULL: the core uses <clock> */
	/* Called once for each message that needs a decision; NULL: all are in time. <now>: start of
	 * its frame; <asked>: when HAProxy sent it, in ms of its own clock, -1 if unknown. */
	enum serve_wait (*wait)(void *arg, usec now, msec asked);
	void *wait_arg;
	struct serve_list list;
	/* the last decision, if serve_finish() is due */
	struct serve_unfinished {
		bool any, recorded, later;	/* <later>: it was of a later slice of a body */
		struct route_answer answer;
		usec us;		/* until its ACK was written */
	} unfinished;
};

struct serve {
	struct spop_conn conn;
	struct serve_env *env;
	bool closing;		/* write what is in <out>, then close */
	struct spop_event why;	/* the event that caused it */
};

void serve_init(struct serve *s, struct serve_env *env, const struct spop_conn_opts *o);
void serve_fini(struct serve *s);

/* Read all whole frames of <in> and write their answers to <out>, which must have room for at least
 * SERVE_OUT_MIN bytes. If it runs short, the rest of <in> is left for the next call. Returns the
 * bytes used, <= n. Check <closing> afterwards.
 *
 * The last decision may be unfinished then (route_begin()). The caller sends <out> and calls
 * serve_finish(), before <in> changes and before this thread reads from another connection. */
#define SERVE_OUT_MIN	4096u
size_t serve_feed(struct serve *s, const uint8_t *in, size_t n, struct spop_wr *out);

/* Answer a frame of which only the first <n> >= SPOP_HEAD_MAX bytes were kept, because memory ran
 * out. Room in <out> as above; uses all of <in>. */
void serve_lose(struct serve *s, const uint8_t *in, size_t n, struct spop_wr *out);

/* Finish the last decision of this thread, if it is not. */
void serve_finish(struct serve_env *env);

/* Drain: write an AGENT-DISCONNECT after the last ACK. */
void serve_stop(struct serve *s, int status, struct spop_wr *out);

#endif

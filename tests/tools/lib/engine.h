/* engine.h - the stub engine as a program: sockets, requests, faults and counters around one
 * scheduler.
 *
 *    conn.rd -> request -> ask -> sched          timer: a step of simulated work
 *    conn.wr <- out     <- answer <- sched_end() <- at the end of the step
 *
 * Handlers only mark connections as dirty. Writing and closing happens after the batch of events,
 * so that no list changes while it is walked. */
#ifndef KVROUTE_TOOLS_ENGINE_H
#define KVROUTE_TOOLS_ENGINE_H

#include <ev.h>

#include "tests/tools/lib/addr.h"
#include "tests/tools/lib/answer.h"
#include "tests/tools/lib/http1.h"

#define ENGINE_LISTEN_MAX	8
#define HIST_BUCKETS		19

struct engine_opts {
	const char *name, *model;
	struct sched_opts sched;
	struct ask_limits ask;
	uint64_t max_body;
	uint32_t max_conns;
	double hold_s;		/* KV that is not fetched is released after so long */
	double transfer_ms, transfer_1k_ms;	/* to fetch KV: once, and for each 1000 tokens */
	bool headers_early;	/* of a stream: when it is accepted, not with its first token */
};

enum health { HEALTH_OK, HEALTH_FAIL, HEALTH_HANG };

/* The current faults of the engine. */
struct faults {
	double slow;		/* every step takes so many times longer */
	int fail;		/* requests are answered with this status; 0 they are not */
	bool stall;		/* requests are taken and never answered */
	bool refuse;		/* only control listeners are open */
	enum health health;
	uint32_t drop;		/* answers end, cut, after so many tokens; 0 they do not */
	double kv;		/* this share of the cache is reported as used; 0: the true one */
};

struct hist {
	uint64_t n[HIST_BUCKETS + 1];
	double sum;
};

struct engine_counts {
	uint64_t requests;	/* to an inference path */
	uint64_t finished;	/* answered in full */
	uint64_t failed;	/* by "fail" */
	uint64_t dropped;	/* by "drop" */
	uint64_t stalled;	/* by "stall" */
	uint64_t bad;		/* 4xx of our own, and what was no HTTP */
	uint64_t aborted;	/* the client went away first */
	uint64_t accepted;
	uint64_t held;		/* prompts computed for another engine */
	uint64_t given, expired;	/* of these: fetched by it; released because it did not */
	uint64_t fetched, unfetched;	/* prompts that another engine computed; that could not be had */
};

struct listener {
	struct engine *e;
	struct addr addr;
	int fd;			/* -1 while refusing */
	bool control;		/* stays open whatever happens */
	struct ev_io rd;
};

struct engine {
	struct engine_opts o;
	struct ev_loop *loop;
	struct sched *sched;
	struct ev_timer step, restore;
	struct ev_prepare settle;
	bool stepping;
	double step_at;			/* when the step under way is over */
	struct faults faults;
	struct engine_counts counts;
	struct hist ttft, e2e, queued;
	struct listener listeners[ENGINE_LISTEN_MAX];
	size_t n_listeners;
	struct list conns, dirty, held;
	uint32_t n_conns, n_held;
	double started;			/* seconds since 1970 */
	uint64_t next_id;
	bool leaving;
};

enum conn_state {
	CONN_HEAD, CONN_BODY,
	CONN_BUSY,	/* a request is being worked at, or never will be */
	CONN_DRAIN	/* answered; later bytes of the client are dropped for a moment */
};

enum load_format { LOAD_NONE, LOAD_TEXT, LOAD_JSON };

struct conn {
	struct list link, dirty;
	struct engine *e;
	int fd;
	bool control;
	enum conn_state state;
	struct ev_io rd, wr;
	struct ev_timer later;		/* the answer of "fail"; the end of CONN_DRAIN */
	struct buf in, body, out;
	struct http_body framing;
	bool eof, kill;			/* to be closed: by the client; by us */
	bool keep, no_body, chunked;	/* how the request at hand is answered */
	bool post;
	bool asked;			/* the request at hand is for inference */
	enum load_format load;		/* of the load header that it wants */
	char target[256];
	struct job *job;
};

/* engine_conn.c: requests come in, answers go out */
int engine_listen(struct engine *e, struct listener *l, struct err *err);
void engine_unlisten(struct engine *e, struct listener *l);
void conn_dirty(struct conn *c);
void engine_settle(struct engine *e);		/* do what dirty connections need */
void conn_respond(struct conn *c, int status, const char *type, struct span body);
void conn_respond_error(struct conn *c, int status, const char *text);
void conn_respond_later(struct conn *c, double seconds);	/* with faults.fail */
void conn_stream_start(struct conn *c);
void conn_stream(struct conn *c, struct span events);
void conn_stream_end(struct conn *c);
void engine_close_all(struct engine *e);

/* engine_work.c: from a request to a job, and what the scheduler says of it */
void engine_request(struct conn *c);		/* whole: c->target, c->post, c->body */
void engine_abort(struct conn *c);		/* cancel c->job, if any */
void engine_event(void *arg, struct seq *q, bool token);
void engine_kick(struct engine *e);		/* start a step unless one is under way */
void engine_step(struct ev_loop *loop, struct ev_timer *w, int revents);

void engine_begin(struct conn *c);		/* give c->job to the scheduler */
void engine_job_free(struct job *j);

/* engine_kv.c: prompts that one engine computes and another decodes */
void kv_hold(struct engine *e, struct job *j);	/* <j> is done; takes it */
void kv_params(const struct engine *e, const struct job *j, struct buf *answer);
void kv_give(struct conn *c, struct span query);	/* GET /kv */
void kv_fetch(struct conn *c);			/* then engine_begin() */
void kv_fetch_cancel(struct job *j);
void kv_release_all(struct engine *e);

/* engine_control.c */
void engine_faults_clear(struct engine *e);
void engine_control_set(struct conn *c, struct span query);
void engine_control_get(struct conn *c);

/* engine_metrics.c */
void hist_add(struct hist *h, double seconds);
void engine_metrics(struct engine *e, struct buf *out);
void engine_loads(struct engine *e, struct buf *out);	/* as SGLang's /v1/loads */
void engine_load_header(struct engine *e, enum load_format f, struct buf *out);

#endif

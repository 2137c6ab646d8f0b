/* load.h - the parts of the load generator: conversations, replies, counts.
 *
 *    talk (a conversation) -> request -> slot (a connection) -> reply -> talk's next turn
 *                                                           \-> tally
 *
 * None of these files uses a socket or a clock; chat_load.c does. */
#ifndef KVROUTE_TOOLS_LOAD_H
#define KVROUTE_TOOLS_LOAD_H

#include <stdio.h>

#include "tests/tools/lib/ask.h"
#include "tests/tools/lib/http1.h"

#define LOAD_HEADERS_MAX	8
#define LOAD_ENGINES_MAX	64
#define LOAD_NAME_MAX		48

struct load_opts {
	enum api api;		/* chat, completions, messages or responses */
	const char *url, *host, *model, *tenant_header, *session_header;
	const char *label, *out, *trace;
	const char *headers[LOAD_HEADERS_MAX];
	size_t n_headers;
	uint32_t conversations, turns, live, concurrency;
	uint32_t systems, system_bytes, user_bytes, max_tokens, tenants;
	uint64_t seed;
	double rate, think, seconds, timeout;
	bool think_constant;	/* all pauses are <think> long, else it is the mean of an exponential */
	bool chunked, model_first, whole;	/* whole: answers are not streamed */
	bool progress, json;
	const char *agents;	/* a plan of agents.h */
	const char *dry;	/* where its requests go instead of a server */
	enum agents_names { NAMES_HEADERS, NAMES_BODY, NAMES_NONE } names;	/* of its sessions */
};

/* ---- load_opts.c: the command line ---- */

/* Returns -1, with a message on stderr, if the command line is wrong. Exits on --help. */
int load_opts_read(struct load_opts *o, int argc, char **argv);

/* ---- load_talk.c: conversations ---- */

struct talk {
	uint32_t id, turn;		/* turns done */
	uint32_t system, tenant;
	double ready_at;		/* seconds, on the caller's clock: when its next request is due */
	char engine[LOAD_NAME_MAX];	/* that answered the last turn */
	struct buf said;		/* all turns so far, as the API wants them in a body */
};

void talk_init(struct talk *t, const struct load_opts *o, uint32_t id);
void talk_fini(struct talk *t);

/* Add a turn of the user. Call once before each talk_request(). */
void talk_user(struct talk *t, const struct load_opts *o);
void talk_request(const struct talk *t, const struct load_opts *o, struct buf *out);

/* The parts of a request, for agents.h. <more>: whole header lines. */
void load_put_request(const struct talk *t, const struct load_opts *o, struct span more,
		      struct span body, struct buf *out);
void load_put_rest(const struct load_opts *o, struct buf *out);	/* model, form of the answer */
void load_words(struct buf *out, uint64_t key, size_t n);	/* <n> bytes, only by <key> */
uint64_t load_key(const struct load_opts *o, uint64_t a, uint64_t b);

/* Add the assistant's turn: <text> becomes part of the next request. */
void talk_assistant(struct talk *t, const struct load_opts *o, struct span text);

/* Return the seconds that the user thinks before the next turn. They depend only on seed, talk and
 * turn, so two runs of one seed have the same pauses, whatever the time of the answers. */
double talk_think(const struct talk *t, const struct load_opts *o);

/* ---- load_due.c: which talk is due first ---- */

/* A heap: talks by <ready_at>, of equals the one with the lower id. */
struct due {
	struct talk **heap;
	uint32_t n;
};

void due_init(struct due *d, uint32_t max);	/* room for <max> talks */
void due_fini(struct due *d);			/* the talks stay the caller's */
void due_put(struct due *d, struct talk *t);
struct talk *due_first(const struct due *d);	/* NULL: there is none */
void due_take(struct due *d);			/* takes out the first; there is one */

/* ---- load_reply.c: answers ---- */

struct reply {
	enum api api;
	bool stream;		/* the answer is text/event-stream */
	bool complete;		/* it ended as its API says */
	bool bad;		/* it made no sense */
	bool has_usage;
	uint32_t prompt, cached, out;
	struct buf line;	/* of an event that is not whole, or the whole body */
	struct buf text;
};

void reply_init(struct reply *r, enum api api, bool stream);
void reply_feed(struct reply *r, struct span body);
void reply_end(struct reply *r);	/* the body is whole */
void reply_fini(struct reply *r);

/* ---- load_tally.c: figures ---- */

enum load_error { LOAD_OK, LOAD_CONNECT, LOAD_CLOSED, LOAD_CUT, LOAD_TIMEOUT, LOAD_STATUS, LOAD_BAD,
		  LOAD_ERRORS };

struct times {
	float *ms;
	size_t n, cap;
};

struct tally {
	uint64_t n_error[LOAD_ERRORS];	/* [LOAD_OK]: that went well */
	uint64_t n_status[600];
	uint64_t prompt, cached, out, no_usage;
	uint64_t follow_ups, stuck;	/* later turns; those that met the same engine again */
	uint64_t reconnects;		/* kept connections that were closed before their next use */
	struct times ttft, ttft_first, ttft_next, total;
	struct times late;		/* delay after the time when it was due */
	struct times think;		/* pauses drawn */
	struct {
		char name[LOAD_NAME_MAX];
		uint64_t n;
	} engines[LOAD_ENGINES_MAX];
	size_t n_engines;
	double seconds;
	uint32_t unstarted;		/* conversations that the time limit cut off */
};

const char *load_error_name(enum load_error e);
void times_add(struct times *t, double seconds);
double times_mean(const struct times *t);
void tally_engine(struct tally *t, const char *name);
uint64_t tally_done(const struct tally *t);
uint64_t tally_failed(const struct tally *t);
/* For people, and for scripts. <o>: what was asked for, as the report names it. */
void tally_print(struct tally *t, const struct load_opts *o, FILE *f);
void tally_write(struct tally *t, const struct load_opts *o, FILE *f);
void tally_fini(struct tally *t);

#endif

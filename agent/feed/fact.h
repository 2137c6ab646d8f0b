/* fact.h - an event learned after a decision. Every source is decoded into this struct. */
#ifndef KVROUTE_FEED_FACT_H
#define KVROUTE_FEED_FACT_H

#include "agent/base/types.h"

enum fact_kind {
	FACT_FIRST,	/* the first byte of the answer's body has reached HAProxy */
	FACT_DONE	/* the request is over, however it ended */
};

/* How a request ended, from HAProxy's two-letter state (%ts; configuration.txt 8.5). */
enum fact_end {
	END_UNKNOWN,
	END_OK,			/* "--": normal */
	END_CLIENT,		/* C.: the client closed */
	END_CONNECT,		/* SC: connection refused or timed out */
	END_SERVER,		/* S.: closed, timed out or not HTTP (PH); D.: ended when it went DOWN */
	END_QUEUE,		/* .Q: ended in HAProxy's queue */
	END_PROXY		/* P., R., I., K. ...: HAProxy ended it */
};

/* How a request ended, for people: word, sentence. */
#define FACT_CAUSE_LIST(X) \
	X(UNKNOWN, "", "") \
	X(OK, "ok", "") \
	X(REFUSED, "connect_refused", "HAProxy could not connect to the server: it refused, or its " \
	    "host did") \
	X(CONNECT_TIMEOUT, "connect_timeout", "HAProxy could not connect to the server within timeout " \
	    "connect") \
	X(CLOSED, "server_closed", "the server closed the connection before its answer was whole") \
	X(SERVER_TIMEOUT, "server_timeout", "the server sent nothing for as long as timeout server") \
	X(SERVER_DOWN, "server_down", "HAProxy took the server for down while it answered") \
	X(NOT_HTTP, "not_http", "the answer of the server is not valid HTTP") \
	X(CLIENT_GONE, "client_gone", "the client closed the connection before its answer was whole") \
	X(CLIENT_TIMEOUT, "client_timeout", "the client took nothing for as long as timeout client") \
	X(QUEUE, "queue_timeout", "it waited in HAProxy's queue for as long as timeout queue") \
	X(HAPROXY, "haproxy", "HAProxy itself ended it: a rule, a limit or its end") \
	X(TOO_MANY, "too_many", "the server answered 429: it had too many requests") \
	X(SERVER_ERROR, "server_error", "the server answered with an error of its own (5xx)") \
	X(CLIENT_ERROR, "client_error", "the server did not accept the request (4xx)")

enum fact_cause {
#define X(name, word, sentence) CAUSE_OF_##name,
	FACT_CAUSE_LIST(X)
#undef X
};

/* Spans borrow from the decoded bytes. A field that the source lacks is empty or -1. */
struct fact {
	enum fact_kind kind;
	struct span uid;	/* joins request, response and log line; required */
	struct span pool;
	struct span server;	/* the server that handled it; "" or "<NOSRV>": none */
	struct span wanted;	/* DONE: the server that the decision named */
	struct span type;	/* FIRST: content type of the response */
	int32_t status;		/* HTTP status; -1 unknown */
	enum fact_end end;	/* DONE */
	char ts[2];		/* DONE: the first letters of %ts; NUL: unknown */
	int64_t queue_ms, connect_ms, response_ms, total_ms;	/* DONE: %Tw %Tc %Tr %Ta; -1 unknown */
	int64_t bytes_out, bytes_in;				/* DONE: %B %U */
	int32_t retries;	/* DONE: %rc without its sign; -1 unknown */
	bool redispatched;	/* DONE: %rc began with '+' */
	int64_t prompt_tokens;	/* DONE: the engine's own count ("usage.prompt_tokens"); -1 unknown */
	/* DONE: of the prompt, found in the engine's cache ("cached_tokens"); -1 unknown */
	int64_t cached_tokens;
	int64_t output_tokens;	/* DONE: of generated tokens ("usage.completion_tokens"); -1 unknown */
	struct span response;	/* id of the response that the engine has stored; empty: none */
	uint64_t stored;	/* keyed hash of that id and the tenant, as a sibling tells it; 0: none */
	struct span orca;	/* DONE: load header of the response, for orca_parse(); empty: none */
	struct span token;	/* DONE, of a log line: the shared token that authenticates it */
	bool line;		/* DONE: from a log line, which also sets the fields below */
	bool has_why;		/* the line has a field "why" */
	struct span why;	/* the decision's reason, as HAProxy stored it */
	int32_t error;		/* HAProxy's error code of the SPOE request; 0: none; -1 unknown */
	const char *lacks;	/* first required field that the line lacks; NULL: none */
};

/* Set all fields to empty or unknown. */
void fact_init(struct fact *f, enum fact_kind kind);
enum fact_end fact_end_of(struct span ts);

/* Set <end> and <ts> of <f> from %ts. */
void fact_take_end(struct fact *f, struct span ts);
/* Return how the request of a fact of kind DONE ended, and the word for it. */
enum fact_cause fact_cause(const struct fact *f);
const char *fact_cause_word(enum fact_cause cause);

#define FACT_TOKENS_MAX	((int64_t)1 << 40)	/* larger counts are invalid */

/* Set <v> to the first count in <s>, in which spaces part alternatives and '+' parts of a sum:
 * "40", " 8+30+", "40 ". Returns false and leaves <v> if there is none, or if it is negative or
 * above FACT_TOKENS_MAX. */
bool fact_count(struct span s, int64_t *v);

/* Return whether the content type is that of an event stream. */
bool fact_streams(const struct fact *f);

/* Evidence about a server from one request. NONE if the client closed, if the request ended in
 * HAProxy's queue, if HAProxy ended it, and for errors of the client (4xx other than 429). */
enum verdict {
	VERDICT_NONE,
	VERDICT_WORKED,		/* answered 2xx */
	VERDICT_FAILURE,	/* this and all later values are failures */
	VERDICT_CONNECT = VERDICT_FAILURE,	/* connection refused or timed out */
	VERDICT_BROKEN,		/* closed or timed out before or during its response */
	VERDICT_5XX,		/* answered with an error */
	VERDICT_429,		/* answered that it is overloaded */
	VERDICT_COUNT
};

enum verdict fact_verdict(const struct fact *f);

#endif

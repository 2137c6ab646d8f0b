/* fact.h - something learned after a decision: what every source is decoded into. */
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
	END_OK,			/* "--": as it should */
	END_CLIENT,		/* C.: the client went away */
	END_CONNECT,		/* SC: refused, or not reached in time */
	END_SERVER,		/* S.: died, too late, or no HTTP (PH); D.: killed as it went DOWN */
	END_QUEUE,		/* .Q: never left HAProxy's queue */
	END_PROXY		/* P., R., I., K. ...: HAProxy ended it */
};

/* Spans borrow from the bytes decoded. A field the source lacks is empty, or -1. */
struct fact {
	enum fact_kind kind;
	struct span uid;	/* joins request, response and log; without it a fact says nothing */
	struct span pool;
	struct span server;	/* who really served; "" or "<NOSRV>": nobody */
	struct span wanted;	/* DONE: what we had answered */
	struct span type;	/* FIRST: content type of the response */
	int32_t status;		/* HTTP status; -1 unknown */
	enum fact_end end;	/* DONE */
	int64_t queue_ms, connect_ms, response_ms, total_ms;	/* DONE: %Tw %Tc %Tr %Ta; -1 unknown */
	int64_t bytes_out, bytes_in;				/* DONE: %B %U */
	int32_t retries;	/* DONE: %rc without its sign; -1 unknown */
	bool redispatched;	/* DONE: %rc began with '+' */
	int64_t prompt_tokens;	/* DONE: the engine's own count ("usage.prompt_tokens"); -1 unknown */
	struct span token;	/* DONE, of a log line: what it gave to be believed */
	bool line;		/* DONE: of a log line; then also: */
	bool has_why;		/* it has <why>, that of our answer as HAProxy kept it */
	struct span why;
	int32_t error;		/* of HAProxy, as it asked us; 0: none; -1 unknown */
	const char *lacks;	/* the first field that it should have and has not; NULL: none */
};

/* All fields empty or unknown. */
void fact_init(struct fact *f, enum fact_kind kind);
enum fact_end fact_end_of(struct span ts);

/* What an answer, or the want of one, says about the server it came from. Nothing (NONE) when the
 * client left, when the request never left HAProxy's queue, when HAProxy ended it, and for what is
 * the client's own fault: 4xx other than 429. */
enum verdict {
	VERDICT_NONE,
	VERDICT_WORKED,		/* answered 2xx */
	VERDICT_FAILURE,	/* from here on */
	VERDICT_CONNECT = VERDICT_FAILURE,	/* refused, or not reached */
	VERDICT_BROKEN,		/* died or too late, before its answer or in the middle of it */
	VERDICT_5XX,		/* said that it failed */
	VERDICT_429,		/* said that it has too much to do */
	VERDICT_COUNT
};

enum verdict fact_verdict(const struct fact *f);

#endif

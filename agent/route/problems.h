/* problems.h - faults in how HAProxy is attached, found by counting their traces.
 *
 *   requests, log lines, stray bytes --> problems_good(), problems_bad() --> evidence --> raised?
 *                                                     problems_next() <-- one log line each
 *
 * Counting is an addition. About once a second, problems_next() closes the windows that are over:
 *
 *      a window is over   when it has <window_ms> and <min_requests> observations
 *      it is faulty       when <share> percent of them are bad; while the problem lasts, half of it
 *      a problem begins   after <windows> faulty windows in a row
 *      and ends           with a good window, 3 windows after the last faulty one; after a window
 *                         without a bad observation and good ones enough to tell that fewer than
 *                         half of <share> are bad (5 / that share); or after 60 windows without a
 *                         bad one, 12 if <share> is 0
 *
 * Fewer than three bad observations in a window are an accident. A row with a share of 0 needs no
 * window: each bad observation is certain, no good one exists, and the problem begins with the
 * third. A problem is logged when it begins, and while it lasts at most every <repeat_ms>, also if
 * it comes and goes. Not locked: the owner locks. Reads no clock. */
#ifndef KVROUTE_ROUTE_PROBLEMS_H
#define KVROUTE_ROUTE_PROBLEMS_H

#include "agent/base/types.h"

/* name, word, share, windows, keys of the example (text, text, number), message, effect, remedy.
 * kvroute(8) has the same words under PROBLEMS; a test compares them. */
#define PROBLEM_LIST(X) \
	X(LOAD_MISSING, "load_missing", 50, 1, "", "", "", \
	    "requests come without the argument load", \
	    "the agent knows no servers, so HAProxy balances", \
	    "add load=var(txn.load) to spoe-message route in kvroute.spoe") \
	X(LOAD_UNSET, "load_unset", 50, 1, "", "", "", "the argument load is empty", \
	    "the agent knows no servers, so HAProxy balances", \
	    "put set-var-fmt(txn.load) into the backend, before send-spoe-group; load.sh prints " \
	  "that line") \
	X(LOAD_BAD, "load_bad", 50, 1, "", "", "", "the argument load has entries without sense", \
	    "the servers of these entries are never chosen", \
	    "replace the line set-var-fmt(txn.load) by what load.sh prints") \
	X(SERVER_UNNAMED, "server_unnamed", 0, 1, "server", "", "", \
	    "a server of the pool is missing from the argument load", \
	    "the agent never chooses that server", \
	    "replace the line set-var-fmt(txn.load) by what load.sh prints") \
	X(PREFILL_UNKNOWN, "prefill_unknown", 50, 1, "prefill", "", "", \
	    "no server of the prefill pool has a known address", \
	    "every prompt is computed where its answer is generated", \
	    "list a stats socket of level operator in stats_feed.sockets; its backend needs the name " \
	  "in pools.prefill, and servers with numeric or resolved addresses") \
	X(ENGINE_UNNAMED, "engine_unnamed", 0, 1, "server", "", "", \
	    "engines names a server that HAProxy does not have in that pool", \
	    "the metrics of that engine are not used", \
	    "write the name of the server line as engines.name, and the backend as engines.pool") \
	X(POOL_UNSET, "pool_unset", 50, 1, "", "", "", \
	    "requests come without the name of their pool", \
	    "all of them share one pool, and options under pools do not apply", \
	    "set pool=str(NAME) in kvroute.spoe; or set txn.pool in each backend before send-spoe-group") \
	X(POOL_DIFFERS, "pool_differs", 50, 1, "backend", "", "", \
	    "the argument pool is not the name of the backend", \
	    "options, statistics and metrics of the two names do not meet", \
	    "write the name of the backend as pool in kvroute.spoe or in set-var(txn.pool)") \
	X(UID_MISSING, "uid_missing", 50, 1, "", "", "", \
	    "requests or log lines come without a unique-id", \
	    "no request is joined with its end, so the agent learns nothing from it", \
	    "set unique-id-format %[uuid()] in the frontend, uid=unique-id in kvroute.spoe, " \
	  "%ID in log-format") \
	X(FEED_MISSING, "feed_missing", 60, 2, "", "", "", \
	    "requests end, and no log line says so", \
	    "the agent guesses when requests end, and does not see failures", \
	    "check the address of ring or log against log_feed, and log global in the frontend") \
	X(FEED_PLAIN, "feed_plain", 60, 2, "", "", "", \
	    "log lines come without the JSON that says how a request ended", \
	    "the agent guesses when requests end, and does not see failures", \
	    "copy log-format from haproxy-conf; with format rfc5424, log-format-sd") \
	X(FEED_FIELDS, "feed_fields", 50, 1, "field", "", "", "log lines lack a field", \
	    "the agent learns less from the end of a request", \
	    "copy log-format whole from haproxy-conf") \
	X(BODY_BUFFER, "body_buffer", 10, 1, "", "", "bytes", \
	    "the buffer of HAProxy is too small for bodies", \
	    "the agent sees only the beginning of long prompts", \
	    "raise tune.bufsize, then N in bytes(0,N) of kvroute.spoe; or take recipes/sliced.cfg, or " \
	    "let clients name their sessions: recipes/sessions.cfg") \
	X(BODY_BOUND, "body_bound", 10, 1, "", "", "bytes", \
	    "kvroute.spoe sends less of a body than HAProxy holds", \
	    "the agent sees only the beginning of long prompts", \
	    "raise N in body=req.body,bytes(0,N); load.sh prints the most as tune.bufsize less a number") \
	X(BODY_EARLY, "body_early", 10, 1, "", "", "bytes", \
	    "bodies are sent before they have arrived", \
	    "the agent sees little or nothing of the prompts", \
	    "add http-request wait-for-body to the frontend, before send-spoe-group") \
	X(MODEL_UNASKED, "model_unasked", 50, 3, "model", "", "", \
	    "a configured model is never asked for, but others are", \
	    "requests are matched as text, without the options of the model", \
	    "compare models.name and models.aliases with the model that requests name") \
	X(NOT_ASKED, "not_asked", 50, 2, "", "", "", \
	    "requests end that the agent was not asked about", "HAProxy balances them", \
	    "check the conditions of send-spoe-group, the filter line, and the agent in " \
	  "show stat spoe_agent; if most requests only count tokens, nothing is wrong") \
	X(ANSWER_LOST, "answer_lost", 50, 2, "", "", "", \
	    "HAProxy does not keep the answers of the agent", \
	    "no request goes to the chosen server", \
	    "check register-var-names and option var-prefix in kvroute.spoe against the " \
	  "configuration of HAProxy") \
	X(NOT_FOLLOWED, "not_followed", 20, 2, "wanted", "server", "", \
	    "requests go to other servers than the chosen ones, which are up", \
	    "prompts are computed where they are not cached", \
	    "add the use-server lines to the backend; names in load must be those of the server lines") \
	X(SPOE_TIMEOUT, "spoe_timeout", 5, 2, "cause", "", "code", \
	    "HAProxy waited for the agent and got no answer", \
	    "each of these requests waited for timeout processing, then HAProxy balanced it", \
	    "as for its code, see below") \
	X(SPOE_TOO_BIG, "spoe_too_big", 5, 1, "cause", "", "code", \
	    "messages do not fit a frame", \
	    "HAProxy balances these requests", "as for its code, see below") \
	X(SPOE_FAILED, "spoe_failed", 5, 2, "cause", "", "code", \
	    "HAProxy could not ask the agent", "HAProxy balances these requests", \
	    "as for its code, see below") \
	X(PROXY_ON_SPOP, "proxy_on_spop", 0, 1, "peer", "", "", \
	    "the PROXY protocol came to the port for SPOP", \
	    "that connection is closed, so HAProxy does not reach the agent", \
	    "add no-send-proxy and no-send-proxy-v2 to the server line in spoe_agent; " \
	  "default-server may add them") \
	X(LOG_ON_SPOP, "log_on_spop", 0, 1, "peer", "", "", "log lines came to the port for SPOP", \
	    "they are lost", "send ring or log to an address of log_feed") \
	X(HTTP_ON_SPOP, "http_on_spop", 0, 1, "peer", "", "", "HTTP came to the port for SPOP", \
	    "that connection is closed", \
	    "use option spop-check, not httpchk, in spoe_agent; metrics have their own address") \
	X(TLS_ON_SPOP, "tls_on_spop", 0, 1, "peer", "", "", "TLS came to the port for SPOP", \
	    "that connection is closed, so HAProxy does not reach the agent", \
	    "remove ssl from the server line in spoe_agent; default-server may add it") \
	X(SPOP_ON_FEED, "spop_on_feed", 0, 1, "peer", "", "", \
	    "SPOP came to the port for log lines", "HAProxy does not reach the agent", \
	    "write an address of spop.listen into the server line in spoe_agent") \
	X(HTTP_ON_FEED, "http_on_feed", 0, 1, "peer", "", "", \
	    "HTTP came to the port for log lines", "nothing answers there", \
	    "ask an address of metrics.listen") \
	X(TLS_ON_FEED, "tls_on_feed", 0, 1, "peer", "", "", "TLS came to the port for log lines", \
	    "these log lines are lost", "remove ssl from the server line of the ring") \
	X(SPOP_ON_HTTP, "spop_on_http", 0, 1, "peer", "", "", "SPOP came to the port for metrics", \
	    "HAProxy does not reach the agent", \
	    "write an address of spop.listen into the server line in spoe_agent") \
	X(LOG_ON_HTTP, "log_on_http", 0, 1, "peer", "", "", \
	    "log lines came to the port for metrics", "they are lost", \
	    "send ring or log to an address of log_feed") \
	X(TLS_ON_HTTP, "tls_on_http", 0, 1, "peer", "", "", "TLS came to the port for metrics", \
	    "that connection is closed", "ask for http, not https") \
	X(CLOCKS_DIFFER, "clocks_differ", 0, 1, "agent", "", "", \
	    "the clock of another agent is more than 60 seconds off", \
	    "the two agents do not compare digests, so what is lost between them is not sent again", \
	    "let NTP set the clocks of both machines; kvroute_share_lag_seconds has the difference")

enum problem {
#define X(name, word, share, windows, a, b, n, message, effect, remedy) PROBLEM_##name,
	PROBLEM_LIST(X)
#undef X
	PROBLEM_COUNT
};

struct problem_row {
	const char *word;
	uint8_t share, windows;
	const char *text_key[2], *number_key;	/* log keys of the example; "": none */
	const char *message, *effect, *remedy;
};

extern const struct problem_row problem_rows[PROBLEM_COUNT];

/* code, kind, cause, remedy. The codes that HAProxy puts into the variable of "option set-on-error"
 * (include/haproxy/spoe-t.h): up to 255 errors of the stream, from 256 errors of the connection to
 * the agent. */
#define HAPROXY_ERROR_LIST(X) \
	X(1, SPOE_TIMEOUT, "no answer within timeout processing", \
	    "see whether the agent was stopped or starved of CPU; compare its decision_seconds " \
	  "with timeout processing") \
	X(2, SPOE_FAILED, "HAProxy had no memory or buffer for the message", \
	    "check the memory limits of HAProxy and tune.buffers.limit") \
	X(3, SPOE_TOO_BIG, "the message is larger than a frame", \
	    "lower N in bytes(0,N) of kvroute.spoe, or raise tune.bufsize; load.sh prints how they fit") \
	X(4, SPOE_FAILED, "a fragmented message was given up", \
	    "lower N in bytes(0,N) of kvroute.spoe, so that a message fits a frame") \
	X(5, SPOE_FAILED, "the request was interrupted while HAProxy asked", \
	    "none while HAProxy or the agent stops; otherwise look into the log of the agent " \
	  "at that time") \
	X(255, SPOE_FAILED, "HAProxy gives no reason", \
	    "look into the log of HAProxy at that time") \
	X(256, SPOE_FAILED, "the agent ended the connection", \
	    "none while the agent restarts; otherwise look into the log of the agent at that time") \
	X(257, SPOE_FAILED, "the connection to the agent broke", \
	    "none while the agent restarts; otherwise look into the log of the agent at that time") \
	X(258, SPOE_TIMEOUT, "the connection to the agent timed out", \
	    "take timeout hello, idle, connect and server from haproxy-conf") \
	X(259, SPOE_FAILED, "a frame was larger than agreed", \
	    "set spop.max_frame_size of the agent to tune.bufsize or more") \
	X(260, SPOE_FAILED, "HAProxy did not understand a frame", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(261, SPOE_FAILED, "HELLO came without a version", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(262, SPOE_FAILED, "HELLO came without max-frame-size", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(263, SPOE_FAILED, "HELLO came without capabilities", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(264, SPOE_FAILED, "HELLO came with another version than 2.0", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(265, SPOE_FAILED, "HELLO came with a max-frame-size that does not suit", \
	    "set spop.max_frame_size of the agent to tune.bufsize or more") \
	X(266, SPOE_FAILED, "a fragmented frame came where none is allowed", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(267, SPOE_FAILED, "frames of two messages were mixed", \
	    "check that the server line in spoe_agent names an address of spop.listen") \
	X(268, SPOE_FAILED, "an answer came to a message that HAProxy does not know", \
	    "look into the log of the agent at that time") \
	X(269, SPOE_FAILED, "the connection had no memory or buffer", \
	    "check the memory limits of HAProxy and tune.buffers.limit") \
	X(355, SPOE_FAILED, "the connection met an error without a name", \
	    "look into the log of HAProxy at that time")

struct haproxy_error {
	int code;
	enum problem what;
	const char *cause, *remedy;
};

extern const struct haproxy_error haproxy_errors[];
#define X(code, what, cause, remedy) + 1
enum { HAPROXY_ERRORS = 0 HAPROXY_ERROR_LIST(X) };
#undef X

/* Return the index of <code> in haproxy_errors[]; HAPROXY_ERRORS if it has none. */
unsigned haproxy_error_index(int code);

struct problems_opts {
	uint32_t min_requests;	/* default 10 */
	msec window_ms;		/* default 10 s */
	msec repeat_ms;		/* default 1 h */
};

void problems_defaults(struct problems_opts *o);

#define PROBLEM_POOLS_MAX	64	/* pools with evidence of their own, besides that of no pool */
#define PROBLEM_BACKENDS_MAX	4	/* known from log lines only */
#define PROBLEM_PLACES		(1 + PROBLEM_POOLS_MAX + PROBLEM_BACKENDS_MAX)
#define PROBLEM_NAME_MAX	63	/* bytes kept of a name in an example */

struct problem_example {
	char text[2][PROBLEM_NAME_MAX + 1];
	int64_t number;
};

/* Return the remedy. Each error code of HAProxy has one of its own. */
const char *problem_remedy(enum problem what, const struct problem_example *x);

struct problem_state {
	uint32_t good, bad;	/* in the open window */
	uint32_t bad_before;	/* <bad> at the last look */
	uint64_t from, bad_from;	/* tenants with observations, with bad ones: a bit by their hash */
	uint32_t run;		/* faulty windows in a row */
	bool raised, told;	/* <told>: logged, and its end not yet */
	bool warn, over;	/* to be logged */
	uint32_t bad_seen, seen;	/* observations of the last faulty window */
	msec opened;		/* 0: no window is open */
	msec faulty;		/* last bad observation, once it is raised */
	msec began;		/* start of the first faulty window of <run>; of the problem if raised */
	msec last;		/* look that found the last bad observation */
	uint32_t good_before, good_after;	/* <good> at the last look; good ones since <last> */
	msec window_end;	/* end of the last faulty window */
	msec warned;		/* 0: never */
	struct problem_example example;
};

/* The evidence of one pool. What belongs to no pool has the name "". */
struct problem_pool {
	char name[128];
	uint32_t owed;		/* whole answers whose log line is still to come */
	uint64_t plain;		/* problems.plain at the last window of FEED_MISSING */
	struct problem_state e[PROBLEM_COUNT];
};

struct problems {
	struct problem_pool *pool[PROBLEM_PLACES];	/* the first has no name */
	unsigned n, n_backends;
	uint64_t plain;		/* log lines without JSON */
	msec since;		/* first look; 0: not yet */
	msec looked;
	unsigned waiting;	/* lines to be logged */
};

int problems_init(struct problems *p);	/* -1: no memory */
void problems_fini(struct problems *p);

/* Return the bytes that it may grow to. */
uint64_t problems_bytes(void);

/* Find or add the evidence of a pool. Returns NULL if there are too many, or no memory. */
struct problem_pool *problems_pool(struct problems *p, struct span name);
struct problem_pool *problems_find(const struct problems *p,
				   struct span name);	/* NULL: none */

/* Find or add the evidence of a backend that only a log line names. Returns that of no pool if
 * there are PROBLEM_BACKENDS_MAX others, so that invented names leave room for pools. */
struct problem_pool *problems_backend(struct problems *p, struct span name);

static inline void problems_good(struct problem_pool *pp, enum problem what)
{
	if (pp != NULL)
		pp->e[what].good++;
}

/* Count a bad observation with an example. The first example of a window is stored. */
void problems_bad(struct problem_pool *pp, enum problem what, struct span a, struct span b,
		  int64_t number);

/* Note the tenant of an observation, by a hash. A problem that one client can cause needs two
 * tenants with bad observations if there are several; of one tenant it must last LONE_WINDOWS
 * longer. */
static inline void problems_from(
    struct problem_pool *pp, enum problem what, uint64_t tenant, bool bad)
{
	if (pp == NULL)
		return;
	pp->e[what].from |= (uint64_t)1 << (tenant & 63);
	pp->e[what].bad_from |= (uint64_t)bad << (tenant & 63);
}

/* Count an observation without an example. */
static inline void problems_count(struct problem_pool *pp, enum problem what, bool bad)
{
	if (pp == NULL)
		return;
	if (bad)
		pp->e[what].bad++;
	else
		pp->e[what].good++;
}

/* End a problem that was seen to be cured. */
void problems_end(struct problem_pool *pp, enum problem what);

/* Count a request that ended without a fact; one whose whole answer is on its way, so that a log
 * line is due; a log line, which ends the problem that there are none. */
void problems_unheard(struct problem_pool *pp);
void problems_owed(struct problem_pool *pp);
void problems_line(struct problem_pool *pp);

/* Return false as long as log lines may be older than the agent. */
bool problems_settled(const struct problems *p, const struct problems_opts *o, msec now);

/* Forget all evidence and end all problems, without a line in the log: those that last begin again,
 * with one. */
void problems_clear(struct problems *p);

/* A raised problem of a pool as a reader sees it. */
struct problem_view {
	const char *word, *pool;
	bool raised;
	bool quiet;		/* not seen for 3 windows: perhaps it is cured */
	msec since_ms, seen_ms;	/* ages: of its begin, of the last bad observation; 0 unless raised */
	struct problem_example example;
	enum problem what;
};

/* Describe the state of <what>. */
struct problem_view problem_view(const struct problem_pool *pp, enum problem what,
				 const struct problems_opts *o, msec now);

/* One line for the log. */
struct problem_event {
	enum problem what;
	bool over;
	char pool[128];
	uint32_t bad, seen;	/* of the last faulty window */
	struct problem_example example;
};

/* Close windows that are over, and take the next line. Returns false if there is none. To be called
 * a few times a second, each time until it returns false. */
bool problems_next(struct problems *p, const struct problems_opts *o, msec now,
		   struct problem_event *e);

#endif

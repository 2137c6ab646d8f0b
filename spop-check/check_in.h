/* check_in.h - spop-check: does a SPOE agent speak SPOP 2.0 as HAProxy needs it?
 *
 *      cases.c              the table: what is sent, what is expected, which clause says so
 *      bodies.c, notify.c   the frames of each case, as a correct or a hostile HAProxy sends them
 *      plan.c               one round of a case; frames.c: its writers
 *           |
 *           v   bytes
 *      connection.c         the only file with a socket: sends, waits, returns what came
 *           |
 *           v   bytes
 *      judge.c              bytes in, verdict out
 *      print.c              verdicts as text and as JSON
 *      spop_check.c         the command line, and one case after the other
 *
 * All files except connection.c and spop_check.c are pure, so a test can run a case against an
 * agent in memory. Clauses refer to doc/SPOE.txt of HAProxy. */
#ifndef SPOP_CHECK_CHECK_IN_H
#define SPOP_CHECK_CHECK_IN_H

#include <stdio.h>

#include "agent/base/types.h"
#include "spoe/spop.h"

/* ---- a case ----------------------------------------------------------------------------- */

/* must: SPOE.txt requires it, or HAProxy loses requests, or the agent does not survive. should:
 * SPOE.txt is open or only hints at it; a warning. */
enum check_level { CHECK_NONE, CHECK_SHOULD, CHECK_MUST };

/* The state of the connection after the last byte is sent. */
enum check_outcome {
	CHECK_SERVED,		/* every NOTIFY is ACKed and the connection stays open */
	CHECK_ENDED,		/* the agent ends the connection */
	CHECK_EITHER		/* one of these two; silence is neither */
};

enum check_hello_reply { CHECK_HELLO_YES, CHECK_HELLO_NO, CHECK_HELLO_MAY };

#define CHECK_STATUS_MAX	6

struct check_expect {
	enum check_outcome outcome;
	enum check_hello_reply hello;	/* whether an AGENT-HELLO comes */
	enum check_level disconnect;	/* an AGENT-DISCONNECT precedes the end */
	uint8_t n_status, status[CHECK_STATUS_MAX];	/* its code should be one of these; none: any known */
	bool acked;			/* every NOTIFY is ACKed before the end */
	bool rather_ended;		/* with CHECK_EITHER, it should be the end */
	bool echo;			/* AGENT-HELLO should name the offered size */
	bool in_one;			/* the length word of AGENT-HELLO should come in one read */
};

/* Unusual parts of a HELLO. The usual one has "2.0", 16380, "pipelining" and an engine-id. */
enum check_odd {
	CHECK_NO_HELLO = 1 << 0,	/* the body comes first */
	CHECK_NO_VERSIONS = 1 << 1,
	CHECK_NO_SIZE = 1 << 2,
	CHECK_NO_CAPABILITIES = 1 << 3,
	CHECK_NO_ENGINE = 1 << 4,
	CHECK_HEALTHCHECK = 1 << 5,
	CHECK_HEALTHCHECK_FALSE = 1 << 6,
	CHECK_REVERSED = 1 << 7,	/* the keys in another order */
	CHECK_EXTRA_KEY = 1 << 8,
	CHECK_CUT_SHORT = 1 << 9,	/* the last value ends after the frame */
	CHECK_NO_FIN = 1 << 10,
	CHECK_STREAM_ID = 1 << 11,
	CHECK_VERSIONS_INT = 1 << 12,	/* a number for supported-versions */
	CHECK_SIZE_STR = 1 << 13,	/* a string for max-frame-size */
	CHECK_SIZE_ZERO = 1 << 14,
	CHECK_RAW_HEALTHCHECK = 1 << 15	/* byte by byte what HAProxy's own check sends */
};

struct check_hello {
	const char *versions, *capabilities;	/* NULL: the usual */
	uint64_t size;				/* 0: the usual */
	unsigned odd;
};

/* How a case is sent. For a case without a body this is about its HELLO. */
enum check_how {
	CHECK_AT_ONCE,		/* HELLO, its answer, then the body in one write */
	CHECK_TOGETHER,		/* HELLO and body in one write */
	CHECK_BYTES,		/* one byte per write */
	CHECK_CUTS,		/* in two writes: one round for each place to cut */
	CHECK_HALF_CLOSE,	/* the sending side is shut down after the body */
	CHECK_TWICE,		/* on two connections at the same time */
	CHECK_BYE_LAST,		/* HAPROXY-DISCONNECT after the ACKs of the body */
	CHECK_HANG_UP,		/* closed after the body, without waiting */
	CHECK_RESET,		/* the same with a reset */
	CHECK_BESIDE		/* the body is left on one connection, and another one must be served */
};

/* otherwise the case is skipped */
enum check_needs { CHECK_PIPELINING = 1, CHECK_FRAGMENTATION = 2 };

struct check_plan;

struct check_case {
	const char *name;		/* group/name */
	enum check_level level;
	const char *clause;		/* of SPOE.txt */
	const char *sent, *expected;	/* in words */
	struct check_hello hello;
	void (*body)(struct check_plan *p);
	struct check_expect expect;
	enum check_how how;
	unsigned needs;
	unsigned rounds;		/* 0: one; repeats, each on a connection of its own */
	bool no_probe;			/* do not check afterwards whether the connection is served */
};

extern const struct check_case check_cases[];
extern const size_t check_n_cases;

/* <pattern>: a name, or the start of one and a '*'. */
bool check_name_is(const char *name, const char *pattern);

/* ---- what a case sends ------------------------------------------------------------------ */

#define CHECK_ARGS_MAX		32
#define CHECK_IDS_MAX		128
#define CHECK_FRAME_SIZE	16380u		/* HAProxy's offer with its default buffer */
#define CHECK_BYTES_MAX		(1u << 17)
#define CHECK_PROBE_STREAM	424243u		/* ids of the last NOTIFY of a case */

/* The message of the NOTIFYs. */
struct check_message {
	const char *name;
	unsigned n_args;
	struct { struct spop_str name; struct spop_data value; } args[CHECK_ARGS_MAX];
};

struct check_id {
	uint64_t stream, frame;
	enum check_level ack;		/* MUST: is ACKed once; SHOULD: may be; NONE: never */
};

/* One round of a case. The owner provides the memory of <hello> and <body>. */
struct check_plan {
	const struct check_case *c;
	const struct check_message *message;
	unsigned round;
	uint32_t agreed;		/* agreed frame size; known when the body is written */
	struct spop_wr hello, body;
	struct check_id ids[CHECK_IDS_MAX];	/* the NOTIFYs sent */
	unsigned n_ids;
	bool more;			/* the body is incomplete: check_plan_bye() follows */
};

void check_plan_init(struct check_plan *p, const struct check_case *c,
    const struct check_message *m, unsigned round);
void check_plan_hello(struct check_plan *p);
void check_plan_body(struct check_plan *p);	/* <agreed> is known */
void check_plan_bye(struct check_plan *p);	/* HAPROXY-DISCONNECT, instead of the body */
void check_plan_probe(struct check_plan *p);	/* a NOTIFY that must be ACKed, instead of the body */
uint32_t check_offered(const struct check_hello *h);

/* ---- frames.c ------------------------------------------------------------------------ */

enum check_type {
	CHECK_T_UNSET = 0, CHECK_T_HAPROXY_HELLO = 1, CHECK_T_HAPROXY_DISCONNECT = 2, CHECK_T_NOTIFY = 3,
	CHECK_T_AGENT_HELLO = 101, CHECK_T_AGENT_DISCONNECT = 102, CHECK_T_ACK = 103
};

enum check_flags { CHECK_F_FIN = 1, CHECK_F_ABORT = 2 };

void check_put_u8(struct spop_wr *w, uint8_t v);
void check_put_u32(struct spop_wr *w, uint32_t v);
void check_put_bytes(struct spop_wr *w, const void *p, size_t n);
void check_put_fill(struct spop_wr *w, uint8_t v, size_t n);
void check_put_kv_str(struct spop_wr *w, const char *name, const char *value);
void check_put_kv_int(struct spop_wr *w, const char *name, enum spop_type type, int64_t v);
void check_put_kv_bool(struct spop_wr *w, const char *name, bool v);

/* Begin a frame. Returns its position, for check_frame_end(). */
size_t check_frame_begin(
    struct spop_wr *w, uint8_t type, uint32_t flags, uint64_t stream, uint64_t frame);
void check_frame_end(struct spop_wr *w, size_t start);

void check_put_hello(struct spop_wr *w, const struct check_hello *h);
void check_put_disconnect(struct spop_wr *w, uint32_t status, const char *text);
/* Write name, number of arguments, and arguments; without arguments if that is longer than
 * <max>. */
void check_put_message(struct spop_wr *w, const struct check_message *m, size_t max);

/* ---- the answer and its verdict --------------------------------------------------------- */

enum check_end { CHECK_OPEN, CHECK_CLOSED, CHECK_WAS_RESET };

struct check_seen {
	const uint8_t *p;
	size_t n;
	size_t first;		/* bytes of the first read */
	enum check_end end;
};

/* The content of an AGENT-HELLO. */
struct check_agent {
	bool known;
	char version[32], capabilities[128];
	uint32_t size;
	unsigned can;		/* enum check_needs */
};

#define CHECK_FINDINGS_MAX	8
#define CHECK_TEXT_MAX		240

struct check_finding { enum check_level level; char text[CHECK_TEXT_MAX]; };

struct check_verdict {
	unsigned n;
	struct check_finding f[CHECK_FINDINGS_MAX];
};

void check_find(struct check_verdict *v, enum check_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
enum check_level check_worst(const struct check_verdict *v);	/* CHECK_NONE: no finding */

/* Write to <v> all that is wrong with the answer <s> to <p>. */
void check_judge(const struct check_plan *p, const struct check_seen *s, struct check_verdict *v);

/* Return true if nothing that matters can follow the answer to the HELLO, or to the body. */
bool check_hello_settled(const struct check_seen *s);
bool check_body_settled(const struct check_plan *p, const struct check_seen *s);

/* Returns false if <s> does not begin with a whole AGENT-HELLO. */
bool check_agent_read(const struct check_seen *s, struct check_agent *a);

/* ---- connection.c ----------------------------------------------------------------------- */

struct check_target {
	const char *address;	/* host:port, [v6]:port, unix@/path or a path */
	int timeout_ms;		/* for each wait */
	const struct check_message *message;
};

#define CHECK_KEPT_MAX	1024u

/* One direction of a connection, for the report: the first bytes, and the number of all. */
struct check_kept { uint8_t p[CHECK_KEPT_MAX]; size_t n, all; };

enum check_mark { CHECK_PASS, CHECK_WARN, CHECK_FAIL, CHECK_SKIP };

struct check_result {
	const struct check_case *c;
	enum check_mark mark;
	const char *why;		/* of a skip */
	struct check_verdict verdict;
	struct check_kept sent, got;
	enum check_end end;
	unsigned round;			/* the one shown */
	double ms;
};

/* Returns 0, or -1 with a sentence in <why>. */
int check_reach(const struct check_target *t, char *why, size_t cap);

/* Returns how far a new connection gets. <a> may be NULL. */
enum check_life { CHECK_DEAD, CHECK_CONNECTS, CHECK_GREETS, CHECK_SERVES };
enum check_life check_alive(const struct check_target *t, struct check_agent *a);

/* Run the rounds of <c> up to the first that fails. Fills <verdict>, <sent>, <got> and <end>. */
void check_run(const struct check_target *t, const struct check_case *c, struct check_result *r);

/* ---- print.c -------------------------------------------------------------------------- */

struct check_tally { unsigned passed, failed, warned, skipped; };

struct check_report {
	FILE *to;
	bool json, strict;
	const struct check_target *target;
	struct check_agent agent;
	struct check_tally tally;
	unsigned n;
};

void check_print_begin(struct check_report *r);
void check_print_result(struct check_report *r, const struct check_result *x);	/* also counts it */
/* <stopped>: NULL, or why the run stopped */
void check_print_end(struct check_report *r, const char *stopped);
/* Print a case of a list. <nth> counts from 0. In JSON the first case opens the list; the caller
 * closes it. */
void check_print_case(FILE *to, bool json, size_t nth, const struct check_case *c);

#endif

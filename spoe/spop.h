/* spop.h - SPOP 2.0, the protocol between HAProxy and a SPOE agent, from the agent's side.
 *
 * Bytes in, events out. No socket, no clock, no lock; libc only, so that another agent could lift
 * this folder out. The specification is doc/SPOE.txt of HAProxy 3.0 ("SPOE.txt" below).
 *
 *      bytes from HAProxy --> spop_conn_next() --> events: hello, notify, abort, close
 *                                  |
 *                                  +--> bytes to HAProxy, in <out> (AGENT-HELLO, AGENT-DISCONNECT)
 *
 *      a NOTIFY's payload --> spop_message_next() --> spop_arg_next() --> struct spop_data
 *      an answer          --> spop_ack_begin(), spop_ack_set_...(), spop_ack_end()
 *
 * Pointers in events and data borrow from the bytes given in (or from the connection's join buffer)
 * and live until the next call on the same connection. */
#ifndef SPOE_SPOP_H
#define SPOE_SPOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- limits and errors ---------------------------------------------------------------- */

#define SPOP_FRAME_MIN		256u		/* the smallest max-frame-size either side may name */
#define SPOP_FRAME_CEILING	(16u << 20)	/* the largest this library takes at all */
#define SPOP_LENGTH_BYTES	4u		/* the length word before each frame, not counted in it */
#define SPOP_FRAME_FIRST	(16u << 10)	/* the largest before HELLO named one */
#define SPOP_OPEN_CEILING	32u		/* fragmented NOTIFYs open at once on a connection */
#define SPOP_ENGINE_ID_MAX	64u		/* longer engine-ids are cut: they are only shown */

/* Status codes of a DISCONNECT frame (SPOE.txt 3.5). Name, number, the sentence we send. */
#define SPOP_STATUS_LIST(X) \
	X(NORMAL,		 0, "normal") \
	X(IO,			 1, "I/O error") \
	X(TIMEOUT,		 2, "a timeout occurred") \
	X(TOO_BIG,		 3, "frame is too big") \
	X(INVALID,		 4, "invalid frame received") \
	X(NO_VERSION,		 5, "version value not found") \
	X(NO_FRAME_SIZE,	 6, "max-frame-size value not found") \
	X(NO_CAPABILITIES,	 7, "capabilities value not found") \
	X(BAD_VERSION,		 8, "unsupported version") \
	X(BAD_FRAME_SIZE,	 9, "max-frame-size too big or too small") \
	X(NO_FRAGMENTATION,	10, "fragmentation not supported") \
	X(BAD_INTERLACED,	11, "invalid interlaced frames") \
	X(NO_FRAME_ID,		12, "frame-id not found") \
	X(RESOURCE,		13, "resource allocation error") \
	X(UNKNOWN,		99, "an unknown error occurred")

enum spop_status {
#define X(name, number, text) SPOP_STATUS_##name = number,
	SPOP_STATUS_LIST(X)
#undef X
};

/* What a decoder returns, negated. */
#define SPOP_E_LIST(X) \
	X(SHORT,	"bytes are missing") \
	X(TYPE,		"unknown data type") \
	X(RANGE,	"a number out of its range") \
	X(LIMIT,	"larger than the limit")

enum spop_error {
	SPOP_E_NONE,
#define X(name, text) SPOP_E_##name,
	SPOP_E_LIST(X)
#undef X
};

const char *spop_status_text(int status);	/* never NULL */
const char *spop_error_text(int error);		/* takes both signs; never NULL */

/* ---- bytes ----------------------------------------------------------------------------- */

struct spop_rd { const uint8_t *p; size_t left; };	/* borrowed; only ever shrinks */

/* A writer into the caller's memory. Once something does not fit, <full> stays set, nothing more is
 * written, and the owner checks once at the end. */
struct spop_wr { uint8_t *p; size_t n, cap; bool full; };

struct spop_str { const char *p; size_t n; };		/* borrowed, not NUL-terminated */

/* Variable-length integers (SPOE.txt 3.1). A value that leaves 64 bits, or more than 10 bytes, is
 * -SPOP_E_RANGE. Every number has one spelling only. 0 on success; on failure <r> stays. */
int spop_get_varint(struct spop_rd *r, uint64_t *v);
int spop_get_str(struct spop_rd *r, struct spop_str *s);
void spop_put_varint(struct spop_wr *w, uint64_t v);
void spop_put_str(struct spop_wr *w, const char *p, size_t n);

enum spop_type {
	SPOP_T_NULL, SPOP_T_BOOL, SPOP_T_INT32, SPOP_T_UINT32, SPOP_T_INT64, SPOP_T_UINT64,
	SPOP_T_IPV4, SPOP_T_IPV6, SPOP_T_STR, SPOP_T_BIN
};

struct spop_data {
	enum spop_type type;
	union {
		bool b;
		int64_t i;		/* INT32, INT64, and UINT32 (it fits) */
		uint64_t u;		/* UINT64 */
		uint8_t ip[16];		/* IPV4 uses the first 4; network order */
		struct spop_str s;	/* STR, BIN; borrowed */
	};
};

/* INT32 is taken sign-extended to 64 bits, as HAProxy writes it, and as 32 bits; flags of types
 * that have none are ignored. 0 on success; on failure <r> stays. */
int spop_get_data(struct spop_rd *r, struct spop_data *d);
void spop_put_data(struct spop_wr *w, const struct spop_data *d);

/* Views that ask for a kind and take every type that can carry it. False: <d> is no such thing. */
bool spop_data_str(const struct spop_data *d, struct spop_str *s);	/* STR or BIN */
bool spop_data_int(const struct spop_data *d, int64_t *v);	/* any integer or bool; UINT64 capped */

/* ---- messages of a NOTIFY -------------------------------------------------------------- */

struct spop_message {
	struct spop_str name;
	unsigned n_args;	/* as announced; spop_arg_next() checks each */
	struct spop_rd args;	/* where the next argument starts */
};

/* 1: <m> is the next message (its arguments were checked to the last byte, so that the next call
 * starts behind them); 0: no more; < 0: -SPOP_E_..., and <r> stays. */
int spop_message_next(struct spop_rd *r, struct spop_message *m);

/* 1: <name> and <d> are the next argument (an argument without a name has n == 0); 0: no more. */
int spop_arg_next(struct spop_message *m, struct spop_str *name, struct spop_data *d);

/* ---- a connection ---------------------------------------------------------------------- */

/* Memory for fragments that several connections share: asked before it is taken, told once it is
 * given back. */
struct spop_memory {
	bool (*take)(void *arg, size_t n);	/* false: there is none for now */
	void (*give)(void *arg, size_t n);
	void *arg;
};

struct spop_conn_opts {
	uint32_t max_frame_size;	/* largest frame taken and named; SPOP_FRAME_MIN .. CEILING */
	size_t max_joined;		/* bytes of payload held for fragmented NOTIFYs of this
					 * connection at once; so no joined NOTIFY is larger */
	unsigned max_open;		/* fragmented NOTIFYs open at once; SPOP_OPEN_CEILING at most */
	const struct spop_memory *memory;	/* NULL: the heap is all there is to ask */
};

void spop_conn_defaults(struct spop_conn_opts *o);	/* 1 MiB, 4 MiB, 32, NULL */

/* Fragments are joined in memory of at most twice <max_joined>, and as much again for the NOTIFY
 * last handed out, or while a buffer is exchanged for a larger one. When that memory cannot be had,
 * the connection lives on: the rest of that NOTIFY is read and dropped, and at its last fragment it
 * comes as SPOP_EV_NOTIFY with <lost> set and no messages, so that it is ACKed like any other and
 * HAProxy never waits for its timeout. What was joined is a prompt: it is wiped before it is freed. */

enum spop_event_kind {
	SPOP_EV_NONE,		/* a frame was taken care of, or ignored as SPOE.txt asks; go on */
	SPOP_EV_HELLO,		/* handshake done; the answer is in <out> */
	SPOP_EV_NOTIFY,		/* one whole NOTIFY; the caller owes one ACK, on this connection */
	SPOP_EV_ABORT,		/* HAProxy gave up a NOTIFY whose fragments were still coming */
	SPOP_EV_CLOSE		/* write <out>, then close; <status> says why, <text> in words */
};

struct spop_event {
	enum spop_event_kind kind;
	uint64_t stream_id, frame_id;	/* NOTIFY, ABORT; only mean something on this connection */
	struct spop_rd messages;	/* NOTIFY: for spop_message_next(); may be empty */
	bool lost;			/* NOTIFY: no memory for all of it, so no messages */
	int status;			/* CLOSE: enum spop_status; a code of HAProxy's that is none
					 * of these, or cannot be read, is SPOP_STATUS_UNKNOWN */
	bool by_peer;			/* CLOSE: HAProxy said DISCONNECT, or a health check ended */
	const char *text;		/* CLOSE: a sentence, static; never text from the peer */
	uint64_t offer, limit;		/* CLOSE for a size: what was named or met, and what is allowed */
};

enum spop_conn_state { SPOP_CONN_NEW, SPOP_CONN_READY, SPOP_CONN_CLOSED };

struct spop_joining {	/* one fragmented NOTIFY being joined */
	uint64_t stream_id, frame_id;
	uint8_t *p;
	size_t n, cap;
	bool lost;
};

struct spop_conn {
	enum spop_conn_state state;
	struct spop_conn_opts opts;
	uint32_t frame_size;		/* agreed at HELLO: exactly what HAProxy named; before:
					 * SPOP_FRAME_FIRST, or opts.max_frame_size when smaller */
	bool healthcheck;
	bool peer_pipelining, peer_async, peer_fragmentation;	/* what HAProxy announced */
	char engine_id[SPOP_ENGINE_ID_MAX + 1];	/* "" when not given; '?' for what is not printable */
	uint64_t n_frames, n_notify, n_fragments, n_lost;	/* taken so far */
	struct spop_joining joining[SPOP_OPEN_CEILING];		/* open ones, in no order */
	unsigned n_joining;
	size_t joining_bytes;		/* payload of all of them */
	struct spop_joining joined;	/* payload behind the last event, freed by the next call */
};

void spop_conn_init(struct spop_conn *c, const struct spop_conn_opts *o);	/* clamps <o> */
void spop_conn_fini(struct spop_conn *c);

/* Take the next frame of <buf>.
 *   > 0  bytes used; <ev> says what it was and borrows from <buf> and <c>
 *     0  not all here yet: come back with more (spop_conn_want() says how many in all)
 * Never negative: nonsense ends in SPOP_EV_CLOSE with an AGENT-DISCONNECT in <out> and all of <n>
 * used. After SPOP_EV_CLOSE nothing more is taken (0). <out> needs room for SPOP_REPLY_MAX bytes;
 * a frame is always written whole, or not at all. O(frame), no allocation but for fragments.
 *
 * What is refused, and with what status:
 *   frame above the agreed size, or fragments above <max_joined>       3 (offer, limit)
 *   frame shorter than its header or with unreadable ids; first frame
 *   not HAPROXY-HELLO; a second HAPROXY-HELLO; one that cannot be read  4
 *   no versions / no max-frame-size / no capabilities                   5 / 6 / 7
 *   no 2.x among the versions                                           8
 *   max-frame-size below SPOP_FRAME_MIN or above the ceiling            9 (offer, limit)
 *   HAPROXY-HELLO in fragments                                         10
 *   NOTIFY whose ids are still open; more than <max_open>              11
 *   UNSET whose ids are not open (with ABORT: ignored)                 12
 * Frames of unknown type, and those that only an agent sends, are skipped once HELLO is done. */
#define SPOP_REPLY_MAX	256u
ssize_t spop_conn_next(struct spop_conn *c, const uint8_t *buf, size_t n, struct spop_wr *out,
		       struct spop_event *ev);

/* Take the frame that begins in <buf> without its payload, because there is no memory to hold it all:
 * <n> >= SPOP_HEAD_MAX bytes of it are here, and the rest, up to spop_conn_want(), the caller has
 * thrown away. A NOTIFY comes, now or with its last fragment, as lost. Uses all of <n>; else as
 * spop_conn_next(). */
#define SPOP_HEAD_MAX	(SPOP_LENGTH_BYTES + 5u + 2u * 10u)	/* a frame up to its payload */
ssize_t spop_conn_lose(struct spop_conn *c, const uint8_t *buf, size_t n, struct spop_wr *out,
		       struct spop_event *ev);

/* Bytes the frame at the start of <buf> takes with its length word, when <n> >= 4 tells; else 4.
 * Never above the agreed frame size + 4: a larger announcement is refused by spop_conn_next(). */
size_t spop_conn_want(const struct spop_conn *c, const uint8_t *buf, size_t n);

/* Our own wish to end (drain, idle): an AGENT-DISCONNECT after whatever <out> already holds, so
 * that the last ACK and it leave in one write. The connection is closed afterwards; on one that is
 * closed already nothing is written. */
void spop_conn_disconnect(struct spop_conn *c, int status, struct spop_wr *out);

/* ---- an ACK ---------------------------------------------------------------------------- */

enum spop_scope {
	SPOP_SCOPE_PROC, SPOP_SCOPE_SESS, SPOP_SCOPE_TXN, SPOP_SCOPE_REQ, SPOP_SCOPE_RES
};

struct spop_ack {
	struct spop_wr *w;
	size_t start;		/* where the frame's length word is */
	uint32_t max;		/* frame size agreed on this connection */
	unsigned n_actions;
	bool dropped;		/* an action did not fit and was left out */
};

/* An ACK frame with FIN, never a fragment and never above <c>'s frame size. An action that does
 * not fit is left out whole; the frame stays valid. spop_ack_end() returns false, and takes back
 * all it wrote, only when not even the frame fits <w> (which stays <full>). HAProxy 3.1.0 to 3.1.5
 * hang on an ACK without an action, so set at least one; names "scope.prefix.name" must stay below
 * 64 characters. */
void spop_ack_begin(struct spop_ack *a, const struct spop_conn *c, struct spop_wr *w,
		    uint64_t stream_id, uint64_t frame_id);
void spop_ack_set(struct spop_ack *a, enum spop_scope scope, const char *name,
		  const struct spop_data *value);
void spop_ack_set_str(struct spop_ack *a, enum spop_scope scope, const char *name,
		      const char *p, size_t n);
void spop_ack_set_int(struct spop_ack *a, enum spop_scope scope, const char *name, int64_t v);
void spop_ack_unset(struct spop_ack *a, enum spop_scope scope, const char *name);
bool spop_ack_end(struct spop_ack *a);

/* ---- to look at ------------------------------------------------------------------------ */

/* One frame (without its length word) as one line of text, lengths instead of strings longer than
 * 40 bytes (120 in HELLO and DISCONNECT) and never a value of type BIN:
 *	NOTIFY stream=3 frame=1 fin msg=route pool="llm" seq=int32:0 load=str:180 body=bin:15000
 * What cannot be read ends the line as bad="...". For traces and tests. Returns what snprintf()
 * would. */
int spop_frame_print(const uint8_t *frame, size_t n, char *out, size_t cap);

#endif

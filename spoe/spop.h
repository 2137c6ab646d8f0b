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
 * Pointers in events and data borrow from the input bytes (or from the connection's join buffer)
 * and are valid until the next call on the same connection. */
#ifndef SPOE_SPOP_H
#define SPOE_SPOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- limits and errors ---------------------------------------------------------------- */

#define SPOP_FRAME_MIN		256u		/* smallest max-frame-size of either side */
#define SPOP_FRAME_CEILING	(16u << 20)	/* largest frame of this library */
#define SPOP_LENGTH_BYTES	4u		/* length word before each frame, not part of its length */
#define SPOP_FRAME_FIRST	(16u << 10)	/* largest frame before HELLO has set the size */
#define SPOP_OPEN_CEILING	32u		/* fragmented NOTIFYs open at once on a connection */
#define SPOP_ENGINE_ID_MAX	64u		/* a longer engine-id is truncated; it is only displayed */

/* Status codes of a DISCONNECT frame (SPOE.txt 3.5): name, number, text sent with it. */
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

/* Error codes; decoders return them negated. */
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
const char *spop_error_text(int error);		/* accepts both signs; never NULL */

/* ---- bytes ----------------------------------------------------------------------------- */

struct spop_rd { const uint8_t *p; size_t left; };	/* borrowed; only ever shrinks */

/* A writer into the caller's memory. Once something does not fit, <full> is set and nothing more is
 * written, so the caller checks once at the end. */
struct spop_wr { uint8_t *p; size_t n, cap; bool full; };

struct spop_str { const char *p; size_t n; };		/* borrowed, not NUL-terminated */

/* Read and write variable-length integers (SPOE.txt 3.1) and strings. Every number has exactly
 * one encoding. Getters return 0, or a negative error and leave <r> unchanged: -SPOP_E_RANGE for
 * a value beyond 64 bits or of more than 10 bytes. */
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

/* Read typed data. INT32 may be sign-extended to 64 bits, as HAProxy writes it, or have 32 bits.
 * Flags of types that have none are ignored. Returns 0, or an error and leaves <r> unchanged. */
int spop_get_data(struct spop_rd *r, struct spop_data *d);
void spop_put_data(struct spop_wr *w, const struct spop_data *d);

/* Convert <d> from every type that can hold the value. Return false if its type cannot. */
bool spop_data_str(const struct spop_data *d, struct spop_str *s);	/* STR or BIN */
bool spop_data_int(const struct spop_data *d, int64_t *v);	/* any integer or bool; UINT64 capped */

/* ---- messages of a NOTIFY -------------------------------------------------------------- */

struct spop_message {
	struct spop_str name;
	unsigned n_args;	/* as announced; spop_arg_next() checks each */
	struct spop_rd args;	/* where the next argument starts */
};

/* Read the next message and validate all its arguments. Returns 1 if <m> is a message, 0 at the
 * end, or -SPOP_E_... and leaves <r> unchanged. */
int spop_message_next(struct spop_rd *r, struct spop_message *m);

/* Read the next argument. Returns 1, or 0 at the end. An argument without a name has n == 0. */
int spop_arg_next(struct spop_message *m, struct spop_str *name, struct spop_data *d);

/* ---- a connection ---------------------------------------------------------------------- */

/* A memory budget for fragments, shared by several connections. */
struct spop_memory {
	bool (*take)(void *arg, size_t n);	/* called before allocation; false: over budget */
	void (*give)(void *arg, size_t n);	/* called after free */
	void *arg;
};

struct spop_conn_opts {
	uint32_t max_frame_size;	/* largest frame accepted; SPOP_FRAME_MIN .. CEILING */
	size_t max_joined;		/* payload bytes of all fragmented NOTIFYs of this connection;
					 * also bounds a single one */
	unsigned max_open;		/* fragmented NOTIFYs open at once; SPOP_OPEN_CEILING at most */
	const struct spop_memory *memory;	/* NULL: no shared budget */
};

void spop_conn_defaults(struct spop_conn_opts *o);	/* 1 MiB, 4 MiB, 32, NULL */

/* Joining fragments takes at most twice <max_joined>, and as much again for the last NOTIFY
 * reported or while a buffer grows. If that memory is not available, the connection stays open:
 * the rest of that NOTIFY is read and dropped, and its last fragment gives SPOP_EV_NOTIFY with
 * <lost> set and no messages. It is ACKed like any other, so HAProxy never waits for its
 * timeout. Joined payload is a prompt and is wiped before it is freed. */

enum spop_event_kind {
	SPOP_EV_NONE,		/* a frame was handled, or ignored as SPOE.txt requires; continue */
	SPOP_EV_HELLO,		/* handshake done; the answer is in <out> */
	SPOP_EV_NOTIFY,		/* one whole NOTIFY; the caller owes one ACK, on this connection */
	SPOP_EV_ABORT,		/* HAProxy aborted a NOTIFY before its last fragment */
	SPOP_EV_CLOSE		/* write <out>, then close; <status> and <text> say why */
};

struct spop_event {
	enum spop_event_kind kind;
	uint64_t stream_id, frame_id;	/* NOTIFY, ABORT; unique on this connection only */
	struct spop_rd messages;	/* NOTIFY: for spop_message_next(); may be empty */
	bool lost;			/* NOTIFY: dropped for lack of memory, so no messages */
	int status;			/* CLOSE: enum spop_status; SPOP_STATUS_UNKNOWN for any other
					 * or unreadable code of HAProxy */
	bool by_peer;			/* CLOSE: HAProxy sent DISCONNECT, or a health check ended */
	const char *text;		/* CLOSE: a static sentence; never text from the peer */
	uint64_t offer, limit;		/* CLOSE for a size: the size, and the bound */
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
	uint32_t frame_size;		/* agreed at HELLO: HAProxy's own; before:
					 * SPOP_FRAME_FIRST, or opts.max_frame_size if smaller */
	bool healthcheck;
	bool peer_pipelining, peer_async, peer_fragmentation;	/* capabilities of HAProxy */
	char engine_id[SPOP_ENGINE_ID_MAX + 1];	/* "" if absent; '?' for characters not printable */
	uint64_t n_frames, n_notify, n_fragments, n_lost;	/* received so far */
	struct spop_joining joining[SPOP_OPEN_CEILING];		/* open ones, in no order */
	unsigned n_joining;
	size_t joining_bytes;		/* payload of all of them */
	struct spop_joining joined;	/* payload of the last event, freed by the next call */
};

void spop_conn_init(struct spop_conn *c, const struct spop_conn_opts *o);	/* clamps <o> */
void spop_conn_fini(struct spop_conn *c);

/* Decode the next frame of <buf>. Returns
 *   > 0  bytes used; <ev> describes the frame and borrows from <buf> and <c>
 *     0  the frame is incomplete: call again with more (spop_conn_want() tells how many in all)
 * Never negative: invalid input gives SPOP_EV_CLOSE with an AGENT-DISCONNECT in <out> and uses
 * all <n> bytes. After SPOP_EV_CLOSE the result is always 0. <out> needs room for SPOP_REPLY_MAX
 * bytes; a frame is written whole or not at all. O(frame); allocates for fragments only.
 *
 * Rejected, with this status:
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

/* Decode the frame at <buf> without its payload, because the caller has no memory for all of it.
 * <n> is at least SPOP_HEAD_MAX; the caller has dropped the rest of the frame, up to
 * spop_conn_want(). A NOTIFY is reported as lost, now or with its last fragment. Uses all <n>
 * bytes; otherwise as spop_conn_next(). */
#define SPOP_HEAD_MAX	(SPOP_LENGTH_BYTES + 5u + 2u * 10u)	/* a frame up to its payload */
ssize_t spop_conn_lose(struct spop_conn *c, const uint8_t *buf, size_t n, struct spop_wr *out,
		       struct spop_event *ev);

/* Return the bytes of the frame at <buf> with its length word, or 4 if <n> is below 4. Never
 * above the agreed frame size + 4, because spop_conn_next() rejects a larger one. */
size_t spop_conn_want(const struct spop_conn *c, const uint8_t *buf, size_t n);

/* Close from the agent's side (drain, idle): append an AGENT-DISCONNECT to <out>, so that it
 * leaves in one write with the last ACK. The connection is CLOSED afterwards. If it was already,
 * nothing is written. */
void spop_conn_disconnect(struct spop_conn *c, int status, struct spop_wr *out);

/* ---- an ACK ---------------------------------------------------------------------------- */

enum spop_scope {
	SPOP_SCOPE_PROC, SPOP_SCOPE_SESS, SPOP_SCOPE_TXN, SPOP_SCOPE_REQ, SPOP_SCOPE_RES
};

struct spop_ack {
	struct spop_wr *w;
	size_t start;		/* offset of the frame's length word */
	uint32_t max;		/* frame size agreed on this connection */
	unsigned n_actions;
	bool dropped;		/* an action was omitted because it did not fit */
};

/* Write an ACK frame with FIN, never a fragment and never above the frame size of <c>. An action
 * that does not fit is omitted; the frame stays valid. spop_ack_end() returns false, and removes
 * the frame, only if the frame itself does not fit <w> (which stays <full>). HAProxy 3.1.0 to
 * 3.1.5 hang on an ACK without an action, so set at least one. A name "scope.prefix.name" must
 * be shorter than 64 characters. */
void spop_ack_begin(struct spop_ack *a, const struct spop_conn *c, struct spop_wr *w,
		    uint64_t stream_id, uint64_t frame_id);
void spop_ack_set(struct spop_ack *a, enum spop_scope scope, const char *name,
		  const struct spop_data *value);
void spop_ack_set_str(struct spop_ack *a, enum spop_scope scope, const char *name,
		      const char *p, size_t n);
void spop_ack_set_int(struct spop_ack *a, enum spop_scope scope, const char *name, int64_t v);
void spop_ack_unset(struct spop_ack *a, enum spop_scope scope, const char *name);
bool spop_ack_end(struct spop_ack *a);

/* ---- traces ---------------------------------------------------------------------------- */

/* Print one frame (without its length word) as one line of text, with lengths instead of strings
 * above 40 bytes (120 in HELLO and DISCONNECT) and instead of values of type BIN:
 *	NOTIFY stream=3 frame=1 fin msg=route pool="llm" seq=int32:0 load=str:180 body=bin:15000 */
int spop_frame_print(const uint8_t *frame, size_t n, char *out, size_t cap);

#endif

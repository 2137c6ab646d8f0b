/* share_in.h - the thread "share": connections to the servers of the store, streams, snapshots.
 *
 *      share
 *        |-- server[] --> store_server   10.0.0.5:6379   primary of all parts
 *        |                 '-- cmd         ROLE, XADD, and small keys; open to every server
 *        |-- part[] ----> share_part     stream, its owner, position, batches under way
 *        |-- reader[] --> share_reader   XREAD BLOCK, one of all parts; in a cluster one of each
 *        '-- bulk ------> conn           chunks of snapshots, while there is one
 *
 * Everything is owned by the thread, except what says otherwise. A connection that fails in any way
 * is closed and opened again after a pause. */
#ifndef KVROUTE_LOOP_SHARE_IN_H
#define KVROUTE_LOOP_SHARE_IN_H

#include <stdio.h>

#include <ev.h>

#include "agent/base/count.h"
#include "agent/base/buf.h"
#include "agent/base/rng.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/share.h"
#include "agent/route/share.h"
#include "agent/share/inbox.h"
#include "agent/share/outbox.h"

#define STORE_TEXT_MAX		160		/* of an error, for the log */
#define STORE_KEY_MAX		(FLEET_NAME_MAX + 80)
#define STORE_ID_MAX		48		/* "1700000000000-0" */
#define STORE_PASSWORD_MAX	512
#define CONN_WAITING_MAX	(STORE_PARTS_MAX + 16)	/* commands without an answer yet */
#define CONN_SMALL_REPLY	((size_t)1 << 20)
#define READ_REPLY_MAX		((size_t)32 << 20)	/* of all readers together */
#define READ_BLOCK_MS		1000
#define SLICE_US		2000	/* of work that can wait, in a turn of the loop */
#define SEND_BATCHES_MAX	8		/* of a part, not confirmed */

#ifdef HAVE_HIREDIS
#include <hiredis/hiredis.h>
#endif

struct redisContext;
struct redisReply;
struct share;
struct store_server;
struct conn;

/* ---- share_conn.c: one connection ---------------------------------------------------------- */

/* Handle the answer to a command. Returns true if <r> is kept, to be freed by freeReplyObject(). */
typedef bool conn_reply_fn(struct conn *c, void *arg, uint64_t tag, struct redisReply *r);

/* What a connection is for. <opened>: send the first commands, after the login. <lost>: no answer
 * will come to any command. */
struct conn_use {
	void (*opened)(struct conn *c);
	void (*lost)(struct conn *c);
};

struct conn_waiting {
	conn_reply_fn *fn;
	void *arg;
	uint64_t tag;
	msec until;
};

struct conn {
	struct share *sh;
	const struct conn_use *use;
	void *owner;
	struct store_server *to;	/* NULL: closed, and stays so */
	struct redisContext *ctx;	/* NULL: closed */
#ifdef HAVE_HIREDIS
	redisReplyObjectFunctions functions;	/* of its reader */
#endif
	size_t reply_max;		/* bytes of an answer, as received */
	size_t elements;		/* of the answer that is being read */
	bool connected;
	bool unsent;			/* some commands, or the end of one */
	void *secured;			/* by TLS; NULL: not yet, or without */
	bool too_long;			/* it was closed because of an answer that is too long, or slow */
	bool answered;			/* at least one command was answered without an error */
	ev_io io;
	msec since, retry_at, pause_ms;
	struct conn_waiting waiting[CONN_WAITING_MAX];
	unsigned first, n_waiting;
	char error[STORE_TEXT_MAX];	/* why it was closed last; "": never */
};

void conn_init(struct conn *c, struct share *sh, const struct conn_use *use, void *owner,
    size_t reply_max);

/* Connect to <to> from now on, or to none. An open connection to another server is closed. */
void conn_aim(struct conn *c, struct store_server *to);

/* Open it if it is time, and close it if an answer is late. */
void conn_tick(struct conn *c, msec now);

/* Send a command of <n> words. Returns false if it cannot be sent now. */
bool conn_send(struct conn *c, conn_reply_fn *fn, void *arg, uint64_t tag, msec wait_ms,
    unsigned n, const struct span *words);

/* Returns true if there is room for a command beside those that ask for roles. */
static inline bool conn_has_room(const struct conn *c)
{
	return c->n_waiting < CONN_WAITING_MAX - 8;
}

/* Close it because of <why>. It is opened again after a pause. */
void conn_fail(struct conn *c, const char *why);
void conn_close(struct conn *c);	/* without a pause */

/* Returns true if <r> is an error that begins with <word>. */
bool reply_is_error(const struct redisReply *r, const char *word);
bool reply_is_any_error(const struct redisReply *r);
struct span reply_text(const struct redisReply *r);	/* empty if it has none */

/* ---- share_tls.c --------------------------------------------------------------------------- */

struct tls;

/* Load certificates. Returns NULL with <e>. */
struct tls *tls_new(const struct share_opts *o, struct err *e);
void tls_free(struct tls *t);

/* Begin TLS on a connection that is open. Returns what tls_why() takes, or NULL with a text in
 * <why>. It belongs to <ctx>. */
void *tls_start(struct tls *t, struct redisContext *ctx, const char *host, const char **why);

/* Returns true if it waits until the socket can be written. <unsent>: there are bytes to write. */
bool tls_wants_write(const void *ssl, bool unsent);

/* To be called before reading and writing. OpenSSL keeps errors of a thread until then, so one of
 * another connection would end this one. */
void tls_forget_errors(void);

/* Returns why the certificate was refused, or <otherwise> if it was not. */
const char *tls_why(const void *ssl, const char *otherwise);

/* ---- share_store.c: which server owns which part ------------------------------------------- */

struct store_server {
	struct share *sh;
	char text[ADDR_MAX];		/* for the log: as configured */
	char host[ADDR_MAX];		/* the same without its port, for TLS */
	struct addr addr;
	struct conn cmd;
	bool primary;			/* it takes writes */
	bool owns[STORE_PARTS_MAX];	/* in a cluster */
	char id[64];			/* in a cluster */
	bool asking;
	msec asked_at;
};

struct share_part {
	struct share *sh;
	uint32_t n;
	uint16_t slot;
	char key[STORE_KEY_MAX];
	struct store_server *owner;	/* NULL: none is known */
	/* sending */
	uint64_t turn;			/* answers of earlier turns say nothing about batches */
	unsigned under_way;
	msec retry_at;
	unsigned probe;			/* so many answers until that to the batch of: (0: none is) */
	char probe_at[STORE_ID_MAX];	/* what had been read when it was sent */
	/* reading */
	char at[STORE_ID_MAX];		/* the last entry that was read; "": none */
	bool at_is_early;		/* that is a position before a snapshot, not an entry */
	char resumed[STORE_ID_MAX];	/* the last entry read before the restart; "": not known, or passed */
	bool caught_up;			/* all that was in the stream has been read */
};

void store_init(struct share *sh);
void store_add_server(struct share *sh, struct store_server *s);
void store_tick(struct share *sh, msec now);
void store_ask_again(struct share *sh);		/* an answer shows that the roles have changed */
void store_log(struct share *sh, msec now);	/* tell that the store is gone, or back */

/* Note why a part cannot be written or read, for the log. */
void store_note(struct share *sh, struct store_server *s, struct span why);

/* ---- share_names.c ------------------------------------------------------------------------- */

/* Look up the servers of <o>, with all their addresses. A name that is not found is logged. */
void store_find_servers(struct share *sh, const struct share_opts *o);

/* ---- share_send.c -------------------------------------------------------------------------- */

void send_reset(struct share_part *p);		/* the owner has changed, or its connection is lost */
void send_due(struct share *sh, msec now);

/* ---- share_position.c ---------------------------------------------------------------------- */

struct stream_id {
	uint64_t ms, seq;
};

bool position_parse(struct span s, struct stream_id *id);
bool position_is_after(struct stream_id a, struct stream_id b);
bool position_is_valid(const char *at);
void position_set(struct share_part *p, struct stream_id id);

/* Write the position <ms> before <at>. */
void position_before(const char *at, msec ms, char out[STORE_ID_MAX]);

/* ---- share_read.c -------------------------------------------------------------------------- */

struct stream_reader {
	struct share *sh;
	struct conn conn;
	uint32_t first, n;		/* parts */
	unsigned checks;		/* parts whose stream is being looked at */
	uint32_t count, count_most;	/* entries of a stream to ask for */
	bool fresh;			/* nothing was read on this connection yet */
	struct redisReply *reply;	/* being applied; NULL: none */
	size_t stream, entry;		/* the next in it */
	msec heard;			/* last answer */
};

void read_init(struct share *sh);
void read_tick(struct share *sh, msec now);
bool read_apply(struct share *sh);		/* a slice of what was received; true: there is more */
void read_aim(struct share *sh);		/* owners have changed */
void read_free(struct share *sh);
bool read_is_current(const struct share *sh, msec now);	/* all parts are read */

/* A batch was added as <id> after <at> had been read. If it is not after that, the stream has begun
 * again with lower positions: read it from its beginning. */
void read_check_added(struct share_part *p, const char *at, struct span id);
bool read_caught_up(const struct share *sh);

/* ---- share_resume.c ---------------------------------------------------------------------- */

/* Note the positions of all parts for share_positions(), while the agent is warm. */
void positions_note(struct share *sh);

/* ---- share_snapshot.c, share_warm.c -------------------------------------------------------- */

struct snapshot_meta {
	uint64_t gen, bytes, wanted;
	uint32_t chunks;
	char at[STORE_PARTS_MAX][STORE_ID_MAX];
};

enum warm_state {
	WARM_ASK,	/* is there a snapshot? */
	WARM_LOAD,	/* its chunks are being read */
	WARM_READ,	/* the streams are being read */
	WARM_YES
};

struct share_warm {
	enum warm_state state;
	bool loading, loaded, asking, alone;
	bool resuming;			/* reading goes on from positions of the own snapshot file */
	bool resumed_lost;		/* the streams do not reach back to them */
	unsigned tries, lost;		/* <lost>: connections since the last chunk */
	msec since, asked_at, wanted_at, began;
	uint64_t known;			/* the snapshot in the store at the start; 0: none */
	struct snapshot_meta meta;	/* of the one that is loaded */
	uint32_t chunk;			/* the next */
	uint8_t *bytes;			/* [meta.bytes] */
	size_t n, most;
	struct route_restoring *restoring;	/* NULL: not all chunks have come */
	bool tree_is_in;
	struct {
		uint8_t *bytes;			/* [length]; NULL: there are none */
		uint64_t length, n, most;
		uint32_t chunk;			/* the next */
		struct sessions_restoring *restoring;
	} sessions;
};

struct snapshot_job {
	struct snapshot_writer *w;	/* NULL: none is being written */
	struct snapshot_meta meta;
	uint64_t before;		/* the last one in the store */
	uint8_t *chunk;
	size_t n, cap;
	struct buf sessions;
	size_t sessions_sent;
	bool under_way, whole, failed, sessions_taken;
	bool looking;			/* for who needs one: no answer yet */
	msec since, looked_at;
};

void warm_tick(struct share *sh, msec now);
bool warm_step(struct share *sh);		/* load a slice; true: there is more */
void warm_command_lost(struct share *sh);	/* a connection for commands: ask again */
void warm_lost(struct share *sh);		/* a stream does not reach back to the snapshot */
void warm_free(struct share *sh);
void snapshot_init(struct share *sh);
void snapshot_tick(struct share *sh, msec now);
void snapshot_command_lost(struct share *sh);	/* a connection for commands: look again */
bool snapshot_step(struct share *sh);		/* write a slice; true: there is more */
void snapshot_stop(struct share *sh);

/* ---- share_strange.c ------------------------------------------------------------------------ */

/* Batches and entries in the store that this agent cannot use. */
enum { STRANGE_KEY, STRANGE_VERSION, STRANGE_KIND, STRANGE_ENTRY, STRANGE_WHATS };

struct strange_told {
	msec at;			/* of the last line about it; 0: none */
	uint64_t n;			/* how many there were then */
};

void strange_log(struct share *sh, msec now);

/* ---- the thread ---------------------------------------------------------------------------- */

/* Written by the thread, read for metrics. */
struct share_figures {
	uint64_t connects, failures;		/* connections opened; closed because of an error */
	uint64_t bytes_in, bytes_out;		/* of batches */
	uint64_t send_errors;			/* batches that the store refused */
	uint64_t trimmed;			/* streams that had lost what was not read yet */
	uint64_t snapshots_written, snapshots_loaded, snapshots_refused, snapshot_failures;
	uint64_t snapshot_bytes;		/* of the last one, written or loaded */
};

struct share_siblings {
	size_t n;
	struct share_sibling s[SHARE_SIBLINGS_MAX];
	struct share_inbox_stats inbox;
};

struct share {
	struct agent *agent;
	struct share_opts opts;
	pthread_t thread;
	bool running;
	struct ev_loop *loop;
	ev_async wake, stop;
	ev_timer tick, due;
	ev_idle idle;			/* active while there is work that waits for nothing */
	ev_prepare turn_end;
	struct rng rng;
	share_agent self;
	struct hash_key key;
	char password[STORE_PASSWORD_MAX];
	struct tls *tls;		/* NULL: none */
	struct store_server server[STORE_SERVERS_MAX];
	unsigned n_servers;
	struct share_part *part;
	uint32_t n_parts;
	struct stream_reader *reader;
	uint32_t n_readers;
	struct conn bulk;
	struct share_outbox *outbox;
	struct share_inbox *inbox;
	struct share_warm warm;
	struct snapshot_job writer;
	share_agent gone[SHARE_SIBLINGS_MAX];	/* whose requests are still being closed */
	unsigned n_gone;
	msec started, alive_at, looked_at, clocks_at;
	/* the log */
	msec down_since;		/* 0: all parts are written and read */
	msec told_down;			/* last line that says so; 0: none since the store worked */
	bool ending;			/* only the lease is still given back */
	bool was_up, told_parts, told_snapshot, told_eval;
	struct store_server *blamed;
	char blame[STORE_TEXT_MAX], told_blame[STORE_TEXT_MAX];
	struct strange_told strange[STRANGE_WHATS];
	struct share_figures figures;
	uint32_t connected;		/* atomic; 1: all parts are written and read */
	uint32_t is_warm;		/* atomic */
	pthread_mutex_t lock;		/* guards <siblings> and <kept> */
	struct share_siblings siblings;
	char kept[STORE_PARTS_MAX][STORE_ID_MAX];	/* positions; "": none yet */
};

#define SHARE_AGENT_TEXT	24

/* Write the number of an agent as logs and metrics have it. Returns <out>. */
static inline const char *share_agent_text(share_agent agent, char out[SHARE_AGENT_TEXT])
{
	snprintf(out, SHARE_AGENT_TEXT, "%016llx", (unsigned long long)agent);
	return out;
}

/* Returns true if <o> has a store. */
static inline bool share_wanted(const struct loop_opts *o)
{
	return o->share.servers[0][0] != '\0';
}

/* Read the password, look up names, load certificates. Returns NULL with <e>. */
struct share *share_new(struct agent *a, const struct loop_opts *o, struct err *e);

/* Let the router share. <kept>: the key is permanent. Before any thread decides. Returns -1 with
 * <e>. */
int share_attach(struct share *sh, const struct route_opts *ro, const struct hash_key *key,
    bool kept, struct err *e);
int share_start(struct share *sh, struct err *e);
void share_stop(struct share *sh);	/* waits for its end; from any other thread */
void share_free(struct share *sh);

/* Returns true if /ready may say yes. From any thread. */
bool share_ready(const struct share *sh);

#define SHARE_POSITIONS_MAX	(FLEET_NAME_MAX + 32 + STORE_PARTS_MAX * STORE_ID_MAX)

/* Write the positions in the streams, as a text for share_resume() after a restart. To be called
 * before a snapshot begins, from any thread. Returns its length; 0: none are known. <sh> may be
 * NULL in both. */
size_t share_positions(struct share *sh, char *out, size_t cap);

/* The index was loaded from a snapshot with these positions: read on from there. Before
 * share_start(). Returns false if they are not of this fleet. */
bool share_resume(struct share *sh, struct span positions);

#endif

/* kvsub_in.h - the thread "events": sockets, sources and their ranks.
 *
 *      kvsub
 *        |-- sources --> kvsub_source   chat/gpu1
 *        |                 |-- rank 0     cursor, live socket, replay socket while it is needed,
 *        |                 |              load socket, last load
 *        |                 '-- rank 1
 *        |-- sockets --> all of them; those that publishers connect to stay as long as the process
 *        '-- ready ----> sockets that may have messages left; the others wait for their descriptor
 *
 * libzmq has threads of its own for TCP. It gives each socket a descriptor, an eventfd, that is
 * readable only once after something has changed. So a socket is read until it is empty, or put on
 * the list of ready ones. A monitor, another socket, tells of connections. A lost connection is in
 * the monitor before a message of the next one is in the socket, so the monitor is read between
 * receiving messages and handling them.
 *
 * libzmq connects again after an error of TCP, but not after a breach of its protocol, as a message
 * that is too large. Then the socket is replaced. */
#ifndef KVROUTE_LOOP_KVSUB_IN_H
#define KVROUTE_LOOP_KVSUB_IN_H

#include <ev.h>

#include "agent/base/list.h"
#include "agent/feed/kvcursor.h"
#include "agent/feed/sgl_load.h"
#include "agent/loop/agent_in.h"
#include "agent/loop/kvsub.h"
#include "agent/loop/told_in.h"
#include "agent/route/sources.h"

#define KVSUB_REPLAYS_MAX	8		/* at once */
#define KVSUB_TURN		64		/* messages of a socket handled before the others */
#define KVSUB_WORK		4096		/* blocks and events of a rank applied before the others */
#define KVSUB_SMALL_BYTES	16384u		/* a payload that is applied at once */
#define KVSUB_LIVE_MESSAGES	1000		/* that may wait in a socket */
#define KVSUB_REPLAY_MESSAGES	16384
#define KVSUB_PART_BYTES	(4u << 20)	/* of one part; a larger one ends the connection */
#define KVSUB_LOAD_BYTES	(64u << 10)	/* the same, of a load socket */
#define KVSUB_CONN_BYTES	(64u << 20)	/* received and not read: above, the connection is ended */
#define KVSUB_ALL_BYTES		(256u << 20)	/* the same for all connections together */
#define KVSUB_HELD_BYTES	(64u << 20)	/* batches held by all cursors, and applied in slices */
#define KVSUB_BUDGET		((uint64_t)KVSUB_ALL_BYTES + KVSUB_HELD_BYTES)
#define KVSUB_CONNS_MAX		256		/* publishers at one bound socket */
#define KVSUB_FDS_THREAD	16		/* of the loop and of libzmq's threads */
#define KVSUB_FDS_RANK		6		/* of a rank: live and replay socket, monitors, TCP */
#define KVSUB_FDS_LOAD		3		/* of a rank: load socket, monitor, TCP */

enum kvsub_kind { KVSUB_LIVE, KVSUB_BOUND, KVSUB_REPLAY, KVSUB_LOAD };

/* One TCP connection of a socket. */
struct kvsub_conn {
	int fd;			/* belongs to libzmq */
	uint64_t received;	/* bytes, when it was last looked at */
};

struct kvsub_rank;

struct kvsub_socket {
	struct kvsub *k;
	struct list link;		/* in <sockets> */
	struct list ready;		/* in the list of ready sockets, or alone */
	enum kvsub_kind kind;
	bool dead;			/* closed; freed at the end of the turn */
	void *zmq, *monitor;
	ev_io io, monitor_io;
	struct kvsub_rank *rank;	/* NULL: of BOUND */
	struct list ranks;		/* of BOUND */
	uint16_t port;			/* of BOUND */
	msec gone_at;			/* of LIVE and LOAD: a connection ended, and libzmq makes no other; 0: none */
	struct kvsub_conn *conns;
	unsigned n_conns, conns_room;
	uint64_t received_before;	/* on connections that have ended */
	uint64_t read;			/* bytes of messages */
};

/* Written by the thread, under the lock of kvsub; read for metrics. */
struct kvsub_figures {
	enum kvcursor_state worst;
	unsigned ranks, synced;
	double lag_s;			/* largest of the newest batches */
	uint64_t batches, gaps, replays, replayed, lost, restarts, resets, undecoded;
	uint64_t bad_frames, connected, ended, bytes;
	uint64_t held;			/* batches now */
	uint64_t loads, bad_loads;	/* messages of load sockets */
	uint64_t unanswered;		/* replays */
	bool silent, sizes;		/* faults: kvsub_faults.c */
	uint64_t slices, turn_work;
};

struct kvsub_load {
	struct kvsub_socket *socket;	/* NULL: none, or it could not be opened */
	msec opened_at;
	struct sgl_rank_load last;
	msec at;			/* of <last>; before it, of the first opening */
	bool news;			/* the core was not told of <last> */
	int told;			/* the last log line: 1 received, -1 not, 0 none */
	const char *error;		/* of the last bad message since that line; NULL: none */
	uint64_t taken, bad;
};

/* A payload that is applied in slices. */
struct kvsub_work {
	struct kvsub_work *next;
	struct source_slices slices;
	size_t n;
	char payload[];
};

struct kvsub_rank {
	struct kvsub_source *source;
	unsigned n;
	struct kvcursor cursor;
	struct kvsub_socket *live, *replay;
	struct kvsub_load load;
	struct list at_bound;		/* in the <ranks> of a bound socket */
	int fd;				/* of the last message, if bound */
	bool replaying, sent;
	uint64_t from;			/* sequence to ask for */
	msec replay_at;			/* of the last use of <replay> */
	enum kvcursor_state state;	/* as the core knows it */
	bool from_start;
	enum {
		KVSUB_TOLD_NOTHING, KVSUB_TOLD_SYNCED, KVSUB_TOLD_DEGRADED, KVSUB_TOLD_OFF
	} told;				/* the last log line */
	msec off_since, opened_at;
	/* work: kvsub_work.c */
	struct kvsub_work *work, **work_end;	/* payloads to be applied, in order */
	struct list working;		/* in the list of ranks with such, or alone */
	uint64_t turn;			/* of the thread, to which <left> belongs */
	int64_t left;			/* of KVSUB_WORK */
	uint64_t slices;		/* times that a rest was left for a later turn */
	uint64_t turn_work;		/* the most of a turn */
	struct told off, no_replay;
	uint64_t bad_replays;		/* messages of <replay> that are no frame, since it answered */
	uint64_t placed;		/* batches applied, as the core knows the place */
	uint64_t told_restarts, told_lost;
	uint64_t bad_frames, connected, ended, bytes;
	double lag_s;
};

struct kvsub_source {
	struct kvsub *k;
	struct list link;
	struct event_source who;
	source_id id;
	bool wanted;
	unsigned n_ranks;
	struct kvsub_figures figures;
	struct told silent, sizes;
	struct kvsub_rank rank[];
};

struct kvsub_start {
	char pool[POOL_NAME_MAX + 1], server[SERVER_NAME_MAX + 1];
	double start_s;
	struct kvsub_start *next;
};

struct kvsub_list {
	size_t n;
	struct event_source s[];
};

struct kvsub {
	struct agent *agent;
	pthread_t thread;
	bool running;
	void *context;
	struct ev_loop *loop;
	ev_async wake, stop;
	ev_timer tick;
	ev_idle idle;			/* active while a socket is ready */
	ev_prepare turn_end;
	struct list sources, ready, sockets, dead;
	struct list working;		/* ranks with payloads to be applied */
	uint64_t turn;
	struct listener *listeners;	/* for bound sockets, opened before the sandbox closes */
	unsigned n_listeners;
	unsigned replays;		/* under way */
	uint64_t monitors;		/* made so far, for their names */
	struct kvcursor_opts with_replay, without;
	struct kvcursor_store store;
	struct hash_key key;
	struct rng rng;
	pthread_mutex_t lock;		/* guards the rest, and changes of <sources> */
	struct kvsub_list *next;	/* to be applied; NULL: none */
	struct kvsub_start *starts;
	struct kvsub_start *known;	/* one for each server; the thread's own */
};

/* Returns true if some engine of <o> publishes events. */
bool kvsub_wanted(const struct loop_opts *o);

/* Returns the descriptors that the engines listed in <o> need. */
uint64_t kvsub_fds(const struct loop_opts *o);

/* Returns NULL with <e>. Opens the addresses to bind. */
struct kvsub *kvsub_new(
    struct agent *a, const struct loop_opts *o, const struct hash_key *key, struct err *e);
int kvsub_start(struct kvsub *k, struct err *e);
void kvsub_stop(struct kvsub *k);	/* waits for its end; from any other thread */
void kvsub_free(struct kvsub *k);

/* Call back for each source, with the lock held. */
typedef void kvsub_fn(
    void *arg, const struct event_source *who, const struct kvsub_figures *f);
void kvsub_each(struct kvsub *k, kvsub_fn *fn, void *arg);

/* ---- its parts: kvsub_sources.c ---------------------------------------------------------- */

#define source_of(l)	list_entry(l, struct kvsub_source, link)

void kvsub_apply_list(struct kvsub *k, const struct kvsub_list *list);
void kvsub_remove_source(struct kvsub *k, struct kvsub_source *s);	/* the core keeps its blocks */
void kvsub_take_start(struct kvsub *k, const struct kvsub_start *start);
void kvsub_set_figures(struct kvsub *k);

/* ---- kvsub_socket.c ----------------------------------------------------------- */

/* Make a socket that connects to rank <r> of <endpoint>. Returns NULL if libzmq refuses, with
 * errno. */
struct kvsub_socket *kvsub_socket_open(
    struct kvsub *k, enum kvsub_kind kind, struct kvsub_rank *rank, const char *endpoint);

/* Make one of the listening descriptor <fd>. */
struct kvsub_socket *kvsub_socket_bind(struct kvsub *k, int fd, uint16_t port);
void kvsub_socket_close(struct kvsub_socket *s);
void kvsub_free_dead(struct kvsub *k);

/* Returns true if <s>, opened at <opened_at>, is NULL or has had no connection for a while, and
 * libzmq makes no other. */
bool kvsub_socket_is_gone(const struct kvsub_socket *s, msec opened_at, msec now);

/* Returns the socket bound to <port>, or NULL. */
struct kvsub_socket *kvsub_bound_at(struct kvsub *k, uint16_t port);

/* Subscribe a bound socket to <topic>, or end one such subscription. */
void kvsub_subscribe(struct kvsub_socket *s, const char *topic, bool yes);

/* Send the request for a replay. Returns false if no connection is there yet. */
bool kvsub_send_request(struct kvsub_socket *s, uint64_t from);

/* Read what has come, and handle it. */
void kvsub_socket_read(struct kvsub_socket *s);

/* ---- kvsub_watch.c ----------------------------------------------------------------------- */

void kvsub_conn_add(struct kvsub_socket *s, int fd);
void kvsub_conn_remove(struct kvsub_socket *s, int fd);

/* End connections on which more has come than may wait. */
void kvsub_watch(struct kvsub *k);

/* ---- kvsub_rank.c, kvsub_load.c ---------------------------------------------------------- */

/* Make the live socket, or join a bound one. */
void kvsub_rank_open(struct kvsub_rank *r);
void kvsub_rank_init(struct kvsub_rank *r, struct kvsub_source *s, unsigned n);
void kvsub_rank_fini(struct kvsub_rank *r);
void kvsub_log_unread(
    struct kvsub *k, const struct event_source *who, const char *why, const char *remedy);
void kvsub_rank_connected(struct kvsub_rank *r);
void kvsub_rank_disconnected(struct kvsub_rank *r);
void kvsub_rank_live(struct kvsub_rank *r, const struct kvframe *f);
void kvsub_rank_replayed(struct kvsub_rank *r, const struct kvframe *f);
void kvsub_rank_bad(struct kvsub_rank *r, bool replay);	/* a message that is no frame */
void kvsub_rank_tick(struct kvsub_rank *r, msec now);

/* ---- kvsub_work.c ------------------------------------------------------------------------ */

/* Apply a payload now, or note it for later turns. Returns false if it cannot be decoded, or there
 * is no memory. */
bool kvsub_work_apply(struct kvsub_rank *r, struct span payload, struct kvcursor_effect *did);

/* Apply the next part of what was noted. Called once a turn, by each rank of the list. */
void kvsub_work_go_on(struct kvsub_rank *r);
void kvsub_work_drop(struct kvsub_rank *r);

/* Tell if no message of <s> may be read now, because earlier ones are not applied yet. */
bool kvsub_work_waits(const struct kvsub_socket *s);

/* Log faults that last: kvsub_faults.c. */
void kvsub_faults_look(struct kvsub_source *s, msec now);

/* Store the load of a message. <f> NULL: it is no frame. */
void kvsub_load_take(struct kvsub_rank *r, const struct kvframe *f);

/* Tell the core the load of the server, if <r> has a new one. */
void kvsub_load_tell(struct kvsub_rank *r);
void kvsub_load_tick(struct kvsub_rank *r, msec now);
void kvsub_load_close(struct kvsub_rank *r);

/* Handle what follows from the last call of the cursor: tell the core, begin or end a replay. */
void kvsub_rank_look(struct kvsub_rank *r, msec now);

/* Ask for the replay that was begun, if it was not yet. */
void kvsub_rank_ask(struct kvsub_rank *r);

#endif

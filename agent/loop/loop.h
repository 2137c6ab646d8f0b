/* loop.h - sockets, threads, timers, signals: the only folder that uses libev.
 *
 *      main thread      signals, reload, drain
 *      spop 0..N-1      each owns its SPOP connections from accept to close (one libev loop each)
 *      background       log feed (TCP, UDP), metrics, commands of an operator, ticks of the core,
 *                       polls of stats sockets and engines
 *
 * All listeners are opened before any thread starts, so that a wrong address fails the start. */
#ifndef KVROUTE_LOOP_LOOP_H
#define KVROUTE_LOOP_LOOP_H

#include "agent/base/err.h"
#include "agent/os/limits.h"
#include "agent/route/route.h"
#include "spoe/spop.h"

#define LISTEN_MAX	8
#define ENGINE_URL_MAX	199

enum loop_clock { CLOCK_OWN, CLOCK_MESSAGE };	/* the monotonic clock; the time in messages */

enum decisions_to { DECISIONS_LOCAL, DECISIONS_ALL, DECISIONS_NONE };

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Where an engine publishes KV cache events. "{address}" stands for the server's address, as
 * HAProxy's stats socket shows it. */
struct engine_events_opts {
	char endpoint[ENGINE_URL_MAX + 1];	/* of rank 0: "tcp://10.0.0.7:5557"; "": no events */
	char replay[ENGINE_URL_MAX + 1];	/* its replay socket; "": none */
	char topic[64];				/* prefix of the topics to take; default "": all */
	uint32_t ranks;				/* of data parallelism: rank r has port + r; 0: 1, or as the engine says */
	msec expire_ms;				/* of blocks that are not on the device; 0: removals are reported */
};

/* An engine whose metrics are polled, or whose events are read. */
struct engine_opts {
	char pool[POOL_NAME_MAX + 1], name[SERVER_NAME_MAX + 1];	/* the server, as HAProxy names it */
	char metrics[ENGINE_URL_MAX + 1];	/* address: engine_url.h; "": not polled */
	struct engine_events_opts events;
	char load[ENGINE_URL_MAX + 1];	/* its load socket, rank 0: "tcp://10.0.0.7:5570"; "": none */
};

#define STORE_SERVERS_MAX	16	/* of one store */
#define STORE_PARTS_MAX		64
#define FLEET_NAME_MAX		63

enum share_ready { SHARE_READY_WARM, SHARE_READY_ALWAYS };

/* The store, Valkey or Redis, that the agents of a fleet share their state through. */
struct share_opts {
	char servers[STORE_SERVERS_MAX][ADDR_MAX];	/* "10.0.0.5:6379", "redis:6379"; none: no sharing */
	bool cluster;				/* the servers are a cluster, not a primary and replicas */
	char fleet[FLEET_NAME_MAX + 1];		/* in the names of all keys; default kvroute */
	char user[NAME_CHARS_MAX];		/* of an ACL; default "": the default user */
	char password_file[PATH_CHARS_MAX];	/* default "": no password */
	bool tls;
	char tls_ca[PATH_CHARS_MAX];		/* default "": those that the system trusts */
	char tls_cert[PATH_CHARS_MAX], tls_key[PATH_CHARS_MAX];	/* of the agent; default "": none */
	uint32_t parts;				/* streams; 0: 1, or 8 in a cluster */
	size_t max_bytes;			/* of what waits to be sent; default 16 MiB */
	uint64_t stream_entries;		/* kept by the store in each part, about; default 65536 */
	msec snapshot_every_ms;			/* default 300000; 0: only if an agent starts */
	enum share_ready ready;			/* default WARM */
	msec warm_timeout_ms;			/* default 10000 */
	msec timeout_ms;			/* longest wait for an answer; default 1000 */
	/* without a store: */
	bool serve_snapshot;			/* to siblings, by the metrics listener */
	char snapshot_from[LISTEN_MAX][ADDR_MAX];	/* metrics listeners of siblings; default none */
	msec snapshot_from_every_ms;		/* default 60000 */
};

/* Options of the agent. Addresses: "127.0.0.1:9400", "[::1]:9400", "unix@/run/kvroute/spop.sock";
 * "" ends a list. */
struct loop_opts {
	char spop[LISTEN_MAX][ADDR_MAX];	/* default 127.0.0.1:9400, unix@/run/kvroute/spop.sock */
	bool spop_optional[LISTEN_MAX];		/* skipped if its directory is missing */
	char log_tcp[LISTEN_MAX][ADDR_MAX];	/* default 127.0.0.1:9401 */
	char log_udp[LISTEN_MAX][ADDR_MAX];	/* default 127.0.0.1:9401 */
	char metrics[LISTEN_MAX][ADDR_MAX];	/* default 127.0.0.1:9402 */
	enum decisions_to decisions_to;		/* who may read /decisions there; default LOCAL */
	uint32_t socket_mode;			/* of unix sockets; default 0660 */
	char runtime_path[ADDR_MAX];		/* unix socket for commands; default "": none */
	uint32_t runtime_mode;			/* its file mode; default 0600 */
	char runtime_group[NAME_CHARS_MAX];	/* its group; default "": that of the agent */
	enum loop_clock clock;			/* MESSAGE: for simulations, on loopback only */
	uint32_t threads;			/* SPOP loops; 0: one per CPU, at most 4; at most 64 */
	uint32_t max_connections;		/* SPOP, all threads; default 4096 */
	size_t spop_max_bytes;			/* buffers of all SPOP connections; default 256 MiB */
	size_t spop_send_buffer;		/* kernel buffer for ACKs that a peer does not read; 128 KiB */
	uint32_t max_feeds;			/* log feed connections; default 64 */
	msec hello_timeout_ms;			/* connection without HELLO; default 5000 */
	msec idle_timeout_ms;			/* connection without a frame; default 300000 */
	msec timeout_processing_ms;		/* HAProxy's wait for an answer; default 50 */
	msec drain_ms;				/* longest wait for open requests at SIGTERM; 5000 */
	struct spop_conn_opts spop_conn;
	char user[NAME_CHARS_MAX], group[NAME_CHARS_MAX];	/* default "": not changed */
	char state_dir[PATH_CHARS_MAX];		/* default /var/lib/kvroute; for the key */
	char models_dir[PATH_CHARS_MAX];	/* default /etc/kvroute/models: files of tokenizers */
	char key_file[PATH_CHARS_MAX];		/* default "": <state_dir>/key */
	char snapshot_file[PATH_CHARS_MAX];	/* default "": no snapshot */
	msec snapshot_every_ms;			/* default 0: only at the end */
	char record_file[PATH_CHARS_MAX];	/* default "": no recording */
	uint64_t record_max_bytes;		/* of a file; default 256 MiB */
	bool record_rotate;			/* continue in a new file; default false: the recording ends */
	uint32_t record_block_tokens;		/* default 128 */
	char feed_token_file[PATH_CHARS_MAX];	/* default "": log lines need no token */
	enum log_level log_level;		/* default info */
	char stats[LISTEN_MAX][ADDR_MAX];	/* HAProxy's stats sockets; default none */
	msec stats_interval_ms, stats_timeout_ms;	/* 500, 1000 */
	msec engine_interval_ms, engine_timeout_ms;	/* 500, 1000 */
	struct engine_opts engine_default;	/* empty */
	struct engine_opts *engines;
	size_t n_engines;
	struct share_opts share;
	bool no_sandbox;			/* for debugging; not a key of the configuration */
};

void loop_defaults(struct loop_opts *o);
void loop_opts_free(struct loop_opts *o);	/* frees the array, not <o> */

#define CONN_BYTES	2304	/* of a SPOP connection without its buffers */
#define FEED_BYTES	8448	/* of a log feed, with its partial line */
#define POLL_BYTES	10240	/* of a stats socket or an engine, with its partial answer */

/* Returns the number of stats sockets and of engines whose metrics are polled: listed ones, or the
 * most there can be. */
size_t loop_peers(const struct loop_opts *o), loop_peers_most(const struct loop_opts *o);

#define THREADS_DEFAULT_MAX	4	/* if their number is not configured */
/* Returns the number of SPOP threads, at most. */
unsigned loop_threads_most(const struct loop_opts *o);

/* Returns the most bytes that peers can make the agent use: connections, their buffers, log feeds,
 * polls and the recording. */
uint64_t loop_budget(const struct loop_opts *o);

#define RELOAD_ERRORS_MAX	10	/* each is a log line */

/* Why a reload was rejected: at least one reason, and the number of further ones. */
struct reload_errors {
	struct err e[RELOAD_ERRORS_MAX];
	size_t n, more;
};

/* Reads the configuration of a reload. <load> returns 0 and fills <route> and <loop>, which the
 * caller frees with route_opts_free() and loop_opts_free(). Or it returns -1 and fills <es>, which
 * is empty before. <fd> is <file>, opened for this call, or -errno. */
struct loop_reload {
	const char *file;	/* NULL: no file to reload */
	int (*load)(void *arg, int fd, struct route_opts *route, struct loop_opts *loop,
		    struct reload_errors *es);
	/* Write the values of <route> and <loop> as YAML. NULL: the runtime socket does not show them. */
	void (*print)(void *arg, const struct route_opts *route, const struct loop_opts *loop,
	    void (*put)(void *to, const char *text, size_t n), void *to);
	void *arg;
};

/* Open everything, run until SIGTERM or SIGINT, drain and close. Returns 0 at the end, or -1 with
 * <e> if the start failed. */
int loop_run(const struct loop_opts *o, const struct route_opts *ro,
    const struct loop_reload *reload, struct err *e);

#endif

/* fleet.h - the pools and servers seen so far, as HAProxy's load strings and stats sockets tell of them.
 *
 * The agent has no list of servers of its own: a server exists from the first load string, or row of a stats
 * socket, that names it until it has been missing for a while from those of its pool. Not locked: the owner is.
 *
 *      fleet --> pool "llm" --> server "s1" id 0 --> slot of process "lb1/77": open requests, oldest first
 *                          |               `------> slot of process "lb1/78"
 *                          `--> server "s2" id 1 */
#ifndef KVROUTE_ROUTE_FLEET_H
#define KVROUTE_ROUTE_FLEET_H

#include <pthread.h>

#include "agent/base/list.h"
#include "agent/base/types.h"
#include "agent/route/capacity.h"
#include "agent/route/loadstr.h"
#include "agent/route/observe.h"
#include "agent/route/penalty.h"
#include "agent/route/rate.h"
#include "agent/route/route.h"

/* Turns of a pool count from here. A new server starts somewhere below, by chance: agents that start
 * together do not all send their first request to the same one. */
#define FIRST_TURN	(1u << 20)

#define SLOTS_MAX	16	/* HAProxy processes told apart for one server; more share the last */

/* What a request asks of a server until its first token. */
struct work {
	double s;		/* seconds of prefill, as slow as that server is */
	double nominal_s;	/* as policy_prefill_s() has it */
	uint64_t tokens;	/* that were not cached */
};

/* What one HAProxy process has open at one server, by our own count. */
struct slot {
	uint64_t process;	/* hash of its name */
	msec heard;		/* its last load string, or fact of a request moved here */
	struct list open;	/* struct ledger_entry.in_slot, oldest first */
	uint32_t n_open;
	uint64_t n_ever, mark;	/* entries it ever had; those numbered below <mark> are marked */
	uint32_t n_marked;	/* of those open */
	msec marked_at;
	uint32_t admitted;	/* by a load string that must have counted all that are marked; */
	msec admitted_at;	/* 0: none has come yet */
};

struct server {
	char name[SERVER_NAME_MAX + 1];
	uint64_t name_hash;		/* keyed */
	struct pool *pool;
	server_id id;
	bool up;
	enum load_backup backup;	/* from the last load string; a stats socket has its own in <watch> */
	uint32_t weight, conn, queue;	/* from the last load string; in a pool without, from stats sockets */
	msec seen;
	msec rowed;			/* first row of a stats socket; 0: none */
	struct slot *slots[SLOTS_MAX];
	unsigned n_slots;
	uint32_t n_open;		/* over all slots */
	uint64_t open_tokens;		/* of their prompts */
	uint64_t kv_tokens;		/* the same without what they have in common */
	double unanswered_s;		/* prefill seconds sent there, their first token not reported */
	uint64_t unanswered_tokens;	/* the same in tokens that were not cached */
	uint32_t n_unanswered;
	struct rate rate;
	double fluid_s;			/* the same, drained one second a second: see server_backlog() */
	msec fluid_at;
	uint64_t last_pick, picked, hit_tokens;
	struct penalty penalty;
	uint64_t failures;		/* requests it failed */
	struct watch watch;		/* what stats sockets say */
	struct engine_seen engine;
	struct capacity capacity;
	uint64_t inferred;		/* tokens in its cache, by that; 0: not known */
};

enum fact_step { STEP_NONE, STEP_LOAD, STEP_END, STEP_FIRST };

struct pool {
	char name[POOL_NAME_MAX + 1];
	const struct pool_opts *opts;
	pthread_mutex_t rule_lock;	/* guards what <memory> points to; taken last, held for one call */
	struct policy_memory *memory;	/* of <rule>, or NULL; another only with its options */
	enum policy_rule rule;
	size_t rule_max_bytes;
	struct compare *compare;	/* under both locks: see compare.h */
	struct problem_pool *problems;	/* attached.c; NULL: not met yet */
	struct server *nowhere;		/* fleet_nowhere(), or NULL: never asked for */
	struct server **servers;
	size_t n_servers, cap_servers;
	msec loaded;			/* last load string; 0: never one */
	msec watched;			/* last row of a stats socket */
	size_t next_row;		/* the server that it is expected to be of */
	msec first_seen, done_seen;	/* last fact of each kind; 0: never */
	enum fact_step step;		/* as of the last decision */
	uint64_t requests, picks;
	uint16_t base_model;		/* adapter.c; of the options that hold */
	bool imbalanced;
	uint64_t imbalance_transitions;
	uint64_t choices, dearer;	/* see struct route_pool_view */
	double regret_s;
	double slowness;			/* of its servers: pool_slowness() */
	struct policy_pressure pressure;	/* smoothed: see pool_press() */
	double mean_work_s;
	bool sweeping;			/* down to max_tree_size: see keep.c */
	msec swept;
	struct capacity_pool capacity;
	size_t next_inferred;		/* server whose turn it is, when there is evidence */
	double busiest;			/* load of the busiest candidate, or its wait in requests */
};

struct fleet {
	struct pool **pools;
	size_t n_pools;
	struct server *by_id[SERVERS_MAX];
	server_id next_id;		/* where to look for a free one */
	struct server_set leaving;	/* ids of servers that are gone, but not yet from the index */
	uint64_t pools_refused, servers_refused;
};

void fleet_init(struct fleet *f);
void fleet_fini(struct fleet *f);

/* Found, or made; NULL: too many, or no memory, or a name too long. */
struct pool *fleet_pool(struct fleet *f, const struct route_opts *o, struct span name);
struct pool *fleet_find(const struct fleet *f, struct span name);	/* NULL: not seen yet */
struct server *fleet_server(struct fleet *f, struct pool *p, struct span name, uint64_t name_hash);
struct server *pool_find(const struct pool *p, struct span name, size_t hint);

/* Whose requests are until a fact says where HAProxy sent them: a server of <p> without a name, in none of its
 * lists, that can never be chosen. NULL: no memory or no id. */
struct server *fleet_nowhere(struct fleet *f, struct pool *p);

/* Take a server out; the caller has closed what was open there. Its id is leaving, and free once it has left. */
void fleet_drop(struct fleet *f, struct server *s);
server_id fleet_leaving(const struct fleet *f);		/* one of them, or SERVER_NONE */
void fleet_left(struct fleet *f, server_id id);

/* The options of a pool of that name. */
const struct pool_opts *pool_options_of(const struct route_opts *o, struct span name);

/* Options have changed: every pool points at its new ones. */
void fleet_options(struct fleet *f, const struct route_opts *o);

/* Of a process that was heard just now. NULL: no memory. */
struct slot *server_slot(struct server *s, uint64_t process, msec now);

/* ---- the wait at a server --------------------------------------------------------------- */

/* What facts a pool's servers have been giving: the highest step of the ladder reached within the
 * last minute of facts. */
enum fact_step pool_step(const struct pool *p, msec now);
const char *fact_step_text(enum fact_step s);

/* Seconds of prefill that wait at a server. With first-token reports: what is not answered yet, to
 * the letter. Without: the same drained one second a second, never above what is unfinished and
 * never below <floor> of it, because an assumed rate that is too fast ruins everything. */
void pool_slowness(struct pool *p, msec now);

/* How slow it is, by what facts there are: see rate.h. 1 where nothing is to be learned. */
double server_slowness(const struct server *s, enum fact_step step, msec now);

double server_backlog(struct server *s, enum fact_step step, double floor, msec now);
void server_work_add(struct server *s, const struct work *w, msec now);
void server_work_end(struct server *s, const struct work *w, msec now);

/* Take into the pool's pressure, which drives the price of work: the mean wait of the candidates, the share of
 * them where work waits, and the work that the request takes where it goes. */
void pool_press(struct pool *p, double mean_wait_s, double waiting, double work_s);

#endif

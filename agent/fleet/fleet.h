/* fleet.h - the pools and servers seen so far in load strings and stats rows of HAProxy.
 *
 * The agent has no list of servers of its own. A server exists from the first load string or stats
 * row that names it until its pool's load strings and rows have not named it for a while. Ids of
 * servers are small numbers that the index knows them by. Not locked: the owner locks.
 *
 *   fleet --> pool "llm" --> server "s1" id 0 --> slot of process "lb1/77": open requests, by age
 *                       |               `------> slot of process "lb1/78"
 *                       `--> server "s2" id 1 */
#ifndef KVROUTE_FLEET_FLEET_H
#define KVROUTE_FLEET_FLEET_H

#include "agent/base/list.h"
#include "agent/base/types.h"
#include "agent/feed/host_port.h"
#include "agent/fleet/capacity.h"
#include "agent/fleet/loadstr.h"
#include "agent/fleet/names.h"
#include "agent/fleet/observe.h"
#include "agent/fleet/penalty.h"
#include "agent/fleet/rate.h"
#include "agent/fleet/transfer.h"
#include "agent/fleet/unseen.h"
#include "agent/fleet/wait.h"
#include "agent/policy/policy.h"

/* Turns of a pool count from here. The owner may start a new server at a random turn below, so that
 * agents which start together do not all send their first request to the same server. */
#define FIRST_TURN	(1u << 20)

#define CLEARED_NEVER	(INT64_MIN / 2)	/* differences to any time are in range */

#define SLOTS_MAX	16	/* HAProxy processes kept apart for one server; more share the last slot */

/* Work that a request brings to a server before its first token. */
struct work {
	double s;		/* seconds of prefill at the speed of that server */
	double nominal_s;	/* seconds by policy_prefill_s() */
	double unseen_s;	/* of <s>, estimated for the part of the body that was not seen */
	uint64_t tokens;	/* not cached */
	bool uncertain;		/* most of it is such an estimate: its time teaches no rate */
	bool elsewhere;		/* another server computes the prompt: no work here */
};

/* The process of requests that other agents have sent. They have one slot at each server, which no
 * load string of a process closes, nor its silence. */
#define PROCESS_OF_SIBLINGS	1u
/* The same for prompts that servers compute for other pools: HAProxy does not see them there. */
#define PROCESS_OF_PREFILLS	2u

/* Requests that one HAProxy process has open at one server, by our own count. */
struct slot {
	uint64_t process;	/* hash of its name */
	bool shared;		/* of several processes: no load string counts all its requests */
	msec heard;		/* its last load string, or fact of a request moved here */
	struct list open;	/* struct ledger_entry.in_slot, oldest first */
	uint32_t n_open;
	uint64_t n_ever, mark;	/* entries ever added; those numbered below <mark> are marked */
	uint32_t n_marked;	/* marked ones that are open */
	msec marked_at;
	uint32_t admitted;	/* requests in a load string that must have counted all marked ones */
	msec admitted_at;	/* 0: no such string has come yet */
};

struct server {
	char name[SERVER_NAME_MAX + 1];	/* "": requests of unknown servers, see fleet_nowhere() */

	/* what a decision reads or writes for each candidate is together, in few cache lines */
	uint64_t name_hash;		/* keyed */
	struct pool *pool;
	server_id id;
	bool up;
	enum load_backup backup;	/* from the last load string; stats rows are in <watch> */
	uint32_t weight, conn, queue;	/* from the last load string; without any, from stats rows */
	uint32_t n_open;		/* over all slots */
	int32_t extra;			/* sum of ledger_entry.extra */
	msec seen;			/* last load string that named it */
	/* when its engine's cache was empty last, as far as known, also before the clock's 0 */
	msec cleared;			/* or CLEARED_NEVER */
	uint64_t open_tokens;		/* prompt tokens of open requests */
	uint64_t kv_tokens;		/* the same, without prefixes shared with other requests */
	double unanswered_s;		/* prefill seconds sent there without a first token yet */
	uint64_t unanswered_tokens;	/* the same in tokens that were not cached */
	double unseen_s;		/* of <unanswered_s>, work.unseen_s */
	double unseen_left_s;		/* the same, drained one second a second */
	double fluid_s;			/* unanswered_s, drained one second a second: server_backlog() */
	msec fluid_at;			/* <fluid_s> and <unseen_left_s> are as of then */
	uint32_t n_unanswered;		/* requests with that work */
	uint32_t n_answered;		/* those whose first token was reported, ever, modulo 2^32 */
	uint32_t n_elsewhere;		/* those without an answer yet whose work is elsewhere */
	uint64_t last_pick;
	uint64_t inferred;		/* cache tokens inferred: the larger of the two; 0: unknown */
	struct penalty penalty;
	uint32_t source;		/* number + 1 of its KV cache events; 0: none. For the owner */
	unsigned n_slots;
	struct slot *slots[SLOTS_MAX];
	struct rate rate;
	struct engine_seen engine;
	struct watch watch;		/* stats rows */

	msec told;			/* last load string or row of another agent that named it, as far as told */
	bool restored;			/* pages of it were loaded from a snapshot */
	msec rowed;			/* first stats row; 0: none */
	uint64_t picked, hit_tokens;
	uint64_t picked_why[WHY_COUNT];	/* <picked> by the reason of the choice */
	struct engine_hits hits;	/* told by its engine's metrics */
	float empty_streams;		/* share of its streams that had no answer, smoothed */
	float seen_streams;		/* what that would be if all had none: near 1 after some */
	uint64_t failures;		/* requests that it failed */
	char address[HOST_PORT_MAX + 1];	/* by the last of <watch>; "": unknown */
	msec stores_due;		/* a request with new blocks was sent then; 0: none. For the owner */
	struct capacity capacity;
	uint64_t inferred_here;		/* from <capacity>; 0: no evidence */
	/* by another agent, which said so then; 0: none. For the owner */
	uint64_t inferred_there, inferred_by;
	msec inferred_at;
	uint64_t inferred_told;		/* <inferred_here> as told to other agents, then */
	msec learned_told;
};

/* Kinds of facts that a pool gets; each includes those before it. */
enum fact_step { STEP_NONE, STEP_LOAD, STEP_END, STEP_FIRST };

struct pool_opts;	/* the owner's options of a pool */
struct pool_route;	/* the owner's state of a pool */

struct pool {
	char name[POOL_NAME_MAX + 1];
	uint32_t number;	/* its place in fleet.pools */
	const struct policy_opts *policy;	/* set by the owner; never NULL once a server exists */
	const struct pool_opts *opts;		/* set by the owner and not used here */
	struct pool_route *route;		/* the same; the owner frees it */
	struct server *nowhere;		/* fleet_nowhere(), or NULL */
	struct server **servers;
	size_t n_servers, cap_servers;
	msec loaded;			/* last load string; 0: none */
	msec watched;			/* last stats row */
	msec told;			/* last time that HAProxy named a server of it to another agent */
	size_t next_row;		/* server that the next stats row is expected to name */
	msec first_seen, done_seen;	/* last fact of each kind; 0: none */
	enum fact_step step;		/* at the last decision */
	uint64_t requests, picks;
	double slowness;		/* of its servers: pool_slowness() */
	struct policy_pressure pressure;	/* smoothed: pool_press() */
	double mean_work_s;
	struct wait_line wait;
	struct transfer_line transfer;	/* of prompts that other pools compute */
	double mean_output;		/* tokens of an answer, smoothed; 0: unknown */
	uint32_t n_outputs;		/* answers in it */
	struct capacity_pool capacity;
	struct unseen unseen;
	size_t next_inferred;		/* server that is next in turn when evidence comes */
	double busiest;			/* load of the busiest candidate, or its wait in requests */
};

struct fleet {
	struct pool **pools;
	size_t n_pools;
	struct server *by_id[SERVERS_MAX];
	server_id next_id;		/* where the search for a free id starts */
	uint64_t leaving[SERVERS_MAX / 64];	/* bit per id: dropped, but the index still knows it */
	uint64_t pools_refused, servers_refused;
};

void fleet_init(struct fleet *f);
void fleet_fini(struct fleet *f);

/* Find a pool. Returns NULL if it has not been seen. */
struct pool *fleet_find(const struct fleet *f, struct span name);

/* Add a pool, which fleet_find() did not find. Returns NULL and counts it as refused if there are
 * <max_pools>, if the name is too long or has a NUL byte, or if there is no memory. */
struct pool *fleet_pool_add(struct fleet *f, struct span name, uint32_t max_pools);

/* Remove the pool that was added last. It has no servers. */
void fleet_pool_undo(struct fleet *f);

/* Add a server. Returns NULL and counts it as refused if no id is free, if the name is too long or
 * has a NUL byte, or if there is no memory. */
struct server *fleet_server(struct fleet *f, struct pool *p, struct span name, uint64_t name_hash);

/* Find a server by name, first at <hint>. Returns NULL if there is none. */
struct server *pool_find(const struct pool *p, struct span name, size_t hint);

/* Return the server that owns requests of <p> until a fact says where HAProxy sent them. It has no
 * name, is in no list of <p> and is never a candidate. Returns NULL if there is no memory or id. */
struct server *fleet_nowhere(struct fleet *f, struct pool *p);

/* Remove a server without open requests. Its id is leaving until fleet_left(), then free. */
void fleet_drop(struct fleet *f, struct server *s);
bool fleet_is_leaving(const struct fleet *f, server_id id);
server_id fleet_leaving(const struct fleet *f);		/* one of them, or SERVER_NONE */
void fleet_left(struct fleet *f, server_id id);

/* Return the slot of a process that was heard at <now>. Returns NULL if there is no memory. If
 * SLOTS_MAX processes have requests open, another one shares the last slot until it is empty. */
struct slot *server_slot(struct server *s, uint64_t process, msec now);

/* Note that <process> was heard at <now>. Returns its own slot, which its load string may close, or
 * NULL if it has none. */
struct slot *server_heard(struct server *s, uint64_t process, msec now);

/* Note that a stream of <s> ended normally. <empty>: with less than one event. Returns true if that
 * is a failure: the share of empty streams of <s> is nearer to 1 than to that of the other servers
 * of its pool. So none is a failure if all requests of the pool want one token, or if all servers
 * fail. O(servers). */
bool server_stream_ended(struct server *s, bool empty);

/* ---- the wait at a server ------------------------------------------------------------------ */

/* Return the best kind of facts that came within the last minute. */
enum fact_step pool_step(const struct pool *p, msec now);
const char *fact_step_text(enum fact_step s);

/* Set p->slowness, the mean of its servers whose rate is known. O(servers). */
void pool_slowness(struct pool *p, msec now);

/* Tell if its own times say how fast a server is. */
bool server_speed_known(const struct server *s, enum fact_step step, msec now);

/* Return how slow a server is by the facts of <step>: see rate.h. 1 if nothing is known. */
double server_slowness(const struct server *s, enum fact_step step, msec now);

/* Return the seconds of prefill that wait at a server. With first-token reports this is exact: all
 * that has no first token yet. Without, the same drained one second a second, at least <floor> of
 * what is unfinished, because an assumed rate that is too fast is much worse than one too slow.
 * Estimates of unseen bytes drain in both cases, because a client may announce bytes and never
 * send them: they then count no longer than a prompt of that length would take. */
double server_backlog(struct server *s, enum fact_step step, double floor, msec now);
void server_work_add(struct server *s, const struct work *w, msec now);
/* The same for work that waits there since <sent>, as is known only now. */
void server_work_late(struct server *s, const struct work *w, msec sent, msec now);
void server_work_end(struct server *s, const struct work *w, msec now);

/* Smooth into the pressure of a pool, which drives the price of work: the mean wait of the
 * candidates, the share of them where work waits, and the work of this request. */
void pool_press(struct pool *p, double mean_wait_s, double waiting, double work_s);

#endif

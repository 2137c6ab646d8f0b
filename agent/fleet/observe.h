/* observe.h - what stats sockets of HAProxy and metrics of engines say about one server.
 *
 *   load string       now, of the process that sends the request  up, weight, connections, queue
 *   stats sockets     about 100 ms old, of all processes          the same, drain, maintenance
 *   engine's metrics  the same age, of all clients of the engine  waiting, running, cache, adapters
 *   engine's answers  as old as the last answer, of all clients   waiting, running, cache
 *
 * Where there are load strings, stats rows add only what strings cannot say: that a process wants
 * no new requests there (any process is enough, because a server is drained in one process after
 * the other), and the requests of other processes. Without load strings, stats rows are the list of
 * servers and their load.
 *
 * Each report says until when it holds, some intervals ahead. After that it counts for nothing,
 * except the size of an engine's cache, which does not change while the engine cannot be read. */
#ifndef KVROUTE_FLEET_OBSERVE_H
#define KVROUTE_FLEET_OBSERVE_H

#include "agent/base/types.h"
#include "agent/feed/engine_load.h"
#include "agent/feed/hastats.h"
#include "agent/feed/metrics.h"

#define WATCHERS_MAX	8	/* HAProxy processes kept apart for one server; rows of more are dropped */

/* The last row of one HAProxy process. */
struct watched {
	uint64_t process;	/* hash of the address of its stats socket */
	msec until;		/* it holds before this */
	uint32_t load;		/* sessions and queue */
	uint32_t queue, weight;
	enum hastats_state state;
	bool backup;
};

struct watch {
	unsigned n;
	msec seen;		/* last row; 0: none */
	struct watched by[WATCHERS_MAX];
};

/* All rows that still hold, together. */
struct watch_sum {
	unsigned n;		/* processes */
	bool up;		/* one says up */
	bool closed;		/* one says drain, maintenance or weight 0 */
	bool maintained;	/* one says maintenance */
	bool reached;		/* one says up or drain, and none maintenance */
	bool backup;		/* one says that it is a backup server */
	uint32_t load, queue, weight;	/* sums; <weight>: the largest */
};

void watch_row(
    struct watch *w, uint64_t process, const struct hastats_row *row, msec now, msec until);
struct watch_sum watch_sum_rows(const struct watch *w, msec now);

/* Return the sum of the rows. It is asked for each candidate, and many agents have no rows. */
static inline struct watch_sum watch_sum(const struct watch *w, msec now)
{
	return w->n > 0 ? watch_sum_rows(w, now) : (struct watch_sum){ .n = 0 };
}

/* ---- engines --------------------------------------------------------------------------------
 *
 * An engine tells its load in two ways: polled (its metrics) and in passing (in a header of its
 * answers, or on its load socket). Of each field the newer report that holds counts.
 *
 * <kv_used> is the share of the cache that running requests use. It is exact, but of a moment, and
 * it leaves out what waits: requests in the engine's queue have no blocks yet. Cached blocks that
 * no request uses count as free, because the engine evicts them when it needs room; which prefixes
 * it loses by that is not known. That holds for vLLM (1 - free blocks / blocks, where free ones are
 * those without a reference) and for SGLang (token_usage: neither available nor evictable).
 *
 *      reported        used by running ones                 what will be used:
 *      |##########|                                         kv_used x room
 *                 |::::|  of those that waited then         + kv_then x waiting / requests
 *                      |+++|  sent since                    + kv_now - kv_then, if positive
 *
 * kv_then and kv_now are our own sums of open prompts, then and now: an estimate that knows neither
 * generated tokens nor the requests of other clients. Requests that ended since are not subtracted,
 * because some of those that we close had ended before the report. In simulations this does as well
 * as our own sums where these are complete, and better where they are not (kvroutectl sim
 * --engine-load). */

/* The requests of a server that we know of, at the moment of a report. */
struct engine_sent {
	uint32_t open;		/* requests there, by us or by HAProxy */
	uint64_t kv_tokens;	/* of ours, without the prefixes that they share */
};

/* A report of one kind. */
struct engine_told {
	msec at, until;		/* it is of <at> and holds before <until>; 0: none */
	int64_t waiting, running;	/* -1: not told */
	double kv_used;		/* share of its cache, 0 .. 1; negative: not told */
	bool has_queue;		/* <waiting> was told, so <kv_waits> is known */
	double kv_waits;	/* kv_then x waiting / requests */
	double kv_then;
};

struct engine_seen {
	/* all but <passing> is of polled reports; only these two do not expire */
	uint64_t capacity;	/* tokens in its cache; 0: not told */
	uint32_t block_size;	/* tokens; 0: not told */
	uint32_t excess, foreign;	/* see engine_take() */
	uint32_t n_running, n_waiting, n_loaded;	/* adapters; running ones count as loaded */
	uint32_t n_adapters;
	struct engine_told polled, passing;
	uint64_t adapter[ENGINE_ADAPTERS_MAX];	/* hashes of their names, set by the caller */
};

/* What an engine has found in its prefix cache, by its own counters, since the agent polls it. Its
 * counters start again when it does. */
struct engine_hits {
	uint64_t hit_tokens, asked_tokens;
	double last_hit, last_asked;	/* the counters as last told; 0: not told */
	bool told;
};

/* Add what the counters of a report have grown since the last one. */
void engine_count_hits(struct engine_hits *h, const struct engine_report *e);

/* Store a polled report. Requests beyond <sent>.open came another way and are as much load. The two
 * counts are of different moments, so only the excess that two reports in a row have counts as
 * <foreign>. */
void engine_take(struct engine_seen *s, const struct engine_report *e,
    const struct engine_sent *sent, msec now, msec until);

/* Store a load told in passing, of the time <at>. Returns false, and changes nothing, if a later
 * one is known. A capacity is stored as if it was polled. */
bool engine_take_load(struct engine_seen *s, const struct engine_load *l,
    const struct engine_sent *sent, msec at, msec until);

/* What an engine told, as far as it holds now. */
struct engine_now {
	bool holds;		/* any report does */
	bool polled;		/* a polled one does: adapters and <foreign> count */
	int64_t waiting, running;	/* -1: not told */
	double kv_used;		/* negative: not told */
	bool has_queue;
	double kv_waits, kv_then;
	uint32_t foreign;
};

struct engine_now engine_now(const struct engine_seen *s, msec now);

/* Estimate the tokens that open requests will use of a cache of <room> tokens, from <kv_now> and
 * the report. Returns <kv_now> if <room> is 0, or if the engine does not tell its use and its
 * queue. */
uint64_t engine_kv_tokens(const struct engine_now *e, uint64_t kv_now, uint64_t room);

bool engine_has(const struct engine_seen *s, uint64_t adapter);

/* Add two counts; the sum stops at UINT32_MAX. */
static inline uint32_t load_add(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

#endif

/* observe.h - what stats sockets of HAProxy and metrics of engines say about one server.
 *
 *   load string       now, of the process that sends the request  up, weight, connections, queue
 *   stats sockets     about 100 ms old, of all processes          the same, drain, maintenance
 *   engine's metrics  the same age, of all clients of the engine  waiting, running, cache, adapters
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
	struct watched by[WATCHERS_MAX];
	unsigned n;
	msec seen;		/* last row; 0: none */
};

/* All rows that still hold, together. */
struct watch_sum {
	unsigned n;		/* processes */
	bool up;		/* one says up */
	bool closed;		/* one says drain, maintenance or weight 0 */
	bool backup;		/* one says that it is a backup server */
	uint32_t load, queue, weight;	/* sums; <weight>: the largest */
};

void watch_row(
    struct watch *w, uint64_t process, const struct hastats_row *row, msec now, msec until);
struct watch_sum watch_sum(const struct watch *w, msec now);

/* The last report of an engine. */
struct engine_seen {
	msec until;		/* all but <capacity> and <block_size> hold before this; 0: no report yet */
	int64_t waiting, running;	/* -1: not told */
	double kv_used;		/* share of its cache, 0 .. 1; negative: not told */
	uint64_t capacity;	/* tokens in its cache; 0: not told */
	uint32_t block_size;	/* tokens; 0: not told */
	uint32_t excess, foreign;	/* see engine_take() */
	uint32_t n_running, n_waiting, n_loaded;	/* adapters; running ones count as loaded */
	uint32_t n_adapters;
	uint64_t adapter[ENGINE_ADAPTERS_MAX];	/* hashes of their names, set by the caller */
};

/* Store a report. <open>: requests there that we or HAProxy know of. Requests beyond <open> came
 * another way and are as much load. The two counts are of different moments, so only the excess
 * that two reports in a row have counts as <foreign>. */
void engine_take(
    struct engine_seen *s, const struct engine_report *e, uint32_t open, msec now, msec until);

static inline bool engine_holds(const struct engine_seen *s, msec now)
{
	return now < s->until;
}

bool engine_has(const struct engine_seen *s, uint64_t adapter);

/* Add two counts; the sum stops at UINT32_MAX. */
static inline uint32_t load_add(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

#endif

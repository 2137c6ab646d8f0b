/* observe.h - what was seen of a server by asking: HAProxy's stats sockets, and its engine's metrics.
 *
 *      load string       live, of the HAProxy process that sends the request      up, weight, connections, queue
 *      stats sockets     some 100 ms old, of all processes that are asked         drain, maintenance; the rest too
 *      engine's metrics  the same, of all who use the engine                      waiting, running, cache, adapters
 *
 * So where there is a load string, the stats only say what it cannot: that no new requests are wanted (any process
 * says so: who drains a server drains it everywhere, one process after the other), and what the other processes have
 * there. Where there is none, they are the list of servers and their load.
 *
 * Everything comes with the time until which it holds, some intervals ahead, and means nothing after. But the size
 * of a cache does not change while nobody can ask for it. */
#ifndef KVROUTE_ROUTE_OBSERVE_H
#define KVROUTE_ROUTE_OBSERVE_H

#include "agent/base/types.h"
#include "agent/feed/hastats.h"
#include "agent/feed/metrics.h"

#define WATCHERS_MAX	8	/* HAProxy processes told apart for one server; rows of more are left out */

/* What one HAProxy process said of a server last. */
struct watched {
	uint64_t process;	/* hash of where it was asked */
	msec until;		/* it holds before this */
	uint32_t load;		/* sessions and queue */
	uint32_t queue, weight;
	enum hastats_state state;
	bool backup;
};

struct watch {
	struct watched by[WATCHERS_MAX];
	unsigned n;
	msec seen;		/* when a row came last; 0: none ever did */
};

/* Of all processes whose rows still hold. */
struct watch_sum {
	unsigned n;		/* of them */
	bool up;		/* one says so */
	bool closed;		/* one says drain, maintenance, or weight 0 */
	bool backup;		/* one says that it is a backup server */
	uint32_t load, queue, weight;	/* added up; the largest weight */
};

void watch_row(struct watch *w, uint64_t process, const struct hastats_row *row, msec now, msec until);
struct watch_sum watch_sum(const struct watch *w, msec now);

/* What an engine said of itself last. */
struct engine_seen {
	msec until;		/* all but the size of its cache holds before this; 0: nothing was ever said */
	int64_t waiting, running;	/* -1: not told */
	double kv_used;		/* negative: not told */
	uint64_t capacity;	/* tokens; 0: not told */
	uint32_t block_size;
	uint32_t excess, foreign;	/* see engine_take() */
	uint32_t n_running, n_waiting, n_loaded;	/* adapters; loaded: those that run, too */
	uint32_t n_adapters;
	uint64_t adapter[ENGINE_ADAPTERS_MAX];	/* hashes of their names: adapter_hash() */
};

/* Take a report. <open>: requests that we and HAProxy know to be there. What the engine has beyond them came another
 * way, and is as much load as they are. As both counts are of different moments, only what two reports in a row
 * have seen counts as <foreign>. Names of adapters are the caller's to hash. */
void engine_take(struct engine_seen *s, const struct engine_report *e, uint32_t open, msec now, msec until);

static inline bool engine_holds(const struct engine_seen *s, msec now)
{
	return now < s->until;
}

bool engine_has(const struct engine_seen *s, uint64_t adapter);

#endif

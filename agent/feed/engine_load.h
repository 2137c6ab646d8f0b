/* engine_load.h - the load of an engine, as it says in passing: in a response header, in a message.
 *
 * A report of its metrics (metrics.h) has more, such as adapters, but is polled. */
#ifndef KVROUTE_FEED_ENGINE_LOAD_H
#define KVROUTE_FEED_ENGINE_LOAD_H

#include "agent/base/types.h"

#define ENGINE_COUNT_MAX	1e12	/* larger counts are invalid; sums of 64 stay exact in a double */

struct engine_load {
	int64_t waiting, running;	/* requests; -1: not told */
	double kv_used;			/* share of its cache in use, 0 .. 1; negative: not told */
	uint64_t capacity;		/* tokens in its cache; 0: not told */
};

#define ENGINE_LOAD_NONE	((struct engine_load){ .waiting = -1, .running = -1, .kv_used = -1 })

static inline bool engine_load_told(const struct engine_load *l)
{
	return l->waiting >= 0 || l->running >= 0 || l->kv_used >= 0 || l->capacity > 0;
}

#endif

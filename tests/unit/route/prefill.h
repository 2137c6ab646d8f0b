/* prefill.h - a world with a pool "pool" whose long prompts servers of the pool "pre" compute. */
#ifndef TESTS_ROUTE_PREFILL_H
#define TESTS_ROUTE_PREFILL_H

#include "tests/unit/route/world.h"

#define HOLDS	1000000
#define LONG	"abcdefghijklmnopqrstuvwxyz"	/* 16 KB, about 4000 tokens */

static inline void row(
    struct world *w, const char *name, enum hastats_state state, const char *address)
{
	struct hastats_row r = {
		.pool = SPAN("pre"), .server = span_str(name), .state = state, .weight = 1,
		.address = span_str(address),
	};

	route_observe_server(w->r, SPAN("lb"), &r, w->now, w->now + HOLDS);
}

/* Computing takes a second for 1000 tokens, so that it pays to split whenever it is possible. The
 * test frees w->o.pools. */
static inline void options_split(struct world *w)
{
	w->o.pools = calloc(2, sizeof(*w->o.pools));
	w->o.n_pools = 2;
	w->o.pools[0] = w->o.pools[1] = w->o.pool_default;
	strcpy(w->o.pools[0].name, "pool");
	strcpy(w->o.pools[0].prefill, "pre");
	strcpy(w->o.pools[1].name, "pre");
	w->o.pools[0].policy.prefill_tokens_per_s = 1000;
}

static inline void start(struct world *w)
{
	world_options(w);
	options_split(w);
	world_open(w);
}

static inline void end(struct world *w)
{
	world_end(w);
	free(w->o.pools);
}

static inline struct pool *pool_named(struct world *w, const char *name)
{
	struct pool *p = fleet_find(&w->r->fleet, span_str(name));

	assert_non_null(p);
	return p;
}

static inline struct server *in_pre(struct world *w, const char *name)
{
	struct server *s = pool_find(pool_named(w, "pre"), span_str(name), 0);

	assert_non_null(s);
	return s;
}

#endif

/* router.h - the chooser that is measured: the agent's own core, asked as HAProxy asks it, with bodies, load
 * strings and facts, and nothing else to go by. */
#ifndef KVROUTE_SIM_ROUTER_H
#define KVROUTE_SIM_ROUTER_H

#include "agent/route/route.h"
#include "agent/sim/sim.h"
#include "agent/sim/text.h"

enum router_facts {
	ROUTER_FIRST,	/* the first byte of each answer is reported, and its end */
	ROUTER_END,	/* its end only */
	ROUTER_NONE	/* nothing: load strings are all there is */
};

struct router_opts {
	const char *name;
	struct route_opts route;	/* borrowed arrays */
	enum router_facts facts;
	enum sim_text text;
	size_t body_limit;		/* bytes of a body that HAProxy can show; 0: all */
	uint64_t seed;
};

struct router;

/* <c> uses it until router_free(). NULL: no memory. */
struct router *router_new(const struct router_opts *o, const struct sim_trace *t, struct chooser *c);
void router_free(struct router *r);
void router_stats(struct router *r, struct route_stats *s);
void router_each_server(struct router *r, void (*fn)(void *arg, const struct route_server_view *v), void *arg);

#endif

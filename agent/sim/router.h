/* router.h - the measured chooser: the agent's own core. It gets bodies, load strings and facts as
 * from HAProxy, and nothing else but KV cache events and load as from the engines, if it is to hear
 * them. */
#ifndef KVROUTE_SIM_ROUTER_H
#define KVROUTE_SIM_ROUTER_H

#include "agent/route/route.h"
#include "agent/sim/sim.h"
#include "agent/sim/text.h"

enum router_facts {
	ROUTER_FIRST,	/* the first byte of each answer is reported, and its end */
	ROUTER_END,	/* only its end */
	ROUTER_NONE	/* nothing: load strings only */
};

/* How engines tell their load. */
enum router_loads {
	ROUTER_LOADS_NONE,
	ROUTER_LOADS_ANSWERS,	/* queue and cache use, at the end of each answer */
	ROUTER_LOADS_POLLS	/* twice a second, with running requests and the size of the cache */
};

struct router_opts {
	const char *name;
	struct route_opts route;	/* borrowed arrays */
	enum router_facts facts;
	enum sim_text text;
	enum router_loads loads;
	bool events;			/* it hears engines that publish; for SIM_TEXT_IDS */
	size_t body_limit;		/* bytes of a body that HAProxy can pass; 0: all */
	uint64_t seed;
};

struct router;

/* Let <c> use it until router_free(). Returns NULL if there is no memory. */
struct router *router_new(
    const struct router_opts *o, const struct sim_trace *t, struct chooser *c);
void router_free(struct router *r);

struct router_heard {
	uint64_t batches, lost;		/* <lost>: holes in their numbers */
	uint64_t stored, removed;	/* blocks */
	uint64_t bad;			/* batches with a bad or unknown event */
};
void router_heard(const struct router *r, struct router_heard *h);

void router_stats(struct router *r, struct route_stats *s);
void router_each_server(
    struct router *r, void (*fn)(void *arg, const struct route_server_view *v), void *arg);

#endif

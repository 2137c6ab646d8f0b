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
	bool no_session;		/* requests name no session */
	bool prefills;			/* some engines are prefill servers: split.h */
	uint64_t seed;
	/* if it is one of several agents: agents.h. With the same <seed> they have the same hash key */
	unsigned agent;			/* from 0: its ties */
	unsigned process;		/* from 0: the HAProxy process that asks it */
	const uint32_t *conns;		/* open requests at each engine, as that process counts; NULL: all */
	bool lines;			/* ends come as log lines */
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

/* Return the hash key of all routers with <seed>. */
struct hash_key router_key(uint64_t seed);

/* Return its core, and the core's clock at the simulated time <now>. */
struct route *router_core(struct router *r);
msec router_msec(double now);

/* Return the time of a step from <start_us> to <end_us>; 0 if it is so long that another process
 * ran meanwhile. The clock that counts a thread's own time costs more than most steps. */
#define ROUTER_STEP_US	2500
static inline double router_took_us(double start_us, double end_us)
{
	return end_us - start_us < ROUTER_STEP_US ? end_us - start_us : 0;
}

/* Return the microseconds of all decisions since the last call, by the clock of the run; 0: it has
 * none. */
double router_decided_us(struct router *r);

void router_stats(struct router *r, struct route_stats *s);
void router_each_server(
    struct router *r, void (*fn)(void *arg, const struct route_server_view *v), void *arg);

#endif

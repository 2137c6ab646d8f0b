/* agents_in.h - private to agents.c, agents_exchange.c and agents_pairs.c. */
#ifndef KVROUTE_SIM_AGENTS_IN_H
#define KVROUTE_SIM_AGENTS_IN_H

#include "agent/share/inbox.h"
#include "agent/share/outbox.h"
#include "agent/sim/agents.h"
#include "agent/sim/stream.h"

#define ALL_REQUESTS	UINT32_MAX

/* One agent, and the HAProxy before it, which outlives it. */
struct agent {
	struct router *router;		/* NULL: it is dead */
	struct chooser chooser;		/* of <router> */
	uint32_t conns[SIM_ENGINES_MAX];	/* of its HAProxy: open requests at each engine */
	/* if it shares */
	struct agents *all;
	unsigned i;
	unsigned lives;			/* so far: each has an id of its own */
	share_agent id;
	bool asked;			/* its open batch has entries about requests */
	struct share_outbox *outbox;
	struct share_inbox *inbox;
	struct route_share_stats before;	/* of those that died */
};

/* Entries about one request. */
struct said {
	uint32_t entries, bytes, alone;
};

struct agents {
	struct agents_opts opts;
	const struct sim_trace *trace;
	struct agent agent[AGENTS_MAX];
	uint8_t *of;			/* [trace->n] by number of the request: who decided */
	struct rng rng;
	unsigned turn;
	const struct sim *sim;		/* NULL until the first request */
	double now;
	double next_tick;
	double span_s;			/* of the arrivals */
	double dies_at, starts_at;	/* INFINITY: done, or never */
	struct sim_served fresh, others;	/* since the successor started */
	bool started;
	double decided_us;		/* of agents that died */
	uint64_t n_decided;
	/* if they share */
	struct hash_key key;
	struct stream stream;
	bool streaming;			/* <stream> is set up */
	double flush_at;		/* when to look for batches that are due; INFINITY: none is open */
	double alive_at;
	struct said *said;		/* [trace->n] by number of the request */
	uint32_t asking;		/* number of the request that an agent hears of; ALL_REQUESTS: none */
	bool deciding;
	struct share_writer *writer;	/* measures entries */
	uint8_t *scratch;		/* 2 * SHARE_BATCH_MAX */
	/* put entries about requests; put and count those of decisions; take batches with such entries;
	 * apply such batches; repair */
	double put_us, put_in_decision_us, take_us, apply_us, repair_us;
	bool applied;			/* an entry about a request, of this batch */
	uint64_t resyncs;
	uint64_t pairs, differing, lacked;
	double settled_s;
	bool no_memory;
};

static inline double agents_clock_us(const struct agents *a)
{
	const struct sim_opts *o = a->sim != NULL ? a->sim->opts : NULL;

	return o != NULL && o->clock_us != NULL ? o->clock_us(o->clock_arg) : 0;
}

static inline double agents_took_us(const struct agents *a, double start_us)
{
	return router_took_us(start_us, agents_clock_us(a));
}

/* ---- agents_exchange.c ---- */

int exchange_new(struct agents *a);		/* for all; -1: no memory */
void exchange_free(struct agents *a);
int exchange_join(struct agents *a, unsigned i);	/* agent <i> has started; -1: no memory */
void exchange_leave(struct agents *a, unsigned i);
/* The first request has come: the times of the cut are known now. */
void exchange_begin(struct agents *a);
double exchange_next(const struct agents *a);
void exchange_act(struct agents *a);		/* what is due at a->now */
void exchange_tick(struct agents *a);
void exchange_stats(struct agents *a, struct route_share_stats *sum);
/* Append the snapshot of agent <i>. Returns -1 if there is no memory. */
int exchange_snapshot(struct agents *a, unsigned i, struct buf *to);

/* ---- agents_pairs.c ---- */

/* Set a->pairs, ->differing and ->lacked. Returns -1 if there is no memory. */
int pairs_compare(struct agents *a);

#endif

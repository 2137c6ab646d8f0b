/* sim.h - one run: a trace arrives at engines, and a chooser picks the engine.
 *
 *      trace --arrival--> chooser: which engine?  --> engine --first, done--> chooser: told
 *
 * Some engines may compute prompts for the others: split.h.
 *
 * A run does not change the trace; equal arguments give equal runs. */
#ifndef KVROUTE_SIM_SIM_H
#define KVROUTE_SIM_SIM_H

#include "agent/base/rng.h"
#include "agent/sim/split.h"

#define SIM_ENGINES_MAX	256u

struct sim;

/* The chooser. All functions but pick() may be NULL. */
struct chooser {
	const char *name;
	void *state;
	/* Return an engine that is up; -1: no opinion, and the next in turn gets the request. May set
	 * j->prefill to a prefill server. */
	int (*pick)(void *state, const struct sim *f, struct sim_job *j, double now);
	/* The request goes to j->engine, which pick() or the turn has named. */
	void (*sent)(void *state, const struct sim *f, struct sim_job *j, double now);
	void (*first)(void *state, const struct sim *f, struct sim_job *j, double now);
	void (*done)(void *state, const struct sim *f, struct sim_job *j, double now);
	void (*tick)(void *state, double now);		/* every SIM_TICK_S */
	/* Events of <engine> arrive. A hole in b->seq: a batch is lost. */
	void (*heard)(void *state, const struct sim *f, unsigned engine, const struct kvlog_batch *b,
		      double now);
	/* Return when the chooser has something to do by itself; INFINITY: never. act(): do it. */
	double (*next)(void *state);
	void (*act)(void *state, double now);
};

#define SIM_TICK_S	0.1
#define SIM_KV_DELAY_S	(-0.005)	/* the first token needs longer to its client */

/* A change of <engine> after the share <at> (0 .. 1) of the arrivals' time. */
enum sim_change { SIM_UP, SIM_DOWN, SIM_FAIL, SIM_HEAL };

struct sim_event {
	double at;
	enum sim_change change;
	unsigned engine;
};

#define SIM_EVENTS_MAX	8u

struct sim_opts {
	unsigned n;
	unsigned prefills;		/* of these, the last so many only compute prompts for the others */
	double transfer_ms, transfer_1k_ms;	/* to bring a computed prompt: split.h */
	struct engine_profile profile;
	double speed[SIM_ENGINES_MAX];	/* of each engine; 1 */
	double haste;				/* how many times as fast as in the trace requests arrive; 1 */
	struct sim_event events[SIM_EVENTS_MAX];	/* by time */
	unsigned n_events;
	/* The first <publishers> engines publish KV cache events, if the chooser hears them; <delay_s> as
	 * in kvlog.h. <lost>: share of the batches that do not arrive. */
	struct { unsigned publishers; double delay_s, lost; uint64_t seed; } kv;
	/* Measures the time of a decision; NULL: not measured. */
	double (*clock_us)(void *arg);
	void *clock_arg;
};

/* Return the number of engines that answer requests: the first ones. */
static inline unsigned sim_decodes(const struct sim_opts *o)
{
	return o->n - o->prefills;
}

/* Set one engine with the usual profile. */
void sim_defaults(struct sim_opts *o);

struct sim {
	const struct sim_opts *opts;
	const struct sim_trace *trace;
	const struct chooser *chooser;
	struct engine *engines;		/* [opts->n] */
	uint32_t conns[SIM_ENGINES_MAX];	/* open requests */
	bool up[SIM_ENGINES_MAX], failing[SIM_ENGINES_MAX];
	struct sim_job *jobs;		/* [trace->n] */
	struct due due;			/* requests whose predecessor was answered */
	struct split split;
	size_t n_done, n_failed, n_fallback;
	double next_tick, pick_us;
	unsigned turn;			/* of the round robin of last resort */
	unsigned n_events;		/* that have happened */
	struct fail *failures;		/* pending answers of failing engines */
	struct rng lose;		/* draws lost batches */
	size_t n_batches, n_lost;
};

/* Run. Returns 0, and <f> shows the end until sim_fini(). Returns -1 and sets <e> if there is no
 * memory, or if a request is larger than the cache of an engine. */
int sim_run(struct sim *f, const struct sim_opts *o, const struct sim_trace *t,
	      const struct chooser *c, struct err *e);
void sim_fini(struct sim *f);

/* ---- what a run was worth ---- */

/* The requests of one engine. */
struct sim_served {
	uint32_t requests;
	uint64_t tokens;		/* of their prompts, */
	uint64_t cached;		/* and of these found cached: the rest was computed */
	double busy_s;			/* seconds with prefill, in the whole run */
};

struct sim_result {
	size_t n, failed;		/* counted requests; of them answered with an error */
	size_t fallback;		/* of all: the chooser had no opinion */
	double ttft_mean, ttft_p50, ttft_p90, ttft_p99;		/* seconds, of served requests */
	double itl_mean;		/* seconds from a token to the next, of all tokens */
	double e2e_mean;		/* seconds to the end of the answer */
	size_t split;			/* computed by a prefill server */
	double hit;			/* share of prompt tokens found cached */
	double wait_error;		/* median of |expected - real| / real of first tokens; negative: unknown */
	double most_sent;		/* requests to one engine by those of a mean engine */
	double most_computed;		/* tokens computed by one engine by those of a mean engine */
	double busy_cv;			/* of the engines' seconds with prefill: deviation / mean */
	double offered;			/* those seconds / seconds of the arrivals, a mean engine */
	double decide_us;
	struct sim_served served[SIM_ENGINES_MAX];
};

/* Count requests <from> to <to>. Returns -1 if there is no memory. */
int sim_result(const struct sim *f, size_t from, size_t to, struct sim_result *r);

/* Find the haste at which <c> keeps the engines busy with prefill for <load> of the time. Returns
 * -1 as sim_run() does. */
int sim_calibrate(const struct sim_opts *o, const struct sim_trace *t, const struct chooser *c,
		    double load, double *haste, struct err *e);

#endif

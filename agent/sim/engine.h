/* engine.h - an inference engine as a router sees it: paged prefix cache, chunked prefill first
 * come first served, continuous batching.
 *
 *   waiting --admitted: cache has room, step has budget--> prefill --first token--> decode --> done
 *
 * A step computes chunks of prompts, at most <budget> tokens, and a token of each answer; it takes
 *
 *      t0 + b x tokens + c x sum(chunk x context) + d x answers + e x tokens of their contexts
 *
 * seconds. The constants of a profile are plausible, not measured, so simulations only compare
 * rules. Between two steps with prefill an engine only decodes, and that phase is one event: V
 * counts steps, and an answer is done at its own V.
 *
 * Time is a double in seconds: a step takes milliseconds, and means of seconds are compared. */
#ifndef KVROUTE_SIM_ENGINE_H
#define KVROUTE_SIM_ENGINE_H

#include "agent/sim/cache.h"
#include "agent/sim/trace.h"

#define ENGINE_SEQS_MAX	4096u

struct engine_profile {
	const char *name;
	uint32_t kv_tokens;	/* room of the cache */
	uint32_t budget;	/* tokens of a step */
	uint32_t max_seqs;	/* in prefill and decode together */
	double t0, b, c, d, e;
};

/* Return a profile by name, or NULL. engine_profile_at(): the i-th, NULL after the last. */
const struct engine_profile *engine_profile_of(struct span name);
const struct engine_profile *engine_profile_at(size_t i);

/* A request under way. The caller sets q and ids. */
struct sim_job {
	const struct sim_request *q;
	const uint32_t *ids;
	int engine;			/* -1: not sent yet */
	int prefill;			/* the engine that computes the prompt for it; -1: itself */
	bool given;			/* its KV has come from there */
	bool failed;			/* answered with an error at once */
	double t_arrived, t_first, t_done;
	uint32_t hit;			/* blocks found cached */
	double expected_s;		/* of its router, to its first token; negative: unknown */
	uint32_t pages;			/* of its router, which expected them there; 0: unknown */
	struct sim_job *then, *sibling;	/* the first that waits for this answer; the next that does so */
	struct sim_job *join;		/* one more that does */
	uint32_t waits;			/* answers that it waits for */
	/* private to the engine */
	struct sim_job *next;
	double work_s;			/* its prefill, as estimated on arrival */
	uint32_t need;			/* blocks, estimated on arrival */
	uint32_t more;			/* blocks of its part block and its answer */
	uint32_t done_tokens, chunk;
	double v_start, v_end;
	uint64_t turn;
};

enum engine_mode { ENGINE_IDLE, ENGINE_DECODE, ENGINE_PREFILL };

/* Called when the first token of a job is out, and when it is done. */
typedef void engine_told(void *arg, struct sim_job *j, double now);

struct engine {
	const struct engine_profile *p;
	struct cache cache;
	struct kvlog log;		/* if it publishes events */
	bool publishes;
	uint32_t block;
	double speed;			/* 1; 0.5 takes twice as long */
	engine_told *on_first, *on_done;
	void *arg;
	double next;			/* when to call engine_event(); INFINITY: never */

	struct sim_job *waiting, **waiting_end;
	uint32_t n_waiting, max_waiting;
	double waiting_s;		/* work_s of those */
	uint64_t waiting_need;
	struct sim_job **prefill, **decode;	/* in order; a heap by v_end, turn */
	uint32_t n_prefill, n_decode;
	enum engine_mode mode;
	double v, v_at, step_s, step_end;
	double sum_start;
	uint64_t sum_in, turns;

	double busy_s;			/* of steps with prefill */
	uint64_t n_served, hit_tokens, in_tokens;
};

int engine_init(struct engine *e, const struct engine_profile *p, uint32_t block, uint32_t n_blocks,
		double speed);		/* -1: no memory */
/* Do the same, and let it publish KV cache events; <delay_s> as in kvlog.h. */
int engine_init_publisher(struct engine *e, const struct engine_profile *p, uint32_t block,
    uint32_t n_blocks, double speed, double delay_s);
void engine_fini(struct engine *e);

/* Return the blocks of KV that <q> needs if nothing is cached. More than engine_room() can never be
 * served. */
uint32_t engine_need(const struct sim_request *q, uint32_t block);
uint32_t engine_room(const struct engine_profile *p, uint32_t block);

void engine_arrive(struct engine *e, struct sim_job *j, double now);
void engine_event(struct engine *e, double now);

/* Return the seconds to prefill a prompt of which <cached> tokens are cached. */
double engine_work_s(const struct engine *e, uint64_t cached, uint64_t tokens);

/* Return the seconds to the first token of <j> if it came here now, with full knowledge of the
 * engine. <own>: its prefill. */
double engine_predict(const struct engine *e, const struct sim_job *j, double now, double *own);

#endif

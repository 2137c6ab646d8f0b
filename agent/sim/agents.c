/* agents.c - hand each request to one agent, and what becomes of it to those that HAProxy tells. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/sim/agents_in.h"

/* ---- life of an agent ---- */

static int start_agent(struct agents *a, unsigned i)
{
	struct router_opts o = a->opts.router;
	struct agent *g = &a->agent[i];

	o.agent = i;
	o.process = a->opts.one_haproxy ? 0 : i;
	o.conns = a->opts.one_haproxy ? NULL : g->conns;
	o.lines = a->opts.one_haproxy;
	if ((g->router = router_new(&o, a->trace, &g->chooser)) == NULL)
		return -1;
	return a->opts.share ? exchange_join(a, i) : 0;
}

static void stop_agent(struct agents *a, unsigned i)
{
	struct agent *g = &a->agent[i];

	if (a->opts.share)
		exchange_leave(a, i);
	if (g->router == NULL)
		return;
	a->decided_us += router_decided_us(g->router);
	router_free(g->router);
	g->router = NULL;
}

/* ---- time ---- */

static void plan(struct agents *a, const struct sim *f)
{
	a->sim = f;
	a->span_s = a->trace->r[a->trace->n - 1].at / f->opts->haste;
	if (a->opts.restart_at > 0)
		a->dies_at = a->opts.restart_at * a->span_s;
	if (a->opts.share)
		exchange_begin(a);
}

static void tick(struct agents *a, double now)
{
	a->next_tick = now + SIM_TICK_S;
	for (unsigned i = 0; i < a->opts.n; i++) {
		struct agent *g = &a->agent[i];

		if (g->router != NULL)
			g->chooser.tick(g->chooser.state, now);
	}
	if (a->opts.share)
		exchange_tick(a);
}

static double agents_next(void *state)
{
	const struct agents *a = state;

	double next = fmin(fmin(a->dies_at, a->starts_at), a->next_tick);

	return a->opts.share ? fmin(next, exchange_next(a)) : next;
}

static void agents_act(void *state, double now)
{
	struct agents *a = state;

	a->now = now;
	if (a->dies_at <= now) {
		stop_agent(a, 0);
		a->starts_at = a->dies_at + AGENTS_DOWN_S;
		a->dies_at = INFINITY;
	} else if (a->starts_at <= now) {
		a->started = start_agent(a, 0) == 0;
		a->starts_at = INFINITY;
	} else if (a->next_tick <= now) {
		tick(a, now);
	} else if (a->opts.share) {
		exchange_act(a);
	}
}

/* ---- requests ---- */

/* HAProxy gives requests of an agent that is dead to the others. */
static unsigned agent_for(struct agents *a)
{
	unsigned i = a->opts.spread == AGENTS_IN_TURN ? a->turn++ % a->opts.n :
							rng_below(&a->rng, a->opts.n);

	while (a->agent[i].router == NULL && a->opts.n > 1)
		i = (i + 1) % a->opts.n;
	return i;
}

/* What agents put now is about <j>. */
static void begin_hearing(struct agents *a, const struct sim_job *j, double now)
{
	a->now = now;
	a->asking = j->q->number;
}

static int agents_pick(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct agents *a = state;
	unsigned i = agent_for(a);
	struct agent *g = &a->agent[i];
	int engine;

	if (a->sim == NULL)
		plan(a, f);
	a->of[j->q->number] = (uint8_t)i;
	if (g->router == NULL)
		return -1;
	a->n_decided++;
	a->deciding = true;
	begin_hearing(a, j, now);
	engine = g->chooser.pick(g->chooser.state, f, j, now);
	a->asking = ALL_REQUESTS;
	a->deciding = false;
	return engine;
}

static void agents_sent(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct agents *a = state;

	a->agent[a->of[j->q->number]].conns[j->engine]++;
}

static void agents_first(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct agents *a = state;
	struct agent *g = &a->agent[a->of[j->q->number]];

	begin_hearing(a, j, now);
	if (g->router != NULL && g->chooser.first != NULL)
		g->chooser.first(g->chooser.state, f, j, now);
	a->asking = ALL_REQUESTS;
}

static void count_fresh(struct agents *a, const struct sim_job *j, unsigned by)
{
	struct sim_served *s = by == 0 ? &a->fresh : &a->others;

	if (!a->started || j->failed || j->t_arrived < a->opts.restart_at * a->span_s + AGENTS_DOWN_S)
		return;
	s->requests++;
	s->tokens += j->q->n_in;
	s->cached += (uint64_t)j->hit * a->trace->block;
}

static void agents_done(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct agents *a = state;
	unsigned by = a->of[j->q->number];

	a->agent[by].conns[j->engine]--;
	count_fresh(a, j, by);
	begin_hearing(a, j, now);
	for (unsigned i = 0; i < a->opts.n; i++) {
		struct agent *g = &a->agent[i];

		if (g->router != NULL && g->chooser.done != NULL && (i == by || a->opts.one_haproxy))
			g->chooser.done(g->chooser.state, f, j, now);
	}
	a->asking = ALL_REQUESTS;
}

static void agents_heard(
    void *state, const struct sim *f, unsigned engine, const struct kvlog_batch *b, double now)
{
	struct agents *a = state;

	for (unsigned i = 0; i < a->opts.n; i++) {
		struct agent *g = &a->agent[i];

		if (g->router != NULL)
			g->chooser.heard(g->chooser.state, f, engine, b, now);
	}
}

/* ---- life ---- */

static int make_agents(struct agents *a)
{
	if ((a->of = mem_calloc(a->trace->n, sizeof(*a->of))) == NULL ||
	    (a->opts.share && exchange_new(a) < 0))
		return -1;
	for (unsigned i = 0; i < a->opts.n; i++) {
		if (start_agent(a, i) < 0)
			return -1;
	}
	return 0;
}

struct agents *agents_new(
    const struct agents_opts *o, const struct sim_trace *t, struct chooser *c)
{
	struct agents *a = mem_alloc(sizeof(*a));

	if (a == NULL)
		return NULL;
	a->opts = *o;
	a->trace = t;
	a->dies_at = a->starts_at = INFINITY;
	rng_init(&a->rng, o->router.seed + 1);
	if (make_agents(a) < 0) {
		agents_free(a);
		return NULL;
	}
	*c = (struct chooser){
		.name = o->router.name,
		.state = a,
		.pick = agents_pick,
		.sent = agents_sent,
		.first = agents_first,
		.done = agents_done,
		.next = agents_next,
		.act = agents_act,
		.heard = a->agent[0].chooser.heard != NULL ? agents_heard : NULL,
	};
	return a;
}

void agents_free(struct agents *a)
{
	if (a == NULL)
		return;
	for (unsigned i = 0; i < a->opts.n; i++)
		stop_agent(a, i);
	if (a->opts.share)
		exchange_free(a);
	mem_free(a->of);
	mem_free(a);
}

/* ---- after the run ---- */

#define LOOKS	4	/* the pairs are compared each second, later in steps of a quarter of the time */

static void pass_until(struct agents *a, double then)
{
	double next;

	while ((next = agents_next(a)) <= then)
		agents_act(a, next > a->now ? next : a->now);
	a->now = then;
}

static bool any_open(const struct agents *a)
{
	struct route_stats st = { .open = 0 };

	for (unsigned i = 0; i < a->opts.n && st.open == 0; i++)
		if (a->agent[i].router != NULL)
			router_stats(a->agent[i].router, &st);
	return st.open > 0;
}

int agents_settle(struct agents *a, double most_s)
{
	double end = a->now;

	a->settled_s = -1;
	for (double s = 0; s <= most_s; s += s < LOOKS ? 1 : floor(s / LOOKS)) {
		pass_until(a, end + s);
		if (pairs_compare(a) < 0)
			return -1;
		if (a->differing > 0 || any_open(a))
			continue;
		a->settled_s = s;
		return 0;
	}
	return 0;
}

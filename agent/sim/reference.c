/* reference.c - choosers that read the engines directly, which no real router can. */
#include "agent/sim/reference.h"

static int pick_round_robin(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct reference *r = state;

	for (unsigned i = 0; i < f->opts->n; i++) {
		int e = (int)(r->turn++ % f->opts->n);

		if (f->up[e])
			return e;
	}
	return -1;
}

/* The least <cost> of the engines that are up; equals are drawn. */
struct least { double cost; int engine; uint32_t n; };

static void least_try(struct least *l, struct rng *rng, double cost, int engine)
{
	if (l->engine < 0 || cost < l->cost - 1e-9) {
		*l = (struct least){ cost, engine, 1 };
	} else if (cost < l->cost + 1e-9 && rng_below(rng, ++l->n) == 0) {
		l->engine = engine;
	}
}

static int pick_least_conn(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct reference *r = state;
	struct least l = { .engine = -1 };

	for (unsigned i = 0; i < f->opts->n; i++) {
		if (f->up[i])
			least_try(&l, &r->rng, f->conns[i], (int)i);
	}
	return l.engine;
}

static int pick_oracle(void *state, const struct sim *f, struct sim_job *j, double now)
{
	struct reference *r = state;
	struct least l = { .engine = -1 };
	double own, t;

	for (unsigned i = 0; i < f->opts->n; i++) {
		if (!f->up[i] || f->failing[i])
			continue;
		t = engine_predict(&f->engines[i], j, now, &own);
		least_try(&l, &r->rng, t + r->alpha * own, (int)i);
	}
	return l.engine;
}

static const struct {
	const char *name;
	int (*pick)(void *state, const struct sim *f, struct sim_job *j, double now);
	double alpha;
} references[] = {
	{ "roundrobin", pick_round_robin, 0 },
	{ "leastconn", pick_least_conn, 0 },
	{ "oracle", pick_oracle, 0 },
	{ "oracle_ext10", pick_oracle, 10 },
};

#define N_REFERENCES	(sizeof(references) / sizeof(references[0]))

const char *reference_at(size_t i)
{
	return i < N_REFERENCES ? references[i].name : NULL;
}

int reference_init(struct reference *r, struct chooser *c, struct span name, uint64_t seed)
{
	for (size_t i = 0; i < N_REFERENCES; i++) {
		if (!span_eq(name, span_str(references[i].name)))
			continue;
		*r = (struct reference){ .alpha = references[i].alpha };
		rng_init(&r->rng, seed);
		*c = (struct chooser){ .name = references[i].name, .state = r, .pick = references[i].pick };
		return 0;
	}
	return -1;
}

/* split.c - the prefill server gets a request of its own, with an answer of one token. */
#include "agent/base/mem.h"
#include "agent/sim/sim.h"

static void on_computed(void *arg, struct sim_job *leg, double now)
{
	struct sim *f = arg;
	struct sim_job *j = ((struct split_leg *)leg)->whole;
	const struct sim_opts *o = f->opts;
	uint32_t had = cache_match(&f->engines[j->engine].cache, j->ids, j->q->max_hit);
	uint64_t lacks = j->q->n_in - (uint64_t)had * f->trace->block;
	double ms = o->transfer_ms + o->transfer_1k_ms * (double)lacks / 1000;

	j->hit = leg->hit;
	j->given = true;
	due_add(&f->split.moving, j, now + ms / 1000);
}

int split_init(struct sim *f)
{
	const struct sim_opts *o = f->opts;

	f->split = (struct split){ .legs = NULL };
	if (o->prefills == 0)
		return 0;
	f->split.legs = mem_calloc(f->trace->n, sizeof(*f->split.legs));
	if (f->split.legs == NULL || due_init(&f->split.moving, f->trace->n) < 0)
		return -1;
	for (unsigned i = sim_decodes(o); i < o->n; i++) {
		f->engines[i].on_first = NULL;
		f->engines[i].on_done = on_computed;
	}
	return 0;
}

void split_fini(struct split *s)
{
	mem_free(s->legs);
	due_fini(&s->moving);
	s->legs = NULL;
}

void split_arrive(struct sim *f, struct sim_job *j, double now)
{
	struct split_leg *leg = &f->split.legs[j - f->jobs];

	leg->whole = j;
	leg->q = *j->q;
	leg->q.n_out = 1;
	leg->job = (struct sim_job){ .q = &leg->q, .ids = j->ids, .engine = j->prefill, .t_arrived = now };
	f->split.n++;
	engine_arrive(&f->engines[j->prefill], &leg->job, now);
}

void split_moved(struct sim *f, double now)
{
	struct sim_job *j = due_take(&f->split.moving);

	engine_arrive(&f->engines[j->engine], j, now);
}

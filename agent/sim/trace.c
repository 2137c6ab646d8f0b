/* trace.c - requests in memory: added one by one, then sorted. */
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/base/rng.h"
#include "agent/sim/trace.h"

void trace_init(struct sim_trace *t, uint32_t block)
{
	*t = (struct sim_trace){ .block = block ? block : SIM_BLOCK_DEFAULT };
}

void trace_free(struct sim_trace *t)
{
	mem_free(t->r);
	mem_free(t->ids);
	*t = (struct sim_trace){ .block = t->block };
}

static int more_room(void **p, size_t *cap, size_t want, size_t size)
{
	size_t n = *cap ? *cap : 64;
	void *q;

	if (want <= *cap)
		return 0;
	while (n < want)
		n *= 2;
	if ((q = mem_resize(*p, n, size)) == NULL)
		return -1;
	*p = q;
	*cap = n;
	return 0;
}

int trace_add(struct sim_trace *t, double at, uint32_t n_in, uint32_t n_out, const uint32_t *ids,
	      size_t n_ids, uint32_t session)
{
	struct sim_request *r;
	uint32_t whole = n_in / t->block, part = n_in % t->block != 0;

	if (n_ids > whole + part)
		n_ids = whole + part;
	if (t->n >= SIM_REQUESTS_MAX || t->n_ids + n_ids > SIM_IDS_MAX ||
	    more_room((void **)&t->r, &t->cap, t->n + 1, sizeof(*t->r)) < 0 ||
	    more_room((void **)&t->ids, &t->cap_ids, t->n_ids + n_ids + 1, sizeof(*t->ids)) < 0)
		return -1;
	r = &t->r[t->n];
	*r = (struct sim_request){
		.at = at, .n_in = n_in, .n_out = n_out, .first = (uint32_t)t->n_ids, .n_ids = (uint32_t)n_ids,
		.n_full = whole < n_ids ? whole : (uint32_t)n_ids, .session = session, .number = (uint32_t)t->n++,
		.after = SIM_ALONE, .join = SIM_ALONE,
	};
	r->max_hit = (n_in - 1) / t->block < r->n_full ? (n_in - 1) / t->block : r->n_full;
	for (size_t i = 0; i < n_ids; i++) {
		t->ids[t->n_ids++] = ids[i];
		if (ids[i] >= t->n_blocks)
			t->n_blocks = ids[i] + 1;
	}
	return 0;
}

void trace_after(struct sim_trace *t, uint32_t number, double pause_s)
{
	struct sim_request *r = &t->r[t->n - 1];

	r->after = number;
	r->pause_s = pause_s;
}

void trace_join(struct sim_trace *t, uint32_t number)
{
	t->r[number].join = t->r[t->n - 1].number;
}

void trace_jitter(struct sim_trace *t, uint64_t seed)
{
	double gap = t->n > 1 ? (t->r[t->n - 1].at - t->r[0].at) / (double)(t->n - 1) : 0;
	struct rng rng;

	rng_init(&rng, seed);
	for (size_t i = 0; i < t->n; i++)
		t->r[i].at += gap * (rng_unit(&rng) - .5);
	trace_finish(t);
}

/* Requests of equal time keep their order. */
static int by_time(const void *a, const void *b)
{
	const struct sim_request *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

void trace_finish(struct sim_trace *t)
{
	double start;

	if (t->n == 0)
		return;
	qsort(t->r, t->n, sizeof(*t->r), by_time);
	start = t->r[0].at;
	for (size_t i = 0; i < t->n; i++)
		t->r[i].at -= start;
}

/* agents_result.c - what a run of several agents was worth. */
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/sim/agents_in.h"

static double hit_of(const struct sim_served *s)
{
	return s->tokens > 0 ? (double)s->cached / (double)s->tokens : 0;
}

static int by_size(const void *x, const void *y)
{
	uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;

	return (a > b) - (a < b);
}

static double mean_of(const uint32_t *v, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i];
	return n > 0 ? sum / (double)n : 0;
}

static double share_of(uint32_t *v, size_t n, unsigned percent)
{
	qsort(v, n, sizeof(*v), by_size);
	return n > 0 ? v[n * percent / 100] : 0;
}

static int result_said(const struct agents *a, struct agents_result *r)
{
	size_t n = a->trace->n;
	uint32_t *v = mem_calloc(n, sizeof(*v));

	if (v == NULL)
		return -1;
	for (size_t i = 0; i < n; i++)
		v[i] = a->said[i].entries;
	r->entries_mean = mean_of(v, n);
	r->entries_median = share_of(v, n, 50);
	for (size_t i = 0; i < n; i++)
		v[i] = a->said[i].alone;
	r->alone_mean = mean_of(v, n);
	r->alone_median = share_of(v, n, 50);
	for (size_t i = 0; i < n; i++)
		v[i] = a->said[i].bytes;
	r->bytes_mean = mean_of(v, n);
	r->bytes_median = share_of(v, n, 50);
	r->bytes_p99 = share_of(v, n, 99);
	mem_free(v);
	return 0;
}

static void result_sharing(struct agents *a, struct agents_result *r)
{
	double n = a->n_decided > 0 ? (double)a->n_decided : 1;

	exchange_stats(a, &r->share);
	r->wire_mean = (double)a->stream.bytes / n;
	r->encode_us = (a->put_us + a->take_us) / n;
	if (r->share.applied[SHARE_PLACED] > 0)
		r->apply_us = a->apply_us / (double)r->share.applied[SHARE_PLACED];
	r->repair_us = a->repair_us / n;
	r->batches = a->stream.batches;
	r->copies = a->stream.copies;
	r->lost = a->stream.lost;
	r->cut = a->stream.cut;
	r->resyncs = a->resyncs;
	r->pairs = a->pairs;
	r->differing = a->differing;
	r->lacked = a->lacked;
	r->settled_s = a->settled_s;
}

int agents_result(struct agents *a, struct agents_result *r)
{
	double n = a->n_decided > 0 ? (double)a->n_decided : 1;
	struct route_stats st;

	*r = (struct agents_result){
		.fresh_hit = hit_of(&a->fresh),
		.others_hit = hit_of(&a->others),
		.fresh_requests = a->fresh.requests,
	};
	for (unsigned i = 0; i < a->opts.n; i++) {
		if (a->agent[i].router == NULL)
			continue;
		a->decided_us += router_decided_us(a->agent[i].router);
		router_stats(a->agent[i].router, &st);
		r->open += st.open;
	}
	r->decide_us = (a->decided_us - a->put_in_decision_us) / n;
	if (!a->opts.share)
		return 0;
	result_sharing(a, r);
	return a->no_memory ? -1 : result_said(a, r);
}

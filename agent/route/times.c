/* times.c - histograms of first tokens and of whole requests, by pool. Only of requests that this
 * agent decided; the others are in the histograms of their own agents. */
#include "agent/route/job_in.h"

const uint32_t route_first_ms[HISTOGRAM_BUCKETS - 1] = {
	10, 20, 50, 100, 200, 300, 500, 750, 1000, 2000, 5000, 10000, 20000, 60000, 120000,
};

const uint32_t route_request_ms[HISTOGRAM_BUCKETS - 1] = {
	50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000, 1800000,
};

static void add(struct histogram *h, const uint32_t *bounds, msec ms, uint64_t uid)
{
	histogram_add(h, bounds, ms > 0 ? (uint64_t)ms : 0, uid);
}

void times_first(const struct ledger_entry *e, msec took)
{
	if (((const struct open_request *)e)->owner == NULL)
		add(&e->server->pool->route->first, route_first_ms, took, e->uid);
}

void times_end(struct pool *p, uint64_t uid, msec took)
{
	add(&p->route->request, route_request_ms, took, uid);
}

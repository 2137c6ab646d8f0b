/* preview.h - preview a body with the options of a router, without a decision. */
#ifndef TESTS_ROUTE_PREVIEW_H
#define TESTS_ROUTE_PREVIEW_H

#include "agent/route/job_in.h"

static inline void preview_body(struct route *r, struct route_scratch *s,
    const struct route_request *q, struct request_preview *v)
{
	const struct pool_opts *po = pool_options_of(&r->opts, q->pool);
	const struct request_pool in = { .isolate_tenants = po->isolate_tenants, .model = po->model };
	struct request_message m;
	struct job j;

	job_start(r, s, q, 0, &j, &m);
	request_preview(&r->requests, &s->rq, &m, &in, v);
}

#endif

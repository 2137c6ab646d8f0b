/* traffic_in.h - what a request, and a fact, leave in the queue of traffic.h. */
#ifndef KVROUTE_ROUTE_TRAFFIC_IN_H
#define KVROUTE_ROUTE_TRAFFIC_IN_H

#include "agent/route/job.h"

/* A decision that had a prompt. Without a lock of the route's. */
void traffic_job(struct route *r, const struct job *j);
/* <output_tokens>: what answer_tokens() says of <f>. */
void traffic_fact(struct route *r, const struct fact *f, uint32_t output_tokens, msec now);

#endif

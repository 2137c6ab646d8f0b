/* explain.h - a decision as it is kept, from the job that came to it. */
#ifndef KVROUTE_ROUTE_EXPLAIN_H
#define KVROUTE_ROUTE_EXPLAIN_H

#include "agent/route/job.h"

/* Keep what <a> says and why. Takes no lock but that of the ring. */
void explain(struct route *r, struct job *j, const struct route_request *q, struct route_answer *a);

#endif

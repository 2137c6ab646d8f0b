/* attached.h - what requests, facts and rows say of how HAProxy is attached: problems.h. The
 * route's lock is held, and its options are. */
#ifndef KVROUTE_ROUTE_ATTACHED_H
#define KVROUTE_ROUTE_ATTACHED_H

#include "agent/route/job.h"

/* After its load string was read. */
void attached_request(struct route *r, const struct job *j, const struct route_request *q);

/* <e>: its entry in the ledger, as the decision left it, or NULL. */
void attached_fact(struct route *r, uint64_t uid, const struct ledger_entry *e,
		   const struct fact *f, msec now);

/* A request of <p>: HAProxy has ended it, and no fact said so; its whole answer is on its way
 * to the client. */
void attached_unheard(struct route *r, struct pool *p);
void attached_answered(struct route *r, struct pool *p);

/* A stats socket has told of <s>, a server of <p>. */
void attached_row(struct route *r, struct pool *p, struct server *s, const struct hastats_row *row,
		  msec now);

#endif

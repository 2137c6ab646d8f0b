/* work_share.h - how much work one request may cost. */
#ifndef KVROUTE_REQUEST_WORK_SHARE_H
#define KVROUTE_REQUEST_WORK_SHARE_H

/* Steps (base/work.h) that a body of any size may cost. See struct route_request.work. */
#define REQUEST_WORK_FULL	310000u

/* What bounded the work of a request. */
enum work_bound {
	BOUND_BODY,	/* a body of its size may cost no more */
	BOUND_TENANT,	/* its tenant's share of the thread was used up */
	BOUND_CALLER,	/* the caller's bound */
	BOUNDS
};
const char *work_bound_text(enum work_bound b);	/* "body", "tenant", "late" */

#endif

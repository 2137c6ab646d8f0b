/* side.h - the thread beside the SPOP threads: log feed, metrics, ticks of the core. */
#ifndef KVROUTE_LOOP_SIDE_H
#define KVROUTE_LOOP_SIDE_H

#include "agent/loop/admin.h"
#include "agent/loop/logrx.h"

struct side {
	struct agent *agent;
	pthread_t thread;
	bool running;
	struct ev_loop *loop;
	ev_async stop;
	ev_timer tick;
	ev_idle idle;		/* active while route_work() has something to do */
	ev_prepare turn_end;
	struct logrx logrx;
	struct admin admin;
};

struct side *side_new(struct agent *a, struct err *e);	/* NULL: <e> */
int side_start(struct side *s, struct err *e);
void side_stop(struct side *s);		/* and wait for its end; from any other thread */
void side_free(struct side *s);

#endif

/* side.h - the thread beside the SPOP threads: log feed, metrics, ticks of the core, and whoever is asked. */
#ifndef KVROUTE_LOOP_SIDE_H
#define KVROUTE_LOOP_SIDE_H

#include "agent/loop/admin.h"
#include "agent/loop/confine.h"
#include "agent/loop/logrx.h"
#include "agent/loop/polls.h"

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
	struct polls polls;
	struct refused_told refused_told;
	ev_async reload;
	struct polls_opts *next;	/* atomic: to be taken by the thread; NULL: none */
};

struct side *side_new(struct agent *a, const struct loop_opts *o, struct err *e);	/* NULL: <e> */
int side_start(struct side *s, struct err *e);
/* Ask these from now on; <o> is side's then, from any thread. */
void side_reload(struct side *s, struct polls_opts *o);
void side_stop(struct side *s);		/* and wait for its end; from any other thread */
void side_free(struct side *s);

#endif

/* background_in.h - the thread beside the SPOP threads: log feed, metrics, ticks of the core, and
 * polls of stats sockets and engines. */
#ifndef KVROUTE_LOOP_BACKGROUND_IN_H
#define KVROUTE_LOOP_BACKGROUND_IN_H

#include "agent/loop/admin_in.h"
#include "agent/loop/confine_in.h"
#include "agent/loop/logrx_in.h"
#include "agent/loop/poll_peers_in.h"
#include "agent/loop/runtime_in.h"
#include "agent/loop/watchdog_in.h"

struct background {
	struct agent *agent;
	pthread_t thread;
	bool running;
	struct ev_loop *loop;
	ev_async stop;
	ev_timer tick;
	ev_idle idle;		/* active while route_work() has work */
	ev_prepare turn_end;
	struct logrx logrx;
	struct admin admin;
	struct runtime runtime;
	struct poll_peers peers;
	struct refused_told refused_told;
	struct watchdog watchdog;
	ev_async reload;
	struct poll_peers_opts *next;	/* atomic; options for the thread to apply, NULL: none */
};

/* NULL with <e> */
struct background *background_new(struct agent *a, const struct loop_opts *o, struct err *e);
int background_start(struct background *s, struct err *e);
/* Poll the peers of <o> from now on. Takes <o> over. From any thread. */
void background_reload(struct background *s, struct poll_peers_opts *o);
void background_stop(struct background *s);		/* waits for its end; from any other thread */
void background_free(struct background *s);

#endif

/* confine_in.h - the steps by which a start gives up rights, and what the log says of them.
 *
 *      confine_begin()   find the user, no core; start the opener
 *        bind all addresses, read token and key
 *      confine_user()    become the user, drop all capabilities
 *        read models, take memory, read the snapshot
 *      confine_enter()   the sandbox
 *        start threads, take the first byte                                             */
#ifndef KVROUTE_LOOP_CONFINE_IN_H
#define KVROUTE_LOOP_CONFINE_IN_H

#include "agent/loop/agent_in.h"

/* <conf>: the file that reloads read; NULL: none. -1: <e>. */
int confine_begin(struct agent *a, const struct loop_opts *o, const char *conf, struct err *e);

/* All addresses are bound: unix sockets go to the user as well. -1: <e>. */
int confine_user(struct agent *a, const struct loop_opts *o, struct err *e);

/* Everything is open, and there is no thread yet. */
void confine_enter(struct agent *a, const struct loop_opts *o);

void confine_end(struct agent *a);

#define REFUSED_LOG_MS	3600000		/* at most one line an hour */

/* What was said of them. */
struct refused_told {
	uint64_t agent, opener;
	msec at;		/* 0: never */
};

/* Log calls that were refused since the last line, at most once an hour. From one thread. */
void confine_log_refused(const struct sandbox_refused *r, struct refused_told *told, struct log *log, msec now);

#endif

/* confine_in.h - the steps in which a start gives up rights, and their log lines.
 *
 *      confine_begin()   find the user, disable core dumps, start the opener
 *        bind all addresses, read token and key
 *      confine_user()    become the user, drop all capabilities
 *        read models, allocate memory, read the snapshot
 *      confine_enter()   enter the sandbox
 *        start threads, read the first byte */
#ifndef KVROUTE_LOOP_CONFINE_IN_H
#define KVROUTE_LOOP_CONFINE_IN_H

#include "agent/loop/agent_in.h"

/* <conf> is the file that reloads read; NULL: none. Returns 0, or -1 with <e>. */
int confine_begin(struct agent *a, const struct loop_opts *o, const char *conf, struct err *e);

/* Call it after all addresses are bound. Unix sockets get the new owner as well. Returns 0, or -1
 * with <e>. */
int confine_user(struct agent *a, const struct loop_opts *o, struct err *e);

/* Call it when everything is open and before any thread starts. */
void confine_enter(struct agent *a, const struct loop_opts *o);

void confine_end(struct agent *a);

#define REFUSED_LOG_MS	3600000		/* at most one line an hour */

/* The counts that were logged last. */
struct refused_told {
	uint64_t agent, opener;
	msec at;		/* 0: never */
};

/* Log the calls that were refused since the last line, at most one line an hour for each process.
 * From one thread. */
void confine_log_refused(
    const struct sandbox_refused *r, struct refused_told *told, struct log *log, msec now);

#endif

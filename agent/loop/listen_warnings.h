/* listen_warnings.h - what the addresses in the configuration open to others than this machine's users. */
#ifndef KVROUTE_LOOP_LISTEN_WARNINGS_H
#define KVROUTE_LOOP_LISTEN_WARNINGS_H

#include "agent/loop/loop.h"

#define LISTEN_WARNING_MAX	400	/* bytes of one sentence */

/* Calls back with a sentence for each key whose addresses are open to more than they should be: SPOP and
 * metrics beyond loopback, the log feed too when no token is asked for; unix sockets that every user of
 * the machine may write to. None of it is a mistake: networks of their own, tunnels and containers exist. */
void listen_warnings(const struct loop_opts *o, void (*fn)(void *arg, const char *sentence), void *arg);

#endif

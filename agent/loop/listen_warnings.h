/* listen_warnings.h - warnings about addresses that other machines or other users of this machine
 * can reach. */
#ifndef KVROUTE_LOOP_LISTEN_WARNINGS_H
#define KVROUTE_LOOP_LISTEN_WARNINGS_H

#include "agent/loop/loop.h"

#define LISTEN_WARNING_MAX	400	/* bytes of one sentence */

/* Call <fn> with a sentence for each address that is open to more clients than usual: SPOP and
 * metrics beyond loopback, the log feed beyond loopback without a token, and unix sockets that
 * every user of the machine may write to. These are not errors, because private networks, tunnels
 * and containers exist. */
void listen_warnings(
    const struct loop_opts *o, void (*fn)(void *arg, const char *sentence), void *arg);

#endif

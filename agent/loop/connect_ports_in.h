/* connect_ports_in.h - the outgoing connections that a configuration needs, for the sandbox.
 *
 * The sandbox is entered once, at the start, and cannot be changed. So a reload that needs more
 * connections is rejected. */
#ifndef KVROUTE_LOOP_CONNECT_PORTS_IN_H
#define KVROUTE_LOOP_CONNECT_PORTS_IN_H

#include "agent/loop/loop.h"
#include "agent/os/sandbox.h"

void connect_ports_of(const struct loop_opts *o, struct connect_ports *out);

/* Check that <have> allows all connections of <want>. <ports>: the sandbox also checks the ports.
 * Returns 0, or -1 with <e>. */
int connect_ports_cover(
    const struct connect_ports *have, bool ports, const struct connect_ports *want, struct err *e);

#endif

/* connect_ports_in.h - the connections that a configuration asks us to begin: what the sandbox is to let through.
 *
 * The sandbox is closed once, at the start, and cannot be opened again: a reload that would need more is refused. */
#ifndef KVROUTE_LOOP_CONNECT_PORTS_IN_H
#define KVROUTE_LOOP_CONNECT_PORTS_IN_H

#include "agent/loop/loop.h"
#include "agent/os/sandbox.h"

void connect_ports_of(const struct loop_opts *o, struct connect_ports *out);

/* Does <have> let all of <want> through? <ports>: it is bound to its ports. -1: <e> has a sentence. */
int connect_ports_cover(const struct connect_ports *have, bool ports, const struct connect_ports *want, struct err *e);

#endif

/* host_port.h - an address as a prefill server's is told to a sidecar: "10.0.0.7:8000" or
 * "[fd00::7]:8000", numeric, as HAProxy's stats socket shows the addresses of servers. */
#ifndef KVROUTE_FEED_HOST_PORT_H
#define KVROUTE_FEED_HOST_PORT_H

#include "agent/base/types.h"

#define HOST_PORT_MAX	55	/* bytes */

/* Return whether <s> is one, of a host and not of all (0.0.0.0, [::]). It then has no character
 * that has a meaning in an HTTP header. */
bool host_port_is(struct span s);

#endif

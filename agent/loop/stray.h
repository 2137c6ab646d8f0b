/* stray.h - bytes of another protocol than that of the port they came to: counted and named,
 * not logged one by one. */
#ifndef KVROUTE_LOOP_STRAY_H
#define KVROUTE_LOOP_STRAY_H

#include "agent/loop/agent.h"

enum stray_port { STRAY_SPOP, STRAY_FEED, STRAY_HTTP, STRAY_PORTS };

/* Look at the first bytes of a connection. Returns true if they are of a protocol that belongs
 * elsewhere. */
bool stray_note(struct agent *a, enum stray_port port, const void *bytes, size_t n,
		const union sockaddr_any *peer);

#endif

/* wrong_protocol_in.h - bytes of another protocol than that of the port they came to: counted and named,
 * not logged one by one. */
#ifndef KVROUTE_LOOP_WRONG_PROTOCOL_IN_H
#define KVROUTE_LOOP_WRONG_PROTOCOL_IN_H

#include "agent/loop/agent_in.h"

enum port_kind { PORT_SPOP, PORT_FEED, PORT_HTTP, PORT_KINDS };

/* Look at the first bytes of a connection. Returns true if they are of a protocol that belongs
 * elsewhere. */
bool wrong_protocol_note(struct agent *a, enum port_kind port, const void *bytes, size_t n,
		const union sockaddr_any *peer);

#endif

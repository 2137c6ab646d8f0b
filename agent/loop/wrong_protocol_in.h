/* wrong_protocol_in.h - detect bytes of another protocol than the port expects. They are counted as
 * a problem with a name, and not logged for each connection. */
#ifndef KVROUTE_LOOP_WRONG_PROTOCOL_IN_H
#define KVROUTE_LOOP_WRONG_PROTOCOL_IN_H

#include "agent/loop/agent_in.h"

enum port_kind { PORT_SPOP, PORT_FEED, PORT_HTTP, PORT_KINDS };

/* Check the first bytes of a connection. Returns true if they are of a protocol that belongs to
 * another port. */
bool wrong_protocol_note(struct agent *a, enum port_kind port, const void *bytes, size_t n,
		const union sockaddr_any *peer);

#endif

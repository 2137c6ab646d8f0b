/* outgoing.h - the connections that a configuration asks us to begin: what the sandbox is to let through.
 *
 * The sandbox is closed once, at the start, and cannot be opened again: a reload that would need more is refused. */
#ifndef KVROUTE_LOOP_OUTGOING_H
#define KVROUTE_LOOP_OUTGOING_H

#include "agent/loop/loop.h"

#define OUTGOING_MAX	(SERVERS_MAX + LISTEN_MAX)

struct outgoing {
	bool any;		/* connections at all */
	size_t n;
	uint16_t port[OUTGOING_MAX];	/* of TCP, each once */
};

void outgoing_of(const struct loop_opts *o, struct outgoing *out);

/* Does <have> let all of <want> through? <ports>: it is bound to its ports. -1: <e> has a sentence. */
int outgoing_covers(const struct outgoing *have, bool ports, const struct outgoing *want, struct err *e);

#endif

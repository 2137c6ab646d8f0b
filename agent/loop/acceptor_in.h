/* acceptor_in.h - accept the connections of one listener in one loop. Several loops may share a
 * listener. */
#ifndef KVROUTE_LOOP_ACCEPTOR_IN_H
#define KVROUTE_LOOP_ACCEPTOR_IN_H

#include <ev.h>

#include "agent/loop/log_in.h"
#include "agent/os/addr.h"

#define ACCEPT_FEW	4	/* accepted in one wake, so that other loops get their share */
#define ACCEPT_PAUSE_S	0.1	/* pause after descriptors ran out */
#define ACCEPT_YIELD_S	0.001	/* time for a less busy loop to accept first */

struct acceptor {
	/* set by the owner: */
	struct log *log;
	const char *name;	/* for the log: "spop", ... */
	/* Called with each new connection <fd>, which is non-blocking and then belongs to the owner.
	 * <peer> is valid during the call. */
	void (*accepted)(void *arg, int fd, const union sockaddr_any *peer);
	bool (*crowded)(void *arg);	/* may be NULL; returns true if another loop should accept instead */
	void *arg;
	uint64_t *errors;	/* counter of failed accepts, relaxed */
	/* private: */
	struct ev_loop *loop;
	ev_io io;
	ev_timer pause;
	bool yielded;
};

void acceptor_start(struct acceptor *a, struct ev_loop *loop, const struct listener *l);
void acceptor_stop(struct acceptor *a);

#endif

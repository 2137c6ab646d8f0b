/* acceptor_in.h - new connections of one listener, for one loop. Several loops may share a listener. */
#ifndef KVROUTE_LOOP_ACCEPTOR_IN_H
#define KVROUTE_LOOP_ACCEPTOR_IN_H

#include <ev.h>

#include "agent/loop/log_in.h"
#include "agent/os/addr.h"

#define ACCEPT_FEW	4	/* taken in one wake, so that the other loops get theirs */
#define ACCEPT_PAUSE_S	0.1	/* out of descriptors: look again after so long */
#define ACCEPT_YIELD_S	0.001	/* time for a less busy loop to come first */

struct acceptor {
	/* set by the owner: */
	struct log *log;
	const char *name;	/* for the log: "spop", ... */
	/* Takes <fd>, which is non-blocking. <peer> lives for the call. */
	void (*accepted)(void *arg, int fd, const union sockaddr_any *peer);
	bool (*crowded)(void *arg);	/* may be NULL; true: another loop should rather take it */
	void *arg;
	uint64_t *errors;	/* counted there, relaxed */
	/* its own: */
	struct ev_loop *loop;
	ev_io io;
	ev_timer pause;
	bool yielded;
};

void acceptor_start(struct acceptor *a, struct ev_loop *loop, const struct listener *l);
void acceptor_stop(struct acceptor *a);

#endif

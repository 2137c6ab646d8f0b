/* sibling_in.h - a pair of agents without a store: the backup takes the active one's snapshot.
 *
 *      backup, thread "sibling"                       active, metrics listener
 *
 *      GET /snapshot?proof=HASH   ---->               only with share.serve_snapshot, and only to
 *                                 <----  snapshot     who has the same key
 *      GET /snapshot/sessions     ---->               not known to older agents, which have none
 *
 * It is repeated, and loaded into the index in use: what is known already changes nothing. Open
 * requests are not in it. */
#ifndef KVROUTE_LOOP_SIBLING_IN_H
#define KVROUTE_LOOP_SIBLING_IN_H

#include "agent/loop/loop.h"
#include "agent/os/addr.h"
#include "agent/os/thread_sleep.h"

struct agent;

struct sibling_reader {
	struct agent *agent;
	struct addr addr[LISTEN_MAX];
	char text[LISTEN_MAX][ADDR_MAX];
	unsigned n;			/* 0: none is asked */
	uint64_t proof;			/* a hash that only who has the key can make */
	uint64_t bytes_most, sessions_most;
	msec every_ms, warm_timeout_ms, started;
	enum share_ready ready;
	bool serves;			/* share.serve_snapshot */
	bool told_sessions;
	enum { SIBLING_TOLD_NOTHING, SIBLING_TOLD_GOOD, SIBLING_TOLD_BAD } told;
	pthread_t thread;
	struct thread_sleep sleep;
	bool running;
	/* atomics: */
	bool stopping, tried;
	uint64_t loaded, failed, bytes;	/* snapshots; size of the last one */
};

uint64_t sibling_proof(const struct hash_key *key);

/* <kept>: the key is permanent. Returns 0, or -1 with <e>. */
int sibling_open(struct sibling_reader *s, struct agent *a, const struct loop_opts *o,
    const struct route_opts *ro, const struct hash_key *key, bool kept, struct err *e);
int sibling_start(struct sibling_reader *s, struct err *e);
void sibling_stop(struct sibling_reader *s);

/* Returns true if /ready may say yes: a snapshot was loaded, or no sibling has one. */
bool sibling_ready(const struct sibling_reader *s);

#endif

/* kvsub.h - read what engines publish over ZeroMQ: KV cache events and load.
 *
 *      engine, rank r                      thread "events"
 *      PUB    endpoint, port + r   ----->  SUB      every batch, in order: feed/kvcursor.h
 *      ROUTER replay, port + r     <---->  DEALER   opened only while batches are missing
 *                                            |
 *                                            '--> route_source_batch(), _clear(), _state()
 *      PUB    load, port + r       ----->  SUB ---> route_observe_load()
 *
 * The agent connects to an endpoint, or binds it if its host is "*", 0.0.0.0 or [::], as engines
 * themselves do. Many publishers may connect to a bound endpoint. They are told apart by topic: a
 * message belongs to the source with the longest topic that it begins with, so each source there
 * needs a topic of its own. A replay endpoint and a load socket are
 * always connected to.
 *
 * Hosts are numeric, because resolving a name could block. Without libzmq all of this is missing
 * from the program: kvsub_available(). */
#ifndef KVROUTE_LOOP_KVSUB_H
#define KVROUTE_LOOP_KVSUB_H

#include "agent/loop/loop.h"

/* One server that publishes. Its endpoints are whole addresses; ranks 0 counts as 1. */
struct event_source {
	char pool[POOL_NAME_MAX + 1], server[SERVER_NAME_MAX + 1];
	struct engine_events_opts events;
	char load[ENGINE_URL_MAX + 1];	/* "": it has no load socket */
};

/* Returns false if the program was built without libzmq. */
bool kvsub_available(void);

struct kvsub;

/* Read the <n> sources <s> from now on, and no others. A source that was read before, with the same
 * options, keeps its state. Copies <s>. Returns 0, or -1 if there is no memory: the old list stays.
 * From any thread. */
int kvsub_apply(struct kvsub *k, const struct event_source *s, size_t n);

/* The same with the engines of <list> that publish. */
int kvsub_apply_engines(struct kvsub *k, const struct engine_opts *list, size_t n);

/* The metrics of the server say that its process began at <start_s>, in seconds since 1970. Another
 * value than before: the engine was restarted. From any thread. */
void kvsub_process_start(struct kvsub *k, struct span pool, struct span server, double start_s);

#endif

/* message.h - the messages of our contract with HAProxy's configuration, decoded.
 *
 * Unknown arguments are ignored, missing ones are empty or -1, and one of an unfit type counts as
 * missing: nothing HAProxy sends may make the agent refuse to answer. */
#ifndef KVROUTE_SERVE_MESSAGE_H
#define KVROUTE_SERVE_MESSAGE_H

#include "agent/serve/serve.h"

enum message_kind { MESSAGE_UNKNOWN, MESSAGE_ROUTE, MESSAGE_MODEL, MESSAGE_FIRST, MESSAGE_DONE };

enum message_kind message_kind(const struct spop_message *m);

/* The argument <now_ms>, 2^52 at most, or -1. Leaves <m> as it is. */
msec message_now(const struct spop_message *m);

/* Borrow from the frame. */
void message_request(struct spop_message *m, struct route_request *q);
void message_fact(struct spop_message *m, enum fact_kind kind, struct fact *f);

/* One writer, readers on other threads: a relaxed store is a plain one that they may look at. */
static inline void count_add(uint64_t *c, uint64_t n)
{
	__atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

#endif

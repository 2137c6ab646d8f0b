/* message_in.h - private to agent/serve: decode the messages that HAProxy's configuration defines.
 *
 * Unknown arguments are ignored. Missing ones are empty or -1, and one of a wrong type counts as
 * missing, because the agent must answer whatever HAProxy sends. */
#ifndef KVROUTE_SERVE_MESSAGE_IN_H
#define KVROUTE_SERVE_MESSAGE_IN_H

#include "agent/serve/serve.h"

enum message_kind { MESSAGE_UNKNOWN, MESSAGE_ROUTE, MESSAGE_MODEL, MESSAGE_FIRST, MESSAGE_DONE };

enum message_kind message_kind(const struct spop_message *m);

/* Return the argument <now_ms>, at most 2^52, or -1. <m> is not changed. */
msec message_now(const struct spop_message *m);

/* Decode the arguments; strings are borrowed from the frame. */
void message_request(struct spop_message *m, struct route_request *q);
void message_fact(struct spop_message *m, enum fact_kind kind, struct fact *f);

/* pools.c: count a route message that took <us>. <later>: it brought a later slice of a body. */
void serve_pool_count(
    struct serve_pools *p, const struct route_answer *a, bool later, usec us);

#endif

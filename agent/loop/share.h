/* share.h - the store, Valkey or Redis, through which the agents of a fleet share their state.
 *
 *      agent                               store                        siblings
 *
 *      route --put--> outbox --XADD-->     kvroute:{FLEET:0}:log  ..>   XREAD
 *      route <-apply- inbox  <-XREAD--     kvroute:{FLEET:1}:log  <..   XADD
 *
 *      a fresh agent         <--GET---     kvroute:{FLEET:0}:snapshot   SET, one agent now and then
 *
 * All of it happens in a thread of its own. No request waits for the store: what cannot be sent is
 * kept in bounded memory, then dropped, and found later by comparing digests (agent/route/share.h).
 *
 * Without hiredis all of this is missing from the program: share_available(). */
#ifndef KVROUTE_LOOP_SHARE_H
#define KVROUTE_LOOP_SHARE_H

#include "agent/loop/loop.h"

/* Returns false if the program was built without hiredis. */
bool share_available(void);

/* Returns the number of streams. */
uint32_t share_parts(const struct share_opts *o);

/* Returns the descriptors that sharing needs, and the most memory that it uses. */
uint64_t share_fds(const struct loop_opts *o);
uint64_t share_budget(const struct loop_opts *o);

/* Returns the most memory for a moment: while a snapshot of the store or a sibling is loaded, and
 * while sessions are written to the file, to the store and for a sibling. */
uint64_t share_snapshot_budget(const struct loop_opts *o, const struct route_opts *ro);

/* Returns false if hiredis has no TLS. */
bool share_tls_available(void);

#endif

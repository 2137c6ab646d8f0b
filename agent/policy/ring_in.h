/* ring_in.h - the places of servers on a ring of hashes, for rules that walk one.
 *
 *         s2.1      key            A server has a place for each of its replicas. A key goes to the
 *     s1.7    .  --->  . s3.4      server whose place is next, clockwise. Walking on, servers come
 *     s3.2    .        . s1.2      in the order of their nearest places. So no common ring is
 *         s1.5    s2.9             built; only the distance to each server is computed.
 *
 * Places are made of candidate.name, so agents with the same key agree. A server that comes or goes
 * moves no other server's keys. */
#ifndef KVROUTE_POLICY_RING_IN_H
#define KVROUTE_POLICY_RING_IN_H

#include "agent/policy/policy.h"

struct ring;

/* Allocate a cache of places for as many servers as <max_bytes> allow. Returns NULL if there is no
 * memory. */
struct ring *ring_new(uint32_t replicas, size_t max_bytes);
void ring_free(struct ring *r);
void ring_gone(struct ring *r, server_id id);

/* Return the distance from <key> to the nearest place of <c> in the upper half; the lower half
 * separates equals. <r> may be NULL: the same result, 0.3 us slower. Writes to <r>, so the caller
 * holds the lock that guards ring_gone() too: the router's if its rule acts, the rule's own if it
 * is only compared. */
uint64_t ring_ahead(struct ring *r, uint32_t replicas, const struct candidate *c, uint64_t key);

#endif

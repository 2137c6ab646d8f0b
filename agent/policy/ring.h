/* ring.h - where servers stand on a ring of hashes, for the rules that walk one.
 *
 *         s2.1      key            A server has a place for each of its replicas; a key goes
 *     s1.7    .  --->  . s3.4      to the server whose place comes next, clockwise. Walking on,
 *     s3.2    .        . s1.2      servers come in the order of their nearest places: so no one
 *         s1.5    s2.9             ring is built, but for each server how far ahead it is.
 *
 * Places are made of candidate.name, so that agents with one key agree, and so that a server that comes or goes
 * moves nobody else's keys. */
#ifndef KVROUTE_POLICY_RING_H
#define KVROUTE_POLICY_RING_H

#include "agent/policy/policy.h"

struct ring;

/* Keeps places it was asked for, for as many servers as <max_bytes> have room for. NULL: no memory. */
struct ring *ring_new(uint32_t replicas, size_t max_bytes);
void ring_free(struct ring *r);
size_t ring_bytes(const struct ring *r);
void ring_gone(struct ring *r, server_id id);

/* How far <c>'s nearest place is ahead of <key>, in its upper half; below it what tells equals apart. <r> may be
 * NULL: the same answer, some 0.3 us slower. Writes to <r>, under a lock that ring_gone() has too: the router's where
 * its rule acts, the rule's own where it is compared. */
uint64_t ring_ahead(struct ring *r, uint32_t replicas, const struct candidate *c, uint64_t key);

#endif

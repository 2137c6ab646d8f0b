/* segcache_hash_in.h - the hash of a segment, once per instruction set (Makefile). */
#ifndef KVROUTE_TOK_SEGCACHE_HASH_IN_H
#define KVROUTE_TOK_SEGCACHE_HASH_IN_H

#include "agent/base/hash.h"

typedef struct hash128 segcache_hash_fn(const struct hash_key *k, const void *p, size_t n);

segcache_hash_fn segcache_hash_avx2;	/* x86-64 only */

#endif

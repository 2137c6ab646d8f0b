/* hash_wide.h - hash64() and hash128() of hash.h by the widest registers of the CPU, for texts of a
 * kilobyte and more. hash128(): 50 GB/s with AVX2, 15 with SSE2 (EPYC, 57 KB). The values are the
 * same. */
#ifndef KVROUTE_BASE_HASH_WIDE_H
#define KVROUTE_BASE_HASH_WIDE_H

#include "agent/base/hash.h"

typedef struct hash128 hash128_fn(const struct hash_key *k, const void *p, size_t n);

typedef uint64_t hash64_fn(const struct hash_key *k, const void *p, size_t n);

hash64_fn *hash64_best(void);
hash128_fn *hash128_best(void);

/* x86-64 only */
hash64_fn hash64_avx2;
hash128_fn hash128_avx2;

#endif

/* hash.c - hash64() of a length that is not a constant. */
#include "agent/base/hash.h"

uint64_t hash64_of(const struct hash_key *k, const void *p, size_t n)
{
	return XXH3_64bits_withSecret(p, n, k->secret, sizeof(k->secret));
}

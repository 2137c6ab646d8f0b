/* hash.c - the hash of bytes whose number only the call knows. */
#include "agent/base/hash.h"

uint64_t hash64_of(const struct hash_key *k, const void *p, size_t n)
{
	return XXH3_64bits_withSecret(p, n, k->secret, sizeof(k->secret));
}

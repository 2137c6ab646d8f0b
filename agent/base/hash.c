/* hash.c - hash64() of a length that is not a constant. */
#include "agent/base/hash_wide.h"

uint64_t hash64_of(const struct hash_key *k, const void *p, size_t n)
{
	return XXH3_64bits_withSecret(p, n, k->secret, sizeof(k->secret));
}

void hash64_pages(const struct hash_key *k, const void *p, size_t n, uint64_t *out)
{
	const uint8_t *page = p;

	for (size_t i = 0; i < n; i++, page += 64)
		out[i] = hash64(k, page, 64);
}

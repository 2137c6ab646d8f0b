/* hash.c - hash64() of a length that is not a constant. */
#include "agent/base/hash.h"

static __attribute__((noinline)) uint64_t hash64_many(
    const struct hash_key *k, const void *p, size_t n)
{
	return XXH3_64bits_withSecret(p, n, k->secret, sizeof(k->secret));
}

/* Names and rests of pages first: XXH3's function of all lengths saves registers for long ones. */
uint64_t hash64_of(const struct hash_key *k, const void *p, size_t n)
{
	if (n <= 16)
		return XXH3_len_0to16_64b(p, n, k->secret, 0);
	return n <= 64 ? hash64_few(k, p, n) : hash64_many(k, p, n);
}

void hash64_pages(const struct hash_key *k, const void *p, size_t n, uint64_t *out)
{
	const uint8_t *page = p;

	for (size_t i = 0; i < n; i++, page += 64)
		out[i] = hash64(k, page, 64);
}

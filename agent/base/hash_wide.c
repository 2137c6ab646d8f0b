/* hash_wide.c - the hash for any CPU, and the choice. */
#include "agent/base/hash_wide.h"

static struct hash128 hash128_any(const struct hash_key *k, const void *p, size_t n)
{
	return hash128(k, p, n);
}

hash128_fn *hash128_best(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		return hash128_avx2;
#endif
	return hash128_any;
}

/* hash_wide.c - the hash for any CPU, and the choice. */
#include "agent/base/hash_wide.h"

static struct hash128 hash128_any(const struct hash_key *k, const void *p, size_t n)
{
	return hash128(k, p, n);
}

#ifdef __x86_64__
/* Tell if the CPU has what hash_avx2.c is built for. */
static bool has_avx2(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}
#endif

hash64_fn *hash64_best(void)
{
#ifdef __x86_64__
	if (has_avx2())
		return hash64_avx2;
#endif
	return hash64_of;
}

hash128_fn *hash128_best(void)
{
#ifdef __x86_64__
	if (has_avx2())
		return hash128_avx2;
#endif
	return hash128_any;
}

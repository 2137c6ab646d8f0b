/* limits.h - the floor under every figure: hashing with XXH3 under a secret, and merely reading. */
#ifndef TESTS_BENCH_INDEX_LIMITS_H
#define TESTS_BENCH_INDEX_LIMITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LIMIT_SECRET	192u
#define LIMIT_PIECE	2048u		/* XXH3 is at its best from here on, and an index can still compare */

struct limit {
	const char *isa;
	uint64_t (*hash)(const void *p, size_t n, size_t piece, const void *secret);
	uint64_t (*read)(const void *p, size_t n);
};

extern const struct limit limit_base;
#ifdef __x86_64__
extern const struct limit limit_avx2, limit_avx512;
#endif

/* What this processor can do, slowest first. */
static inline size_t limits_here(const struct limit *out[3])
{
	size_t n = 0;

	out[n++] = &limit_base;
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2"))
		out[n++] = &limit_avx2;
	if (__builtin_cpu_supports("avx512f"))
		out[n++] = &limit_avx512;
#endif
	return n;
}

#endif

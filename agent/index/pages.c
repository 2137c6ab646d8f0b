/* pages.c - which instruction set hashes pages here. */
#include "agent/index/pages.h"

#include <string.h>

/* One file each, with its own flags in the Makefile. */
extern const struct pages_ops pages_ops_base, pages_ops_avx2, pages_ops_avx512;

static bool have_avx2(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
#else
	return false;
#endif
}

static bool have_avx512(void)
{
#ifdef __x86_64__
	return have_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
#else
	return false;
#endif
}

const struct pages_ops *pages_ops_named(const char *isa)
{
	if (strcmp(isa, pages_ops_base.isa) == 0)
		return &pages_ops_base;
	if (strcmp(isa, "avx2") == 0 && have_avx2())
		return &pages_ops_avx2;
	if (strcmp(isa, "avx512") == 0 && have_avx512())
		return &pages_ops_avx512;
	return NULL;
}

const struct pages_ops *pages_ops_best(void)
{
	return have_avx512() ? &pages_ops_avx512 : have_avx2() ? &pages_ops_avx2 : &pages_ops_base;
}

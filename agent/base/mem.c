/* Thin wrappers of the C library's allocator: a request for 0 bytes returns a block, overflow
 * NULL. */
#include <stdlib.h>

#include "agent/base/mem.h"

void *mem_alloc(size_t n)
{
	return calloc(1, n ? n : 1);
}

void *mem_calloc(size_t count, size_t size)
{
	return calloc(count ? count : 1, size ? size : 1);
}

void *mem_resize(void *p, size_t count, size_t size)
{
	size_t n;

	if (__builtin_mul_overflow(count, size, &n))
		return NULL;
	return realloc(p, n ? n : 1);
}

void *mem_copy(const void *p, size_t n)
{
	void *q = mem_alloc(n);

	if (q != NULL && n > 0)
		memcpy(q, p, n);
	return q;
}

char *mem_strndup(const char *p, size_t n)
{
	char *s = mem_alloc(n + 1);

	if (s != NULL && n > 0)
		memcpy(s, p, n);
	return s;
}

void mem_free(void *p)
{
	free(p);
}

void mem_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}

__attribute__((noinline)) void mem_wipe_stack(void)
{
	uint8_t below[MEM_STACK_WIPED];

	mem_wipe(below, sizeof(below));
}

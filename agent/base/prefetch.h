/* prefetch.h - ask for memory before it is needed.
 *
 * gcc 12 treats a static function that does nothing but __builtin_prefetch() as having no effect,
 * and removes its calls silently. The empty statement is an effect. */
#ifndef KVROUTE_BASE_PREFETCH_H
#define KVROUTE_BASE_PREFETCH_H

#include <stddef.h>

#include "agent/base/mem.h"

static inline void prefetch(const void *p)
{
	__builtin_prefetch(p);
	__asm__ volatile("");
}

/* Prefetch <n> bytes from <p> on. */
static inline void prefetch_bytes(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i += MEM_LINE)
		prefetch((const char *)p + i);
}

/* The same, to write them. */
static inline void prefetch_bytes_to_write(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i += MEM_LINE)
		__builtin_prefetch((const char *)p + i, 1);
	__asm__ volatile("");
}

#endif

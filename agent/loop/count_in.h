/* count_in.h - counters that one thread writes and any thread may read. */
#ifndef KVROUTE_LOOP_COUNT_IN_H
#define KVROUTE_LOOP_COUNT_IN_H

#include <stdint.h>

/* Add <n>. Only the thread that owns <c> may call it, so no locked instruction is needed. */
static inline void count_add(uint64_t *c, uint64_t n)
{
	__atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

static inline uint64_t count_read(const uint64_t *c)
{
	return __atomic_load_n(c, __ATOMIC_RELAXED);
}

#endif

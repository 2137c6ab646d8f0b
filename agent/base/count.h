/* count.h - counters that one thread writes, or any, and that any thread may read. */
#ifndef KVROUTE_BASE_COUNT_H
#define KVROUTE_BASE_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

/* Add <n>. Only the thread that owns <c> may call it, so no locked instruction is needed. */
static inline void count_add(uint64_t *c, uint64_t n)
{
	__atomic_store_n(c, *c + n, __ATOMIC_RELAXED);
}

/* Add <n> to a counter that several threads write. */
static inline void count_add_any(_Atomic uint64_t *c, uint64_t n)
{
	atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}

static inline uint64_t count_read(const uint64_t *c)
{
	return __atomic_load_n(c, __ATOMIC_RELAXED);
}

#endif

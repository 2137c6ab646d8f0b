/* fault.h - allocations that fail on request. Include it in exactly one file of a unit test whose
 * name ends in _fault.c: the Makefile links those with --wrap for malloc, calloc, realloc and
 * arena_alloc.
 *
 * 	for (k = 1; ; k++) {
 * 		fault_begin(k);			the k-th allocation from here on fails
 * 		... the story ...
 * 		if (!fault_end())		it was never reached: all have had their turn
 * 			break;
 * 	}
 * 	assert_true(k > 1);			a story that meets no failure proves nothing */
#ifndef TESTS_FAULT_H
#define TESTS_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
struct arena;
/* not in every module */
uint32_t __real_arena_alloc(struct arena *a, size_t n) __attribute__((weak));
uint32_t __wrap_arena_alloc(struct arena *a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static struct {
	unsigned long seen, fail_at;
	size_t bytes;			/* requested since fault_begin() */
} fault;

static inline void fault_begin(unsigned long k)
{
	fault.seen = 0;
	fault.bytes = 0;
	fault.fail_at = k;
}

/* Disarm; true when the failure was met. */
static inline bool fault_end(void)
{
	bool met = fault.fail_at && fault.seen >= fault.fail_at;

	fault.fail_at = 0;
	return met;
}

static inline bool fault_now(void)
{
	return fault.fail_at && ++fault.seen == fault.fail_at;
}

void *__wrap_malloc(size_t n)
{
	fault.bytes += n;
	return fault_now() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	fault.bytes += n * size;
	return fault_now() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	fault.bytes += n;
	return fault_now() ? NULL : __real_realloc(p, n);
}

uint32_t __wrap_arena_alloc(struct arena *a, size_t n)
{
	return fault_now() ? 0 : __real_arena_alloc(a, n);
}

#endif

/* lines.h - a table of a power of two of entries that begin at cache lines, zeroed. */
#ifndef KVROUTE_BASE_LINES_H
#define KVROUTE_BASE_LINES_H

#include "agent/base/mem.h"

struct lines {
	void *at;		/* the first entry */
	size_t mask;		/* entries - 1 */
	void *memory;		/* private */
};

/* Allocate as many entries of <each> bytes, a multiple of 64, as <bytes> have room for, at least
 * one. Takes one entry more than that. Returns false if there is no memory. */
static inline bool lines_alloc(struct lines *t, size_t bytes, size_t each)
{
	size_t n = 1;

	while (n * 2 * each <= bytes)
		n *= 2;
	t->memory = mem_calloc(n + 1, each);
	t->at = (void *)(((uintptr_t)t->memory + 63) & ~(uintptr_t)63);
	t->mask = n - 1;
	return t->memory != NULL;
}

static inline void lines_free(struct lines *t)
{
	mem_free(t->memory);
}

#endif

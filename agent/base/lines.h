/* lines.h - a table of a power of two of entries that begin at cache lines, zeroed. */
#ifndef KVROUTE_BASE_LINES_H
#define KVROUTE_BASE_LINES_H

#include "agent/base/mem.h"

struct lines {
	void *at;		/* the first entry */
	size_t mask;		/* entries - 1 */
};

/* Allocate as many entries of <each> bytes, a multiple of MEM_LINE, as <bytes> have room for, at
 * least one. Returns false if there is no memory. */
static inline bool lines_alloc(struct lines *t, size_t bytes, size_t each)
{
	size_t n = 1;

	while (n <= bytes / each / 2)
		n *= 2;
	t->at = mem_alloc_line(n * each);
	t->mask = n - 1;
	return t->at != NULL;
}

static inline void lines_free(struct lines *t)
{
	mem_free_line(t->at);
}

#endif

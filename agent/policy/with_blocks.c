/* with_blocks.c - the memory of a rule that is a table of blocks and a little more, in one budget.
 *
 * The struct of such a rule begins with a pointer to its blocks, so one pair of functions allocates
 * and frees all of them. */
#include "agent/base/mem.h"
#include "agent/policy/blocks_in.h"

struct with_blocks {
	struct blocks *b;
};

void *with_blocks_new(size_t size, size_t max_bytes)
{
	struct with_blocks *m = mem_alloc(size);

	if (m == NULL)
		return NULL;
	m->b = blocks_new(max_bytes > size ? max_bytes - size : 0);
	if (m->b == NULL) {
		mem_free(m);
		return NULL;
	}
	return m;
}

void with_blocks_free(void *of_rule)
{
	struct with_blocks *m = of_rule;

	blocks_free(m->b);
	mem_free(m);
}

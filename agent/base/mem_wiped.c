/* Blocks that held text or ids of prompts are wiped before they are freed. */
#include "agent/base/mem.h"

void *mem_regrow(void *p, size_t used, size_t had, size_t room)
{
	void *q = mem_resize(NULL, room, 1);

	if (q == NULL)
		return NULL;
	if (used > 0)
		memcpy(q, p, used);
	mem_free_wiped(p, had);
	return q;
}

void mem_free_wiped(void *p, size_t n)
{
	if (p != NULL && n > 0)
		mem_wipe(p, n);
	mem_free(p);
}

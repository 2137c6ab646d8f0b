/* mem_line.c - memory at cache lines and at pages of 2 MB, from mem_alloc(). */
#include <sys/mman.h>

#include "agent/base/mem.h"

#define HUGE_PAGE	((size_t)2 << 20)

/* The address of the block from mem_alloc() is kept just before the one that is returned. */
static void *alloc_at(size_t n, size_t align)
{
	uint8_t *block, *p;

	if (__builtin_add_overflow(n, align + sizeof(block), &n) || (block = mem_alloc(n)) == NULL)
		return NULL;
	p = block + sizeof(block);
	p += -(uintptr_t)p % align;
	memcpy(p - sizeof(block), &block, sizeof(block));
	return p;
}

void *mem_alloc_line(size_t n)
{
	return alloc_at(n, MEM_LINE);
}

void *mem_alloc_huge(size_t n)
{
	void *p;

	if (n < HUGE_PAGE)
		return mem_alloc_line(n);
	if ((p = alloc_at(n, HUGE_PAGE)) != NULL)
		(void)madvise(p, n, MADV_HUGEPAGE);
	return p;
}

void mem_free_line(void *p)
{
	void *block;

	if (p == NULL)
		return;
	memcpy(&block, (uint8_t *)p - sizeof(block), sizeof(block));
	mem_wipe((uint8_t *)p - sizeof(block), sizeof(block));	/* so that a wiped block is all zeros */
	mem_free(block);
}

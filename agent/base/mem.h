/* mem.h - allocation, and wiping memory that held a secret or prompt text.
 *
 * Functions that allocate return NULL if there is no memory; none aborts. Tests make the n-th call
 * fail by wrapping calloc() and realloc() at link time, so the product needs no hook. */
#ifndef KVROUTE_BASE_MEM_H
#define KVROUTE_BASE_MEM_H

#include "agent/base/types.h"

void *mem_alloc(size_t n);				/* zeroed; free with mem_free() */
void *mem_calloc(size_t count, size_t size);		/* the same; NULL if the product overflows */
void *mem_resize(void *p, size_t count, size_t size);	/* as realloc(): on NULL <p> stays valid */
void *mem_copy(const void *p, size_t n);
char *mem_strndup(const char *p, size_t n);		/* NUL-terminated copy of <n> bytes */
void mem_free(void *p);

/* Allocate <n> zeroed bytes at the start of a cache line, for a struct whose members are aligned to
 * lines: mem_alloc() aligns to 16 bytes. Only mem_free_line() frees it; NULL is ignored. */
#define MEM_LINE	64
void *mem_alloc_line(size_t n);

/* The same for tables that are read all over. If <n> is 2 MB or more, the block begins at a page
 * of 2 MB, and the kernel is asked for such pages: with small ones a lookup often waits longer for
 * the address than for the bytes. Also freed by mem_free_line(). */
void *mem_alloc_huge(size_t n);
void mem_free_line(void *p);

/* Overwrite <n> bytes of a key or of prompt text. The compiler cannot remove the call. */
void mem_wipe(void *p, size_t n);

/* Grow a block that holds text or ids of a prompt: allocate <room> bytes, copy the first <used>,
 * wipe the <had> bytes of the old block and free it, because realloc() would leave a copy in
 * freed memory. Returns the new block, or NULL if there is no memory: <p> stays valid. */
void *mem_regrow(void *p, size_t used, size_t had, size_t room);

/* Wipe the <n> bytes of a block, then free it. <p> may be NULL. */
void mem_free_wiped(void *p, size_t n);

/* Wipe the MEM_STACK_WIPED bytes of stack below the caller, where earlier calls left prompt
 * text. */
#define MEM_STACK_WIPED	65536
void mem_wipe_stack(void);

#endif

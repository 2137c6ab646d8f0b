/* mem.h - memory: zeroed when taken, NULL when there is none.
 *
 * Everything here may fail and says so with NULL; nothing aborts. Tests make the n-th call fail
 * by wrapping calloc() and realloc() at link time, so there is no hook in the product. */
#ifndef KVROUTE_BASE_MEM_H
#define KVROUTE_BASE_MEM_H

#include "agent/base/types.h"

void *mem_alloc(size_t n);				/* zeroed; free with mem_free() */
void *mem_calloc(size_t count, size_t size);		/* the same; NULL if the product overflows */
void *mem_resize(void *p, size_t count, size_t size);	/* as realloc; on NULL <p> is still yours */
void *mem_copy(const void *p, size_t n);
char *mem_strndup(const char *p, size_t n);		/* NUL-terminated copy of <n> bytes */
void mem_free(void *p);

/* Overwrite <n> bytes in a way the compiler cannot leave out: for keys and prompt text. */
void mem_wipe(void *p, size_t n);

/* Move what holds text or ids of a prompt to a larger block: allocate <room> bytes, copy the first <used>, wipe the <had> bytes of the
 * old block and free it. realloc() would leave a copy in the freed one. Returns NULL if there is no memory: <p> is still yours. */
void *mem_regrow(void *p, size_t used, size_t had, size_t room);

/* Wipe the <n> bytes of a block, then free it. Takes NULL. */
void mem_free_wiped(void *p, size_t n);

/* The same for what calls that have returned left on the stack: MEM_STACK_WIPED bytes below the caller. */
#define MEM_STACK_WIPED	65536
void mem_wipe_stack(void);

#endif

/* live_shim.c - count the allocated memory of a program, for LD_PRELOAD. LIVE_FILE names a file of
 * at least sizeof(struct live) bytes. A program that maps the same file reads the counts at run
 * time:
 *
 *      blocks, bytes           allocated at this moment, including the allocator's rounding
 *      most                    largest value of <bytes>
 *      ask                     set it to 1: the next allocation fills in the rest and sets it to 0
 *      heap, heap_free         memory of all arenas of glibc, and the free part of it
 *
 * Allocated memory is used instead of resident memory, because the latter also grows with the
 * number of arenas and with fragmentation, and so depends on the scheduling of threads. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/tools/shim.h"

struct live { uint64_t blocks, bytes, most, ask, heap, heap_free; };

static struct live before, *live = &before;     /* until the file is mapped */
static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_memalign)(size_t, size_t);
static void (*real_free)(void *);

/* No thread runs yet. */
__attribute__((constructor)) static void begin(void)
{
	struct live *p = shim_file("LIVE_FILE", sizeof(*p));

	if (p == NULL)
		return;
	*p = before;
	live = p;
}

static void answer(void)
{
	struct mallinfo2 m = mallinfo2();

	live->heap = m.arena + m.hblkhd;
	live->heap_free = m.fordblks;
	__atomic_store_n(&live->ask, 0, __ATOMIC_SEQ_CST);
}

static void *taken(void *p)
{
	uint64_t now, most;

	if (p == NULL)
		return p;
	__atomic_add_fetch(&live->blocks, 1, __ATOMIC_RELAXED);
	now = __atomic_add_fetch(&live->bytes, malloc_usable_size(p), __ATOMIC_RELAXED);
	most = __atomic_load_n(&live->most, __ATOMIC_RELAXED);
	while (now > most &&
	    !__atomic_compare_exchange_n(
		&live->most, &most, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (__atomic_load_n(&live->ask, __ATOMIC_RELAXED))
		answer();
	return p;
}

static void given(size_t usable)
{
	__atomic_sub_fetch(&live->blocks, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&live->bytes, usable, __ATOMIC_RELAXED);
}

void *malloc(size_t n)
{
	if (real_malloc == NULL)
		*(void **)&real_malloc = shim_real("malloc");
	return taken(real_malloc(n));
}

void *calloc(size_t count, size_t n)
{
	if (real_calloc == NULL)
		*(void **)&real_calloc = shim_real("calloc");
	return taken(real_calloc(count, n));
}

void *realloc(void *p, size_t n)
{
	size_t old = p != NULL ? malloc_usable_size(p) : 0;
	void *q;

	if (real_realloc == NULL)
		*(void **)&real_realloc = shim_real("realloc");
	q = real_realloc(p, n);
	if (p != NULL && (q != NULL || n == 0))
		given(old);
	return taken(q);
}

void *memalign(size_t align, size_t n)
{
	if (real_memalign == NULL)
		*(void **)&real_memalign = shim_real("memalign");
	return taken(real_memalign(align, n));
}

void *aligned_alloc(size_t align, size_t n)
{
	return memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	void *q = memalign(align, n);

	if (q == NULL)
		return ENOMEM;
	*p = q;
	return 0;
}

void free(void *p)
{
	if (real_free == NULL)
		*(void **)&real_free = shim_real("free");
	if (p == NULL)
		return;
	given(malloc_usable_size(p));
	real_free(p);
}

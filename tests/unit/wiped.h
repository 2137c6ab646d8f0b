/* wiped.h - the functions of agent/base/mem.c for one test: every block is zeroed when it is
 * allocated and inspected when it is freed. Include it in exactly one file of a unit test; the
 * linker then takes these functions instead of mem.o.
 *
 * 	wiped = (struct wiped){ 0 };
 * 	... the story ...
 * 	assert_true(wiped.freed > 5);		a story that frees nothing proves nothing
 * 	assert_int_equal(wiped.dirty, 0);	every block was all zeros when it was freed
 *
 * With { .secret = "text" } only a block that has this text is dirty. */
#ifndef TESTS_WIPED_H
#define TESTS_WIPED_H

#include <malloc.h>
#include <stdlib.h>

#include "agent/base/mem.h"

static struct wiped {
	size_t freed, dirty;
	const char *secret;		/* NULL: no byte may be left */
} wiped;

void *mem_alloc(size_t n)
{
	return calloc(1, n ? n : 1);
}

void *mem_calloc(size_t count, size_t size)
{
	return calloc(count ? count : 1, size ? size : 1);
}

/* Moves the block always, so that the old one is inspected. */
void *mem_resize(void *p, size_t count, size_t size)
{
	size_t old = p != NULL ? malloc_usable_size(p) : 0;
	void *q = calloc(count ? count : 1, size ? size : 1);

	if (q != NULL && p != NULL) {
		memcpy(q, p, old < count * size ? old : count * size);
		mem_free(p);
	}
	return q;
}

void *mem_copy(const void *p, size_t n)
{
	void *q = mem_alloc(n);

	if (q != NULL && n > 0)
		memcpy(q, p, n);
	return q;
}

char *mem_strndup(const char *p, size_t n)
{
	char *s = mem_alloc(n + 1);

	if (s != NULL && n > 0)
		memcpy(s, p, n);
	return s;
}

static inline bool wiped_is_dirty(const void *p, size_t n)
{
	const unsigned char *b = p;
	size_t i = 0;

	if (wiped.secret != NULL)
		return memmem(p, n, wiped.secret, strlen(wiped.secret)) != NULL;
	while (i < n && b[i] == 0)
		i++;
	return i < n;
}

void mem_free(void *p)
{
	wiped.freed += p != NULL;
	wiped.dirty += p != NULL && wiped_is_dirty(p, malloc_usable_size(p));
	free(p);
}

void mem_wipe(void *p, size_t n)
{
	explicit_bzero(p, n);
}

void mem_wipe_stack(void)
{
}

#endif

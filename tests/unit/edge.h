/* edge.h - bytes whose end touches an unreadable page, for tests of decoders: reading one byte too
 * many is a crash and not a lucky zero. For unit tests only. */
#ifndef TESTS_EDGE_H
#define TESTS_EDGE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static inline size_t edge_room(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (n + page - 1) / page * page;
}

/* A copy of the <n> bytes at <p>; with n == 0, a pointer that must not be read at all. The copy may
 * be written. Give it back with edge_free(), with the same <n>. */
static inline uint8_t *edge_copy(const void *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = edge_room(n);
	uint8_t *map = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (map == MAP_FAILED || mprotect(map + room, page, PROT_NONE) < 0) {
		perror("edge_copy");
		exit(2);
	}
	if (n)
		memcpy(map + room - n, p, n);
	return map + room - n;
}

static inline void edge_free(const uint8_t *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), room = edge_room(n);

	munmap((uint8_t *)(uintptr_t)p + n - room, room + page);
}

#endif

/* region.h - one large piece of memory, mapped at start and kept until the end.
 *
 * The index and the event door take all their memory this way: their size is a promise, and a
 * reader without a lock may still read what was freed in it, because it is never unmapped. */
#ifndef KVROUTE_BASE_REGION_H
#define KVROUTE_BASE_REGION_H

#include "agent/base/types.h"

#define REGION_BYTES_MAX	((size_t)UINT32_MAX * 16)	/* 32 bits name each 16 bytes of it */

struct region {
	uint8_t *base;
	size_t bytes;
};

/* Map <bytes>, rounded up to a page, in huge pages if the system has some, and leave it out of core
 * dumps. With <prefault> all of it is present on return: that takes 0.15 s a GiB, or 3 s if a
 * hypervisor has to find the memory first. Otherwise a page is allocated at its first use, and the
 * process may be killed there if none is left. Returns -1 with errno, and maps nothing. */
int region_take(struct region *r, size_t bytes, bool prefault);

/* Unmap <r> and zero it. Does nothing to a zeroed region. */
void region_give(struct region *r);

#endif

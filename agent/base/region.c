/* Map one large piece of anonymous memory.
 *
 * Transparent huge pages cut the misses of the TLB, because readers jump all over the memory. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/base/region.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE	23	/* Linux 5.14 */
#endif

static bool no_memory(int why)
{
	return why == ENOMEM || why == EFAULT || why == EHWPOISON;
}

/* Make every page present. If the call itself is refused (EINVAL: an older kernel; EPERM: a
 * filter), write to each page instead. Returns -1 if there is no memory. */
static int fault_in(struct region *r, size_t page)
{
	if (madvise(r->base, r->bytes, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (no_memory(errno))
		return -1;
	for (size_t at = 0; at < r->bytes; at += page)
		*(volatile uint8_t *)(r->base + at) = 0;
	return 0;
}

int region_take(struct region *r, size_t bytes, bool prefault)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int why, flags = MAP_PRIVATE | MAP_ANONYMOUS | (prefault ? 0 : MAP_NORESERVE);

	*r = (struct region){ 0 };
	if (bytes == 0 || bytes > REGION_BYTES_MAX - page) {
		errno = bytes == 0 ? EINVAL : ENOMEM;
		return -1;
	}
	bytes = (bytes + page - 1) / page * page;
	r->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (r->base == MAP_FAILED) {
		r->base = NULL;
		return -1;
	}
	r->bytes = bytes;
	/* Both may fail: without huge pages it is slower, without the other a core dump is larger. */
	(void)madvise(r->base, bytes, MADV_HUGEPAGE);
	(void)madvise(r->base, bytes, MADV_DONTDUMP);
	if (!prefault || fault_in(r, page) == 0)
		return 0;
	why = errno;
	region_give(r);
	errno = why;
	return -1;
}

void region_give(struct region *r)
{
	if (r->base != NULL)
		munmap(r->base, r->bytes);
	*r = (struct region){ 0 };
}

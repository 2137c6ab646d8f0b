/* glibc reads the file of the time zone at the first local time. It reads
 * /proc/sys/vm/overcommit_memory when it first returns memory of a thread's heap to the kernel, so
 * a thread is made that allocates and frees some. It reads the number of processors when the ninth
 * thread allocates, to limit its heaps to eight for each; so they are limited to as many here. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/libc_files.h"

/* Most of a heap of 64 MiB, because the limit above which it shrinks may be near that. Each block
 * is below the size for which glibc calls mmap(). Its pages are not touched. */
#define BLOCKS	900
#define BYTES	65536

static void *grow_and_shrink(void *arg)
{
	void *volatile block[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(BYTES);
	for (int i = BLOCKS - 1; i >= 0; i--)
		free(block[i]);
	return NULL;
}

void libc_files_read(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t thread;

	tzset();
	mallopt(M_ARENA_MAX, 8 * (n > 0 && n < 1024 ? (int)n : 1));
	if (pthread_create(&thread, NULL, grow_and_shrink, NULL) == 0)
		pthread_join(thread, NULL);
}

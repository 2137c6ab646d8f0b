/* bench.h - for benches: times, and an end where memory or a file is missing. */
#ifndef KVROUTE_TESTS_LIB_BENCH_H
#define KVROUTE_TESTS_LIB_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline double now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static inline double now_us(void)
{
	return now_ns() / 1e3;
}

/* CPU time of this thread. */
static inline double cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline double cpu_us(void)
{
	return cpu_ns() / 1e3;
}

/* Return <p>; end the program if it is NULL. */
static inline void *must(void *p)
{
	if (p != NULL)
		return p;
	fprintf(stderr, "%s: no memory, or not at the top of the tree\n",
	    program_invocation_short_name);
	exit(1);
}

#endif

/* clock.h - the clocks of the shell: the core is handed times, here they are read. */
#ifndef KVROUTE_OS_CLOCK_H
#define KVROUTE_OS_CLOCK_H

#include <time.h>

#include "agent/base/types.h"

/* Monotonic; the same clock for every thread, so that times of different threads compare. */
static inline usec clock_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (usec)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static inline msec clock_msec(void)
{
	return clock_usec() / 1000;
}

/* What clocks on the wall show, in UTC. */
static inline int64_t clock_wall_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec;
}

#endif

/* clock.h - the clocks of the system. Only the shell (os, loop, main.c) reads them; the core gets
 * times as arguments. */
#ifndef KVROUTE_OS_CLOCK_H
#define KVROUTE_OS_CLOCK_H

#include <time.h>

#include "agent/base/types.h"

/* Returns the monotonic time. All threads use this clock, so their times can be compared. */
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

/* Returns milliseconds since 1970, UTC. */
static inline int64_t clock_wall_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Returns seconds since 1970, UTC. */
static inline int64_t clock_wall_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec;
}

#endif

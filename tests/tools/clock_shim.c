/* clock_shim.c - a wall clock that is CLOCK_OFF_S seconds off, for LD_PRELOAD. */
#include <stdlib.h>
#include <time.h>

#include "tests/tools/shim.h"

int clock_gettime(clockid_t clock, struct timespec *t)
{
	static int (*real)(clockid_t, struct timespec *);
	const char *off = getenv("CLOCK_OFF_S");
	int rc;

	if (real == NULL)
		*(void **)&real = shim_real("clock_gettime");
	rc = real(clock, t);
	if (rc == 0 && clock == CLOCK_REALTIME && off != NULL)
		t->tv_sec += atol(off);
	return rc;
}

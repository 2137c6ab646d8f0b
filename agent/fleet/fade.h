/* fade.h - how much evidence counts after a time in which nothing was learned. */
#ifndef KVROUTE_FLEET_FADE_H
#define KVROUTE_FLEET_FADE_H

#include <math.h>

#include "agent/base/types.h"

#define FADE_HALF_MS	3600000.0	/* half of it is left */

/* Return the share that is left of what was learned at <at>. */
static inline double fade_left(msec at, msec now)
{
	return now > at ? exp2((double)(at - now) / FADE_HALF_MS) : 1;
}

#endif

/* told_in.h - when to log a fault that lasts: once, every hour, and when it is over. */
#ifndef KVROUTE_LOOP_TOLD_IN_H
#define KVROUTE_LOOP_TOLD_IN_H

#include "agent/base/types.h"

#define TOLD_AGAIN_MS	3600000

/* Zeroed: no fault. */
struct told {
	bool bad;
	msec at;	/* of the last line */
};

enum tell { TELL_NOTHING, TELL_BAD, TELL_OVER };

/* Return what to log, and note that it is logged. */
static inline enum tell told_next(struct told *t, bool bad, msec now)
{
	bool was = t->bad;

	t->bad = bad;
	if (!bad || (was && now - t->at < TOLD_AGAIN_MS))
		return was && !bad ? TELL_OVER : TELL_NOTHING;
	t->at = now;
	return TELL_BAD;
}

#endif

/* sessions_save_in.h - private to sessions_save.c, which draws it, and sessions_load.c: the bytes
 * of sessions and stored responses. */
#ifndef KVROUTE_ROUTE_SESSIONS_SAVE_IN_H
#define KVROUTE_ROUTE_SESSIONS_SAVE_IN_H

#include "agent/route/job_in.h"

#define SESSIONS_MAGIC		"kvrsess\n"
#define SESSIONS_VERSION	1u
#define SESSIONS_HEAD_BYTES	SESSIONS_START
#define KIND_BYTES	20u
#define TAIL_BYTES	32u
#define SESSION_BYTES	(28u + SESSION_TAILS * TAIL_BYTES)
#define RESPONSE_BYTES	10u
#define SLICE		64u		/* sessions or responses at once under the lock */
#define NO_NAME		0xffffu
#define AGO_MOST_MS	((msec)7 * 24 * 3600 * 1000)

enum { FLAG_DONE = 1, FLAG_CUT = 2 };

#endif

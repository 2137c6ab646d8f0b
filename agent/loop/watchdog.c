/* A message that could not be sent is tried again at the next tick, because only watchdog_told()
 * starts the next period. */
#include <string.h>

#include "agent/loop/watchdog_in.h"

#define PARTS		4	/* messages in the time of the manager */
#define LATE_PARTS	2	/* of them that may be missing before a thread is reported */

void watchdog_init(struct watchdog *w, msec limit_ms, msec now)
{
	*w = (struct watchdog){ .every_ms = limit_ms / PARTS, .told_ms = now };
	if (limit_ms > 0 && w->every_ms == 0)
		w->every_ms = 1;
}

enum watchdog_state watchdog_check(
    struct watchdog *w, const uint64_t *turns, unsigned n, msec now, unsigned *who)
{
	unsigned i;

	if (w->every_ms == 0 || now - w->told_ms < w->every_ms)
		return WATCHDOG_QUIET;
	for (i = 0; i < n && turns[i] != w->turns[i]; i++)
		;
	if (i == n)
		return WATCHDOG_TELL;
	if (w->late || now - w->told_ms < w->every_ms * LATE_PARTS)
		return WATCHDOG_QUIET;
	*who = i;
	w->late = true;
	return WATCHDOG_LATE;
}

void watchdog_told(struct watchdog *w, const uint64_t *turns, unsigned n, msec now)
{
	memcpy(w->turns, turns, n * sizeof(*turns));
	w->told_ms = now;
	w->late = false;
}

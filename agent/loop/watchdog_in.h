/* watchdog_in.h - whether the threads that answer HAProxy still turn.
 *
 * The service manager restarts the agent if it hears nothing for a while. It must hear something
 * only while requests are answered, so one message needs a turn of every SPOP loop since the last.
 * An idle loop turns four times a second (worker.c), so silence means a thread that hangs. */
#ifndef KVROUTE_LOOP_WATCHDOG_IN_H
#define KVROUTE_LOOP_WATCHDOG_IN_H

#include "agent/base/types.h"

#define WATCHDOG_THREADS	64	/* THREADS_MAX */

struct watchdog {
	msec every_ms;			/* between two messages; 0: off */
	msec told_ms;			/* the last message */
	uint64_t turns[WATCHDOG_THREADS];	/* of each loop at that time */
	bool late;			/* a thread has been reported */
};

enum watchdog_state { WATCHDOG_QUIET, WATCHDOG_TELL, WATCHDOG_LATE };

/* Send four messages in the time <limit_ms> of the manager; 0: none. */
void watchdog_init(struct watchdog *w, msec limit_ms, msec now);

/* Judge the loops by their <turns>, which only grow. Returns TELL if a message is due and all have
 * turned since the last; LATE, once, if one has not for twice the time, with its number in <who>;
 * else QUIET. */
enum watchdog_state watchdog_check(
    struct watchdog *w, const uint64_t *turns, unsigned n, msec now, unsigned *who);

/* The message was sent. */
void watchdog_told(struct watchdog *w, const uint64_t *turns, unsigned n, msec now);

#endif

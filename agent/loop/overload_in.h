/* overload_in.h - how long frames wait for their answer, and which of them waited too long.
 * Pure: times are arguments.
 *
 * The kernel keeps no time for the bytes of a stream. A look at a socket tells how many bytes wait
 * in it, so a byte that waited at a look is at least as old as that look:
 *
 *      ... read |-- waited at 10 ms --|-- waited at 15 ms --|-- not seen yet --
 *               ^ the oldest unread byte waits since 10 ms, or longer
 *
 * An age is never too large. It is too small by the time between two looks at most.
 *
 * HAProxy stops waiting after its "timeout processing", T. A frame that waited
 *      T / 25      is decided without the rules of policy.compare: 2 ms of 50
 *      T / 8       is decided in a hurry, from what is cheap to know: 6 ms of 50
 *      T * 2/5     is answered "overload": 20 ms of 50
 * The rest of T is for what is not seen: the time between two looks, bytes that the sender still
 * had because the socket was full, the way back.
 *
 * A verdict by T / 8 or more holds for all further frames of the connection until it rests, that is
 * until it was seen without bytes to read. A sender may have filled its window, of 20 frames as a
 * rule, and keep what came later to itself: ages are small then however long that waits. Only a pace
 * above the sender's empties its queue, and that is what a verdict brings. The one by T / 25 holds for
 * the thread until that had nothing to do, because it costs no answer anything.
 *
 * What waits in the sender shows if messages say when they were asked for (<asked_ms>). The sender's
 * clock has another zero:
 *
 *      now - asked  |== distance of the clocks ==|== time in the sender, on the way, in the socket ==|
 *
 * The least sum is taken for the distance: the second part is next to nothing then. So that a clock
 * that was set is followed, it grows by an eighth of what is more with each frame while the thread is
 * calm: it had nothing to do OVERLOAD_CALM times, no frame waited since, and no more than OVERLOAD_FEW
 * came between two of these times. A thread that stood still once is not calm, because all that came
 * meanwhile follows. After OVERLOAD_FEW frames without a rest, or one that waited, the second part is
 * the age of that frame; no other frame is refused for it, and the verdict by T * 2/5 does not last. */
#ifndef KVROUTE_LOOP_OVERLOAD_IN_H
#define KVROUTE_LOOP_OVERLOAD_IN_H

#include "agent/serve/serve.h"

#define ARRIVALS_LOOKS	6

/* The bytes of one connection. All zero: none came yet. */
struct arrivals {
	uint64_t read;		/* bytes read so far */
	uint64_t end[ARRIVALS_LOOKS];	/* bytes before it, counted like <read>, waited at <at> */
	usec at[ARRIVALS_LOOKS];	/* oldest first */
	unsigned n;
	usec since;		/* the oldest byte of the last read waited then */
	enum serve_wait wait;	/* the worst verdict since it rested */
	bool dated;		/* <apart> was measured */
	usec apart;		/* our clock less the sender's */
	bool more;		/* bytes were left by the last read */
};

/* Return whether another look is worth its cost: there is none, or the newest is <apart> old. */
bool arrivals_look_due(const struct arrivals *a, usec now, usec apart);

/* Note that <unread> > 0 bytes wait at <at>. */
void arrivals_seen(struct arrivals *a, size_t unread, usec at);

/* Note that <n> bytes were read at <now>; <more> are left. */
void arrivals_read(struct arrivals *a, size_t n, bool more, usec now);

/* Note that no byte waited for a while: the next frame is judged by its own age. */
void arrivals_rest(struct arrivals *a);

/* One thread. */
struct overload {
	usec busy_us, hurry_us, late_us;	/* the three ages */
	usec apart_us;		/* between two looks at one connection */
	unsigned frames;	/* judged since the thread had nothing to do */
	bool busy;		/* one of them was <busy_us> old */
	unsigned calm;		/* times it had nothing to do, since there was a backlog */
};

/* Take the bounds from "timeout processing". */
void overload_bounds(struct overload *o, msec timeout_processing);

/* Note that the thread had nothing to do. */
void overload_rest(struct overload *o);

/* Judge a frame of the last read of <a>, for which the sender asked at <asked> by its own clock, ms, -1
 * if it does not say. Since the thread had nothing to do, the first OVERLOAD_FREE frames are always in
 * time and the first OVERLOAD_FEW are never late. Age alone is no overload: on a busy machine a thread
 * may stand still for long and then have little to do. */
#define OVERLOAD_FREE	4
#define OVERLOAD_FEW	16
#define OVERLOAD_CALM	8
enum serve_wait overload_judge(struct overload *o, struct arrivals *a, usec now, msec asked);

#endif

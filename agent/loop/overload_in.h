/* overload_in.h - how long frames have waited for their answer, and which have waited too long.
 * Pure: times are arguments.
 *
 * The kernel keeps no times for the bytes of a stream. A look at a socket tells how many bytes wait
 * in it, so a byte that waited at a look is at least as old as that look:
 *
 *      ... read |-- waited at 10 ms --|-- waited at 15 ms --|-- not seen yet --
 *               ^ the oldest unread byte has waited since 10 ms, or longer
 *
 * An age is never too large. It is too small by at most the time between two looks.
 *
 * HAProxy stops waiting after its "timeout processing", T. A frame that has waited
 *      T / 25      is decided without the rules of policy.compare: 2 ms of 50
 *      T / 8       is decided in a hurry, from cheap information: 6 ms of 50
 *      T * 2/5     is answered "overload": 20 ms of 50
 * The rest of T covers what cannot be seen: the time between two looks, bytes that the sender keeps
 * because the socket is full, and the way back.
 *
 * A verdict by T / 8 or more holds for all further frames of the connection until it rests, that
 * is, until a look finds no bytes to read. The reason: a sender may have filled its window, usually
 * 20 frames, and keep later requests in its own queue. Their age in the socket is small, however
 * long they wait there. Only a pace above the sender's empties that queue, and the verdict gives
 * that pace. The verdict by T / 25 holds for the thread until it has nothing to do, because it
 * changes no answer.
 *
 * The wait in the sender is visible if messages tell when they were sent (<asked_ms>). The sender's
 * clock has another zero:
 *
 *      now - asked  |== distance of clocks ==|== time in the sender, on the way, in the socket ==|
 *
 * The least sum of the last two periods is taken as the distance, because the second part is then
 * almost zero. A clock may be set, and two clocks drift, so the distance must be able to grow:
 *  - A period lasts 10 s or more. It ends only if the thread was idle for a quarter of 10 s of it,
 *    because then no sender held frames back all the time. Without this condition a long backlog
 *    would be taken for distance, more in each period. A clock that was set is followed within
 *    20 s.
 *  - While the thread is calm, each frame adds an eighth of its excess. Calm means that the thread
 *    had nothing to do OVERLOAD_CALM times, that no frame waited since, and that at most
 *    OVERLOAD_FEW frames came between two of these times. A thread that stood still once is not
 *    calm, because all that came meanwhile follows.
 *
 * After OVERLOAD_FEW frames without a rest, or after a frame that waited, the second part is the
 * age of that frame. No other frame is refused because of it, and the verdict by T * 2/5 does not
 * last. */
#ifndef KVROUTE_LOOP_OVERLOAD_IN_H
#define KVROUTE_LOOP_OVERLOAD_IN_H

#include "agent/serve/serve.h"

#define ARRIVALS_LOOKS	6

/* The bytes of one connection. All zero: none received yet. */
struct arrivals {
	uint64_t read;		/* bytes read so far */
	uint64_t end[ARRIVALS_LOOKS];	/* bytes before this one, counted like <read>, waited at <at> */
	usec at[ARRIVALS_LOOKS];	/* oldest first */
	usec since;		/* the oldest byte of the last read had waited since then */
	usec apart;		/* own clock minus the sender's: the least of this period and the last */
	usec least;		/* the same, of this period only */
	unsigned period;	/* of <overload> when <least> was measured */
	unsigned n;		/* of end[], at[] */
	enum serve_wait wait;	/* the worst verdict since the connection rested */
	bool dated;		/* <apart> was measured */
	bool more;		/* the last read may have left bytes */
};

/* Return true if another look is worth its cost: there is none, or the newest is <apart> old. */
bool arrivals_look_due(const struct arrivals *a, usec now, usec apart);

/* Note that <unread> > 0 bytes wait at <at>. */
void arrivals_seen(struct arrivals *a, size_t unread, usec at);

/* Note that <n> bytes were read at <now>. <more>: some may be left. */
void arrivals_read(struct arrivals *a, size_t n, bool more, usec now);

/* Note that no byte waited for a while. The next frame is judged by its own age. */
void arrivals_rest(struct arrivals *a);

/* One thread. */
struct overload {
	usec busy_us, hurry_us, late_us;	/* the three ages */
	usec apart_us;		/* time between two looks at one connection */
	unsigned frames;	/* judged since the thread had nothing to do */
	bool busy;		/* one of them was <busy_us> old */
	unsigned calm;		/* times it had nothing to do, since there was a backlog */
	unsigned period;	/* counts the periods in which the thread had time to spare */
	usec period_start;
	usec idle_us;		/* since <period_start> */
};

#define OVERLOAD_PERIOD_US	10000000

/* Derive the bounds from "timeout processing". */
void overload_bounds(struct overload *o, msec timeout_processing);

/* Note that the thread had nothing to do for <idle>, until <now>. */
void overload_rest(struct overload *o, usec idle, usec now);

/* Judge a frame of the last read of <a>. <asked> is when the sender sent it, by its own clock in
 * ms, or -1 if unknown. The first OVERLOAD_FREE frames since the thread had nothing to do are
 * always in time, and the first OVERLOAD_FEW are never late. Age alone is no overload, because on a
 * busy machine a thread may stand still for long and then have little to do. */
#define OVERLOAD_FREE	4
#define OVERLOAD_FEW	16
#define OVERLOAD_CALM	8
enum serve_wait overload_judge(struct overload *o, struct arrivals *a, usec now, msec asked);

#endif

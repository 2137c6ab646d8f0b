/* Judges frames by their age.
 *
 * A connection keeps few looks, a quarter of <late_us> apart, so that they reach back to what is
 * late. If there is no room for another look, the next one covers its bytes: then they seem younger
 * than they are, never older. */
#include "agent/loop/overload_in.h"

bool arrivals_look_due(const struct arrivals *a, usec now, usec apart)
{
	return a->n == 0 || (a->n < ARRIVALS_LOOKS && now - a->at[a->n - 1] >= apart);
}

void arrivals_seen(struct arrivals *a, size_t unread, usec at)
{
	uint64_t end = a->read + unread;

	if (a->n == ARRIVALS_LOOKS || (a->n > 0 && end <= a->end[a->n - 1]))
		return;
	a->end[a->n] = end;
	a->at[a->n++] = at;
}

void arrivals_read(struct arrivals *a, size_t n, bool more, usec now)
{
	unsigned gone = 0;

	a->since = a->n > 0 ? a->at[0] : now;
	a->read += n;
	a->more = more;
	while (gone < a->n && (!more || a->end[gone] <= a->read))
		gone++;
	a->n -= gone;
	memmove(a->end, a->end + gone, a->n * sizeof(a->end[0]));
	memmove(a->at, a->at + gone, a->n * sizeof(a->at[0]));
}

void arrivals_rest(struct arrivals *a)
{
	a->wait = SERVE_IN_TIME;
}

void overload_bounds(struct overload *o, msec timeout_processing)
{
	o->busy_us = timeout_processing * 1000 / 25;
	o->hurry_us = timeout_processing * 1000 / 8;
	o->late_us = timeout_processing * 1000 * 2 / 5;
	o->apart_us = o->late_us / 4;
}

/* End the period if it is over. A thread that was busy all the time starts no new one. */
static void end_period(struct overload *o, usec now)
{
	if (now - o->period_start < OVERLOAD_PERIOD_US)
		return;
	if (o->idle_us >= OVERLOAD_PERIOD_US / 4)
		o->period++;
	o->period_start = now;
	o->idle_us = 0;
}

void overload_rest(struct overload *o, usec idle, usec now)
{
	o->idle_us += idle;
	end_period(o, now);
	if (o->busy || o->frames > OVERLOAD_FEW)
		o->calm = 0;
	else if (o->frames > 0 && o->calm < OVERLOAD_CALM)
		o->calm++;
	o->frames = 0;
	o->busy = false;
}

static enum serve_wait by_age(const struct overload *o, usec age)
{
	if (age >= o->late_us)
		return SERVE_LATE;
	if (age >= o->hurry_us)
		return SERVE_HURRY;
	return age >= o->busy_us ? SERVE_BUSY : SERVE_IN_TIME;
}

#define ASKED_MAX	((msec)1 << 50)		/* 35,000 years; in microseconds, sums of it do not overflow */

static bool is_time(msec asked)
{
	return asked >= 0 && asked <= ASKED_MAX;
}

/* Keep the least distance of this period and of the one before. */
static void note_apart(struct arrivals *a, unsigned period, usec apart)
{
	if (!a->dated) {
		a->dated = true;
		a->period = period;
		a->apart = a->least = apart;
	}
	if (a->period != period) {
		a->period = period;
		a->apart = a->least;
		a->least = apart;
	}
	if (apart < a->least)
		a->least = apart;
	if (a->least < a->apart)
		a->apart = a->least;
}

/* Return the verdict by the sender's clock, and update the distance of the clocks. The verdict
 * counts only if there is a backlog: a frame waited since the thread rested, or there were many
 * frames. */
static enum serve_wait by_asked(const struct overload *o, struct arrivals *a, usec now, msec asked)
{
	usec apart;

	if (!is_time(asked))
		return SERVE_IN_TIME;
	apart = now - asked * 1000;
	note_apart(a, o->period, apart);
	if (o->busy || o->frames > OVERLOAD_FEW)
		return by_age(o, apart - a->apart);
	if (o->calm == OVERLOAD_CALM)
		a->least = a->apart += (apart - a->apart) / 8;
	return SERVE_IN_TIME;
}

static enum serve_wait worst(enum serve_wait a, enum serve_wait b)
{
	return a > b ? a : b;
}

/* Return the verdict that lasts for the connection. A verdict that refuses frames does not last if
 * each frame tells its age. */
static enum serve_wait held(const struct arrivals *a, msec asked)
{
	return is_time(asked) && a->wait == SERVE_LATE ? SERVE_HURRY : a->wait;
}

enum serve_wait overload_judge(struct overload *o, struct arrivals *a, usec now, msec asked)
{
	enum serve_wait wait = by_age(o, now - a->since);
	unsigned before = o->frames++;

	o->busy |= wait > SERVE_IN_TIME;
	wait = worst(wait, by_asked(o, a, now, asked));
	o->busy |= wait > SERVE_IN_TIME;
	if (before < OVERLOAD_FREE)
		return SERVE_IN_TIME;
	if (before < OVERLOAD_FEW && wait == SERVE_LATE)
		wait = SERVE_HURRY;
	if (wait >= SERVE_HURRY)
		a->wait = worst(a->wait, wait);
	wait = worst(wait, held(a, asked));
	return wait == SERVE_IN_TIME && o->busy ? SERVE_BUSY : wait;
}

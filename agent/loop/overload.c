/* A connection has few looks, a quarter of <late_us> from each other, so that they reach back to what
 * is late. When there is no room for another, its bytes are dated by a later look: they are taken to
 * be younger, never older. */
#include "agent/loop/overload.h"

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
	o->hurry_us = timeout_processing * 1000 / 8;
	o->late_us = timeout_processing * 1000 * 2 / 5;
	o->apart_us = o->late_us / 4;
}

void overload_rest(struct overload *o)
{
	o->frames = 0;
}

static enum serve_wait by_age(const struct overload *o, usec age)
{
	if (age >= o->late_us)
		return SERVE_LATE;
	return age >= o->hurry_us ? SERVE_HURRY : SERVE_IN_TIME;
}

enum serve_wait overload_judge(struct overload *o, struct arrivals *a, usec now)
{
	enum serve_wait wait = by_age(o, now - a->since);
	unsigned before = o->frames++;

	if (before < OVERLOAD_FREE)
		return SERVE_IN_TIME;
	if (before < OVERLOAD_FEW && wait == SERVE_LATE)
		wait = SERVE_HURRY;
	if (wait > a->wait)
		a->wait = wait;
	return a->wait;
}

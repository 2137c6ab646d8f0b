/* announced.c - two fading sums. */
#include "agent/fleet/announced.h"
#include "agent/fleet/fade.h"

#define KEEP	(63.0 / 64)	/* share of the sums that stays with each request */
#define LEAST	8		/* requests before they count */

void announced_learn(struct announced *a, double announced_s, double came_s, msec now)
{
	double left = KEEP * fade_left(a->at, now), share = 1, most_s = announced_s;

	if (announced_s <= 0)
		return;
	if (came_s < announced_s)
		share = came_s / announced_s;
	if (a->n > 0 && most_s > ANNOUNCED_WEIGHT * a->announced_s / a->n)
		most_s = ANNOUNCED_WEIGHT * a->announced_s / a->n;
	a->announced_s = a->announced_s * left + most_s;
	a->came_s = a->came_s * left + share * most_s;
	a->n = a->n * left + 1;
	a->at = now;
}

double announced_share(const struct announced *a, msec now)
{
	return a->n < LEAST || a->announced_s <= 0 ? 0 :
	    fade_left(a->at, now) * a->came_s / a->announced_s;
}

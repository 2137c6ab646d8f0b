/* penalty.c - one number that decays with time. */
#include <math.h>

#include "agent/fleet/penalty.h"

/* <now> may be a little in the past: threads read their clocks before they take the lock. */
double penalty_now(const struct penalty *p, msec half_life, msec now)
{
	if (p->p == 0 || now <= p->at)
		return p->p;
	return p->p * exp2(-(double)(now - p->at) / (double)half_life);
}

uint32_t penalty_weight(const struct penalty *p, msec half_life, msec now)
{
	return (uint32_t)(penalty_now(p, half_life, now) + 0.5);
}

static void penalty_set(struct penalty *p, double v, msec now)
{
	p->p = v > 0 ? v : 0;
	if (now > p->at)
		p->at = now;
}

static double penalty_most(double busiest)
{
	double v = PENALTY_LEAST + 2 * busiest;

	return v < PENALTY_MAX ? v : PENALTY_MAX;
}

/* A penalty from a busier time is not cut to the present bound; it decays. */
void penalty_failure(struct penalty *p, double w, double busiest, msec half_life, msec sent,
		     msec now)
{
	double v = penalty_now(p, half_life, now), cap = penalty_most(busiest), up;

	if (w <= 0)
		return;
	up = v + (sent >= p->failed ? w * (v + 1) : w);
	penalty_set(p, up < cap ? up : v > cap ? v : cap, now);
	if (now > p->failed)
		p->failed = now;
}

void penalty_success(struct penalty *p, msec half_life, msec sent, msec now)
{
	double v = penalty_now(p, half_life, now);

	if (v > 0)
		penalty_set(p, sent >= p->failed ? v / 2 : v - 1, now);
}

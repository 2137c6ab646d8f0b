#include <math.h>

#include "agent/fleet/penalty.h"

/* Threads read their clocks before they wait for the lock, so <now> may be a little in the past. */
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

static void set(struct penalty *p, double v, msec now)
{
	p->p = v > 0 ? v : 0;
	if (now > p->at)
		p->at = now;
}

static double most(double busiest)
{
	double v = PENALTY_LEAST + 2 * busiest;

	return v < PENALTY_MAX ? v : PENALTY_MAX;
}

/* What was learned while the pool was busier decays, and is not cut. */
void penalty_failure(struct penalty *p, double w, double busiest, msec half_life, msec sent,
		     msec now)
{
	double v = penalty_now(p, half_life, now), cap = most(busiest), up;

	if (w <= 0)
		return;
	up = v + (sent >= p->failed ? w * (v + 1) : w);
	set(p, up < cap ? up : v > cap ? v : cap, now);
	if (now > p->failed)
		p->failed = now;
}

void penalty_success(struct penalty *p, msec half_life, msec sent, msec now)
{
	double v = penalty_now(p, half_life, now);

	if (v > 0)
		set(p, sent >= p->failed ? v / 2 : v - 1, now);
}

/* wait.c - a line by least squares, and the median as a stochastic quantile. The weight of a first
 * token is 1 / its time squared, so that short times count as much as long ones, or 1 / the
 * expected time squared if that is longer. */
#include <math.h>

#include "agent/fleet/wait.h"

#define KEPT		(127.0 / 128)	/* share of the sums that stays with each first token */
#define FAR		4.0		/* times as early or late as expected, at most */
#define STEEPEST	4.0	/* seconds for each of an estimate */
#define FADES		8		/* first tokens after which imagined ones count half */
#define LEAST_S		0.001		/* times are in milliseconds */
#define FORGOTTEN_MS	120000	/* without a first token */
#define STEP_LEAST	0.05		/* of the logarithm of the median */
#define ERROR_LEAST	0.001
#define ERROR_MOST	1000.0

const double wait_bounds[WAIT_BUCKETS] = {
	0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, HUGE_VAL
};

static double within(double v, double low, double high)
{
	return v < low ? low : v > high ? high : v;
}

/* <off_by>: of what its distance from the line counts a share. <share>: of the weight of a first
 * token. */
static void add_point(struct wait_line *l, double x, double y, double off_by, double share)
{
	double w = share / (off_by * off_by);

	l->n += w;
	l->x += w * x;
	l->y += w * y;
	l->xx += w * x * x;
	l->xy += w * x * y;
}

static bool forgotten(const struct wait_line *l, msec now)
{
	return l->known > 0 && now - l->last > FORGOTTEN_MS;
}

static void forget(struct wait_line *l)
{
	l->n = l->x = l->y = l->xx = l->xy = 0;
	l->known = 0;
}

double wait_expected(const struct wait_line *l, double estimate_s, double slowness, msec now)
{
	double share, mean_x, mean_y, spread, slope, s;
	struct wait_line sum = *l;

	if (forgotten(l, now))
		forget(&sum);
	sum.x *= slowness;
	sum.xx *= slowness * slowness;
	sum.xy *= slowness;
	share = 1 / (1 + (double)sum.known / FADES);
	add_point(&sum, 0.1, 0.1, 0.1, share);
	add_point(&sum, 10, 10, 10, share);
	mean_x = sum.x / sum.n;
	mean_y = sum.y / sum.n;
	spread = sum.xx / sum.n - mean_x * mean_x;
	slope = spread > 0 ? (sum.xy / sum.n - mean_x * mean_y) / spread : 1;
	s = mean_y + within(slope, 0, STEEPEST) * (estimate_s - mean_x);
	return within(s, estimate_s / FAR > LEAST_S ? estimate_s / FAR : LEAST_S, HUGE_VAL);
}

static void note_error(struct wait_line *l, double expected_s, double real_s)
{
	double off = within(fabs(expected_s - real_s) / real_s, ERROR_LEAST, ERROR_MOST);
	double step = 1 / (double)l->count > STEP_LEAST ? 1 / (double)l->count : STEP_LEAST;

	if (l->count == 1)
		l->log_error = log(off);
	else
		l->log_error += log(off) > l->log_error ? step : -step;
}

void wait_came(
    struct wait_line *l, double nominal_s, double expected_s, double real_s, msec now)
{
	unsigned b = 0;
	double near_s;

	if (forgotten(l, now))
		forget(l);
	real_s = real_s > LEAST_S ? real_s : LEAST_S;
	while (b + 1 < WAIT_BUCKETS && expected_s > wait_bounds[b] * real_s)
		b++;
	l->bucket[b]++;
	l->count++;
	l->ratios += expected_s / real_s;
	note_error(l, expected_s, real_s);
	l->known++;
	l->last = now;
	l->n *= KEPT;
	l->x *= KEPT;
	l->y *= KEPT;
	l->xx *= KEPT;
	l->xy *= KEPT;
	near_s = within(real_s, expected_s / FAR, expected_s * FAR);
	add_point(l, nominal_s, near_s, near_s > expected_s ? near_s : expected_s, 1);
}

double wait_error(const struct wait_line *l)
{
	return l->count > 0 ? exp(l->log_error) : -1;
}

/* transfer.c - two normal equations. */
#include "agent/fleet/transfer.h"

#define KEPT	(63.0 / 64)	/* share of the sums that stays with each first token */
#define FADES	8		/* first tokens after which imagined ones count half */
#define FAR	8.0		/* none counts as more than so many times what was expected */

static void add_point(
    struct transfer_line *l, double compute_s, double move_s, double took_s, double weight)
{
	weight /= took_s * took_s;
	l->cc += weight * compute_s * compute_s;
	l->cm += weight * compute_s * move_s;
	l->mm += weight * move_s * move_s;
	l->ct += weight * compute_s * took_s;
	l->mt += weight * move_s * took_s;
}

static double within(double v, double least, double most)
{
	return v < least ? least : v > most ? most : v;
}

double transfer_factor(const struct transfer_line *l)
{
	double share = 1 / (1 + (double)l->known / FADES), det;
	struct transfer_line sum = *l;

	add_point(&sum, 1, 0, 1, share);
	add_point(&sum, 0, 1, 1, share);
	det = sum.cc * sum.mm - sum.cm * sum.cm;
	if (det < 1e-9 * sum.cc * sum.mm)
		return 1;
	return within((sum.cc * sum.mt - sum.cm * sum.ct) / det, TRANSFER_FACTOR_MIN, TRANSFER_FACTOR_MAX);
}

void transfer_came(struct transfer_line *l, double compute_s, double move_s, double took_s)
{
	double expected = compute_s + transfer_factor(l) * move_s;

	if (!(compute_s > 0) || !(move_s > 0) || !(took_s > 0))
		return;
	took_s = within(took_s, expected / FAR, expected * FAR);
	l->cc *= KEPT;
	l->cm *= KEPT;
	l->mm *= KEPT;
	l->ct *= KEPT;
	l->mt *= KEPT;
	l->known++;
	add_point(l, compute_s, move_s, took_s, 1);
}

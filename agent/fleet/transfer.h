/* transfer.h - how long it takes to bring a computed prompt from a prefill server to the one that
 * decodes it, learned from first tokens.
 *
 *      first token after  =  a x (seconds to compute)  +  f x (seconds to transfer, as configured)
 *
 * A plane through the last 64 first tokens or so, by relative errors. Only requests count that
 * found the prefill server idle, because a queue would be taken for a slow transfer. Two imagined
 * ones, as configured, count as well, and less the more others are known. f is the factor; a is
 * what the rate of the prefill server (rate.h) says already.
 *
 * Pure arithmetic, O(1). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_TRANSFER_H
#define KVROUTE_FLEET_TRANSFER_H

#include "agent/base/types.h"

#define TRANSFER_FACTOR_MIN	0.1
#define TRANSFER_FACTOR_MAX	10

struct transfer_line {
	double cc, cm, mm, ct, mt;	/* weighted sums of products: compute, move, took */
	uint64_t known;			/* first tokens in them */
};

/* All zeros: nothing is known yet. Returns f, from TRANSFER_FACTOR_MIN to TRANSFER_FACTOR_MAX. */
double transfer_factor(const struct transfer_line *l);

/* The first token came after <took_s>. Ignored if any is not above 0. */
void transfer_came(struct transfer_line *l, double compute_s, double move_s, double took_s);

#endif

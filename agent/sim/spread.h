/* spread.h - one figure over the repeats of a run. */
#ifndef KVROUTE_SIM_SPREAD_H
#define KVROUTE_SIM_SPREAD_H

#include <stddef.h>

struct spread {
	double mean, min, max;
	double se;		/* standard error of the mean: the sample's deviation / sqrt(n); 0 with one value */
};

/* Summarize <n> doubles, the first at <v> and the next ones <step> bytes on. All 0 if <n> is 0.
 * O(n). */
struct spread spread_of(const void *v, size_t n, size_t step);

#endif

/* balance.c - the range of loads for the imbalance guard: absolute and relative, both strict.
 *
 * policy.h describes the guard and why penalties count for the lowest load only. */
#include "agent/policy/rules_in.h"

bool policy_imbalanced(const struct policy_opts *o, uint32_t min, uint32_t max)
{
	return max - min > o->balance_abs_threshold && max > o->balance_rel_threshold * min;
}

void balance_range(const struct candidate *c, size_t n, uint32_t *min, uint32_t *max)
{
	*min = UINT32_MAX;
	*max = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t load = load_with_penalty(&c[i]);

		if (load < *min)
			*min = load;
		if (c[i].load > *max)
			*max = c[i].load;
	}
	if (*max < *min)
		*max = *min;
}

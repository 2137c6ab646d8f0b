/* internal.h - what the rules share; nobody outside of this folder includes it. */
#ifndef KVROUTE_POLICY_INTERNAL_H
#define KVROUTE_POLICY_INTERNAL_H

#include "agent/policy/policy.h"

/* Costs that differ by less are a tie: a nanosecond, far below what any estimate is worth. */
#define COST_TIE_S	1e-9

/* Whether <a> goes before <b> under a rule. Never says so for both. */
typedef bool policy_before(const struct candidate *a, const struct candidate *b);

static inline uint32_t load_with_penalty(const struct candidate *c)
{
	return c->penalty > UINT32_MAX - c->load ? UINT32_MAX : c->load + c->penalty;
}

/* The lower load with its penalty, then the one picked longest ago, then the lower id: a total order. */
policy_before before_by_load;
policy_before before_by_cost;		/* lower cost, ties by load */
policy_before before_by_cached;		/* longer match, ties by load */

/* The best and second best of the candidates with <in> set, -1 where there is none. */
void policy_best_two(const struct candidate *c, size_t n, policy_before *before, int *first,
		     int *second);

/* The lowest load with its penalty, and the highest without, but never lower. <n> > 0. */
void balance_range(const struct candidate *c, size_t n, uint32_t *min, uint32_t *max);

void cost_choose(const struct policy_opts *o, struct candidate *c, size_t n,
		 struct policy_choice *out);
void cache_aware_choose(const struct policy_opts *o, const struct policy_prompt *p,
			struct candidate *c, size_t n, struct policy_choice *out);

#endif

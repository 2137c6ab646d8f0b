/* longest.c - the choice of rules whose own memory has a match and whose limit on load is a share
 * of the mean.
 *
 * rules_in.h describes the function. */
#include "agent/policy/rules_in.h"

static bool load_is_well(const struct rule_job *j, const struct candidate *c)
{
	double sum = 0;

	for (size_t i = 0; i < j->n; i++)
		sum += load_with_penalty(&j->c[i]);
	return sum == 0 || load_with_penalty(c) < j->o->load_factor * sum / (double)j->n;
}

/* Of those that hold as much as the best one, return the one that is met first. */
static int first_met(const struct rule_job *j, int best)
{
	const struct candidate *c = j->c;

	for (size_t i = 0; i < j->n; i++) {
		if (c[i].in && c[i].own == c[best].own &&
		    is_met_before(j->p, &c[i], &c[best], c[i].own))
			best = (int)i;
	}
	return best;
}

void first_longest_where_load_is_well(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	double prompt = (double)j->p->n_pages * j->p->page_tokens;

	policy_best_two(j->c, j->n, before_by_own, &out->first, &out->second);
	out->first = first_met(j, out->first);
	if (j->c[out->first].own > 0 && (double)j->c[out->first].own > j->o->cache_threshold * prompt) {
		out->why = WHY_CACHED;
		if (load_is_well(j, &j->c[out->first])) {
			out->second = -1;	/* the next by load */
			return;
		}
		out->why = WHY_IMBALANCE;
	}
	policy_best_two(j->c, j->n, before_by_load, &out->first, &out->second);
}

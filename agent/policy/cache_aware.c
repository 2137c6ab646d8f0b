/* cache_aware.c - the published two-state rule.
 *
 * Imbalanced: by load alone. Balanced: the longest match wins if it is a large enough part of the
 * prompt, else load. The published match names one holder of a prefix, whatever its load: the one
 * remembered at its node, else any. So of equal holders the one that is first by a hash of the
 * prefix and its name wins here. By load instead, mean times to a first token were a fifth better
 * than the publication's. One difference: if the holder may not be chosen, its requests do not all
 * go to the first server. */
#include "agent/policy/rules_in.h"

bool before_by_cached(const struct candidate *a, const struct candidate *b)
{
	if (a->cached != b->cached)
		return a->cached > b->cached;
	return before_by_load(a, b);
}

static bool match_counts(const struct policy_opts *o, const struct policy_prompt *p)
{
	return p->matched > 0 && p->matched >= o->min_match_tokens &&
		(double)p->matched > o->cache_threshold * (double)p->tokens;
}

/* Pick the one holder of those that hold as much as the best. The next best is second. */
static void one_holder(struct rule_job *j)
{
	const struct candidate *c = j->c;
	int best = j->out->first;

	for (size_t i = 0; i < j->n; i++) {
		if (c[i].in && c[i].cached == c[best].cached &&
		    is_met_before(j->p, &c[i], &c[best], c[i].cached))
			best = (int)i;
	}
	if (best != j->out->first)
		j->out->second = j->out->first;
	j->out->first = best;
}

static void choose(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	bool by_match = !out->imbalanced && match_counts(j->o, j->p);

	policy_best_two(j->c, j->n, by_match ? before_by_cached : before_by_load,
			&out->first, &out->second);
	if (by_match)
		one_holder(j);
	if (out->imbalanced)
		out->why = WHY_IMBALANCE;
	else
		out->why = by_match ? WHY_CACHED : WHY_COLD;
}

static void of_the_library(struct policy_opts *o)
{
	o->cache_threshold = 0.5;
	o->balance_abs_threshold = 32;
	o->balance_rel_threshold = 1.1;
}

const struct rule rule_cache_aware = { .guarded = true, .choose = choose };
const struct rule rule_cache_aware_lib = {
	.guarded = true, .choose = choose, .preset = of_the_library
};

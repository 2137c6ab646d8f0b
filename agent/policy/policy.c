/* policy.c - the order of the rules.
 *
 *   1. nobody to choose from: noserver
 *   2. every candidate gets its cost in seconds, whatever the rule, so that decisions can be compared
 *   3. the guard looks at the loads
 *   4. the rule ranks; the two best are the answer
 *
 * The second choice stands in for a first that is DOWN, so it is looked for outside of the guard's
 * window when the window holds one server only: a busy server beats none. */
#include "agent/policy/internal.h"

const char *why_text(enum why w)
{
	static const char *const text[] = {
#define X(name, word) [WHY_##name] = word,
		WHY_LIST(X)
#undef X
	};

	return (unsigned)w < WHY_COUNT ? text[w] : "unknown";
}

static const char *const rule_text[] = {
#define X(name, word) [RULE_##name] = word,
	POLICY_RULE_LIST(X)
#undef X
};

const char *policy_rule_text(enum policy_rule r)
{
	return (unsigned)r < RULE_COUNT ? rule_text[r] : "unknown";
}

int policy_rule_of(struct span name)
{
	for (int i = 0; i < RULE_COUNT; i++) {
		if (span_eq(name, span_str(rule_text[i])))
			return i;
	}
	return -1;
}

void policy_defaults(struct policy_opts *o)
{
	*o = (struct policy_opts){
		.rule = RULE_COST,
		.balance_abs_threshold = 64,
		.balance_rel_threshold = 1.5,
		.cache_threshold = 0.3,
		.prefill_tokens_per_s = 8000,
		.attention_factor = 1.3e-9,
		.load_ms = 30,
		.sacrifice_min = 1,
		.sacrifice_gain = 3,
		.sacrifice_max = 30,
		.backlog_floor = 0.3,
		.penalty_half_life_ms = 10000,
		.penalty_failure = 1,
		.penalty_429 = 0.5,
	};
}

bool before_by_load(const struct candidate *a, const struct candidate *b)
{
	uint32_t of_a = load_with_penalty(a), of_b = load_with_penalty(b);

	if (of_a != of_b)
		return of_a < of_b;
	if (a->last_pick != b->last_pick)
		return a->last_pick < b->last_pick;
	return a->id < b->id;
}

void policy_best_two(const struct candidate *c, size_t n, policy_before *before, int *first,
		     int *second)
{
	*first = *second = -1;
	for (size_t i = 0; i < n; i++) {
		if (!c[i].in)
			continue;
		if (*first < 0 || before(&c[i], &c[*first])) {
			*second = *first;
			*first = (int)i;
		} else if (*second < 0 || before(&c[i], &c[*second])) {
			*second = (int)i;
		}
	}
}

/* The best of those the guard left out. */
static int best_outside(const struct candidate *c, size_t n, policy_before *before)
{
	int best = -1;

	for (size_t i = 0; i < n; i++) {
		if (!c[i].in && (best < 0 || before(&c[i], &c[best])))
			best = (int)i;
	}
	return best;
}

void policy_choose(const struct policy_opts *o, const struct policy_prompt *p, double pressure,
		   struct candidate *c, size_t n, struct policy_choice *out)
{
	*out = (struct policy_choice){ .first = -1, .second = -1, .why = WHY_NOSERVER };
	out->sacrifice = policy_sacrifice(o, pressure);
	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++) {
		c[i].cost = c[i].backlog_s + c[i].penalty_s +
			o->load_ms / 1000 * load_with_penalty(&c[i]) +
			(1 + out->sacrifice) * policy_prefill_s(o, p->tokens, c[i].cached);
		c[i].in = true;
	}
	balance_range(c, n, &out->min_load, &out->max_load);
	out->imbalanced = policy_imbalanced(o, out->min_load, out->max_load);
	if (o->rule == RULE_CACHE_AWARE)
		cache_aware_choose(o, p, c, n, out);
	else
		cost_choose(o, c, n, out);
	if (out->second < 0)
		out->second = best_outside(c, n, before_by_load);
}

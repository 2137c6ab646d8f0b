/* cost.c - the default rule: the server where this request costs the fleet the least time.
 *
 * Prefill work counts more than once, (1 + a), because it delays later requests and takes cache
 * from others. With a = 0 a request greedily takes the soonest first token. That is right if queues
 * are empty and ruinous if they are not, so a grows with the queues.
 *
 * Work that later requests use too, such as a copy of a system prompt, delays no request in the
 * end. Without that term a popular prefix is never copied while queues grow, because its price
 * grows with them. */
#include "agent/policy/rules_in.h"

double policy_prefill_s(const struct policy_opts *o, uint64_t tokens, uint64_t cached)
{
	double u = tokens > cached ? (double)(tokens - cached) : 0;

	return u / o->prefill_tokens_per_s + o->attention_factor * u * ((double)cached + u / 2);
}

static void tier_add(
    uint64_t tokens, double weight, double per_s, uint64_t *cached, double *load_s)
{
	if (per_s > 0)
		*load_s += (double)tokens / per_s;
	*cached += per_s > 0 ? tokens : (uint64_t)((double)tokens * weight);
}

void policy_tier_credit(const struct policy_opts *o, const uint64_t tokens[POLICY_TIERS],
    uint64_t *cached, double *load_s)
{
	bool timed = o->rule == RULE_COST;

	*cached = tokens[POLICY_DEVICE];
	*load_s = 0;
	tier_add(tokens[POLICY_HOST], o->host_weight, timed ? o->host_tokens_per_s : 0, cached, load_s);
	tier_add(tokens[POLICY_DISK], o->disk_weight, timed ? o->disk_tokens_per_s : 0, cached, load_s);
	tier_add(tokens[POLICY_REMOTE], o->remote_weight, 0, cached, load_s);
}

/* the price does not grow above this share of servers with waiting work */
#define WAITING_MOST	0.98

double policy_sacrifice(const struct policy_opts *o, const struct policy_pressure *p)
{
	double w = p->waiting < WAITING_MOST ? p->waiting : WAITING_MOST;
	double by_waiting = o->sacrifice_firsts * w / (1 - w), by_wait = o->sacrifice_gain * p->wait;
	double a = o->sacrifice_min;

	if (p->firsts)
		a += p->wait * by_waiting;
	else
		a += by_wait < by_waiting ? by_wait : by_waiting;
	return a < o->sacrifice_max ? a : o->sacrifice_max;
}

bool before_by_cost(const struct candidate *a, const struct candidate *b)
{
	double d = a->cost - b->cost;

	return d < -COST_TIE_S || (d < COST_TIE_S && before_by_load(a, b));
}

static void choose(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	int free_first, free_second;

	policy_best_two(j->c, j->n, before_by_cost, &free_first, &free_second);
	if (out->imbalanced) {
		for (size_t i = 0; i < j->n; i++)
			j->c[i].in = load_with_penalty(&j->c[i]) - out->min_load <=
				j->o->balance_abs_threshold;
	}
	policy_best_two(j->c, j->n, before_by_cost, &out->first, &out->second);
	if (out->first != free_first)
		out->why = WHY_IMBALANCE;
	else
		out->why = j->c[out->first].cached > 0 ? WHY_CACHED : WHY_COLD;
}

const struct rule rule_cost = { .guarded = true, .choose = choose };

/* plain.c - rules that need no prompt: the baseline for all others.
 *
 *   least_conn     the lowest load, as HAProxy's leastconn
 *   power_of_two   the less loaded of two random servers (Mitzenmacher 2001)
 *   round_robin    the one picked longest ago
 *   random         any, with equal chances
 *
 * A failing server is idle and would win by load, so its penalty counts as load here too. Rules
 * that ignore loads leave failures to HAProxy's checks, as their authors do. */
#include "agent/policy/rules_in.h"

bool before_by_load(const struct candidate *a, const struct candidate *b)
{
	uint32_t of_a = load_with_penalty(a), of_b = load_with_penalty(b);

	if (of_a != of_b)
		return of_a < of_b;
	if (a->last_pick != b->last_pick)
		return a->last_pick < b->last_pick;
	return a->id < b->id;
}

static void least_conn(void *m, struct rule_job *j)
{
	policy_best_two(j->c, j->n, before_by_load, &j->out->first, &j->out->second);
}

/* The second is drawn from the others, so two are compared whenever there are two. */
static void power_of_two(void *m, struct rule_job *j)
{
	uint32_t a = rng_below(j->rng, (uint32_t)j->n), b;

	j->out->first = (int)a;
	if (j->n == 1)
		return;
	b = rng_below(j->rng, (uint32_t)j->n - 1);
	b += b >= a;
	j->out->first = (int)(before_by_load(&j->c[a], &j->c[b]) ? a : b);
	j->out->second = (int)(a + b) - j->out->first;
}

static bool before_by_turn(const struct candidate *a, const struct candidate *b)
{
	return a->last_pick != b->last_pick ? a->last_pick < b->last_pick : a->id < b->id;
}

static void round_robin(void *m, struct rule_job *j)
{
	policy_best_two(j->c, j->n, before_by_turn, &j->out->first, &j->out->second);
}

static void by_chance(void *m, struct rule_job *j)
{
	j->out->first = (int)rng_below(j->rng, (uint32_t)j->n);
}

const struct rule rule_least_conn = { .choose = least_conn };
const struct rule rule_power_of_two = { .choose = power_of_two };
const struct rule rule_round_robin = { .choose = round_robin };
const struct rule rule_random = { .choose = by_chance };

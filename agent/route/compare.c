/* compare.c - each compared rule makes the choice on a copy of the candidates. */
#include "agent/base/mem.h"
#include "agent/route/compare_in.h"

struct compared {
	struct policy_opts o;
	struct policy_memory *memory;
	uint64_t choices, same, hit_tokens;
	double regret_s;
	struct outcome_rule outcome;
};

struct compare {
	unsigned n;
	struct compared of[COMPARE_MAX];
	struct outcomes *outcomes;	/* NULL: no memory, and none is judged */
	struct rng rng;		/* separate, so that comparing does not change the deciding rule's choices */
};

/* ---- options ------------------------------------------------------------------------------- */

/* Move counters and memory of the same rule from <old>, if it has it; else start new ones. */
static void keep_or_make(
    struct compared *to, struct compare *old, const struct policy_opts *pool, enum policy_rule rule)
{
	to->o = *pool;
	policy_preset(&to->o, rule);
	for (unsigned i = 0; old != NULL && i < old->n; i++) {
		struct compared *c = &old->of[i];

		if (c->o.rule != rule)
			continue;
		to->choices = c->choices;
		to->same = c->same;
		to->hit_tokens = c->hit_tokens;
		to->regret_s = c->regret_s;
		to->outcome = c->outcome;
		if (c->o.rule_max_bytes != to->o.rule_max_bytes)
			continue;
		to->memory = c->memory;
		c->memory = NULL;
	}
	if (to->memory == NULL)
		to->memory = policy_memory_new(&to->o);
}

/* If there is no memory, nothing is compared. */
void compare_take(struct compare **c, const struct pool_opts *o)
{
	struct compare *old = *c, *next = o->compare[0] != 0 ? mem_alloc(sizeof(*next)) : NULL;

	for (unsigned i = 0; next != NULL && i < COMPARE_MAX && o->compare[i] != 0; i++)
		keep_or_make(&next->of[next->n++], old, &o->policy, (enum policy_rule)(o->compare[i] - 1));
	if (next != NULL)
		rng_init(&next->rng, 1);
	if (next != NULL && old != NULL) {
		next->outcomes = old->outcomes;
		old->outcomes = NULL;
		outcomes_forget(next->outcomes);
	} else if (next != NULL) {
		next->outcomes = outcomes_new();
	}
	compare_free(old);
	*c = next;
}

void compare_free(struct compare *c)
{
	if (c == NULL)
		return;
	for (unsigned i = 0; i < c->n; i++)
		policy_memory_free(c->of[i].memory);
	outcomes_free(c->outcomes);
	mem_free(c);
}

bool compare_wants_body(const struct compare *c)
{
	for (unsigned i = 0; c != NULL && i < c->n; i++)
		if (policy_wants_body(c->of[i].o.rule))
			return true;
	return false;
}

bool compare_wants_answers(const struct compare *c)
{
	for (unsigned i = 0; c != NULL && i < c->n; i++)
		if (policy_wants_answers(c->of[i].o.rule))
			return true;
	return false;
}

/* ---- one request --------------------------------------------------------------------------- */

void compare_match(struct compare *c, pthread_mutex_t *lock, const struct policy_prompt *p,
    msec now, struct compare_scratch *s)
{
	s->n = 0;
	if (c == NULL)
		return;
	pthread_mutex_lock(lock);
	for (unsigned i = 0; i < c->n; i++)
		s->has_own[i] = policy_match(c->of[i].memory, &c->of[i].o, p, now, s->own[i]);
	pthread_mutex_unlock(lock);
}

double compare_least(const struct candidate *c, size_t n)
{
	double least = n > 0 ? c[0].cost : 0;

	for (size_t i = 1; i < n; i++)
		if (c[i].cost < least)
			least = c[i].cost;
	return least;
}

static const struct candidate *candidate_of(const struct candidate *c, size_t n, server_id id)
{
	for (size_t i = 0; i < n; i++)
		if (c[i].id == id)
			return &c[i];
	return NULL;
}

static void copy_candidates(
    struct compare_scratch *s, unsigned i, const struct candidate *from, size_t n)
{
	memcpy(s->candidates, from, n * sizeof(*from));
	for (size_t k = 0; k < n; k++)
		s->candidates[k].own = s->has_own[i] ? s->own[i][from[k].id] : 0;
}

static void note_choice(struct compared *c, const struct candidate *its,
    const struct policy_prompt *p, double least, server_id chosen, struct decision_compared *out)
{
	double regret = its->cost > least ? its->cost - least : 0;
	uint64_t hit = its->cached < p->tokens ? its->cached : p->tokens;

	c->choices++;
	c->same += its->id == chosen;
	c->hit_tokens += hit;
	c->regret_s += regret;
	*out = (struct decision_compared){
		.rule = c->o.rule, .server = { its->id, (uint32_t)its->name },
		.cached = (uint32_t)hit, .regret_s = (float)regret,
	};
}

/* Estimate the first token. Costs charged for other requests' sake are not in it. */
static struct outcome_guess guess_of(
    const struct policy_opts *o, const struct policy_prompt *p, const struct candidate *c)
{
	return (struct outcome_guess){
		.at = c->id,
		.waits = c->backlog_s > 0,
		.s = (float)(c->backlog_s + c->adapter_s + c->kv_s + c->load_s +
		    c->slowness * policy_prefill_s(o, p->tokens, c->cached)),
	};
}

void compare_choose(struct compare *c, const struct policy_prompt *p,
    const struct policy_pressure *pressure, const struct compare_choice *made,
    struct compare_scratch *s)
{
	const struct candidate *from = made->from, *its;
	struct outcome_guess taken, guess[COMPARE_MAX];
	struct policy_choice choice;
	double least = compare_least(from, made->n);

	s->n = 0;
	for (unsigned i = 0; c != NULL && i < c->n; i++) {
		struct compared *one = &c->of[i];

		copy_candidates(s, i, from, made->n);
		policy_choose(&one->o, one->memory, p, pressure, &c->rng, s->candidates, made->n, &choice);
		guess[i] = (struct outcome_guess){ .at = SERVER_NONE };
		if (choice.first < 0)
			continue;
		its = candidate_of(from, made->n, s->candidates[choice.first].id);
		guess[i] = guess_of(&one->o, p, its);
		note_choice(one, its, p, least, made->chosen, &s->out[s->n++]);
	}
	if (c == NULL || made->untimed || (its = candidate_of(from, made->n, made->chosen)) == NULL)
		return;
	taken = guess_of(&c->of[0].o, p, its);
	outcomes_expect(c->outcomes, made->uid, made->now, &taken, guess, c->n);
}

void compare_came(struct compare *c, uint64_t uid, server_id at, msec now, int64_t took_ms)
{
	struct outcome_rule *rule[COMPARE_MAX];

	if (c == NULL)
		return;
	for (unsigned i = 0; i < c->n; i++)
		rule[i] = &c->of[i].outcome;
	outcomes_came(c->outcomes, uid, at, now, took_ms, rule, c->n);
}

/* ---- its memory ---------------------------------------------------------------------------- */

void compare_sent(
    struct compare *c, pthread_mutex_t *lock, const struct policy_prompt *p, server_id to, msec now)
{
	if (c == NULL)
		return;
	pthread_mutex_lock(lock);
	for (unsigned i = 0; i < c->n; i++)
		policy_sent(c->of[i].memory, &c->of[i].o, p, to, now);
	pthread_mutex_unlock(lock);
}

void compare_answered(struct compare *c, server_id at, uint64_t uncached_tokens, msec took)
{
	for (unsigned i = 0; c != NULL && i < c->n; i++)
		policy_answered(c->of[i].memory, at, uncached_tokens, took);
}

void compare_room(struct compare *c, server_id id, uint64_t tokens)
{
	for (unsigned i = 0; c != NULL && i < c->n; i++)
		policy_room(c->of[i].memory, id, tokens);
}

void compare_gone(struct compare *c, server_id id)
{
	if (c != NULL)
		outcomes_gone(c->outcomes, id);
	for (unsigned i = 0; c != NULL && i < c->n; i++)
		policy_gone(c->of[i].memory, id);
}

bool compare_view(const struct compare *c, unsigned i, struct route_compare_view *v)
{
	if (c == NULL || i >= c->n)
		return false;
	*v = (struct route_compare_view){
		.rule = policy_rule_text(c->of[i].o.rule),
		.choices = c->of[i].choices,
		.same = c->of[i].same,
		.hit_tokens = c->of[i].hit_tokens,
		.regret_s = c->of[i].regret_s,
		.same_as = c->of[i].outcome.same,
		.other = c->of[i].outcome.other,
		.checked = outcomes_checked(c->outcomes),
	};
	v->gain_known = outcomes_gain(c->outcomes, &c->of[i].outcome, &v->gain_s, &v->gain_error_s);
	return true;
}

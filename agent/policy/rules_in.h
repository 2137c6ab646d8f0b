/* rules_in.h - what the rules share; private to this folder.
 *
 * A rule is a struct of functions. policy.c prepares the candidates and calls choose() of the rule,
 * which sets the first choice, the second choice and why. */
#ifndef KVROUTE_POLICY_RULES_IN_H
#define KVROUTE_POLICY_RULES_IN_H

#include "agent/policy/policy.h"

/* Costs that differ by less are a tie: a nanosecond, far below the error of any estimate. */
#define COST_TIE_S	1e-9

/* ---- what a rule is ---- */

/* One choice. All candidates are <in> for a rule without guard. */
struct rule_job {
	const struct policy_opts *o;
	const struct policy_prompt *p;
	struct candidate *c;
	size_t n;			/* > 0, <= SERVERS_MAX */
	struct rng *rng;
	struct policy_choice *out;	/* the rule sets first, second and why; policy.c the rest */
};

/* If a rule sets no second choice, it gets the next by load. Functions other than choose() may be
 * NULL. <m> is the result of memory_new(), or NULL if there was no memory. */
struct rule {
	bool guarded;			/* policy_choose() applies the guard first */
	bool wants_body;
	void (*preset)(struct policy_opts *o);	/* its authors' defaults, over policy_defaults() */
	void (*choose)(void *m, struct rule_job *j);

	void *(*memory_new)(const struct policy_opts *o);	/* respects o->rule_max_bytes */
	void (*memory_free)(void *m);
	void (*match)(void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now,
		      uint32_t *tokens);	/* by server id; all 0 before */
	void (*sent)(void *m, const struct policy_opts *o, const struct policy_prompt *p, server_id to,
		     msec now);
	void (*answered)(void *m, server_id at, uint64_t uncached_tokens, msec took);
	void (*room)(void *m, server_id id, uint64_t tokens);	/* room in its cache; 0: unknown */
	void (*gone)(void *m, server_id id);
};

/* rule_cost, rule_cache_aware, ...: each in the file of its name or of its family. */
#define X(name, word) extern const struct rule rule_##word;
POLICY_RULE_LIST(X)
#undef X

/* ---- order of candidates ---- */

/* Return whether <a> goes before <b>. Never true for both orders. */
typedef bool policy_before(const struct candidate *a, const struct candidate *b);

static inline uint32_t load_with_penalty(const struct candidate *c)
{
	return c->penalty > UINT32_MAX - c->load ? UINT32_MAX : c->load + c->penalty;
}

/* Lower load with penalty, then the one picked longest ago, then the lower id: a total order. */
policy_before before_by_load;
policy_before before_by_cost;		/* lower cost, ties by load */
policy_before before_by_cached;		/* longer match, ties by load */
policy_before before_by_own;		/* longer match in the rule's own memory, ties by load */

/* Find the best and second best of the candidates with <in> set; -1 if there is none. */
void policy_best_two(const struct candidate *c, size_t n, policy_before *before, int *first,
		     int *second);

/* Find the two with the highest <score>; equals are drawn with equal chances. */
void policy_highest_two(struct rule_job *j, const double *score);

/* The two smallest numbers so far; the first of equals stays. Start with NEAREST_NONE. */
struct nearest {
	int first, second;
	uint64_t of_first, of_second;
};

#define NEAREST_NONE	((struct nearest){ .first = -1, .second = -1 })

static inline void nearest_take(struct nearest *n, size_t i, uint64_t far)
{
	if (n->first < 0 || far < n->of_first) {
		n->second = n->first;
		n->of_second = n->of_first;
		n->first = (int)i;
		n->of_first = far;
	} else if (n->second < 0 || far < n->of_second) {
		n->second = (int)i;
		n->of_second = far;
	}
}

/* A choose(): take the longest match in the rule's own memory if it is more than cache_threshold of
 * the prompt and the load of its server is below load_factor times the mean. Otherwise take the
 * lowest load. Of equal holders the one that was met first counts, as its authors do. */
void first_longest_where_load_is_well(void *m, struct rule_job *j);

/* Compute the lowest load with penalty, and the highest without, but at least the lowest. <n> >
 * 0. */
void balance_range(const struct candidate *c, size_t n, uint32_t *min, uint32_t *max);

/* Chain one more keyed hash to <h>: the order matters. */
static inline uint64_t chain(uint64_t h, uint64_t next)
{
	__uint128_t m = (__uint128_t)(h ^ 0x9e3779b97f4a7c15ull) * (next ^ 0xd6e8feb86659fd93ull);

	return (uint64_t)m ^ (uint64_t)(m >> 64) ^ next;
}

/* Mix all bits of a hash, for numbers that are close to each other. */
static inline uint64_t scatter(uint64_t h)
{
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	return h ^ h >> 31;
}

/* Return the distance by highest random weight (Thaler and Ravishankar 1998): the nearest server
 * has a key. */
static inline uint64_t rendezvous_far(uint64_t key, const struct candidate *c)
{
	return scatter(chain(key, c->name));
}

/* Return how far <c>, which holds <tokens> of the prompt, is from being its one holder: for rules
 * whose authors keep one holder of a prefix, or take the first that they meet. Of equal holders the
 * same one is always nearest for a prefix. Returns 0 for all, so that ties go by load, if no page
 * of the prompt was seen. */
static inline uint64_t holder_far(
    const struct policy_prompt *p, const struct candidate *c, uint64_t tokens)
{
	uint64_t depth = p->page_tokens > 0 ? tokens / p->page_tokens : 0;

	if (depth > p->n_pages)
		depth = p->n_pages;
	return depth > 0 ? rendezvous_far(chain(p->space, p->pages[depth - 1]), c) : 0;
}

/* Return whether <a> is the one of two that hold <tokens> each: only <a> has no penalty, or neither
 * has one and it is nearer, or both have one and it goes before <b> by load. */
static inline bool is_met_before(const struct policy_prompt *p, const struct candidate *a,
				 const struct candidate *b, uint64_t tokens)
{
	if (a->penalty > 0 && b->penalty > 0)
		return before_by_load(a, b);
	if (a->penalty > 0 || b->penalty > 0)
		return a->penalty == 0;
	return holder_far(p, a, tokens) < holder_far(p, b, tokens);
}

#endif

/* internal.h - what the rules share; nobody outside of this folder includes it. */
#ifndef KVROUTE_POLICY_INTERNAL_H
#define KVROUTE_POLICY_INTERNAL_H

#include "agent/policy/policy.h"

/* Costs that differ by less are a tie: a nanosecond, far below what any estimate is worth. */
#define COST_TIE_S	1e-9

/* ---- what a rule is ----------------------------------------------------------------------- */

/* One choice. The candidates are all <in> when a rule without guard gets them. */
struct rule_job {
	const struct policy_opts *o;
	const struct policy_prompt *p;
	struct candidate *c;
	size_t n;			/* > 0, <= SERVERS_MAX */
	struct rng *rng;
	struct policy_choice *out;	/* first, second, why are the rule's to set; the rest is there */
};

/* A rule that sets no second choice gets the one that goes next by load. Functions may be NULL but for
 * choose(); <m> is what memory_new() gave, or NULL where it found no memory. */
struct rule {
	bool guarded;			/* policy_choose() looks at the loads for it */
	bool wants_body;
	void (*preset)(struct policy_opts *o);	/* its authors' defaults, over those of policy_defaults() */
	void (*choose)(void *m, struct rule_job *j);

	void *(*memory_new)(const struct policy_opts *o);	/* keeps to o->rule_max_bytes by itself */
	void (*memory_free)(void *m);
	size_t (*memory_bytes)(const void *m);
	void (*match)(void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now,
		      uint32_t *tokens);	/* by server id; all 0 before */
	void (*sent)(void *m, const struct policy_opts *o, const struct policy_prompt *p, server_id to,
		     msec now);
	void (*answered)(void *m, server_id at, uint64_t uncached_tokens, msec took);
	void (*room)(void *m, server_id id, uint64_t tokens);	/* its cache has; 0: not known any more */
	void (*gone)(void *m, server_id id);
};

/* rule_cost, rule_cache_aware, ...: each in the file of its name, or of its family. */
#define X(name, word) extern const struct rule rule_##word;
POLICY_RULE_LIST(X)
#undef X

/* ---- order of candidates -------------------------------------------------------------------- */

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
policy_before before_by_own;		/* longer match in the rule's own memory, ties by load */

/* The best and second best of the candidates with <in> set, -1 where there is none. */
void policy_best_two(const struct candidate *c, size_t n, policy_before *before, int *first,
		     int *second);

/* The same by a number that the rule has made for each candidate; of equals any, each as likely. */
void policy_highest_two(struct rule_job *j, const double *score);

/* The two with the smallest numbers, taken one by one; the first of equals stays. Start with NEAREST_NONE. */
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

/* The lowest load with its penalty, and the highest without, but never lower. <n> > 0. */
void balance_range(const struct candidate *c, size_t n, uint32_t *min, uint32_t *max);

/* Hashes that are keyed already, one more into a chain: order matters. */
static inline uint64_t chain(uint64_t h, uint64_t next)
{
	__uint128_t m = (__uint128_t)(h ^ 0x9e3779b97f4a7c15ull) * (next ^ 0xd6e8feb86659fd93ull);

	return (uint64_t)m ^ (uint64_t)(m >> 64) ^ next;
}

/* All of a hash's bits into all others: for numbers that are near each other. */
static inline uint64_t scatter(uint64_t h)
{
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	return h ^ h >> 31;
}

/* Highest random weight (Thaler and Ravishankar 1998), as a distance: the nearest server has a key. */
static inline uint64_t rendezvous_far(uint64_t key, const struct candidate *c)
{
	return scatter(chain(key, c->name));
}

/* Where authors keep one holder of a prefix, or take the first that they meet: how far <c>, which holds <tokens> of the
 * prompt, is from being that one. Of equal holders the nearest is always the same for one prefix, and another for
 * another. 0 for all, so that ties go by load, if no page of the prompt was seen. */
static inline uint64_t holder_far(const struct policy_prompt *p, const struct candidate *c, uint64_t tokens)
{
	uint64_t depth = p->page_tokens > 0 ? tokens / p->page_tokens : 0;

	if (depth > p->n_pages)
		depth = p->n_pages;
	return depth > 0 ? rendezvous_far(chain(p->space, p->pages[depth - 1]), c) : 0;
}

/* Whether of two that hold <tokens> each <a> is the one: it alone does not fail; or none of them does
 * and it is nearer; or both do, and it goes next by load. */
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

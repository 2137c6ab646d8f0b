/* policy.h - candidates in, ranked choice and why out. No clock, no lock, no state but what is
 * handed in; chance and the order of ties come in as arguments.
 *
 * A candidate is a server that is up with weight; the caller left out the others. Rules:
 *
 *   cost         argmin  wait + (1 + a) * prefill(uncached) + g * load          (default)
 *                wait      seconds of prefill sent there and not yet answered
 *                prefill   seconds to compute what is not cached: linear, plus attention's square
 *                a         the sacrifice factor: 1 + 3 x smoothed(mean wait / mean work), at most 30.
 *                          0 is greed: near the oracle when idle, bad in overload
 *                g         30 ms a request open there: decode is the limit for long answers
 *                          a server's penalty is so many more requests, to wait and load both
 *   cache_aware  imbalanced: least loaded. Otherwise, if matched / prompt length > cache_threshold
 *                and matched >= min_match_tokens: the longest holder, ties by load; else least loaded
 *
 *   The guard, for both: imbalanced if and only if max - min > balance_abs_threshold and
 *   max > balance_rel_threshold x min, over the candidates' loads; both strictly. While it is
 *   tripped, cost only looks at candidates with load <= min + balance_abs_threshold. A penalty is
 *   added to a load where min is concerned, and what lies above it, but never to max: a server that
 *   is idle because it fails neither trips the guard, nor is it the one that all others must be near.
 *
 * Ties go to the lower load, then to the server picked longest ago: never all to the first.
 *
 * Sources: the cost rule and its constants were found by simulation over three traces and 19 fleets
 * (mean time to first token 1.14 x the best greedy oracle with a first-token report, 1.17 x with an
 * end-of-stream report only; the best published rule 1.53 x); cache_aware is the published rule of
 * the SGLang and Shepherd gateways with their command line's defaults. */
#ifndef KVROUTE_POLICY_POLICY_H
#define KVROUTE_POLICY_POLICY_H

#include "agent/base/types.h"

#define POLICY_RULE_LIST(X) \
	X(COST,		"cost") \
	X(CACHE_AWARE,	"cache_aware")

enum policy_rule {
#define X(name, text) RULE_##name,
	POLICY_RULE_LIST(X)
#undef X
	RULE_COUNT
};

#define WHY_LIST(X) \
	X(CACHED,	"cached")	/* a server that holds a part of the prompt */ \
	X(COLD,		"cold")		/* nobody worth it holds any: by load alone */ \
	X(IMBALANCE,	"imbalance")	/* the guard changed the choice */ \
	X(STICKY,	"sticky")	/* by session or hash, for rules that do so */ \
	X(HEADLESS,	"headless")	/* cut body of an unknown model: matched in its pool's own space */ \
	X(NOPROMPT,	"noprompt")	/* no server set: JSON, but nothing in it that is a prompt */ \
	X(BADBODY,	"badbody")	/* no server set: not JSON */ \
	X(NOLOAD,	"noload")	/* no server set: no load, so no list of servers */ \
	X(NOSERVER,	"noserver")	/* no server set: none is up with weight */ \
	X(SHADOW,	"shadow")	/* no server set: decided, but told not to act */ \
	X(OVERLOAD,	"overload")	/* no server set: too busy to look */

enum why {
#define X(name, text) WHY_##name,
	WHY_LIST(X)
#undef X
	WHY_COUNT
};

const char *why_text(enum why w);
const char *policy_rule_text(enum policy_rule r);
int policy_rule_of(struct span name);		/* -1: no such rule */

struct policy_opts {
	enum policy_rule rule;
	uint32_t balance_abs_threshold;		/* requests; default 64 */
	double balance_rel_threshold;		/* default 1.5 */
	double cache_threshold;			/* of the prompt, 0 .. 1; default 0.3 */
	uint32_t min_match_tokens;		/* default 0 */
	double prefill_tokens_per_s;		/* of one server; erring slow is safe; default 8000 */
	double attention_factor;		/* s per token^2: c in b*u + c*u*(cached + u/2); 1.3e-9 */
	double load_ms;				/* g; default 30 */
	double sacrifice_min, sacrifice_gain, sacrifice_max;	/* 1, 3, 30 */
	double backlog_floor;			/* share of unfinished work that counts as wait, without a
						 * first-token report; default 0.3 */
	msec penalty_half_life_ms;		/* default 10000 */
	double penalty_failure;			/* requests that a failure weighs; default 1 */
	double penalty_429;			/* the same for an answer of 429; default 0.5 */
};

void policy_defaults(struct policy_opts *o);

struct candidate {
	server_id id;
	uint32_t load;		/* max(conn + queue as HAProxy sees them, our own open requests) */
	double backlog_s;	/* wait: seconds of prefill sent there and not answered yet */
	uint64_t cached;	/* tokens of this prompt expected in its cache */
	uint32_t penalty;	/* requests that have failed there, and weigh as if they were open */
	double penalty_s;	/* the same as seconds of prefill */
	uint64_t last_pick;	/* when it was picked last, as a count of picks: for ties */
	/* out: */
	double cost;		/* seconds by the cost rule; set for every rule, for the trace */
	bool in;		/* within the guard's window */
};

struct policy_prompt {
	uint64_t tokens;	/* unaligned length, the unseen rest of a cut body with it */
	uint64_t matched;	/* the longest match of any candidate, in tokens */
};

struct policy_choice {
	int first, second;	/* index of the candidate; -1: none */
	bool imbalanced;	/* the guard was tripped */
	enum why why;		/* CACHED, COLD or IMBALANCE; NOSERVER when n is 0 */
	uint32_t min_load, max_load;	/* as the guard sees them: min with penalties, max >= min */
	double sacrifice;	/* a, as used */
};

/* Seconds to prefill <tokens> of which <cached> need not be. */
double policy_prefill_s(const struct policy_opts *o, uint64_t tokens, uint64_t cached);

/* a for a smoothed ratio of mean wait to mean work. */
double policy_sacrifice(const struct policy_opts *o, double pressure);

bool policy_imbalanced(const struct policy_opts *o, uint32_t min, uint32_t max);

/* Choose among <n> candidates. O(n). <pressure>: see policy_sacrifice(). */
void policy_choose(const struct policy_opts *o, const struct policy_prompt *p, double pressure,
		   struct candidate *c, size_t n, struct policy_choice *out);

#endif

/* compare.h - rules that are asked beside the one that acts: where would this one have sent it, and what
 * would that have cost by our own estimate?
 *
 * What a compared rule sees is the world that the acting rule made: its loads, its waits, its caches. Only this
 * one choice is its own; its memory, where it has one, is told of the acting rule's choice, in shadow mode too. So
 * the figures say how often and how dearly two rules differ at one step, not what a day under the other rule
 * would have been: that is what a simulation is for.
 *
 * Its options are the pool's with the rule's preset over them. Regret is the cost of its server less the
 * least cost over all candidates, in seconds, as the pool's own options have it: the same yardstick for all. That is
 * an estimate of the rule that acts, which it judges itself by; what first tokens then really took is held against it,
 * and against the others' choices, in outcomes.h.
 *
 * Not locked: <lock> of its functions is the pool's rule lock, which guards the memories while a prompt is looked up or
 * entered. Counters and the choice, which looks at no prompt, are under the route's alone, or a long prompt in a
 * memory would hold up all choices. */
#ifndef KVROUTE_ROUTE_COMPARE_IN_H
#define KVROUTE_ROUTE_COMPARE_IN_H

#include <pthread.h>

#include "agent/route/decisions.h"
#include "agent/route/outcomes.h"
#include "agent/route/route.h"

/* Of one pool; NULL compares nothing. */
struct compare;

/* What one request is compared by; belongs to a thread. */
struct compare_scratch {
	bool has_own[COMPARE_MAX];
	uint32_t own[COMPARE_MAX][SERVERS_MAX];
	struct candidate candidates[SERVERS_MAX];
	struct decision_compared out[COMPARE_MAX];
	uint32_t n;			/* of <out> */
};

/* Make <*c> what <o> asks for. A rule that stays keeps its memory and its counters. */
void compare_take(struct compare **c, const struct pool_opts *o);
void compare_free(struct compare *c);

bool compare_wants_body(const struct compare *c);
bool compare_wants_answers(const struct compare *c);

/* Before the choice, without the route's lock. */
void compare_match(struct compare *c, pthread_mutex_t *lock, const struct policy_prompt *p, msec now,
		   struct compare_scratch *s);

/* One choice: of whom, when, and what was chosen of which candidates, whose costs are set. */
struct compare_choice {
	uint64_t uid;
	msec now;
	const struct candidate *from;
	size_t n;
	server_id chosen;
};

/* After the choice. */
void compare_choose(struct compare *c, const struct policy_prompt *p, const struct policy_pressure *pressure,
		    const struct compare_choice *made, struct compare_scratch *s);

/* The first token of <uid> came from <at>, <took_ms> after it was sent there; -1: until <now>. */
void compare_came(struct compare *c, uint64_t uid, server_id at, msec now, int64_t took_ms);

/* As policy.h has them; the last three with the rule lock held. */
void compare_sent(struct compare *c, pthread_mutex_t *lock, const struct policy_prompt *p, server_id to,
		  msec now);
void compare_answered(struct compare *c, server_id at, uint64_t uncached_tokens, msec took);
void compare_room(struct compare *c, server_id id, uint64_t tokens);
void compare_gone(struct compare *c, server_id id);

/* The <i>-th rule. False: there are no more. */
bool compare_view(const struct compare *c, unsigned i, struct route_compare_view *v);

/* The least cost there is. */
double compare_least(const struct candidate *c, size_t n);

#endif

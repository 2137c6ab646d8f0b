/* compare_in.h - rules that are compared with the one that decides: which server each would have
 * chosen, and what that would have cost by our own estimate.
 *
 * A compared rule sees the world that the deciding rule made: its loads, waits and caches. Only
 * this one choice is its own; its memory, if it has one, is told the deciding rule's choice, in
 * shadow mode too. So the figures say how often and by how much two rules differ at one step. They
 * do not say what a day under the other rule would have been; that needs a simulation.
 *
 * Its options are the pool's with the rule's preset over them. Regret is the cost of its server
 * less the least cost of all candidates, in seconds, by the pool's own options: the same measure
 * for all rules. That estimate is the deciding rule's own, so measured first tokens are compared
 * with it, and with the other rules' choices: see outcomes.h.
 *
 * Not locked. The argument <lock> is the pool's rule lock, which guards the memories while a prompt
 * is looked up or entered. Counters and choices look at no prompt and are under the route's lock
 * alone; otherwise a long prompt in a memory would delay all choices. */
#ifndef KVROUTE_ROUTE_COMPARE_IN_H
#define KVROUTE_ROUTE_COMPARE_IN_H

#include <pthread.h>

#include "agent/route/decisions.h"
#include "agent/route/outcomes.h"
#include "agent/route/route.h"

/* The rules of one pool; NULL compares nothing. */
struct compare;

/* Memory of one thread for one request. */
struct compare_scratch {
	bool has_own[COMPARE_MAX];
	uint32_t own[COMPARE_MAX][SERVERS_MAX];
	struct candidate candidates[SERVERS_MAX];
	struct decision_compared out[COMPARE_MAX];
	uint32_t n;			/* of <out> */
};

/* Change <*c> to the rules in <o>. A rule that stays keeps its memory and its counters. */
void compare_take(struct compare **c, const struct pool_opts *o);
void compare_free(struct compare *c);

bool compare_wants_body(const struct compare *c);
bool compare_wants_answers(const struct compare *c);

/* Look the prompt up. To be called before the choice, without the route's lock. */
void compare_match(struct compare *c, pthread_mutex_t *lock, const struct policy_prompt *p,
    msec now, struct compare_scratch *s);

/* A choice that was made; the costs of the candidates <from> are set. */
struct compare_choice {
	uint64_t uid;
	msec now;
	const struct candidate *from;
	size_t n;
	server_id chosen;
	bool untimed;		/* its first token says nothing */
};

/* Make the choices of all compared rules and count them. */
void compare_choose(struct compare *c, const struct policy_prompt *p,
    const struct policy_pressure *pressure, const struct compare_choice *made,
    struct compare_scratch *s);

/* The first token of <uid> came from <at>, <took_ms> after it was sent there; -1: until <now>. */
void compare_came(struct compare *c, uint64_t uid, server_id at, msec now, int64_t took_ms);

/* For all rules what policy.h has for one; the last three need the rule lock. */
void compare_sent(struct compare *c, pthread_mutex_t *lock, const struct policy_prompt *p,
    server_id to, msec now);
void compare_answered(struct compare *c, server_id at, uint64_t uncached_tokens, msec took);
void compare_room(struct compare *c, server_id id, uint64_t tokens);
void compare_gone(struct compare *c, server_id id);

/* Set <v> for rule <i>. Returns false if there are no more. */
bool compare_view(const struct compare *c, unsigned i, struct route_compare_view *v);

/* Return the least cost of <n> candidates; 0 if there are none. */
double compare_least(const struct candidate *c, size_t n);

#endif

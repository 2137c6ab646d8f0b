/* shadow_in.h - in shadow mode, HAProxy's own choice compared with the agent's: the baseline.
 *
 *      decision      what each candidate had of the prompt, and when its first token was expected
 *      first fact    names the server that HAProxy balanced to: both choices are counted
 *
 * Both by the same estimates of the same moment. What caches would have held if the agent's choices
 * had been followed is not in it: HAProxy's balancing spreads prefixes, so the agent's hits are
 * fewer here than with mode "on".
 *
 * Bounded: the last SHADOW_OPEN requests of a pool, each at a place by its uid, where a later one
 * replaces it; SHADOW_KEPT candidates of each, those with the most tokens. Another server counts as
 * the mean of the others; if there were no others, it was no candidate, and the request is not
 * counted, because nothing is known of its work there. Under the route's lock; O(candidates). */
#ifndef KVROUTE_ROUTE_SHADOW_IN_H
#define KVROUTE_ROUTE_SHADOW_IN_H

#include "agent/policy/policy.h"
#include "agent/route/route.h"

#define SHADOW_OPEN	1024u
#define SHADOW_KEPT	15u

struct shadow;

uint64_t shadow_bytes(void);	/* of one pool in shadow mode */

struct shadow_choice {
	uint64_t uid;
	const struct candidate *from;
	size_t n;
	size_t chosen;		/* in <from> */
	uint64_t tokens;	/* of the prompt */
	bool learned;		/* so are the speeds of most servers */
	bool untimed;		/* most of its work is a guess, so its time teaches no speed */
	const struct policy_prompt *prompt;
	const struct policy_opts *opts;
};

/* Note a decision. Allocates <*s> if it is NULL; if there is no memory, nothing is compared. */
void shadow_chose(struct shadow **s, const struct shadow_choice *c);

/* The work that a request was for a server, by the estimates of its decision. */
struct shadow_work {
	uint64_t tokens, cached;
	bool untimed;
};

/* Set <w>: the work of <uid> at <to>. Returns false if it is unknown: the request was replaced, or
 * <to> was no candidate. <s> may be NULL. To be called before shadow_went(). */
bool shadow_work_at(const struct shadow *s, uint64_t uid, server_id to, struct shadow_work *w);

/* HAProxy has sent <uid> to <to>. <s> may be NULL. */
void shadow_went(struct shadow *s, uint64_t uid, server_id to);

/* Return the sums so far. <s> may be NULL. */
struct shadow_sums shadow_sums(const struct shadow *s);
void shadow_free(struct shadow *s);

#endif

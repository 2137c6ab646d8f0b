/* outcomes.h - compared rules judged by what happened later.
 *
 *      choice            the server that was taken and those of the compared rules, each with our estimate of its first
 *                        token: wait + prefill of what is not cached + loading of an adapter + wait for a full cache
 *      first token       at the server that had the request: what it really took
 *
 * A rule whose server had the request is judged by what was measured. For another choice nothing
 * was measured, so it is judged by our estimate for its server, corrected by what such estimates
 * turned out to be worth there: a line is fitted to (estimate, measured) of each server, apart for
 * requests that found work waiting and for those that did not, over about the last 128; of all
 * servers together where one has fewer than 16. How far that is off is measured on the requests
 * that were served, before each is learned from, and is part of the error that is shown.
 *
 * What it cannot tell: what the caches and queues of a day under the other rule would have been,
 * and what is special about the requests on which two rules differ. The error covers chance, not
 * these.
 *
 * Bounded: the last OUTCOMES_OPEN requests are kept, at a place by their uid; one that meets
 * another there replaces it. Not locked. O(1) for each call but outcomes_gone(). */
#ifndef KVROUTE_ROUTE_OUTCOMES_H
#define KVROUTE_ROUTE_OUTCOMES_H

#include "agent/base/types.h"

#define OUTCOMES_RULES	4
#define OUTCOMES_OPEN	2048u

struct outcome_guess {
	server_id at;		/* SERVER_NONE: none */
	bool waits;		/* work was waiting there */
	float s;		/* our estimate */
};

/* Sums over requests whose first token was measured. */
struct outcome_sums {
	uint64_t n;
	double measured_s;	/* of the server that had them */
	/* corrected estimates: of the same server, or of the one that the rule would have taken */
	double judged_s;
	double off_s2;		/* squares of (measured - judged) */
};

/* Of one rule: its own server had them; another one. */
struct outcome_rule {
	struct outcome_sums same, other;
};

struct outcomes;

struct outcomes *outcomes_new(void);		/* NULL: no memory; all below take it for "nothing is judged" */
void outcomes_free(struct outcomes *o);

/* A choice among <n> rules, at most OUTCOMES_RULES; <taken> is that of the rule that acts. */
void outcomes_expect(struct outcomes *o, uint64_t uid, msec now, const struct outcome_guess *taken,
		     const struct outcome_guess *rule, unsigned n);

/* The first token of <uid> came from <at>; <took_ms> after it was asked for, or -1: until <now>.
 * Adds to <rule>, which are as many as were asked, in their order. */
void outcomes_came(struct outcomes *o, uint64_t uid, server_id at, msec now, int64_t took_ms,
		   struct outcome_rule *const *rule, unsigned n);

/* The rules are others: what is open is forgotten, what was learned of servers stays. */
void outcomes_forget(struct outcomes *o);
void outcomes_gone(struct outcomes *o, server_id id);

/* Of the server that had each request, all choices: its corrected estimate made before it was
 * learned from. */
struct outcome_sums outcomes_checked(const struct outcomes *o);

/* Seconds that a request would have had its first token sooner, in the mean, had <r> decided those
 * on which it differs; and the standard error of that. False: there are fewer than two. */
bool outcomes_gain(const struct outcomes *o, const struct outcome_rule *r, double *gain_s, double *error_s);

#endif

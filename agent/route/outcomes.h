/* outcomes.h - judge compared rules by measured first tokens.
 *
 *   choice         the server that was chosen and those of the compared rules, each with our
 *                  estimate of its first token: wait + prefill of uncached tokens + loading of an
 *                  adapter + wait for a full cache
 *   first token    measured at the server that had the request
 *
 * A rule that chose the server that had the request is judged by the measured time. For any other
 * choice nothing was measured, so it is judged by our estimate for its server, corrected by how
 * such estimates turned out there: a line is fitted to (estimate, measured) of each server,
 * separately for requests that found work waiting and for those that did not, over about the last
 * 128; of all servers together if one has fewer than 16. The error of this correction is measured
 * on requests that were served, before each is learned from, and is part of the error that is
 * shown.
 *
 * It cannot tell what caches and queues would have been after a day under the other rule, nor what
 * is special about requests on which two rules differ. The error covers chance only.
 *
 * Bounded: the last OUTCOMES_OPEN requests, each at a place by its uid, where a later one replaces
 * it. Not locked. Each call is O(1), except outcomes_gone(). */
#ifndef KVROUTE_ROUTE_OUTCOMES_H
#define KVROUTE_ROUTE_OUTCOMES_H

#include "agent/base/types.h"

#define OUTCOMES_RULES	4
#define OUTCOMES_OPEN	2048u

struct outcome_guess {
	server_id at;		/* SERVER_NONE: none */
	bool waits;		/* work was waiting there */
	float s;		/* estimated seconds */
};

/* Sums over requests whose first token was measured. */
struct outcome_sums {
	uint64_t n;
	double measured_s;	/* at the server that had them */
	/* corrected estimates: for that server, or for the one that the rule would have chosen */
	double judged_s;
	double off_s2;		/* squares of (measured - judged) */
};

/* Of one rule: requests that its server had; requests that another one had. */
struct outcome_rule {
	struct outcome_sums same, other;
};

struct outcomes;

/* Returns NULL if there is no memory; all functions below take NULL and then judge nothing. */
struct outcomes *outcomes_new(void);
void outcomes_free(struct outcomes *o);

/* Note the choices of <n> rules, at most OUTCOMES_RULES; <taken> is that of the deciding rule. */
void outcomes_expect(struct outcomes *o, uint64_t uid, msec now, const struct outcome_guess *taken,
		     const struct outcome_guess *rule, unsigned n);

/* The first token of <uid> came from <at>, <took_ms> after the request was sent; -1: at <now>. Adds
 * to <rule>, which has the <n> rules of outcomes_expect() in the same order. */
void outcomes_came(struct outcomes *o, uint64_t uid, server_id at, msec now, int64_t took_ms,
		   struct outcome_rule *const *rule, unsigned n);

/* The rules are new: drop open requests; what was learned about servers stays. */
void outcomes_forget(struct outcomes *o);
void outcomes_gone(struct outcomes *o, server_id id);

/* Return the sums of all requests: measured time, and the corrected estimate for the same server
 * made before the request was learned from. */
struct outcome_sums outcomes_checked(const struct outcomes *o);

/* Set the mean seconds by which first tokens would have come sooner if <r> had decided the requests
 * on which it differs, and the standard error. Returns false for fewer than two requests. */
bool outcomes_gain(
    const struct outcomes *o, const struct outcome_rule *r, double *gain_s, double *error_s);

#endif

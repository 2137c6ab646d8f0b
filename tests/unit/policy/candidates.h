/* candidates.h - describe a row of servers briefly, for tests of the rules. */
#ifndef TESTS_POLICY_CANDIDATES_H
#define TESTS_POLICY_CANDIDATES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "agent/policy/policy.h"

#define ROW_MAX	8

/* One server: <load> open requests, <cached> tokens of the prompt, <wait> seconds of work. */
struct seat {
	uint32_t load;
	uint64_t cached;
	double wait;
	uint64_t last_pick;
	uint32_t penalty;	/* requests; each a tenth of a second of work */
};

static inline size_t row_of(const struct seat *s, size_t n, struct candidate *c)
{
	for (size_t i = 0; i < n; i++) {
		c[i] = (struct candidate){
			.id = (server_id)i, .load = s[i].load, .cached = s[i].cached,
			.backlog_s = s[i].wait, .last_pick = s[i].last_pick,
			.penalty = s[i].penalty, .penalty_s = s[i].penalty / 10.0,
			.name = 1000 + i, .slowness = 1, .kv_used = -1,
		};
	}
	return n;
}

/* As in the router, the longest match is that of any candidate. */
static inline struct policy_choice choose(const struct policy_opts *o, uint64_t tokens,
					  struct candidate *c, size_t n)
{
	struct policy_prompt p = { .tokens = tokens };
	struct policy_choice out;
	struct rng rng;

	for (size_t i = 0; i < n; i++) {
		if (c[i].cached > p.matched)
			p.matched = c[i].cached;
	}
	rng_init(&rng, 1);
	policy_choose(o, NULL, &p, &(struct policy_pressure){ .wait = 0 }, &rng, c, n, &out);
	return out;
}

static inline void check_choice(const char *name, const struct policy_choice *got, int first,
				int second, enum why why)
{
	if (got->first != first || got->second != second || got->why != why)
		fail_msg("%s: first %d second %d %s, expected %d %d %s", name, got->first,
			 got->second, why_text(got->why), first, second, why_text(why));
}

#endif

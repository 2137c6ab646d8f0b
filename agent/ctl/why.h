/* why.h - kvroutectl why: what /decisions says, read as it comes, and in words.
 *
 *      bytes -> why_feed() -> a decision at a time -> why_say() -> "went to s3: 12,288 of ..."
 *
 * The bytes come from whoever listens there: names are cut to what fits, and what a terminal might take for
 * more than a letter becomes a question mark. */
#ifndef KVROUTE_CTL_WHY_H
#define KVROUTE_CTL_WHY_H

#include <stdio.h>

#include "agent/base/json.h"

#define WHY_NAME_MAX	127
#define WHY_SERVERS	8
#define WHY_RULES	4

struct why_server {
	char server[WHY_NAME_MAX + 1], rule[WHY_NAME_MAX + 1];	/* <rule>: of one that is compared */
	double load, wait_s, cached_tokens, compute_s, shared_s, kv_s, adapter_s, penalty, cost_s, regret_s;
};

/* As kvroute(8), DECISIONS, names them. */
struct why_decision {
	char time[WHY_NAME_MAX + 1], uid[WHY_NAME_MAX + 1], pool[WHY_NAME_MAX + 1], mode[WHY_NAME_MAX + 1],
	     rule[WHY_NAME_MAX + 1], why[WHY_NAME_MAX + 1], server[WHY_NAME_MAX + 1], facts[WHY_NAME_MAX + 1],
	     bounded[WHY_NAME_MAX + 1];
	double decision, us, prompt_tokens, unseen_tokens, matched_tokens, min_load, max_load, cost_s, regret_s,
	       n_candidates, work;
	bool imbalanced;
	struct why_server candidate[WHY_SERVERS], compared[WHY_RULES];
	unsigned n_kept, n_compared;
	char state[WHY_NAME_MAX + 1], went[WHY_NAME_MAX + 1];
	double status, first_ms, done_ms, retries, output_tokens;	/* -1: not told */
};

struct why_reader {
	struct json json;
	void (*take)(void *arg, const struct why_decision *d);
	void *arg;
	struct why_decision d;
	int list;			/* which one of the decision's is open; an enum of why_read.c */
	int field;			/* of the value to come; -1: none of ours */
	size_t n_text;
};

void why_start(struct why_reader *r, void (*take)(void *arg, const struct why_decision *d), void *arg);
enum json_state why_feed(struct why_reader *r, const char *p, size_t n);

/* Some lines of text. */
void why_say(FILE *to, const struct why_decision *d);

#endif

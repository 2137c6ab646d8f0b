/* why.h - kvroutectl why: read /decisions as it arrives, and explain it.
 *
 *      bytes -> why_feed() -> one decision at a time -> why_say() -> "went to s3: 12,288 of ..."
 *
 * The bytes may come from any process at that address. So names are cut to what fits, and control
 * characters become question marks. */
#ifndef KVROUTE_CTL_WHY_H
#define KVROUTE_CTL_WHY_H

#include <stdio.h>

#include "agent/base/json.h"

#define WHY_NAME_MAX	127
#define WHY_SERVERS	8
#define WHY_RULES	4

struct why_server {
	char server[WHY_NAME_MAX + 1], rule[WHY_NAME_MAX + 1];	/* <rule>: of a compared one */
	char truth[WHY_NAME_MAX + 1], truth_cause[WHY_NAME_MAX + 1];
	double load, wait_s, cached_tokens, session_tokens, compute_s, shared_s, load_s, kv_s, adapter_s,
	    promised_s, penalty, cost_s, regret_s;
};

/* Fields as in kvroute(8), DECISIONS. */
struct why_decision {
	char time[WHY_NAME_MAX + 1], uid[WHY_NAME_MAX + 1], pool[WHY_NAME_MAX + 1],
	    mode[WHY_NAME_MAX + 1], rule[WHY_NAME_MAX + 1], why[WHY_NAME_MAX + 1],
	    model[WHY_NAME_MAX + 1], matched_as[WHY_NAME_MAX + 1], server[WHY_NAME_MAX + 1],
	    facts[WHY_NAME_MAX + 1], bounded[WHY_NAME_MAX + 1], session[WHY_NAME_MAX + 1],
	    session_server[WHY_NAME_MAX + 1];
	double session_turns;
	double decision, us, prompt_tokens, unseen_tokens, matched_tokens, min_load, max_load,
	    cost_s, regret_s, n_candidates, work, prompt_pages, pressure, sacrifice;
	/* the best server to compute the prompt for <server>, and whether it did; "": none */
	char prefill_best[WHY_NAME_MAX + 1], prefill[WHY_NAME_MAX + 1];
	double prefill_wait_s, prefill_cached_tokens, prefill_s, transfer_s, here_s, there_s;
	bool imbalanced, cut;
	struct why_server candidate[WHY_SERVERS], compared[WHY_RULES];
	unsigned n_kept, n_compared;
	char state[WHY_NAME_MAX + 1], went[WHY_NAME_MAX + 1], end[WHY_NAME_MAX + 1],
	    ts[WHY_NAME_MAX + 1];
	double expected_ms;		/* to the first token; -1: not told */
	/* -1: not reported */
	double status, first_ms, done_ms, retries, output_tokens, engine_tokens, cached;
};

struct why_reader {
	struct json json;
	void (*take)(void *arg, const struct why_decision *d);
	void *arg;
	struct why_decision d;
	int list;			/* the open list of the decision; an enum of why_read.c */
	int field;			/* field of the next value; -1: not used */
	size_t n_text;
};

void why_start(
    struct why_reader *r, void (*take)(void *arg, const struct why_decision *d), void *arg);
enum json_state why_feed(struct why_reader *r, const char *p, size_t n);

/* Print some lines of text. */
void why_say(FILE *to, const struct why_decision *d);

/* Print all that is known of it after that: the prompt, each candidate with the terms of its cost,
 * the counts of the engine. */
void why_say_all(FILE *to, const struct why_decision *d);

#endif

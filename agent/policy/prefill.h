/* prefill.h - compute a prompt where its answer is generated, or on a prefill server.
 *
 *      here     wait at the decode server       + price of computing there + stall of its answers
 *      there    price at the prefill server     + transfer of what the decode server does not have
 *
 * The price at a prefill server is by the rule of its own pool, with the wait and the cache there.
 * While it computes, the decode server works on what waits there, so of the two waits the longer
 * counts. A prompt with fewer than <least> uncached tokens is computed here, because two requests
 * and a transfer cost more than they save.
 *
 * Stall: while an engine computes a prompt its running answers get no tokens. So each second of
 * computing here also costs <stall> seconds for each answer that runs here. Prefill servers run
 * none. That is the reason to split at all: without it, splitting only balances. Only answers that
 * have begun are delayed: requests that wait for their first token, here or elsewhere, are not.
 *
 * Measured by tests/bench/prefill.py (make bench-prefill: 8 simulated 8b-h100, chats and documents
 * at three loads, means of 3 seeds). Seconds to the end of the answer, against 8 servers that do
 * both; in brackets milliseconds between tokens:
 *
 *      load    2 of 8 compute prompts for the others           4 of 8
 *              chat                documents                   chat    documents
 *      0.3     +2 %  (7.4, 7.3)    -6 %   (7.6, 8.3)            +8 %    +5 %
 *      0.7     -1 %  (9.5, 9.8)    -18 %  (12.6, 16.1)         +14 %    +3 %
 *      0.95    -5 %  (11.4, 12.2)  -17 %  (22.9, 29.8)         +19 %    +4 %
 *
 * So it pays where prompts are long and new, and with few prefill servers; it costs first tokens
 * (0.11 s for 0.08 in chats at 0.7, 0.19 for 0.07 with documents). On the same servers, the rule is
 * at most 4 % above the better of splitting all prompts and none, and 62 % below it at most.
 *
 * Turns of coding agents (97 % of a prompt is cached) are computed where they are decoded, because
 * no prefill server holds a session that was never computed there. On 8b-h100-bigkv, 2 of 8, at
 * 0.7: first tokens after 0.82 s and 15.7 s to the end; all together 0.78 and 15.5, splitting all
 * 2.50 and 15.1.
 *
 * <stall>, by the time to the end of the answer above the best of four values, geometric mean: with
 * 2 of 8, 0: 32 %, 0.25: 1.7 %, 0.5: 0.7 %, 1: 1.2 %; with 4 of 8, 114 %, 7.6 %, 2.4 %, 1.0 %.
 * First tokens are sooner the less it is (0.13, 0.19, 0.32 s with documents at 0.7), so 0.5. What a
 * transfer is taken for in the beginning matters little: with transfers four times as fast or as
 * slow as configured, learning is within 1 % of leaving it.
 *
 * Pure arithmetic. */
#ifndef KVROUTE_POLICY_PREFILL_H
#define KVROUTE_POLICY_PREFILL_H

#include "agent/policy/policy.h"

/* The best prefill server for a prompt, as the decode servers of one choice see it. */
struct prefill_offer {
	double price_s;		/* by the rule of its pool: wait, penalties, price of its work */
	double ready_s;		/* until the prompt is computed there, as estimated */
	/* how much longer a transfer takes than configured: fleet/transfer.h; 1: as configured */
	double transfer_factor;
};

/* Return the seconds to transfer a prompt of which the decode server lacks <tokens>. */
double prefill_transfer_s(
    const struct policy_opts *o, const struct prefill_offer *f, uint64_t tokens);

/* Return the seconds that a prompt costs at <c>, without what it costs there in any case.
 * <compute_s>: the price of computing it there; <work_s>: seconds that this takes; <answers>: those
 * that run there. Sets c->split, transfer_s,
 * here_s and there_s. <f> is NULL if there is no prefill server. */
double prefill_price(const struct policy_opts *o, const struct policy_prompt *p,
    const struct prefill_offer *f, double compute_s, double work_s, double answers,
    struct candidate *c);

#endif

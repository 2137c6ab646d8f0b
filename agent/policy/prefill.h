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
 * Measured by make bench-prefill: doc/measured.md, "Prefill and decode apart".
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

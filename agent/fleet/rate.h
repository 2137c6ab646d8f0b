/* rate.h - how slowly a server prefills, learned from the times of its first tokens.
 *
 * slowness: seconds that it takes for one second of policy_prefill_s(), which is as configured.
 *
 *   first-token reports   While any request waits for its first token the server is busy. Its busy
 *                         time over the work completed in it is the slowness. This includes
 *                         decoding and work done in one batch, because the next prompt meets both,
 *                         and it needs no order of requests.
 *   ends alone            A tenth of the answers had headers in less than q times their work: q. An
 *                         answer that waited for others, or came whole, took longer than its own
 *                         prefill, so q errs slow. An engine that sends headers before it computes
 *                         shows times that no prefill has; then nothing is learned.
 *
 * Erring slow is safe and erring fast is not: a rate twice too high cost 180 % more time to first
 * token, one twice too low a third less than that (routing notes, 3b). Until a server's slowness is
 * known, it is as slow as its pool: the mean of the known ones, else by the first tokens of all its
 * servers together, else as configured.
 *
 * Pure arithmetic, O(1). Not locked: the owner locks. */
#ifndef KVROUTE_FLEET_RATE_H
#define KVROUTE_FLEET_RATE_H

#include "agent/base/types.h"

#define SLOWNESS_MIN	0.02	/* 400,000 tokens a second where 8000 are configured */
#define SLOWNESS_MAX	64

/* With its logarithm, because both are read for each candidate of each decision. */
struct slowness {
	double x, log_x;
};

struct rate {
	double busy_s, work_s;	/* sums; older ones weigh less */
	msec since;		/* start of the busy time not counted yet; valid while work waits */
	msec busy_from, busy_to;	/* start of the last busy time; end of the one before it */
	msec voided;		/* requests sent before this are not timed */
	double firsts;		/* first tokens in these sums */
	double log_q;		/* ln(q) */
	double early, headers;	/* answers too early for any prefill; all answers counted */
	msec learned;		/* last time */
	struct slowness by_first, by_headers;	/* of the sums; of log_q */
};

/* <slowness>: that of its pool. */
void rate_init(struct rate *r, double slowness);

/* Work waits now at an idle server. */
void rate_begin(struct rate *r, msec now);
/* The same, but it is known only now that it has waited since <sent>: the server was busy then,
 * also in the part that earlier such requests have not counted. */
void rate_begin_late(struct rate *r, msec sent);

/* What one first token has added to the sums. */
struct rate_added {
	double busy_s, work_s;
};

/* The first token of a request with <work_s> of work came. */
struct rate_added rate_answered(struct rate *r, double work_s, msec sent, msec now);
/* It was no token: take <added> back, as far as the sums still have it. */
void rate_take_back(struct rate *r, struct rate_added added);
/* Work ended without a first token, so the time running now says nothing. */
void rate_void(struct rate *r, msec now);

/* Headers came <response_ms> after the request. <work_s>: by policy_prefill_s(). */
void rate_headers(struct rate *r, double work_s, msec response_ms, msec now);

/* Tell if there is enough evidence of the last ten minutes. Older evidence expires, because a
 * server that is taken for slow gets no requests and would stay so. With headers: and few came too
 * early. */
bool rate_first_known(const struct rate *r, msec now);
bool rate_headers_known(const struct rate *r, msec now);
double rate_by_first(const struct rate *r);
double rate_by_headers(const struct rate *r);		/* only if known, as in by_first, by_headers */

/* First tokens of several servers together. */
struct rate_sum {
	double busy_s, work_s, firsts;
};

void rate_sum_add(struct rate_sum *sum, const struct rate *r, msec now);
/* Returns 0 if they are not enough evidence: the same that one server needs. */
double rate_sum_slowness(const struct rate_sum *sum);

/* For snapshots: slowness in millionths, by first tokens and by headers; 0: unknown. */
struct rate_kept {
	uint32_t first, headers;
};

struct rate_kept rate_keep(const struct rate *r, msec now);
void rate_recall(struct rate *r, struct rate_kept kept, msec now);	/* <kept> may be any numbers */

#endif

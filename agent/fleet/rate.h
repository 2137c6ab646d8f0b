/* rate.h - how slowly a server prefills, learned from when its first tokens came.
 *
 * slowness: seconds that it takes for a second of policy_prefill_s(), which goes by what is configured.
 *
 *   first-token reports   While something waits for its first token the server is busy. Its busy time over the
 *                         work that came out in it is the slowness: with what decoding takes and what is done
 *                         in one batch, as the next prompt meets both. It does not matter who waited for whom.
 *   ends alone            A tenth of the answers had headers in less than q times their work: q. Who waited
 *                         behind others, or was answered whole, took longer than its own prefill: so it errs
 *                         slow. An engine that sends headers before it computes is known by times that no
 *                         prefill has, and then nothing is learned.
 *
 * Erring slow is safe and fast is not: a rate twice too high cost 180 % more time to first token, one
 * twice too low a third less than that (routing notes, 3b). Until it knows better a server is as slow
 * as those of its pool, and these as configured.
 *
 * Pure arithmetic, O(1). Not locked: the owner is. */
#ifndef KVROUTE_FLEET_RATE_H
#define KVROUTE_FLEET_RATE_H

#include "agent/base/types.h"

#define SLOWNESS_MIN	0.02	/* 400,000 tokens a second where 8000 are configured */
#define SLOWNESS_MAX	64

struct rate {
	double busy_s, work_s;	/* the latest, older ones weigh less */
	msec since;		/* of the work that waits there now; meaningless where none does */
	msec voided;		/* what was sent before was computed while nobody timed it */
	double firsts;		/* first tokens in them */
	double log_q;		/* ln(q) */
	double early, headers;	/* answers: too early for any prefill; all that were looked at */
	msec learned;		/* when it last was */
};

void rate_init(struct rate *r, double slowness);	/* of its pool */

void rate_begin(struct rate *r, msec now);		/* work waits there, and none did */
void rate_answered(struct rate *r, double work_s, msec sent, msec now);	/* the first token of work so large */
void rate_void(struct rate *r, msec now);		/* work went without one: what was timed means nothing */

/* Headers came so much later; <work_s> of policy_prefill_s(). */
void rate_headers(struct rate *r, double work_s, msec response_ms, msec now);

/* Whether there is enough to go by, of the last ten minutes: a server that is taken for slow and so gets nothing
 * must not stay so, and what comes after them counts anew. Headers: and none came too early. */
bool rate_first_known(const struct rate *r, msec now);
bool rate_headers_known(const struct rate *r, msec now);
double rate_by_first(const struct rate *r);
double rate_by_headers(const struct rate *r);		/* where they are known */

/* What is known, over a restart: millionths by first tokens, and by headers; 0: not known. */
struct rate_kept {
	uint32_t first, headers;
};

struct rate_kept rate_keep(const struct rate *r, msec now);
void rate_recall(struct rate *r, struct rate_kept kept, msec now);	/* whatever bytes they are */

#endif

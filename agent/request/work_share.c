/* work_share.c - what a request may cost, and when a slice is worth a decision.
 *
 *   the caller's bound       |==================|    0 if it is late
 *   by the size of the body  |============|          WORK_LEAST, WORK_BYTE; REQUEST_WORK_FULL
 *   by its tenant's share    |===============|       meter.h; at least WORK_LEAST
 *   by earlier slices        |=============|         WORK_SLICED; half of it until the last one
 *                            ^ the least of them; reading the body is charged first
 *
 * Each decision of a body in slices matches all that came, and renders a conversation, from the
 * beginning. So a decision is made only if the bytes gone over in all stay within SLICES_TIMES
 * those of the body: at each of a few slices, at growing distances of many, and always at the last.
 * Between decisions the last answer holds. */
#include "agent/request/request_in.h"

_Static_assert(METER_NAMED >= TENANTS_MAX, "each tenant of the configuration has an account");

/* A body of 2 to 16 KiB may take 67,000 steps, one of 64 KiB all of them. English and code of 16
 * KiB take 9,000 to 36,000 by the tokenizer, Chinese up to 63,000. Random ideographs would take
 * 107,000 and get ids of their beginning only. So does text beyond 3 to 5 KB by Unigram: with
 * 250,000 pieces (24 MB) and Precompiled, messages in ten scripts take 13 to 24 steps a byte, least
 * Chinese, most English. A body of up to 2 KiB may take that and get all its ids. */
#define WORK_LEAST	10000u
#define WORK_SHORT_BYTE	28u		/* steps for a byte, up to WORK_SHORT in all */
#define WORK_SHORT	57344u
#define WORK_SMALL	((uint64_t)16 << 10)
#define WORK_BYTE	6u		/* for each byte beyond WORK_SMALL */
#define WORK_SLICED	(2 * (uint64_t)REQUEST_WORK_FULL)

/* Steps of a scan: one for SCAN_BYTES bytes, SCAN_EVENT for each event, and one for SCAN_OTHER
 * bytes that are not text but escapes, names and brackets. Reading, decoding and hashing 1 MiB
 * takes 0.9 ms (`make bench-hostile`, text_mode_us). */
#define SCAN_BYTES	12u
#define SCAN_EVENT	1u
#define SCAN_OTHER	2u
#define SCAN_KNOWN	128u		/* bytes of an earlier body for a step: they are hashed */

#define SLICES_FREE	((uint64_t)16 << 10)
#define SLICES_TIMES	4u

const char *work_bound_text(enum work_bound b)
{
	static const char *const names[BOUNDS] = {
		[BOUND_BODY] = "body", [BOUND_TENANT] = "tenant", [BOUND_CALLER] = "late"
	};

	return (unsigned)b < BOUNDS ? names[b] : "";
}

static void bound_by(struct request *rq, uint64_t steps, enum work_bound by)
{
	if (steps >= rq->work.left)
		return;
	rq->work.left = steps;
	rq->bound = by;
}

static uint64_t work_by_size(uint64_t n)
{
	uint64_t short_body = n < WORK_SHORT / WORK_SHORT_BYTE ? n * WORK_SHORT_BYTE : WORK_SHORT;

	return WORK_LEAST + short_body + (n > WORK_SMALL ? (n - WORK_SMALL) * WORK_BYTE : 0);
}

static uint64_t work_by_slices(const struct request *rq)
{
	uint64_t left = WORK_SLICED - rq->sliced->work;

	return rq->more ? left / 2 : left;
}

static uint64_t steps_of_scan(uint64_t bytes, uint64_t units, uint64_t events)
{
	uint64_t other = bytes > units ? bytes - units : 0;

	return bytes / SCAN_BYTES + events * SCAN_EVENT + other / SCAN_OTHER;
}

/* Charge for hashing what an earlier body has shown, and for reading the rest; of slices, for what
 * is new since the last decision. */
static void pay_first_scan(struct request *rq)
{
	const struct prompt *p = rq->prompt;
	uint64_t units = p->n_units > p->known.units ? p->n_units - p->known.units : 0, steps, paid;

	steps = p->known.bytes / SCAN_KNOWN +
	    steps_of_scan(p->n_bytes - p->known.bytes, units, p->n_events - p->known.events);
	if (rq->sliced != NULL) {
		paid = rq->sliced->scan_paid;
		if (steps > paid)
			rq->sliced->scan_paid = steps;
		steps = steps > paid ? steps - paid : 0;
	}
	work_spend(&rq->work, steps);
}

uint64_t request_take_work(struct request *rq, uint32_t most)
{
	const struct request_env *env = rq->env;
	struct meter *m = &rq->scratch->meter;
	uint64_t share, had;

	rq->account = meter_account(m, hash_mix_span(env->key, 22, rq->tenant),
				    tenant_number(&env->tenants, env->key, rq->tenant), rq->now);
	share = meter_allows(m, rq->account);
	rq->work.left = most < REQUEST_WORK_FULL ? most : REQUEST_WORK_FULL;
	rq->bound = most < REQUEST_WORK_FULL ? BOUND_CALLER : BOUND_BODY;
	bound_by(rq, work_by_size(rq->prompt->n_bytes), BOUND_BODY);
	bound_by(rq, share > WORK_LEAST ? share : WORK_LEAST, BOUND_TENANT);
	if (rq->sliced != NULL)
		bound_by(rq, work_by_slices(rq), BOUND_BODY);
	had = rq->work.left;
	if (!rq->scanned)
		pay_first_scan(rq);
	return had;
}

uint32_t request_pay_work(struct request *rq, uint64_t had)
{
	uint64_t steps = had - rq->work.left;

	meter_charge(&rq->scratch->meter, rq->account, steps);
	if (rq->sliced != NULL) {
		rq->sliced->work += steps;
		rq->sliced->looked += rq->prompt->n_bytes;
	}
	return (uint32_t)steps;
}

bool request_pay_scan(struct request *rq, uint64_t from, uint64_t to)
{
	const struct prompt *p = rq->prompt;
	uint64_t all = steps_of_scan(p->n_bytes, p->n_units, p->n_events);

	if (to > p->n_bytes)
		to = p->n_bytes;
	if (from < to)
		work_spend(&rq->work, (uint64_t)((double)all * (double)(to - from) / (double)p->n_bytes));
	return !work_spent(&rq->work);
}

bool request_slices_due(const struct sliced *s, uint64_t n)
{
	return s->looked + n <= SLICES_FREE + SLICES_TIMES * n;
}

bool request_is_due(const struct request *rq)
{
	return !rq->waits &&
	       (rq->seq <= 0 || !rq->more || request_slices_due(rq->sliced, rq->prompt->n_bytes));
}

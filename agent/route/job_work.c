/* job_work.c - what a request may cost, and when a slice is worth it.
 *
 *   the caller's <work>      |============================|      0 when it is late
 *   by the size of the body  |=================|                 WORK_LEAST, WORK_BYTE; ROUTE_WORK_FULL at most
 *   by its tenant's share    |======================|            meter.h; WORK_LEAST at least
 *   by slices before         |====================|              WORK_SLICED for all of them, half of what is left until the last
 *                            ^ the least of them                 reading the body is the first to be charged
 *
 * Of a body in slices all that came is matched, and a conversation is rendered, from the beginning at each decision. So there is one only
 * when the bytes gone over in all stay within SLICES_TIMES those of the body: at each slice of a few, at growing distances of many, and at
 * the last one always. The answer to one before stands in between. */
#include "agent/route/job.h"

_Static_assert(METER_NAMED >= TENANTS_MAX, "each tenant of the configuration has an account");

/* A body of 16 KiB may take 67,000 steps, one of 64 KiB all there are. English and code of 16 KiB take 9,000 to 36,000 by the tokenizer,
 * Chinese up to 63,000; random ideographs want 107,000, and get ids of their beginning only. */
#define WORK_LEAST	10000u
#define WORK_HALF_BYTES	7u		/* steps for two bytes, up to WORK_SMALL bytes */
#define WORK_SMALL	((uint64_t)16 << 10)
#define WORK_BYTE	6u		/* and for each byte after these */
#define WORK_SLICED	(2 * (uint64_t)ROUTE_WORK_FULL)

/* Steps of a scan: one for SCAN_BYTES bytes, SCAN_EVENT for each event, and one for SCAN_OTHER bytes that are not text.
 * Reading, decoding and hashing 1 MiB costs 0.9 ms (`make bench-hostile`, text_mode_us). */
#define SCAN_BYTES	12u
#define SCAN_EVENT	1u
#define SCAN_OTHER	2u		/* of those that are no text, but escapes, names and brackets */

#define SLICES_FREE	((uint64_t)16 << 10)
#define SLICES_TIMES	4u

const char *work_bound_text(enum work_bound b)
{
	static const char *const names[BOUNDS] = { [BOUND_BODY] = "body", [BOUND_TENANT] = "tenant", [BOUND_CALLER] = "late" };

	return (unsigned)b < BOUNDS ? names[b] : "";
}

static void bound_by(struct job *j, uint64_t steps, enum work_bound by)
{
	if (steps >= j->work.left)
		return;
	j->work.left = steps;
	j->bound = by;
}

static uint64_t work_by_size(uint64_t n)
{
	uint64_t small = n < WORK_SMALL ? n : WORK_SMALL;

	return WORK_LEAST + small * WORK_HALF_BYTES / 2 + (n - small) * WORK_BYTE;
}

uint64_t job_take_work(struct route *r, struct job *j, uint32_t most)
{
	uint64_t by_size = work_by_size(j->prompt->n_bytes), share;

	j->account = meter_account(&j->scratch->meter, hash_mix_span(&r->key, 22, j->tenant),
				   tenant_number(&r->tenants, &r->key, j->tenant), j->now);
	share = meter_allows(&j->scratch->meter, j->account);
	j->work.left = most < ROUTE_WORK_FULL ? most : ROUTE_WORK_FULL;
	j->bound = most < ROUTE_WORK_FULL ? BOUND_CALLER : BOUND_BODY;
	bound_by(j, by_size, BOUND_BODY);
	bound_by(j, share > WORK_LEAST ? share : WORK_LEAST, BOUND_TENANT);
	if (j->sliced != NULL)
		bound_by(j, j->more ? (WORK_SLICED - j->sliced->work) / 2 : WORK_SLICED - j->sliced->work, BOUND_BODY);
	share = j->work.left;
	if (!j->scanned)
		job_pay_scan(j);
	return share;
}

uint32_t job_pay_work(struct job *j, uint64_t had)
{
	uint64_t steps = had - j->work.left;

	meter_charge(&j->scratch->meter, j->account, steps);
	if (j->sliced != NULL) {
		j->sliced->work += steps;
		j->sliced->looked += j->prompt->n_bytes;
	}
	return (uint32_t)steps;
}

bool job_pay_scan(struct job *j)
{
	const struct prompt *p = j->prompt;
	uint64_t other = p->n_bytes > p->n_units ? p->n_bytes - p->n_units : 0;

	work_spend(&j->work, p->n_bytes / SCAN_BYTES + (uint64_t)p->n_events * SCAN_EVENT + other / SCAN_OTHER);
	return !work_spent(&j->work);
}

bool job_is_due(const struct job *j)
{
	uint64_t n = j->prompt->n_bytes;

	return j->seq <= 0 || !j->more || j->sliced->looked + n <= SLICES_FREE + SLICES_TIMES * n;
}

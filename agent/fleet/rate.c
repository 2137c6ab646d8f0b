/* rate.c - two fading sums for first tokens, and a stochastic quantile for headers. */
#include <math.h>

#include "agent/fleet/rate.h"

#define PRIOR_S		0.5	/* weight of the first guess, in seconds of work */
#define MEMORY_S	400.0	/* of work, in which the weight falls to 1/e */
#define STALL		8.0	/* times the expected time; more is no prefill */
#define SLACK_S		0.5

#define QUANTILE	0.1
#define STEP_LEAST	0.04	/* of ln(q), for each answer */
#define AMONG_DECODES	1.15	/* q is of an idle engine, which is faster than one that also decodes */
#define LEAST		16	/* answers before they count */
#define KEEP		0.99
#define FORGOTTEN_MS	600000
#define WORK_LEAST_S	0.1	/* smaller prompts take an engine's step anyway */
#define EARLY_SHARE	0.1

static double bounded(double slowness)
{
	return slowness < SLOWNESS_MIN ? SLOWNESS_MIN : slowness > SLOWNESS_MAX ? SLOWNESS_MAX : slowness;
}

static void sums_changed(struct rate *r)
{
	r->by_first.x = bounded(r->busy_s / r->work_s);
	r->by_first.log_x = log(r->by_first.x);
}

static void quantile_changed(struct rate *r)
{
	r->by_headers.x = bounded(AMONG_DECODES * exp(r->log_q));
	r->by_headers.log_x = log(r->by_headers.x);
}

void rate_init(struct rate *r, double slowness)
{
	double s = bounded(slowness);

	*r = (struct rate){ .busy_s = s * PRIOR_S, .work_s = PRIOR_S, .log_q = log(s) };
	sums_changed(r);
	quantile_changed(r);
}

void rate_begin(struct rate *r, msec now)
{
	r->busy_to = r->since;
	r->busy_from = r->since = now;
}

/* A request that was sent before another may be answered after it:
 *
 *      busy_to     busy_from      since      now
 *      ---|   sent     |============|         |    counted is what has "="; left are both sides
 *               |-----------------------------|
 */
void rate_begin_late(struct rate *r, msec sent)
{
	msec from = sent > r->busy_to ? sent : r->busy_to;

	if (sent >= r->since) {
		rate_begin(r, sent);
	} else if (from < r->busy_from) {
		r->since -= r->busy_from - from;
		r->busy_from = from;
	}
}

void rate_void(struct rate *r, msec now)
{
	r->since = r->voided = now;
}

/* Start again after evidence has expired, with the old slowness as the first guess. Otherwise the
 * few prompts that a slow server gets would hardly change sums over hundreds of seconds of work. */
static void start_anew(struct rate *r, msec sent)
{
	if (r->learned == 0 || sent - r->learned < FORGOTTEN_MS)
		return;
	r->busy_s = rate_by_first(r) * PRIOR_S;
	r->work_s = PRIOR_S;
	r->firsts = r->headers = r->early = 0;
	sums_changed(r);
}

/* <now> may be a little in the past: threads read their clocks before they take the lock. */
struct rate_added rate_answered(struct rate *r, double work_s, msec sent, msec now)
{
	struct rate_added added = { 0 };
	double took = now > r->since ? (double)(now - r->since) / 1000 : 0;
	double most = STALL * (rate_by_first(r) * work_s + SLACK_S);
	double keep = exp(-work_s / MEMORY_S);

	if (sent >= r->voided) {
		start_anew(r, sent);
		added = (struct rate_added){ .busy_s = took < most ? took : most, .work_s = work_s };
		r->busy_s = r->busy_s * keep + added.busy_s;
		r->work_s = r->work_s * keep + added.work_s;
		r->firsts = r->firsts * KEEP + 1;
		r->learned = now;
		sums_changed(r);
	}
	if (now > r->since)
		r->since = now;
	return added;
}

void rate_take_back(struct rate *r, struct rate_added added)
{
	if (added.work_s <= 0 || r->work_s - added.work_s < PRIOR_S / 2 || r->busy_s <= added.busy_s)
		return;
	r->busy_s -= added.busy_s;
	r->work_s -= added.work_s;
	r->firsts = r->firsts > 1 ? r->firsts - 1 : 0;
	sums_changed(r);
}

double rate_by_first(const struct rate *r)
{
	return r->by_first.x;
}

void rate_headers(struct rate *r, double work_s, msec response_ms, msec now)
{
	double step, x;

	if (work_s < WORK_LEAST_S || response_ms < 0)
		return;
	x = (double)response_ms / 1000 / work_s;
	start_anew(r, now - response_ms);
	r->learned = now;
	r->headers = r->headers * KEEP + 1;
	r->early = r->early * KEEP + (x < SLOWNESS_MIN);
	step = 1 / r->headers > STEP_LEAST ? 1 / r->headers : STEP_LEAST;
	r->log_q += log(x > 1e-6 ? x : 1e-6) < r->log_q ? -step * (1 - QUANTILE) : step * QUANTILE;
	quantile_changed(r);
}

static bool has_enough(double answers, msec learned, msec now)
{
	return answers >= LEAST && now - learned < FORGOTTEN_MS;
}

bool rate_first_known(const struct rate *r, msec now)
{
	return r->work_s >= 5 * PRIOR_S && has_enough(r->firsts, r->learned, now);
}

bool rate_headers_known(const struct rate *r, msec now)
{
	return has_enough(r->headers, r->learned, now) && r->early < EARLY_SHARE * r->headers;
}

double rate_by_headers(const struct rate *r)
{
	return r->by_headers.x;
}

void rate_sum_add(struct rate_sum *sum, const struct rate *r, msec now)
{
	if (r->firsts <= 0 || now - r->learned >= FORGOTTEN_MS)
		return;
	sum->busy_s += r->busy_s;
	sum->work_s += r->work_s;
	sum->firsts += r->firsts;
}

double rate_sum_slowness(const struct rate_sum *sum)
{
	if (sum->work_s < 5 * PRIOR_S || sum->firsts < LEAST)
		return 0;
	return bounded(sum->busy_s / sum->work_s);
}

#define MILLION	1e6

struct rate_kept rate_keep(const struct rate *r, msec now)
{
	return (struct rate_kept){
		.first = rate_first_known(r, now) ? (uint32_t)(rate_by_first(r) * MILLION) : 0,
		.headers = rate_headers_known(r, now) ? (uint32_t)(exp(r->log_q) * MILLION) : 0,
	};
}

/* Weigh it as the least evidence that counts, so that new evidence soon counts for more. */
void rate_recall(struct rate *r, struct rate_kept kept, msec now)
{
	if (kept.first != 0) {
		r->work_s = 5 * PRIOR_S;
		r->busy_s = r->work_s * bounded(kept.first / MILLION);
		r->firsts = LEAST;
		r->learned = now;
		sums_changed(r);
	}
	if (kept.headers != 0) {
		r->log_q = log(bounded(kept.headers / MILLION));
		r->headers = LEAST;
		r->learned = now;
		quantile_changed(r);
	}
}

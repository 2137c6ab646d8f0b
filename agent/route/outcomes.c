/* outcomes.c - a line for each server by least squares, over sums that decay with each request, so
 * that no history is kept. A ratio would do for large estimates. But a cached prompt at an idle
 * server has an estimate near zero and still takes what a network and an engine's step take, which
 * is where the line starts. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/route/outcomes.h"

#define KEPT		(127.0 / 128)	/* share of the sums that stays with each request */
#define ENOUGH		16u

/* x: estimates, y: measured. */
struct fit {
	uint32_t seen;
	float n, x, y, xx, xy;
};

struct open {
	uint64_t uid;		/* 0: none */
	msec at;
	uint32_t n;
	/* the first is that of the deciding rule */
	struct outcome_guess guess[1 + OUTCOMES_RULES];
};

struct outcomes {
	struct fit all[2], of[SERVERS_MAX][2];	/* by outcome_guess.waits */
	struct outcome_sums checked;
	struct open open[OUTCOMES_OPEN];
};

struct outcomes *outcomes_new(void)
{
	return mem_alloc(sizeof(struct outcomes));
}

void outcomes_free(struct outcomes *o)
{
	mem_free(o);
}

void outcomes_forget(struct outcomes *o)
{
	if (o != NULL)
		memset(o->open, 0, sizeof(o->open));
}

void outcomes_gone(struct outcomes *o, server_id id)
{
	if (o != NULL && id < SERVERS_MAX)
		memset(o->of[id], 0, sizeof(o->of[id]));
}

/* ---- how estimates turn out ---------------------------------------------------------------- */

static void fit_learn(struct fit *f, double x, double y)
{
	f->seen += f->seen < ENOUGH;
	f->n = (float)(f->n * KEPT + 1);
	f->x = (float)(f->x * KEPT + x);
	f->y = (float)(f->y * KEPT + y);
	f->xx = (float)(f->xx * KEPT + x * x);
	f->xy = (float)(f->xy * KEPT + x * y);
}

/* Return the line at <x>. If the line falls, which is chance, or all estimates are equal, the mean
 * is used. */
static double fit_at(const struct fit *f, double x)
{
	double mean_x = f->x / f->n, mean_y = f->y / f->n, spread = f->xx / f->n - mean_x * mean_x;
	double slope = spread > 1e-9 ? (f->xy / f->n - mean_x * mean_y) / spread : 0, y;

	y = slope > 0 ? mean_y + slope * (x - mean_x) : mean_y;
	return y > 0 ? y : 0;
}

/* Returns false if too little is known. */
static bool corrected_estimate(const struct outcomes *o, const struct outcome_guess *g, double *s)
{
	const struct fit *f = &o->of[g->at][g->waits];

	if (f->seen < ENOUGH)
		f = &o->all[g->waits];
	if (f->seen < ENOUGH)
		return false;
	*s = fit_at(f, (double)g->s);
	return true;
}

static void sums_add(struct outcome_sums *s, double measured, double judged)
{
	s->n++;
	s->measured_s += measured;
	s->judged_s += judged;
	s->off_s2 += (measured - judged) * (measured - judged);
}

/* ---- requests ------------------------------------------------------------------------------ */

void outcomes_expect(struct outcomes *o, uint64_t uid, msec now, const struct outcome_guess *taken,
		     const struct outcome_guess *rule, unsigned n)
{
	struct open *p;

	if (o == NULL)
		return;
	p = &o->open[uid % OUTCOMES_OPEN];
	p->uid = uid;
	p->at = now;
	p->n = n;
	p->guess[0] = *taken;
	memcpy(p->guess + 1, rule, n * sizeof(*rule));
}

/* Return the estimate for the server that had the request, of any rule. */
static const struct outcome_guess *guess_for(const struct open *p, server_id at)
{
	for (unsigned i = 0; i <= p->n; i++)
		if (p->guess[i].at == at)
			return &p->guess[i];
	return NULL;
}

static void judge_rule(const struct outcomes *o, const struct outcome_guess *g, server_id at,
    double measured, struct outcome_rule *r)
{
	double s;

	if (g->at != SERVER_NONE && corrected_estimate(o, g, &s))
		sums_add(g->at == at ? &r->same : &r->other, measured, s);
}

void outcomes_came(struct outcomes *o, uint64_t uid, server_id at, msec now, int64_t took_ms,
		   struct outcome_rule *const *rule, unsigned n)
{
	struct open *p = o != NULL ? &o->open[uid % OUTCOMES_OPEN] : NULL;
	const struct outcome_guess *known;
	double measured, s;

	if (p == NULL || p->uid != uid || uid == 0)
		return;
	p->uid = 0;
	if ((known = guess_for(p, at)) == NULL || p->n != n)
		return;
	measured = (double)(took_ms >= 0 ? took_ms : now - p->at) / 1000;
	for (unsigned i = 0; i < n; i++)
		judge_rule(o, &p->guess[1 + i], at, measured, rule[i]);
	if (corrected_estimate(o, known, &s))
		sums_add(&o->checked, measured, s);
	fit_learn(&o->of[at][known->waits], (double)known->s, measured);
	fit_learn(&o->all[known->waits], (double)known->s, measured);
}

/* ---- results ------------------------------------------------------------------------------- */

struct outcome_sums outcomes_checked(const struct outcomes *o)
{
	return o != NULL ? o->checked : (struct outcome_sums){ 0 };
}

bool outcomes_gain(
    const struct outcomes *o, const struct outcome_rule *r, double *gain_s, double *error_s)
{
	const struct outcome_sums *s = &r->other;
	struct outcome_sums all = outcomes_checked(o);
	double n = (double)s->n, mean, spread, off;

	if (s->n < 2)
		return false;
	mean = (s->measured_s - s->judged_s) / n;
	spread = (s->off_s2 - n * mean * mean) / (n - 1);
	off = all.n > 0 ? all.off_s2 / (double)all.n : 0;
	*gain_s = mean;
	*error_s = sqrt(((spread > 0 ? spread : 0) + off) / n);
	return true;
}

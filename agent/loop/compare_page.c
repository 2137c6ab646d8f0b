/* A table in the order of the core: a heading for each pool, then a line for each rule. */
#include <math.h>

#include "agent/loop/compare_page_in.h"

struct page {
	struct buf *t;
	const char *pool;	/* name of the pool of the last line */
};

static void begin_pool(struct page *p, const struct route_compare_view *v)
{
	const struct outcome_sums *c = &v->checked;
	double n = c->n > 0 ? (double)c->n : 1;

	page_addf(p->t, "%spool %s: %llu first tokens measured", p->pool != NULL ? "\n" : "", v->pool,
		  (unsigned long long)c->n);
	if (c->n > 0)
		page_addf(p->t,
			", %.3f s in the mean; corrected estimates made before said %.3f, one is off by %.3f",
			  c->measured_s / n, c->judged_s / n, sqrt(c->off_s2 / n));
	page_addf(p->t, "\n%-20s %9s %6s %9s %8s %9s %9s %9s %8s\n", "rule", "choices", "same",
	    "sooner s", "+-", "of", "took s", "its own s", "hit k");
	p->pool = v->pool;
}

static void add_rule(void *arg, const struct route_compare_view *v)
{
	struct page *p = arg;
	double n = v->other.n > 0 ? (double)v->other.n : 1;

	if (v->pool != p->pool)
		begin_pool(p, v);
	page_addf(p->t, "%-20s %9llu %5.1f%%", v->rule, (unsigned long long)v->choices,
		  v->choices > 0 ? 100 * (double)v->same / (double)v->choices : 0);
	if (v->gain_known)
		page_addf(p->t, " %+9.3f %8.3f", v->gain_s, v->gain_error_s);
	else
		page_addf(p->t, " %9s %8s", "-", "-");
	page_addf(p->t, " %9llu %9.3f %9.3f %8.0f\n", (unsigned long long)v->other.n,
	    v->other.measured_s / n, v->other.judged_s / n, (double)v->hit_tokens / 1000);
}

void compare_page_write(struct route *r, struct buf *t)
{
	struct page p = { .t = t };

	route_each_compared(r, add_rule, &p);
	if (p.pool == NULL)
		page_addf(t, "no rules are compared: set policy.compare\n");
}

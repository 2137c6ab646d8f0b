/* prefill.c - the cheaper of two ways, for one decode server. */
#include "agent/policy/prefill.h"

double prefill_transfer_s(
    const struct policy_opts *o, const struct prefill_offer *f, uint64_t tokens)
{
	return f->transfer_factor *
	    (o->transfer_ms + o->transfer_per_1k_ms * (double)tokens / 1000) / 1000;
}

double prefill_price(const struct policy_opts *o, const struct policy_prompt *p,
    const struct prefill_offer *f, double compute_s, double work_s, double answers,
    struct candidate *c)
{
	double here = c->backlog_s + c->load_s + compute_s, there;
	uint64_t fresh = p->tokens > c->cached ? p->tokens - c->cached : 0;

	c->split = false;
	c->transfer_s = c->there_s = 0;
	if (f == NULL)
		return here;
	here += o->stall * answers * work_s;
	c->here_s = here;
	if (fresh < o->prefill_least)
		return here;
	c->transfer_s = prefill_transfer_s(o, f, fresh);
	there = f->price_s + c->transfer_s;
	if (there < c->backlog_s)
		there = c->backlog_s;
	c->there_s = there + c->load_s;
	c->split = c->there_s < here;
	return c->split ? c->there_s : here;
}

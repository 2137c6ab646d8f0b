/* Spare buffers of a worker.
 *
 * Between two events a worker has a spare buffer of each kind. While some connections have partial
 * long frames, it needs more large input buffers, and would allocate, fault in, wipe and free one
 * for each of these frames. So it keeps up to LARGE_SPARES of those that come back. To take memory
 * from no connection, it keeps them only while less than half of the budget is used, and frees them
 * after a second without long frames. */
#include "agent/loop/sock_conn_in.h"

#define TRIM_SWEEPS	4

/* Move a large spare buffer of at least <cap> bytes to <to>, which has none. */
static bool take_large(struct worker *w, size_t cap, struct conn_buf *to)
{
	if (w->n_large == 0 || w->large_in[w->n_large - 1].cap < cap)
		return false;
	*to = w->large_in[--w->n_large];
	return true;
}

static void free_large(struct worker *w)
{
	while (w->n_large > 0)
		conn_buf_fini(&w->large_in[--w->n_large], &w->agent->budget);
}

bool sock_spares(struct worker *w)
{
	struct budget *budget = &w->agent->budget;
	struct conn_buf none = { 0 };

	if (w->spare_in.p == NULL)
		take_large(w, 0, &w->spare_in);
	return conn_buf_borrow(&w->spare_in, &none, SOCK_IN_FIRST, budget) &&
	       conn_buf_borrow(&w->spare_out, &none, SOCK_OUT_BYTES, budget);
}

void sock_keep_spares(struct worker *w, struct sock *s)
{
	if (!sock_spares(w))
		sock_no_memory(s);
}

bool sock_grow_in(struct sock *s, size_t cap)
{
	struct worker *w = s->w;
	struct conn_buf large = { 0 };

	if (w->spare_in.cap >= cap) {
		large = w->spare_in;
		w->spare_in = (struct conn_buf){ 0 };
	} else if (!take_large(w, cap, &large)) {
		return conn_buf_exchange(&s->in, cap, BUDGET_LARGE, &w->agent->budget);
	}
	conn_buf_replace(&s->in, &large, &w->spare_in, &w->agent->budget);
	return true;
}

bool sock_shrink_in(struct sock *s, size_t n)
{
	struct worker *w = s->w;
	struct conn_buf none = { 0 }, small = { 0 };

	if (!conn_buf_borrow(&small, w->spare_in.cap > SOCK_IN_FIRST ? &none : &w->spare_in,
	    SOCK_IN_FIRST, &w->agent->budget))
		return false;
	conn_buf_copy_rest(&small, &s->in, n);
	sock_return_in(s);
	s->in = small;
	return true;
}

void sock_return_in(struct sock *s)
{
	struct worker *w = s->w;
	struct budget *budget = &w->agent->budget;
	struct conn_buf *in = &s->in;

	if (in->cap > SOCK_IN_FIRST && w->spare_in.cap > SOCK_IN_FIRST && w->n_large < LARGE_SPARES &&
	    budget_is_low(budget)) {
		in->n = in->at = 0;
		w->large_in[w->n_large++] = *in;
		*in = (struct conn_buf){ 0 };
	}
	conn_buf_return(in, &w->spare_in, budget);
}

/* Replace large spare buffers by one small one if no long frame came for a while. */
void sock_trim_spares(struct worker *w)
{
	bool any = w->spare_in.cap > SOCK_IN_FIRST || w->n_large > 0;
	bool idle = any && ++w->sweeps_small > TRIM_SWEEPS;

	if (idle || !budget_is_low(&w->agent->budget))
		free_large(w);
	if (idle && w->spare_in.cap > SOCK_IN_FIRST)
		conn_buf_exchange(&w->spare_in, SOCK_IN_FIRST, BUDGET_FIRST, &w->agent->budget);
}

void sock_wipe_spares(struct worker *w)
{
	conn_buf_wipe(&w->spare_in);
	conn_buf_wipe(&w->spare_out);
	for (unsigned i = 0; i < w->n_large; i++)
		conn_buf_wipe(&w->large_in[i]);
}

void sock_free_spares(struct worker *w)
{
	free_large(w);
	conn_buf_fini(&w->spare_in, &w->agent->budget);
	conn_buf_fini(&w->spare_out, &w->agent->budget);
}

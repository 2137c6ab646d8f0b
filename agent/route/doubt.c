/* doubt.c - what a first token tells of the part of a prompt that was not seen.
 *
 *      a turn of a session     how much of what its server had is cached still: fleet/keep.h
 *      any other               how much of what was announced came: fleet/announced.h
 *
 * The time is that from the last first token of the server, or from when the request was sent if
 * that is later. It is compared with what the server takes for the least and the most work that
 * the request may be. A time far above that is of something else, such as an upload that goes on
 * while HAProxy has asked already, and tells nothing. Nor does that of a request behind others
 * whose first tokens were not reported, since their answers are no streams. Requests that went
 * elsewhere, or that siblings sent, have no doubt. */
#include "agent/route/job_in.h"

#define CLEAR_SHARE	0.8	/* the least must take at most this share of the most, */
#define CLEAR_S		0.05	/* and be this much faster */
#define FAR		1.5	/* times the most: of something else */

/* Tell if the server has nothing of the unseen part, as far as its request shows. */
static bool unseen_is_new(const struct job *j, const struct candidate *c)
{
	return c->depth < j->rq.n_pages || (j->turn.key != 0 && !j->view.known);
}

struct doubt job_doubt(const struct route *r, const struct job *j, const struct candidate *c)
{
	const struct policy_opts *po = &j->pool_seen->opts->policy;
	const struct server *s = r->fleet.by_id[c->id];
	uint64_t n = j->history + j->rq.tokens, cached = c->cached < n ? c->cached : n;
	unsigned k = job_held_tail(r, j, s);
	struct doubt d = { .unused_ms = -1, .tenant = (uint32_t)j->turn.tenant };

	if (j->rq.unseen_tokens == 0)
		return (struct doubt){ 0 };
	if (k < SESSION_TAILS && !job_guessed(j)) {
		d.least_s = (float)policy_prefill_s(
		    po, j->asks.tokens, j->history + j->view.held[k]);
		d.most_s = (float)policy_prefill_s(po, j->asks.tokens, j->history);
		d.unused_ms = (float)(j->rq.now - j->view.tail[k].at);
	} else if (!j->view.trusted && unseen_is_new(j, c)) {
		d.least_s = (float)policy_prefill_s(po, n, cached);
		d.most_s = (float)policy_prefill_s(po, n + job_unseen_of(j, ANNOUNCED_MOST), cached);
	}
	return d;
}

void doubt_first(const struct ledger_entry *e, msec now)
{
	const struct open_request *o = (const struct open_request *)e;
	const struct doubt *d = &o->doubt;
	struct server *s = e->server;
	msec last = s->capacity.last_first, begun = last > e->since ? last : e->since;
	double slowness = server_slowness(s, s->pool->step, now), took_s = (double)(now - begun) / 1000;
	double least_s = slowness * (double)d->least_s, most_s = slowness * (double)d->most_s;
	double came_s = took_s < least_s ? 0 : took_s < most_s ? took_s - least_s : most_s - least_s;
	struct unseen_tenant *t;

	if ((int32_t)(s->n_answered - o->due) < 0 || least_s > CLEAR_SHARE * most_s ||
	    most_s - least_s < CLEAR_S || took_s > FAR * most_s)
		return;
	t = unseen_lesson(&s->pool->unseen, d->tenant);
	if (d->unused_ms >= 0)
		keep_learn(
		    &t->keep, o->session, (msec)d->unused_ms, 1 - came_s / (most_s - least_s), now);
	else
		announced_learn(&t->announced, most_s - least_s, came_s, now);
}

/* wait.c - the time to the first token that HAProxy is told, and what it really was. */
#include "agent/route/job_in.h"

/* Return the seconds of work that wait at <s>. With first tokens, what it has done since the last
 * one is counted off. Without, the backlog drains by itself. */
static double waiting(const struct job *j, const struct server *s, const struct candidate *c)
{
	double done = (double)(j->rq.now - s->rate.since) / 1000;

	if (j->step != STEP_FIRST || s->n_unanswered == 0 || done <= 0)
		return c->backlog_s;
	return c->backlog_s > done ? c->backlog_s - done : 0;
}

/* Return the delay by a cache full of open requests: 0 if its size is only guessed. */
static double sure_kv_s(const struct server *s, const struct candidate *c)
{
	enum capacity_source by;

	server_capacity(s, &by);
	return by != CAPACITY_GUESS ? c->kv_s : 0;
}

void job_wait(struct job *j, const struct server *s, const struct candidate *c)
{
	const struct policy_opts *po = &j->pool_seen->opts->policy;
	double slowness = j->pool_seen->slowness, estimate_s;

	j->expected_s = -1;
	if (j->step < STEP_END)
		return;
	estimate_s = c->adapter_s + sure_kv_s(s, c) + c->load_s + (c->split
	    ? prefill_estimate_s(j, c, waiting(j, s, c))
	    : waiting(j, s, c) + c->slowness * policy_prefill_s(po, j->asks.tokens, c->cached));
	j->nominal_s = estimate_s / slowness;
	j->expected_s = wait_expected(&j->pool_seen->wait, estimate_s, slowness, j->rq.now);
}

double wait_at(const struct server *s, msec now)
{
	const struct pool *p = s->pool;
	double since = (double)(now - (p->step == STEP_FIRST ? s->rate.since : s->fluid_at)) / 1000;
	double waits = p->step == STEP_FIRST ? s->unanswered_s : s->fluid_s;

	if (p->step < STEP_END)
		return -1;
	if (s->n_unanswered > 0 && since > 0)
		waits -= since;
	return waits > 0 ? wait_expected(&p->wait, waits, p->slowness, now) : 0;
}

/* Not for a request whose length is unknown, nor one that went elsewhere or that a sibling sent. */
static bool teaches(const struct ledger_entry *e)
{
	const struct open_request *o = (const struct open_request *)e;

	return o->expected_s > 0 && e->from == SERVER_NONE;
}

static void came(const struct ledger_entry *e, msec took, msec now)
{
	const struct open_request *o = (const struct open_request *)e;

	wait_came(&e->server->pool->wait, (double)o->estimate_s, (double)o->expected_s,
	    (double)took / 1000, now);
}

void wait_first(const struct ledger_entry *e, msec now)
{
	times_first(e, now - e->since);
	if (teaches(e))
		came(e, now - e->since, now);
}

static msec positive(int64_t ms)
{
	return ms > 0 ? ms : 0;
}

/* Only the headers of a stream come with its first token, and not those of all engines. */
void wait_headers(const struct ledger_entry *e, const struct fact *f, msec now)
{
	msec took = positive(f->queue_ms) + positive(f->connect_ms) + f->response_ms;

	if (!open_of((struct ledger_entry *)e)->lesson.streams || f->response_ms < 0 ||
	    !rate_headers_known(&e->server->rate, now))
		return;
	times_first(e, took);
	if (teaches(e))
		came(e, took, now);
}

/* ask.c - what would be chosen for a body now, without the request.
 *
 * The same steps as route_decide(), less all that learns: no entry in the ledger, no claim, no
 * counter, no record, no turn of the server. The servers are those of the last load string, because
 * no HAProxy process asks. The prompt is not remembered (request.aside), and chance is a copy. */
#include <assert.h>

#include "agent/base/rng.h"
#include "agent/route/job_in.h"

static void choose_known(struct route *r, struct job *j)
{
	struct route_scratch *s = j->scratch;
	struct rng rng = r->rng;
	const struct candidate *c;
	double least;

	job_choose(r, j, &rng);
	if (j->choice.first < 0)
		return;
	c = &s->candidates[j->choice.first];
	least = compare_least(s->candidates, j->n_candidates);
	j->regret_s = c->cost > least ? c->cost - least : 0;
	job_wait(j, r->fleet.by_id[c->id], c);
	j->prefill.split = c->split && j->pool_opts->mode == MODE_ON;
}

static void ask_locked(struct route *r, struct job *j, struct route_answer *a)
{
	job_take_known(r, j);
	if (a->why == WHY_COLD && !j->has_load)
		a->why = WHY_NOLOAD;
	if (a->why == WHY_COLD) {
		choose_known(r, j);
		a->why = why_of_choice(j);
		if (j->choice.first >= 0)
			job_answer(r, j, a);
	}
	j->would.why = a->why;
	j->would.hit = a->hit;
	j->would.pages = a->pages;
}

/* Read the body and look it up. */
static void read_asked(struct route *r, struct job *j, const struct route_request *q,
    struct route_answer *a)
{
	uint64_t work = request_take_work(&j->rq, q->work);

	a->why = why_of_found(request_read_prompt(&j->rq));
	a->work = request_pay_work(&j->rq, work);
	a->cut = j->rq.cut && j->rq.prompt->found;
	if (a->why != WHY_COLD)
		return;
	a->prompt_pages = j->rq.n_pages;
	job_match(r, j);
}

void route_ask(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
    struct decision *x, uint64_t space[2])
{
	struct route_answer a = { .why = WHY_NOPROMPT, .rank = -1, .wait_ms = -1 };
	struct request_message m;
	struct job j;

	assert(!s->unfinished);
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, q, now, &j, &m);
	m.has_uid = false;
	j.rq.aside = j.no_compare = true;
	job_enter_pool(&j);
	pthread_mutex_lock(&r->lock);
	j.pool_seen = fleet_find(&r->fleet, j.rq.pool);
	j.isolated = j.pool_seen != NULL && j.pool_opts->isolate_tenants &&
	    (j.pool_seen->route->tenants || j.rq.tenant.n > 0);
	pthread_mutex_unlock(&r->lock);
	if (request_take_body(&j.rq, &m))
		read_asked(r, &j, q, &a);
	pthread_mutex_lock(&r->lock);
	ask_locked(r, &j, &a);
	pthread_mutex_unlock(&r->lock);
	explain_fill(r, &j, q->uid, &a, x);
	space[0] = j.rq.space.h[0];
	space[1] = j.rq.space.h[1];
	request_keep_body(&j.rq);
	pthread_rwlock_unlock(&r->opts_lock);
}

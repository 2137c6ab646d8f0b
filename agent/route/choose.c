/* choose.c - the choice among the servers that the load names, and its reason. Nothing is counted
 * or entered here: chosen.c does that for a request, and ask.c does not. */
#include "agent/route/job_in.h"

void job_enter_pool(struct job *j)
{
	j->pool_opts = pool_options_of(j->opts, j->rq.pool);
	j->rq.in = (struct request_pool){
		.isolate_tenants = j->pool_opts->isolate_tenants, .model = j->pool_opts->model,
		.caches = j->pool_opts->prefill,
	};
	j->choice = (struct policy_choice){ .first = -1, .second = -1 };
}

enum why why_of_found(enum request_found f)
{
	return f == REQUEST_PROMPT ? WHY_COLD : f == REQUEST_NO_PROMPT ? WHY_NOPROMPT : WHY_BADBODY;
}

enum why why_of_choice(const struct job *j)
{
	if (j->choice.first < 0)
		return j->choice.why;
	return j->stored ? WHY_STICKY : j->rq.headless ? WHY_HEADLESS : j->choice.why;
}

void job_choose(struct route *r, struct job *j, struct rng *rng)
{
	struct candidate *c = j->scratch->candidates;

	job_session_look(r, j);
	job_stored(r, j);
	prefill_offer(r, j, rng);
	job_candidates(r, j);
	job_share(r, j);
	j->step = j->pool_seen->step;
	j->pressure = j->pool_seen->pressure;
	j->pressure.firsts = j->step == STEP_FIRST;
	for (size_t i = 0; i < j->n_candidates; i++) {
		if (c[i].cached > j->asks.matched)
			j->asks.matched = c[i].cached;
	}
	policy_choose(&j->pool_seen->opts->policy, j->pool_seen->route->memory, &j->asks, &j->pressure,
	    rng, c, j->n_candidates, &j->choice);
}

/* job_match.c - look the prompt up before the choice: in the index, in the blocks that engines
 * report, and in the memories of the rules. Without the route's lock. */
#include "agent/base/mem.h"
#include "agent/route/job_in.h"

/* Return room for the chain hashes of a prompt, which the thread keeps. Returns NULL if there is no
 * memory. */
static uint64_t *chain_room(const struct route *r, struct route_scratch *s)
{
	if (s->chain == NULL)
		s->chain = mem_calloc(route_chain_room(&r->opts), sizeof(*s->chain));
	return s->chain;
}

/* Set the marks of the prompt, and more hashes of it for siblings and its record. */
static void mark_prompt(const struct route *r, struct job *j)
{
	uint64_t *chain = chain_room(r, j->scratch);

	marks_of(&j->scratch->marks, chain_start(&r->key, j->rq.space.h), j->scratch->rq.pages.p,
	    chain != NULL ? marked_pages(r, j) : j->rq.n_pages, chain);
	j->sent.chain = chain;
	shared_prefetch(r->shared, &j->scratch->marks);
}

void job_match(struct route *r, struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct policy_opts *po = &j->pool_opts->policy;

	index_match(r->index, &j->rq.space, j->scratch->rq.pages.p, j->rq.n_pages, &j->scratch->match);
	mark_prompt(r, j);
	job_describe(r, j, policy_wants_body(po->rule) || compare_wants_body(job_compared(j)));
	j->described = true;
	job_ends(r, j);
	job_session(r, j);
	job_match_events(r, j);
	if (p == NULL)
		return;
	compare_match(job_compared(j), &p->route->rule_lock, &j->asks, j->rq.now, &j->scratch->compare);
	if (p->route->memory == NULL)
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	j->has_own = policy_match(p->route->memory, po, &j->asks, j->rq.now, j->scratch->own);
	pthread_mutex_unlock(&p->route->rule_lock);
}

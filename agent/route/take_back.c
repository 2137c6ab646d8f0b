/* take_back.c - undo what an earlier slice, or an earlier request of the same uid, has entered.
 *
 * This comes before the match, because its own claim would look like a cached prefix. HAProxy sends
 * everything twice if the filter is declared in both frontend and backend. */
#include "agent/route/job_in.h"

void job_take_entry_back(struct route *r, struct job *j, struct settling *st)
{
	struct ledger_entry *e = ledger_find(&r->ledger, j->rq.uid);

	if (e == NULL)
		return;
	if (open_of(e)->owner == NULL) {
		j->previous = e->server->id;
		j->previous_turn = open_of(e)->session;
		j->counted = open_of(e)->tokens;
		j->counted_hit = open_of(e)->hit_tokens;
		j->counted_best = open_of(e)->best_hit_tokens;
		j->told = r->sharing != NULL;
		j->told_part = open_of(e)->part;
	}
	if (e->server->last_pick == open_of(e)->turn)
		e->server->last_pick = open_of(e)->turn_before;
	session_give_back(r, open_of(e), st);
	settling_add(st, entry_close(r, e, false, j->rq.now), false);
}

void job_take_back(struct route *r, struct job *j)
{
	struct settling st;

	settling_init(&st);
	pthread_mutex_lock(&r->lock);
	finished_entry(r, j->rq.uid);
	j->pool_seen = pool_met(r, j->rq.pool);
	j->isolated = job_is_isolated(j);
	job_take_entry_back(r, j, &st);
	settling_add(&st, prefill_take_back(r, j), false);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, j->rq.now);
}

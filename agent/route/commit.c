/* commit.c - what a decision leaves behind, without the route's lock: its pages in the index, and
 * what the rules' memories and the siblings are told.
 *
 * Load strings, age and siblings may close the request between choice and commit; then its claim is
 * settled at once (attach_claim). Facts about it, and its second send, wait (finished_entry): else
 * they would come before its record, and siblings would hear of its end before its start. */
#include "agent/route/job_in.h"

static void settle_one(struct route *r, index_claim claim, bool confirm, msec now)
{
	if (confirm)
		index_confirm(r->index, claim, now);
	else
		index_cancel(r->index, claim);
}

void settle_given(struct route *r, struct settling *st)
{
	if (st->given.room > 0)
		index_give_output(r->index, st->given.at, st->given.room, st->given.since);
	st->given.room = 0;
}

void settle(struct route *r, struct settling *st, msec now)
{
	for (unsigned i = 0; i < st->n; i++)
		settle_one(r, st->item[i].claim, st->item[i].confirm, now);
	for (unsigned i = 0; i < st->n_unheard; i++)
		share_taken_back(r, st->unheard[i].uid, st->unheard[i].part, st->unheard[i].served);
	settle_given(r, st);
	settling_init(st);
}

/* Give <claim> to the entry that is still open. The lock is held. */
static bool claim_taken(
    struct route *r, uint64_t uid, const struct ledger_pending *p, index_claim claim)
{
	struct ledger_entry *e = ledger_find(&r->ledger, uid);
	bool taken = e != NULL && e->pending == p;

	if (taken) {
		e->claim = claim;
		e->pending = NULL;
	}
	if (r->n_waiting > 0)
		pthread_cond_broadcast(&r->finished);
	return taken;
}

/* Settle a claim that came after its entry was closed. */
static void settle_late(struct route *r, const struct ledger_pending *p, index_claim claim,
    server_id to, bool shadow, msec now)
{
	if (claim == 0)
		return;
	if (p->settled ? !p->confirm : shadow)
		index_cancel(r->index, claim);
	else if (p->settled && p->at != to)
		index_confirm_at(r->index, claim, p->at, now);
	else
		index_confirm(r->index, claim, now);
}

void attach_claim(struct route *r, uint64_t uid, const struct ledger_pending *p,
    index_claim claim, server_id to, bool shadow, msec now)
{
	bool taken;

	pthread_mutex_lock(&r->lock);
	taken = claim_taken(r, uid, p, claim);
	pthread_mutex_unlock(&r->lock);
	if (!taken)
		settle_late(r, p, claim, to, shadow, now);
}

static void remember_sent(struct job *j, server_id to)
{
	struct pool *p = j->pool_seen;

	compare_sent(job_compared(j), &p->route->rule_lock, &j->asks, to, j->rq.now);
	if (p->route->memory == NULL)
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	policy_sent(p->route->memory, &p->opts->policy, &j->asks, to, j->rq.now);
	pthread_mutex_unlock(&p->route->rule_lock);
}

static struct index_place commit_pages(struct route *r, struct job *j)
{
	struct index_place end;

	if (j->grown_pages > 0)		/* before the commit evicts for them once more */
		index_take_output(r->index, j->to, j->grown_pages * j->rq.space.page_room, j->grown_since);
	j->claim = index_commit_at(r->index, &j->rq.space, j->scratch->rq.pages.p, j->rq.n_pages,
	    &j->scratch->match, j->to, j->rq.now,
	    (unsigned)(j->rq.prompt->priority - PROMPT_PRIORITY_MIN), &end);
	if (j->turn.key != 0)
		job_session_placed(r, j, end);
	return end;
}

void job_tell_choice(struct route *r, struct job *j)
{
	struct index_place end = { 0, 0 };

	prefill_tell(r, j);
	if (j->choice.first >= 0)
		remember_sent(j, j->scratch->candidates[j->choice.first].id);
	if (j->choice.first >= 0 && j->rq.n_pages > 0 && j->to != SERVER_NONE)
		end = commit_pages(r, j);
	if (j->entered && r->sharing != NULL)
		share_placed(r, j, end);
	else if (j->told)
		share_taken_back(r, j->rq.uid, j->told_part, false);
}

void job_finished(struct route *r, struct job *j)
{
	bool due = j->entered || j->claim != 0, taken = false;

	if (!j->seen_there && !due)
		return;
	pthread_mutex_lock(&r->lock);
	if (j->seen_there)
		job_note_marks(r, j);
	if (due)
		taken = claim_taken(r, j->rq.uid, &j->pending, j->claim);
	pthread_mutex_unlock(&r->lock);
	if (due && !taken)
		settle_late(
		    r, &j->pending, j->claim, j->to, j->pool_opts->mode == MODE_SHADOW, j->rq.now);
}

struct ledger_entry *finished_entry(struct route *r, uint64_t uid)
{
	struct ledger_entry *e;

	while ((e = ledger_find(&r->ledger, uid)) != NULL && e->pending != NULL &&
	       open_of(e)->owner == NULL) {
		r->n_waiting++;
		pthread_cond_wait(&r->finished, &r->lock);
		r->n_waiting--;
	}
	return e;
}

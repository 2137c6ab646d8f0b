/* ledger_enter.c - a chosen request enters the ledger: its work, what its end may teach, and what
 * siblings need to know of it. The lock is held. */
#include "agent/base/num.h"
#include "agent/route/job_in.h"

void job_ledger_room(struct route *r, struct job *j, struct settling *st)
{
	size_t most = j->opts->ledger_max_entries;
	bool first = true;

	/* those above it were opened for prompts that two servers have */
	while (r->ledger.n > 0 && r->ledger.n >= most && (first || !settling_full(st))) {
		close_unheard(r, list_entry(r->ledger.by_age.next, struct ledger_entry, by_age), st,
		    j->rq.now);
		r->stats.closed_by_room++;
		first = false;
	}
}

/* Return the tokens for which no page stands, and that the prompt adds to its server's cache as the
 * index counts it. Without a session each turn would count those of the turn before again. */
static uint32_t hidden_tokens(const struct job *j, uint64_t cached, uint32_t depth)
{
	uint64_t seen = j->history + (uint64_t)depth * j->rq.page_tokens;
	uint64_t known = !j->taken_up.all_hidden && cached > seen ? cached - seen : 0;
	uint64_t hidden = j->rq.unseen_tokens > known ? j->rq.unseen_tokens - known : 0;

	if (j->turn.key == 0 || (j->view.known && !j->view.trusted))
		return 0;
	return hidden < UINT32_MAX ? (uint32_t)hidden : UINT32_MAX;
}

/* Note what the end of the request will teach. */
static void fill_lesson(
    struct route *r, const struct job *j, const struct candidate *c, struct lesson *l)
{
	if (j->rq.agree.model != 0 && j->rq.mode == PROMPT_TOKENS && !j->rq.cut && !j->rq.part &&
	    !j->rq.news.bounded && !prompt_continues_stored(j->rq.prompt)) {
		l->agree = j->rq.agree;
		l->exact = true;
		agree_meet(&r->requests.agree, j->rq.agree.model, j->rq.model_opts->name, j->rq.now);
	}
	l->end = j->end;
	l->stores = job_stores(r, j);
	l->whole = j->rq.prompt->json == JSON_DONE && !j->rq.prompt->streams;
	l->streams = j->rq.prompt->streams;
	l->generates = j->rq.prompt->api != API_EMBEDDINGS;
	/* an image has tokens of its own, and so has what the engine has stored: they would count for
	 * its text */
	if (j->rq.mode == PROMPT_TEXT && !j->rq.cut && !(j->rq.prompt->shape & SHAPE_MEDIA) &&
	    !prompt_continues_stored(j->rq.prompt)) {
		l->density = j->rq.density_key;
		l->density_part = (uint8_t)(j->rq.density_tenant % DENSITY_PARTS);
		l->text_bytes = j->rq.prompt->n_units < UINT32_MAX ? (uint32_t)j->rq.prompt->n_units : 0;
	}
	l->counted = (uint32_t)at_most(job_as_counted(j, j->asks.tokens), UINT32_MAX);
	l->seen = (uint32_t)at_most((uint64_t)j->rq.n_pages * j->rq.page_tokens, UINT32_MAX);
	l->hidden = hidden_tokens(j, c->cached, c->depth);
	l->block = j->rq.mode == PROMPT_TOKENS ? j->rq.page : 0;
}

void job_ledger_enter(struct route *r, struct job *j, struct server *s,
    const struct candidate *c, uint64_t turn_before)
{
	uint64_t cached = c->cached;
	const struct policy_opts *po = &j->pool_seen->opts->policy;
	struct slot *sl = server_slot(s, j->rq.process, j->rq.now);
	uint64_t tokens = job_sure_tokens(j);
	double nominal_s = policy_prefill_s(po, j->asks.tokens, cached);
	double seen_s = policy_prefill_s(po, j->history + j->rq.tokens, cached);
	double slowness = server_slowness(s, j->pool_seen->step, j->rq.now);
	struct work work = {
		.s = nominal_s * slowness, .nominal_s = nominal_s,
		.unseen_s = (nominal_s - seen_s) * slowness, .uncertain = job_uncertain(j),
		.tokens = tokens > cached ? tokens - cached : 0,
	};
	struct ledger_entry *e;
	struct open_request *o;

	if (c->split) {
		nominal_s = seen_s = 0;
		work = (struct work){ .elsewhere = true };
	}
	if (sl == NULL ||
	    (e = ledger_open(
		 &r->ledger, j->rq.uid, s, sl, &work, tokens, j->common_tokens, j->rq.now)) == NULL)
		return;
	o = open_of(e);
	j->entered = true;
	e->pending = &j->pending;
	if (j->turn.key != 0) {
		o->session = j->turn.key;
		o->taken_up = j->taken_up.hidden;
		o->taken_up_since = j->taken_up.hidden_since;
		sessions_sent(r->sessions, &j->turn, s->id, j->previous_turn == j->turn.key,
		    work.s < 1000 ? (uint32_t)(work.s * 1e6) : 1000000000, j->rq.now);
	}
	if (!c->split && s->id == c->id)
		o->doubt = job_doubt(r, j, c);
	o->due = s->n_answered + s->n_unanswered - 1;
	fill_lesson(r, j, c, &o->lesson);
	ledger_weigh(e, job_extra(j));
	o->estimate_s = (float)j->nominal_s;
	o->expected_s = job_guessed(j) ? -1 : (float)j->expected_s;	/* it teaches nothing */
	o->tokens = j->counted;
	o->hit_tokens = j->counted_hit;
	o->best_hit_tokens = j->counted_best;
	o->turn_before = turn_before;
	o->turn = s->last_pick;
	if (r->sharing == NULL)
		return;
	o->part = share_part(r->sharing, j->rq.space.h[0]);
	j->sent.nominal_s = nominal_s;
	j->sent.unseen_s = nominal_s - seen_s;
	j->sent.tokens = tokens;
	j->sent.work_tokens = work.tokens;
	j->sent.taken_up = o->taken_up;
	j->sent.lesson = o->lesson;
}

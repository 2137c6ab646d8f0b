/* chosen.c - what is counted and noted of a choice, with the lock held: figures of the server and
 * its pool, the pressure, the evidence for sizes of caches, what shadow mode and compared rules
 * would have done; then the request enters the ledger. */
#include "agent/base/num.h"
#include "agent/route/job_in.h"

static void count_more(uint64_t *counted, uint64_t now, uint64_t *total)
{
	if (now <= *counted)
		return;
	*total += now - *counted;
	*counted = now;
}

/* Return the tokens of whole pages that the candidate with most of them is expected to hold. */
static uint64_t best_hit(const struct job *j)
{
	uint32_t most = 0;

	for (size_t i = 0; i < j->n_candidates; i++)
		if (j->scratch->candidates[i].depth > most)
			most = j->scratch->candidates[i].depth;
	return j->history + (uint64_t)most * j->rq.page_tokens;
}

/* Count a choice. Counters never go back: a server chosen for an earlier slice stays counted. */
static void count_pick(struct route *r, struct job *j, struct server *s, uint64_t hit)
{
	uint64_t before = j->counted_hit;

	if (j->previous != s->id) {
		s->picked++;
		s->picked_why[why_of_choice(j)]++;
	}
	count_more(&j->counted_best, best_hit(j), &r->stats.best_hit_tokens);
	count_more(&j->counted, j->history + j->rq.tokens, &r->stats.prompt_tokens);
	count_more(&j->counted_hit, hit, &r->stats.hit_tokens);
	s->hit_tokens += j->counted_hit - before;
}

static void note_guard(struct pool *p, const struct policy_choice *c)
{
	if (p->route->imbalanced == c->imbalanced)
		return;
	p->route->imbalanced = c->imbalanced;
	p->route->imbalance_transitions++;
}

static void note_pressure(struct job *j)
{
	const struct candidate *c = j->scratch->candidates;
	const struct policy_opts *po = &j->pool_seen->opts->policy;
	const struct candidate *chosen = &c[j->choice.first];
	double wait = 0, n = (double)j->n_candidates;
	size_t waiting = 0;

	for (size_t i = 0; i < j->n_candidates; i++) {
		wait += c[i].backlog_s;
		waiting += c[i].backlog_s > 0;
	}
	pool_press(j->pool_seen, wait / n, (double)waiting / n,
		   chosen->split ? j->pool_seen->mean_work_s
		   : chosen->slowness * policy_prefill_s(po, job_sure_tokens(j), chosen->cached));
}

/* Called before the request is among those that wait there. The marks are noted after the answer,
 * because they are in as many cache lines of a large table. */
static void note_capacity(struct route *r, struct job *j, struct server *s, uint32_t matched)
{
	if (r->marks == NULL || s == j->pool_seen->nowhere)
		return;
	j->seen_there = true;
	j->evidence = (struct capacity_sent){
		.marks = &j->scratch->marks,
		.room = server_room(s),
		.uid = j->rq.uid,
		.tokens = j->asks.tokens - j->history,	/* which no mark stands for */
		.unseen = j->rq.unseen_tokens,
		.matched = matched,
		.page_tokens = j->rq.page_tokens,
		.waiting = s->unanswered_tokens,
	};
	capacity_prefetch(&s->capacity, r->marks, &j->scratch->marks);
}

void job_note_marks(struct route *r, struct job *j)
{
	struct ledger_entry *e = ledger_find(&r->ledger, j->rq.uid);
	struct server *s = r->fleet.by_id[j->to];

	if (s == NULL)		/* it was closed and its server removed meanwhile */
		return;
	capacity_sent(&s->capacity, r->marks, &j->evidence, j->rq.now);
	if (e != NULL && e->pending == &j->pending && e->server == s)
		open_of(e)->run = capacity_opened(&s->capacity);
}

/* Return the pages that the index says <id> holds, without what it generated. */
static uint32_t index_depth(const struct job *j, server_id id)
{
	uint32_t depth = index_match_depth(&j->scratch->match, id);

	return depth < j->rq.usable ? depth : j->rq.usable;
}

#define TAIL_TOKENS	512

/* Count a request that branches from a prefix. The next turn of a conversation does not: it
 * continues where the last turn ended. Nor does a request that leaves only a short tail of the
 * other prompts unused, because clients append texts for one request and drop them in the next.
 * Only the last slice of a body tells how far it matches. */
static void note_branch(struct route *r, struct job *j)
{
	const struct index_match *m = &j->scratch->match;

	if (r->shared != NULL && !j->rq.more && m->n_bands > 0 && m->bands[0].depth < j->rq.n_pages &&
	    (uint64_t)m->beyond * j->rq.page_tokens > TAIL_TOKENS) {
		shared_branch(r->shared, &j->scratch->marks, m->bands[0].depth, j->rq.now);
		j->sent.branched = m->bands[0].depth;
	}
}

/* What <s> generated becomes pages of <j>, and its message tells how many tokens the stream had. */
static void note_grown(struct route *r, struct job *j, const struct server *s)
{
	uint32_t depth = index_match_depth(&j->scratch->match, s->id);
	struct job_grown_at at;

	if (depth == 0 || j->rq.more || (j->grown_pages = job_grown_pages(r, j, s, depth, &at)) == 0)
		return;
	j->grown_since = at.place->at;
	if (at.ids == 0 || at.place->bytes == 0)
		return;
	answer_learn_stream(&r->answer_size, at.place->bytes, at.ids);
	at.place->bytes = 0;
}

/* Tell if three quarters of the servers that HAProxy balances to have speeds that are not guessed.
 * Others get no requests, so they would be waited for without end: backup servers, those in
 * maintenance, without weight, or down. */
static bool speeds_learned(const struct job *j)
{
	const struct pool *p = j->pool_seen;
	size_t known = 0, all = 0;

	for (size_t i = 0; i < p->n_servers; i++) {
		if (!server_set_has(&j->candidates, p->servers[i]->id))
			continue;
		all++;
		known += server_speed_known(p->servers[i], p->step, j->rq.now);
	}
	return !p->policy->learn_rate || known * 4 >= all * 3;
}

/* A later slice replaces an earlier one. */
static void note_shadow(struct job *j)
{
	const struct shadow_choice c = {
		.learned = speeds_learned(j),
		.untimed = job_uncertain(j),
		.uid = j->rq.uid,
		.from = j->scratch->candidates,
		.n = j->n_candidates,
		.chosen = (size_t)j->choice.first,
		.tokens = j->asks.tokens,
		.prompt = &j->asks,
		.opts = &j->pool_seen->opts->policy,
	};

	shadow_chose(&j->pool_seen->route->shadow, &c);
}

static void note_pick(struct route *r, struct job *j, struct server *s)
{
	struct candidate *c = &j->scratch->candidates[j->choice.first];
	uint64_t seen = j->history + j->rq.tokens;
	uint64_t hit = j->history + (uint64_t)c->depth * j->rq.page_tokens;
	uint64_t turn_before = s->last_pick;

	/* without memory for the prefill server's entry its work would count nowhere */
	if (c->split && j->pool_opts->mode == MODE_ON && !prefill_enter(r, j, c))
		c->split = false;
	job_wait(j, s, c);
	s->last_pick = ++j->pool_seen->picks;
	r->stats.truth[c->truth]++;
	count_pick(r, j, s, hit);
	if (j->pool_opts->mode == MODE_SHADOW) {
		note_shadow(j);
		if ((s = fleet_nowhere(&r->fleet, j->pool_seen)) == NULL)
			return;
	}
	j->to = s->id;
	job_session_sent(r, j, s);
	if (!c->split)		/* its first token says nothing about the cache of <s> */
		note_capacity(r, j, s, index_depth(j, s->id));
	note_branch(r, j);
	note_grown(r, j, s);
	job_note_asked(r, j, s);
	onway_sent(r, j->rq.uid, &j->scratch->marks, s,
	    seen > c->cached ? seen - c->cached : 0, j->rq.now);
	job_ledger_enter(r, j, s, c, turn_before);
	if (j->prefill.split)	/* the older entry is closed first, and closes the other */
		ledger_renew(&r->ledger, prefill_entry(r, j->rq.uid));
}

/* Record by how much the choice is above the least cost, by our own estimate, and what other rules
 * would have chosen. */
static void note_regret(struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct candidate *c = j->scratch->candidates;
	double cost = c[j->choice.first].cost, least = compare_least(c, j->n_candidates);
	const struct compare_choice made = {
		.uid = j->rq.uid,
		.now = j->rq.now,
		.from = c,
		.n = j->n_candidates,
		.chosen = c[j->choice.first].id,
		.untimed = job_uncertain(j),
	};

	j->regret_s = cost > least ? cost - least : 0;
	p->route->choices++;
	p->route->dearer += j->regret_s > 0;
	p->route->regret_s += j->regret_s;
	compare_choose(job_compared(j), &j->asks, &j->pressure, &made, &j->scratch->compare);
}

static void count_stored(struct route *r, const struct job *j)
{
	if (j->rq.prompt->previous == 0 || j->previous != SERVER_NONE)
		return;
	r->stats.responses_followed += j->stored;
	r->stats.responses_unknown += !j->stored;
}

void job_choose_server(struct route *r, struct job *j, struct settling *st)
{
	struct route_scratch *s = j->scratch;
	struct policy_choice *c = &j->choice;

	/* another request of this uid may have come in at the same time */
	job_take_entry_back(r, j, st);
	settling_add(st, prefill_take_back(r, j), false);
	job_choose(r, j, &r->rng);
	count_stored(r, j);
	if (c->first < 0)
		return;
	note_regret(j);
	note_guard(j->pool_seen, c);
	note_pressure(j);
	adapter_model_met(r, j->pool_seen, j->rq.model_opts);
	job_ledger_room(r, j, st);
	note_pick(r, j, r->fleet.by_id[s->candidates[c->first].id]);
}

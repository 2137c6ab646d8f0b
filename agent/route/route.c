/* route.c - one request, one direction:
 *
 *   body -> prompt, pages -> match -> [ load -> candidates -> choose -> ledger ] -> commit
 *
 * The part in brackets runs under the route's lock. Matching and committing do not, so that only
 * microseconds are serial. A fact may close the request between choice and commit; then its claim
 * is settled at once (attach_claim). */
#include "agent/base/mem.h"
#include "agent/base/num.h"
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

uint64_t route_uid(const struct route *r, struct span uid)
{
	return hash64(&r->key, uid.p, uid.n);
}

void job_start(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
	       struct job *j, struct request_message *m)
{
	*m = (struct request_message){
		.uid = route_uid(r, q->uid), .has_uid = q->uid.n > 0, .pool = q->pool, .path = q->path,
		.tenant = q->tenant, .model = q->model, .body = q->body, .seq = q->seq,
		.visible = q->visible, .whole = q->whole, .wall_s = q->wall_s,
	};
	*j = (struct job){
		.opts = &r->opts, .scratch = s, .session = q->session, .load = q->load,
		.no_compare = q->no_compare, .previous = SERVER_NONE, .to = SERVER_NONE,
		.session_at.id = SERVER_NONE,
		.prefill.previous = SERVER_NONE,
	};
	request_start(&j->rq, &r->requests, &s->rq, m, now);
}

/* Return the rules to compare. Returns NULL if there are none, or the request is to cost little. */
static struct compare *compared(const struct job *j)
{
	return j->pool_seen != NULL && !j->no_compare ? j->pool_seen->route->compare : NULL;
}

/* Remove the entry of the same uid. The lock is held. */
static void take_entry_back(struct route *r, struct job *j, struct settling *st)
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

/* Undo what an earlier slice, or an earlier request of the same uid, has entered, with the server's
 * turn. This comes before the match, because its own claim would look like a cached prefix. HAProxy
 * sends everything twice if the filter is declared in both frontend and backend. */
static void take_back(struct route *r, struct job *j)
{
	struct settling st;

	settling_init(&st);
	pthread_mutex_lock(&r->lock);
	j->pool_seen = pool_met(r, j->rq.pool);
	j->isolated = job_is_isolated(j);
	take_entry_back(r, j, &st);
	settling_add(&st, prefill_take_back(r, j), false);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, j->rq.now);
}

static void ledger_room(struct route *r, struct job *j, struct settling *st)
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
	uint64_t seen = (uint64_t)depth * j->rq.page_tokens;
	uint64_t known = !j->taken_up.all_hidden && cached > seen ? cached - seen : 0;
	uint64_t hidden = j->rq.unseen_tokens > known ? j->rq.unseen_tokens - known : 0;

	if (j->turn.key == 0 || (j->view.known && !j->view.trusted))
		return 0;
	return hidden < UINT32_MAX ? (uint32_t)hidden : UINT32_MAX;
}

static void ledger_enter(struct route *r, struct job *j, struct server *s,
    const struct candidate *c, uint64_t turn_before)
{
	uint64_t cached = c->cached;
	const struct policy_opts *po = &j->pool_seen->opts->policy;
	struct slot *sl = server_slot(s, j->rq.process, j->rq.now);
	uint64_t tokens = job_sure_tokens(j);
	double nominal_s = policy_prefill_s(po, j->asks.tokens, cached);
	double seen_s = policy_prefill_s(po, j->rq.tokens, cached);
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
	if (j->rq.n_pages > 0)
		e->pending = &j->pending;
	if (j->rq.agree.model != 0 && j->rq.mode == PROMPT_TOKENS && !j->rq.cut && !j->rq.part &&
	    !j->rq.news.bounded) {
		o->lesson.agree = j->rq.agree;
		o->lesson.exact = j->rq.tokens < UINT32_MAX ? (uint32_t)j->rq.tokens : 0;
		agree_meet(&r->requests.agree, j->rq.agree.model, j->rq.model_opts->name, j->rq.now);
	}
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
	o->lesson.end = j->end;
	o->lesson.tenant = job_stores(r, j);
	o->lesson.whole = j->rq.prompt->json == JSON_DONE && !j->rq.prompt->streams;
	o->lesson.streams = j->rq.prompt->streams;
	o->lesson.generates = j->rq.prompt->api != API_EMBEDDINGS;
	/* an image has tokens of its own, which would count for its text */
	if (j->rq.mode == PROMPT_TEXT && !j->rq.cut && !(j->rq.prompt->shape & SHAPE_MEDIA)) {
		o->lesson.density = j->rq.density_key;
		o->lesson.text_bytes = j->rq.prompt->n_units < UINT32_MAX ? (uint32_t)j->rq.prompt->n_units : 0;
	}
	o->lesson.seen = (uint32_t)at_most((uint64_t)j->rq.n_pages * j->rq.page_tokens, UINT32_MAX);
	o->lesson.hidden = hidden_tokens(j, cached, c->depth);
	o->lesson.block = j->rq.mode == PROMPT_TOKENS ? j->rq.page : 0;
	ledger_weigh(e, job_extra(j));
	o->estimate_s = (float)j->nominal_s;
	o->expected_s = job_guessed(j) ? -1 : (float)j->expected_s;	/* it teaches nothing */
	o->run = c->split || s == j->pool_seen->nowhere ? 0 : capacity_opened(&s->capacity);
	o->tokens = j->counted;
	o->hit_tokens = j->counted_hit;
	o->best_hit_tokens = j->counted_best;
	o->turn_before = turn_before;
	o->turn = s->last_pick;
	if (r->sharing == NULL)
		return;
	o->part = share_part(r->sharing, j->rq.space.h[0]);
	j->sent.entered = true;
	j->sent.nominal_s = nominal_s;
	j->sent.unseen_s = nominal_s - seen_s;
	j->sent.tokens = tokens;
	j->sent.work_tokens = work.tokens;
	j->sent.taken_up = o->taken_up;
	j->sent.lesson = o->lesson;
}

static void count_more(uint64_t *counted, uint64_t now, uint64_t *total)
{
	if (now <= *counted)
		return;
	*total += now - *counted;
	*counted = now;
}

enum why why_of_choice(const struct job *j)
{
	if (j->choice.first < 0)
		return j->choice.why;
	return j->stored ? WHY_STICKY : j->rq.headless ? WHY_HEADLESS : j->choice.why;
}

/* Return the tokens of whole pages that the candidate with most of them is expected to hold. */
static uint64_t best_hit(const struct job *j)
{
	uint32_t most = 0;

	for (size_t i = 0; i < j->n_candidates; i++)
		if (j->scratch->candidates[i].depth > most)
			most = j->scratch->candidates[i].depth;
	return (uint64_t)most * j->rq.page_tokens;
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
	count_more(&j->counted, j->rq.tokens, &r->stats.prompt_tokens);
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

/* Called before the request is among those that wait there. */
static void note_capacity(struct route *r, struct job *j, struct server *s, uint32_t matched)
{
	const struct capacity_sent sent = {
		.marks = &j->scratch->marks,
		.room = server_room(s),
		.uid = j->rq.uid,
		.tokens = j->asks.tokens,
		.unseen = j->rq.unseen_tokens,
		.matched = matched,
		.page_tokens = j->rq.page_tokens,
		.waiting = s->unanswered_tokens,
	};

	if (r->marks != NULL && s != j->pool_seen->nowhere)
		capacity_sent(&s->capacity, r->marks, &sent, j->rq.now);
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
	uint64_t hit = (uint64_t)c->depth * j->rq.page_tokens;
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
	    j->rq.tokens > c->cached ? j->rq.tokens - c->cached : 0, j->rq.now);
	ledger_enter(r, j, s, c, turn_before);
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
	compare_choose(compared(j), &j->asks, &j->pressure, &made, &j->scratch->compare);
}

static void count_stored(struct route *r, const struct job *j)
{
	if (j->rq.prompt->previous == 0 || j->previous != SERVER_NONE)
		return;
	r->stats.responses_followed += j->stored;
	r->stats.responses_unknown += !j->stored;
}

void job_choose(struct route *r, struct job *j, struct rng *rng)
{
	struct candidate *c = j->scratch->candidates;

	job_session_look(r, j);
	prefill_offer(r, j, rng);
	job_stored(r, j);
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

static void choose_server(struct route *r, struct job *j, struct settling *st)
{
	struct route_scratch *s = j->scratch;
	struct policy_choice *c = &j->choice;

	/* another request of this uid may have come in at the same time */
	take_entry_back(r, j, st);
	settling_add(st, prefill_take_back(r, j), false);
	job_choose(r, j, &r->rng);
	count_stored(r, j);
	if (c->first < 0)
		return;
	note_regret(j);
	note_guard(j->pool_seen, c);
	note_pressure(j);
	adapter_model_met(r, j->pool_seen, j->rq.model_opts);
	ledger_room(r, j, st);
	note_pick(r, j, r->fleet.by_id[s->candidates[c->first].id]);
}

static void copy_name(char *to, const struct server *s, struct span *out)
{
	size_t n = strlen(s->name);

	memcpy(to, s->name, n + 1);
	*out = span_of(to, n);
}

/* Return <tokens> of a prompt as its engine counts them. Pages of text are taken for a fixed number
 * of tokens. If the engine's own counts are known, they tell how many a page really has. */
static uint64_t as_counted(const struct job *j, uint64_t tokens)
{
	uint64_t taken = (uint64_t)j->rq.page_tokens * ROOM_OF_TOKEN, room = j->rq.space.page_room;

	return j->rq.mode == PROMPT_TEXT && taken > 0 && tokens < UINT32_MAX ? tokens * room / taken :
	    tokens;
}

void job_answer(struct route *r, struct job *j, struct route_answer *a)
{
	const struct candidate *c = j->scratch->candidates;

	copy_name(j->scratch->server, r->fleet.by_id[c[j->choice.first].id], &a->server);
	if (j->choice.second >= 0)
		copy_name(j->scratch->alt, r->fleet.by_id[c[j->choice.second].id], &a->alt);
	a->prefill = span_str(j->prefill.split ? j->scratch->prefill_address : "");
	a->pages = c[j->choice.first].depth;
	a->rank = c[j->choice.first].rank;
	a->wait_ms = j->expected_s >= 0 ? (int64_t)(j->expected_s * 1000 + 0.5) : -1;
	a->tokens = as_counted(j, j->asks.tokens);
	a->hit_tokens = as_counted(j, c[j->choice.first].cached);
	if (a->hit_tokens > a->tokens)
		a->hit_tokens = a->tokens;
	if (j->rq.mode == PROMPT_TOKENS && j->rq.tokens > 0)
		a->hit = (uint32_t)((uint64_t)a->pages * j->rq.page_tokens * 1000 / j->rq.tokens);
	else if (j->rq.n_pages > 0)
		a->hit = (uint32_t)((uint64_t)a->pages * 1000 / j->rq.n_pages);
}

static void count_tokens(struct route *r, const struct job *j)
{
	r->stats.tokenized += j->rq.news.made;
	r->stats.tokens += j->rq.news.ids;
	r->stats.tokenize_failed += j->rq.news.failed;
	r->stats.tokenize_bounded += j->rq.news.bounded;
	r->stats.tokenize_bounded_by[j->rq.bound] += j->rq.news.bounded;
	r->stats.chat_refused += j->rq.refused && j->rq.seq <= 0;
	r->stats.chat_unknown += j->rq.unknown && j->rq.seq <= 0;
}

static void count_request(struct route *r, struct job *j, const struct route_answer *a)
{
	if (j->rq.seq > 0)
		return;
	r->stats.requests++;
	r->stats.why[a->why]++;
	r->stats.cut += a->cut;
	r->stats.headless_saved += j->rq.lent;
	if (j->pool_seen != NULL)
		j->pool_seen->requests++;
}

/* Store the decision, and clear what the answer says about servers if the pool is not on. */
static void hide_choice(struct job *j, struct route_answer *a)
{
	j->would.why = a->why;
	j->would.hit = a->hit;
	j->would.pages = a->pages;
	if (j->pool_opts->mode == MODE_ON || j->choice.first < 0)
		return;
	a->server = a->alt = a->prefill = (struct span){ 0 };
	a->why = WHY_SHADOW;
	a->hit = a->pages = 0;
	a->hit_tokens = 0;
	a->rank = -1;
	a->wait_ms = -1;
}

/* Decide and enter the request in the ledger. The lock is held. */
static void decide_locked(
    struct route *r, struct job *j, struct route_answer *a, struct settling *st)
{
	job_take_load(r, j, st);
	if (a->why == WHY_COLD) {
		if (j->pool_seen == NULL || !j->has_load)
			a->why = WHY_NOLOAD;
		else
			choose_server(r, j, st);
	}
	if (a->why == WHY_COLD) {
		a->why = why_of_choice(j);
		if (j->choice.first >= 0)
			job_answer(r, j, a);
	}
	hide_choice(j, a);
	count_request(r, j, a);
	count_tokens(r, j);
}

void attach_claim(struct route *r, uint64_t uid, const struct ledger_pending *p,
    index_claim claim, server_id to, bool shadow, msec now)
{
	struct ledger_entry *e;
	bool attached = false;

	pthread_mutex_lock(&r->lock);
	e = ledger_find(&r->ledger, uid);
	if (e != NULL && e->pending == p) {
		e->claim = claim;
		e->pending = NULL;
		attached = true;
	}
	pthread_mutex_unlock(&r->lock);
	if (attached || claim == 0)
		return;
	if (p->settled ? !p->confirm : shadow)
		index_cancel(r->index, claim);
	else if (p->settled && p->at != to)
		index_confirm_at(r->index, claim, p->at, now);
	else
		index_confirm(r->index, claim, now);
}

/* Return room for the chain hashes of a prompt, which the thread keeps. Returns NULL if there is no
 * memory. */
static uint64_t *chain_room(const struct route *r, struct route_scratch *s)
{
	if (s->chain == NULL)
		s->chain = mem_calloc(r->opts.index.max_pages / CHAIN_GROUP + 1, sizeof(*s->chain));
	return s->chain;
}

/* Set the marks of the prompt, and more hashes of it for siblings and its record. */
static void mark_prompt(const struct route *r, struct job *j)
{
	uint64_t *chain = chain_room(r, j->scratch);

	marks_of(&j->scratch->marks, chain_start(&r->key, j->rq.space.h), j->scratch->rq.pages.p,
	    chain != NULL ? marked_pages(r, j) : j->rq.n_pages, chain);
	j->sent.chain = chain;
}

void job_match(struct route *r, struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct policy_opts *po = &j->pool_opts->policy;

	index_match(r->index, &j->rq.space, j->scratch->rq.pages.p, j->rq.n_pages, &j->scratch->match);
	mark_prompt(r, j);
	job_describe(r, j, policy_wants_body(po->rule) || compare_wants_body(compared(j)));
	j->described = true;
	job_ends(r, j);
	job_session(r, j);
	job_match_events(r, j);
	if (p == NULL)
		return;
	compare_match(compared(j), &p->route->rule_lock, &j->asks, j->rq.now, &j->scratch->compare);
	if (p->route->memory == NULL)
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	j->has_own = policy_match(p->route->memory, po, &j->asks, j->rq.now, j->scratch->own);
	pthread_mutex_unlock(&p->route->rule_lock);
}

static void remember_sent(struct job *j, server_id to)
{
	struct pool *p = j->pool_seen;

	compare_sent(compared(j), &p->route->rule_lock, &j->asks, to, j->rq.now);
	if (p->route->memory == NULL)
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	policy_sent(p->route->memory, &p->opts->policy, &j->asks, to, j->rq.now);
	pthread_mutex_unlock(&p->route->rule_lock);
}

static struct index_place commit_pages(struct route *r, struct job *j)
{
	struct index_place end;
	index_claim claim;

	if (j->grown_pages > 0)		/* before the commit evicts for them once more */
		index_take_output(r->index, j->to, j->grown_pages * j->rq.space.page_room, j->grown_since);
	claim = index_commit_at(r->index, &j->rq.space, j->scratch->rq.pages.p, j->rq.n_pages,
	    &j->scratch->match, j->to, j->rq.now,
	    (unsigned)(j->rq.prompt->priority - PROMPT_PRIORITY_MIN), &end);
	attach_claim(r, j->rq.uid, &j->pending, claim, j->to, j->pool_opts->mode == MODE_SHADOW,
	    j->rq.now);
	if (j->turn.key != 0)
		job_session_placed(r, j, end);
	return end;
}

/* Let the index and the siblings know what was decided. */
static void tell_choice(struct route *r, struct job *j)
{
	struct index_place end = { 0, 0 };

	prefill_tell(r, j);
	if (j->choice.first >= 0)
		remember_sent(j, j->scratch->candidates[j->choice.first].id);
	if (j->choice.first >= 0 && j->rq.n_pages > 0 && j->to != SERVER_NONE)
		end = commit_pages(r, j);
	if (j->sent.entered)
		share_placed(r, j, end);
	else if (j->told)
		share_taken_back(r, j->rq.uid, j->told_part, false);
}

/* Return a number in place of a missing uid. No fact can name it, so load strings and age close the
 * entry. */
static uint64_t number_nameless(struct route *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = ++r->nameless;
	pthread_mutex_unlock(&r->lock);
	return hash_mix(&r->key, 6, n);
}

/* Only read the load string: servers stay known, and requests that were open get closed. */
static void decide_off(
    struct route *r, struct job *j, const struct route_request *q, struct route_answer *a)
{
	struct settling st;

	settling_init(&st);
	a->why = WHY_SHADOW;
	pthread_mutex_lock(&r->lock);
	j->pool_seen = pool_met(r, j->rq.pool);
	job_take_load(r, j, &st);
	attached_request(r, j, q, true);
	count_request(r, j, a);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, j->rq.now);
}

/* WHY_COLD: the choice decides. */
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

static void decide_request(
    struct route *r, struct job *j, const struct route_request *q, struct route_answer *a)
{
	struct settling st;
	uint64_t work;
	bool prompt;

	settling_init(&st);
	job_enter_pool(j);
	take_back(r, j);
	work = request_take_work(&j->rq, q->work);
	a->why = why_of_found(request_read_prompt(&j->rq));
	prompt = a->why == WHY_COLD;
	a->work = request_pay_work(&j->rq, work);
	a->cut = j->rq.cut && j->rq.prompt->found;
	a->more = j->rq.more && a->why != WHY_BADBODY;
	if (a->why == WHY_COLD) {
		a->prompt_pages = j->rq.n_pages;
		job_match(r, j);
		a->tokens = as_counted(j, j->asks.tokens);
		a->priority = j->rq.prompt->priority_hinted ? j->rq.prompt->priority : 0;
		if (model_is_fit(j->rq.space_model))
			a->model = j->rq.space_model;
	}
	j->rq.more = a->more;
	pthread_mutex_lock(&r->lock);
	decide_locked(r, j, a, &st);
	attached_request(r, j, q, prompt);
	pthread_mutex_unlock(&r->lock);
	settle_given(r, &st);
	tell_choice(r, j);
	settle(r, &st, j->rq.now);
	explain(r, j, q, a);
	traffic_job(r, j);
}

void route_decide(struct route *r, struct route_scratch *s, const struct route_request *q,
		  msec now, struct route_answer *a)
{
	struct request_message m;
	struct job j;

	*a = (struct route_answer){
		.why = WHY_NOPROMPT, .rank = -1, .wait_ms = -1, .pool = ROUTE_NO_POOL,
	};
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, q, now, &j, &m);
	if (q->uid.n == 0)
		j.rq.uid = number_nameless(r);
	if (q->seq <= 0 && pool_options_of(j.opts, j.rq.pool)->mode == MODE_OFF) {
		decide_off(r, &j, q, a);
	} else {
		a->stands = !request_take_body(&j.rq, &m) || !request_is_due(&j.rq);
		if (a->stands)
			a->more = j.rq.more;
		else
			decide_request(r, &j, q, a);
	}
	if (j.pool_seen != NULL && !a->stands)
		a->pool = j.pool_seen->number;
	request_keep_body(&j.rq);
	if (q->seq > 0) {
		pthread_mutex_lock(&r->lock);
		r->stats.slices++;
		pthread_mutex_unlock(&r->lock);
	}
	pthread_rwlock_unlock(&r->opts_lock);
}

void route_decline(struct route *r, const struct route_request *q, struct route_answer *a)
{
	*a = (struct route_answer){
		.why = WHY_OVERLOAD, .rank = -1, .wait_ms = -1, .pool = ROUTE_NO_POOL,
		.stands = q->seq > 0,
	};
	pthread_mutex_lock(&r->lock);
	if (q->seq > 0) {
		r->stats.slices++;
	} else {
		r->stats.requests++;
		r->stats.why[WHY_OVERLOAD]++;
	}
	pthread_mutex_unlock(&r->lock);
}

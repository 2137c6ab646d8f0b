/* route.c - one request, one direction:
 *
 *      body -> prompt -> pages -> match -> [ load -> candidates -> choose -> ledger ] -> commit -> answer
 *
 * What stands in brackets runs under the route's lock; matching and committing do not, so that only
 * microseconds are serial. Between choice and commit the request may already have been closed by a
 * fact; then its claim is settled at once (attach_claim). */
#include "agent/base/mem.h"
#include "agent/route/attached.h"
#include "agent/route/explain.h"
#include "agent/route/traffic_in.h"

static void settle_one(struct route *r, index_claim claim, bool confirm, msec now)
{
	if (confirm)
		index_confirm(r->index, claim, now);
	else
		index_cancel(r->index, claim);
}

void settle(struct route *r, struct settling *st, msec now)
{
	for (unsigned i = 0; i < st->n; i++)
		settle_one(r, st->item[i].claim, st->item[i].confirm, now);
	st->n = 0;
}

uint64_t route_uid(const struct route *r, struct span uid)
{
	return hash64(&r->key, uid.p, uid.n);
}

/* Sizes come from outside: what no body can have must not overflow an estimate. */
#define BODY_BYTES_MAX	((int64_t)1 << 40)

static int64_t sane_size(int64_t n)
{
	return n < 0 ? -1 : n < BODY_BYTES_MAX ? n : BODY_BYTES_MAX;
}

void job_start(struct route *r, struct route_scratch *s, const struct route_request *q,
	       msec now, struct job *j)
{
	struct span named = q->model.n > 0 ? q->model : prompt_model_of_path(q->path);

	*j = (struct job){
		.opts = &r->opts, .scratch = s, .now = now, .uid = route_uid(r, q->uid),
		.pool = q->pool, .tenant = q->tenant, .model = named, .session = q->session,
		.load = q->load, .wall_s = q->wall_s, .no_compare = q->no_compare,
		.seq = q->seq, .visible = sane_size(q->visible), .whole = sane_size(q->whole),
		.previous = SERVER_NONE, .to = SERVER_NONE,
	};
}

/* The rules that only watch. NULL: none, or the request is to cost little. */
static struct compare *compared(const struct job *j)
{
	return j->pool_seen != NULL && !j->no_compare ? j->pool_seen->route->compare : NULL;
}

/* The lock is held. The claim that goes with it is returned. */
static index_claim take_entry_back(struct route *r, struct job *j)
{
	struct ledger_entry *e = ledger_find(&r->ledger, j->uid);

	if (e == NULL)
		return 0;
	j->previous = e->server->id;
	j->counted = open_of(e)->tokens;
	j->counted_hit = open_of(e)->hit_tokens;
	if (e->server->last_pick == open_of(e)->turn)
		e->server->last_pick = open_of(e)->turn_before;
	return ledger_close(&r->ledger, e, false, j->now);
}

/* Take back what an earlier slice, or an earlier request of the same uid, has entered, with the
 * server's turn: before the match, or its own claim would look like a cached prefix. HAProxy sends
 * everything twice where the filter is declared in frontend and backend both. */
static void take_back(struct route *r, struct job *j)
{
	index_claim claim;

	pthread_mutex_lock(&r->lock);
	j->pool_seen = pool_met(r, j->pool);
	claim = take_entry_back(r, j);
	pthread_mutex_unlock(&r->lock);
	if (claim != 0)
		index_cancel(r->index, claim);
}

static void ledger_room(struct route *r, struct job *j, struct settling *st)
{
	struct ledger_entry *e;

	if (r->ledger.n == 0 || r->ledger.n < j->opts->ledger_max_entries)
		return;
	e = list_entry(r->ledger.by_age.next, struct ledger_entry, by_age);
	close_unheard(r, e, st, j->now);
	r->stats.closed_by_room++;
}

static void ledger_enter(struct route *r, struct job *j, struct server *s, uint64_t cached,
			 uint64_t turn_before)
{
	const struct policy_opts *po = &j->pool_seen->opts->policy;
	struct slot *sl = server_slot(s, j->process, j->now);
	uint64_t tokens = j->asks.tokens;
	double nominal_s = policy_prefill_s(po, tokens, cached);
	struct work work = {
		.s = nominal_s * server_slowness(s, j->pool_seen->step, j->now), .nominal_s = nominal_s,
		.tokens = tokens > cached ? tokens - cached : 0,
	};
	struct ledger_entry *e;
	struct open_request *o;

	if (sl == NULL || (e = ledger_open(&r->ledger, j->uid, s, sl, &work, tokens, j->common_tokens, j->now)) == NULL)
		return;
	o = open_of(e);
	if (j->n_pages > 0)
		e->pending = &j->pending;
	if (j->agree.model != 0 && j->mode == PROMPT_TOKENS && !j->cut && !j->part && !j->news.bounded) {
		o->lesson.agree = j->agree;
		o->lesson.exact = j->tokens < UINT32_MAX ? (uint32_t)j->tokens : 0;
		agree_meet(&r->agree, j->agree.model, j->model_opts->name, j->now);
	}
	o->lesson.end = j->end;
	o->lesson.whole = j->prompt->json == JSON_DONE && !j->prompt->streams;
	if (j->mode == PROMPT_TEXT && !j->cut) {
		o->lesson.density = j->density_key;
		o->lesson.text_bytes = j->prompt->n_units < UINT32_MAX ? (uint32_t)j->prompt->n_units : 0;
	}
	o->lesson.block = j->mode == PROMPT_TOKENS ? j->page : 0;
	o->tokens = j->counted;
	o->hit_tokens = j->counted_hit;
	o->turn_before = turn_before;
	o->turn = s->last_pick;
}

static void count_more(uint64_t *counted, uint64_t now, uint64_t *total)
{
	if (now <= *counted)
		return;
	*total += now - *counted;
	*counted = now;
}

/* Counters never go back: a server that only an earlier slice was told of stays counted. */
static void count_pick(struct route *r, struct job *j, struct server *s, uint64_t hit)
{
	uint64_t before = j->counted_hit;

	if (j->previous != s->id)
		s->picked++;
	count_more(&j->counted, j->tokens, &r->stats.prompt_tokens);
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
	double wait = 0, n = (double)j->n_candidates;
	size_t waiting = 0;

	for (size_t i = 0; i < j->n_candidates; i++) {
		wait += c[i].backlog_s;
		waiting += c[i].backlog_s > 0;
	}
	pool_press(j->pool_seen, wait / n, (double)waiting / n,
		   c[j->choice.first].slowness *
		   policy_prefill_s(po, j->asks.tokens, c[j->choice.first].cached));
}

/* Before the request is among those that wait there. */
static void note_capacity(struct route *r, struct job *j, struct server *s, uint32_t matched)
{
	const struct capacity_sent sent = {
		.marks = &j->scratch->marks, .uid = j->uid, .tokens = j->asks.tokens,
		.unseen = j->unseen_tokens, .matched = matched, .page_tokens = j->page_tokens, .waiting = s->unanswered_tokens,
	};

	if (r->marks != NULL && s != j->pool_seen->nowhere)
		capacity_sent(&s->capacity, r->marks, &sent, j->now);
}

/* What the tree says, without what was generated. */
static uint32_t index_depth(const struct job *j, server_id id)
{
	uint32_t depth = index_match_depth(&j->scratch->match, id);

	return depth < j->usable ? depth : j->usable;
}

#define TAIL_TOKENS	512

/* Count a request that branches from a prefix. The next turn of a conversation does not: it goes on where the turn
 * before ended. Nor is a branch what leaves only a short tail behind, as texts do that are appended for one request
 * and gone in the next. Of a body in slices the last one tells how far it matches. */
static void note_branch(struct route *r, const struct job *j)
{
	const struct index_match *m = &j->scratch->match;

	if (r->shared != NULL && !j->more && m->n_bands > 0 && m->bands[0].depth < j->n_pages &&
	    (uint64_t)m->beyond * j->page_tokens > TAIL_TOKENS)
		shared_branch(r->shared, &j->scratch->marks, m->bands[0].depth, j->now);
}

static void note_pick(struct route *r, struct job *j, struct server *s)
{
	const struct candidate *c = &j->scratch->candidates[j->choice.first];
	uint64_t hit = (uint64_t)c->depth * j->page_tokens;
	uint64_t turn_before = s->last_pick;

	s->last_pick = ++j->pool_seen->picks;
	count_pick(r, j, s, hit);
	if (j->pool_opts->mode == MODE_SHADOW && (s = fleet_nowhere(&r->fleet, j->pool_seen)) == NULL)
		return;
	j->to = s->id;
	note_capacity(r, j, s, index_depth(j, s->id));
	note_branch(r, j);
	ledger_enter(r, j, s, c->cached, turn_before);
}

/* What the choice costs more than the cheapest, by our own estimate; and where others would have gone. */
static void note_regret(struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct candidate *c = j->scratch->candidates;
	double cost = c[j->choice.first].cost, least = compare_least(c, j->n_candidates);
	const struct compare_choice made = {
		.uid = j->uid, .now = j->now, .from = c, .n = j->n_candidates, .chosen = c[j->choice.first].id,
	};

	j->regret_s = cost > least ? cost - least : 0;
	p->route->choices++;
	p->route->dearer += j->regret_s > 0;
	p->route->regret_s += j->regret_s;
	compare_choose(compared(j), &j->asks, &j->pressure, &made, &j->scratch->compare);
}

static void choose(struct route *r, struct job *j, struct settling *st)
{
	struct route_scratch *s = j->scratch;
	struct policy_choice *c = &j->choice;

	settling_add(st, take_entry_back(r, j), false);		/* a request of this uid that came in at the same time */
	job_candidates(r, j);
	job_share(r, j);
	j->step = j->pool_seen->step;
	j->pressure = j->pool_seen->pressure;
	j->pressure.firsts = j->step == STEP_FIRST;
	for (size_t i = 0; i < j->n_candidates; i++) {
		if (s->candidates[i].cached > j->asks.matched)
			j->asks.matched = s->candidates[i].cached;
	}
	policy_choose(&j->pool_seen->opts->policy, j->pool_seen->route->memory, &j->asks, &j->pressure, &r->rng,
		      s->candidates, j->n_candidates, c);
	if (c->first < 0)
		return;
	note_regret(j);
	note_guard(j->pool_seen, c);
	note_pressure(j);
	adapter_model_met(r, j->pool_seen, j->model_opts);
	ledger_room(r, j, st);
	note_pick(r, j, r->fleet.by_id[s->candidates[c->first].id]);
}

static void copy_name(char *to, const struct server *s, struct span *out)
{
	size_t n = strlen(s->name);

	memcpy(to, s->name, n + 1);
	*out = span_of(to, n);
}

static void answer_servers(struct route *r, struct job *j, struct route_answer *a)
{
	const struct candidate *c = j->scratch->candidates;

	copy_name(j->scratch->server, r->fleet.by_id[c[j->choice.first].id], &a->server);
	if (j->choice.second >= 0)
		copy_name(j->scratch->alt, r->fleet.by_id[c[j->choice.second].id], &a->alt);
	a->pages = c[j->choice.first].depth;
	if (j->mode == PROMPT_TOKENS && j->tokens > 0)
		a->hit = (uint32_t)((uint64_t)a->pages * j->page_tokens * 1000 / j->tokens);
	else if (j->n_pages > 0)
		a->hit = (uint32_t)((uint64_t)a->pages * 1000 / j->n_pages);
}

static void count_tokens(struct route *r, const struct job *j)
{
	r->stats.tokenized += j->news.made;
	r->stats.tokens += j->news.ids;
	r->stats.tokenize_failed += j->news.failed;
	r->stats.tokenize_bounded += j->news.bounded;
	r->stats.tokenize_bounded_by[j->bound] += j->news.bounded;
	r->stats.chat_refused += j->refused && j->seq <= 0;
	r->stats.chat_unknown += j->unknown && j->seq <= 0;
}

static void count_request(struct route *r, struct job *j, const struct route_answer *a)
{
	if (j->seq > 0)
		return;
	r->stats.requests++;
	r->stats.why[a->why]++;
	r->stats.cut += a->cut;
	r->stats.headless_saved += j->lent;
	if (j->pool_seen != NULL)
		j->pool_seen->requests++;
}

/* What was decided is kept; of the answer remains what says nothing of a server. */
static void hide_choice(struct job *j, struct route_answer *a)
{
	j->would.why = a->why;
	j->would.hit = a->hit;
	j->would.pages = a->pages;
	if (j->pool_opts->mode == MODE_ON || j->choice.first < 0)
		return;
	a->server = a->alt = (struct span){ 0 };
	a->why = WHY_SHADOW;
	a->hit = a->pages = 0;
}

/* The part under the lock. */
static void decide_locked(struct route *r, struct job *j, struct route_answer *a, struct settling *st)
{
	job_take_load(r, j, st);
	if (a->why == WHY_COLD) {
		if (j->pool_seen == NULL || !j->has_load)
			a->why = WHY_NOLOAD;
		else
			choose(r, j, st);
	}
	if (a->why == WHY_COLD) {
		a->why = j->headless && j->choice.first >= 0 ? WHY_HEADLESS : j->choice.why;
		if (j->choice.first >= 0)
			answer_servers(r, j, a);
	}
	hide_choice(j, a);
	count_request(r, j, a);
	count_tokens(r, j);
}

/* The claim belongs to the ledger's entry. Where that was settled while it was being committed, it is now; where
 * there is none, nobody will ever tell. <claim>: 0: there was no room for it. */
static void attach_claim(struct route *r, struct job *j, index_claim claim)
{
	const struct ledger_pending *p = &j->pending;
	struct ledger_entry *e;
	bool attached = false;

	pthread_mutex_lock(&r->lock);
	e = ledger_find(&r->ledger, j->uid);
	if (e != NULL && e->pending == p) {
		e->claim = claim;
		e->pending = NULL;
		attached = true;
	}
	pthread_mutex_unlock(&r->lock);
	if (attached || claim == 0)
		return;
	if (p->settled ? !p->confirm : j->pool_opts->mode == MODE_SHADOW)
		index_cancel(r->index, claim);
	else if (p->settled && p->at != j->to)
		index_confirm_at(r->index, claim, p->at, j->now);
	else
		index_confirm(r->index, claim, j->now);
}

/* What is known of the prompt before the choice: by the index, and by the rule's own memory. */
static void match(struct route *r, struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct policy_opts *po = &j->pool_opts->policy;

	index_match(r->index, &j->space, j->scratch->pages.p, j->n_pages, &j->scratch->match);
	marks_of(&j->scratch->marks, j->space.h[0], j->scratch->pages.p, j->n_pages);
	job_describe(r, j, policy_wants_body(po->rule) || compare_wants_body(compared(j)));
	j->described = true;
	job_ends(r, j);
	if (p == NULL)
		return;
	compare_match(compared(j), &p->route->rule_lock, &j->asks, j->now, &j->scratch->compare);
	if (p->route->memory == NULL)
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	j->has_own = policy_match(p->route->memory, po, &j->asks, j->now, j->scratch->own);
	pthread_mutex_unlock(&p->route->rule_lock);
}

static void remember(struct job *j, server_id to)
{
	struct pool *p = j->pool_seen;

	compare_sent(compared(j), &p->route->rule_lock, &j->asks, to, j->now);
	if (p->route->memory == NULL)
		return;
	pthread_mutex_lock(&p->route->rule_lock);
	policy_sent(p->route->memory, &p->opts->policy, &j->asks, to, j->now);
	pthread_mutex_unlock(&p->route->rule_lock);
}

static void commit(struct route *r, struct job *j)
{
	if (j->choice.first < 0)
		return;
	remember(j, j->scratch->candidates[j->choice.first].id);
	if (j->n_pages > 0 && j->to != SERVER_NONE)
		attach_claim(r, j, index_commit(r->index, &j->space, j->scratch->pages.p, j->n_pages,
						&j->scratch->match, j->to, j->now,
						(unsigned)(j->prompt->priority - PROMPT_PRIORITY_MIN)));
}

/* A request without a uid cannot be told from others, so it gets a number of its own: load and age
 * close it. */
static uint64_t number_nameless(struct route *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = ++r->nameless;
	pthread_mutex_unlock(&r->lock);
	return hash_mix(&r->key, 6, n);
}

/* Servers are kept in sight, and what was open before ends; nothing else. */
static void decide_off(struct route *r, struct job *j, const struct route_request *q, struct route_answer *a)
{
	struct settling st = { .n = 0 };

	a->why = WHY_SHADOW;
	pthread_mutex_lock(&r->lock);
	j->pool_seen = pool_met(r, j->pool);
	job_take_load(r, j, &st);
	attached_request(r, j, q);
	count_request(r, j, a);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, j->now);
}

static void decide(struct route *r, struct job *j, const struct route_request *q, struct route_answer *a)
{
	struct settling st = { .n = 0 };
	uint64_t work;

	j->pool_opts = pool_options_of(j->opts, j->pool);
	j->choice = (struct policy_choice){ .first = -1, .second = -1 };
	take_back(r, j);
	work = job_take_work(r, j, q->work);
	a->why = job_read_prompt(r, j);
	a->work = job_pay_work(j, work);
	a->cut = j->cut && j->prompt->found;
	a->more = j->more && a->why != WHY_BADBODY;
	if (a->why == WHY_COLD) {
		a->prompt_pages = j->n_pages;
		match(r, j);
	}
	j->more = a->more;
	pthread_mutex_lock(&r->lock);
	decide_locked(r, j, a, &st);
	attached_request(r, j, q);
	pthread_mutex_unlock(&r->lock);
	commit(r, j);
	settle(r, &st, j->now);
	explain(r, j, q, a);
	traffic_job(r, j);
}

void route_decide(struct route *r, struct route_scratch *s, const struct route_request *q,
		  msec now, struct route_answer *a)
{
	struct job j;

	*a = (struct route_answer){ .why = WHY_NOPROMPT };
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, q, now, &j);
	if (q->uid.n == 0)
		j.uid = number_nameless(r);
	if (q->seq <= 0 && pool_options_of(j.opts, j.pool)->mode == MODE_OFF) {
		decide_off(r, &j, q, a);
	} else {
		a->stands = !job_take_body(r, &j, q) || !job_is_due(&j);
		if (a->stands)
			a->more = j.more;
		else
			decide(r, &j, q, a);
	}
	job_keep_body(r, &j);
	if (q->seq > 0) {
		pthread_mutex_lock(&r->lock);
		r->stats.slices++;
		pthread_mutex_unlock(&r->lock);
	}
	pthread_rwlock_unlock(&r->opts_lock);
}

void route_decline(struct route *r, const struct route_request *q, struct route_answer *a)
{
	*a = (struct route_answer){ .why = WHY_OVERLOAD, .stands = q->seq > 0 };
	pthread_mutex_lock(&r->lock);
	if (q->seq > 0) {
		r->stats.slices++;
	} else {
		r->stats.requests++;
		r->stats.why[WHY_OVERLOAD]++;
	}
	pthread_mutex_unlock(&r->lock);
}

void route_preview(struct route *r, struct route_scratch *s, const struct route_request *q,
		   struct route_preview *v)
{
	struct job j;

	*v = (struct route_preview){ .why = WHY_NOPROMPT };
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, q, 0, &j);
	j.seq = -1;
	j.work.left = ROUTE_WORK_FULL;
	j.aside = true;
	job_take_body(r, &j, q);
	j.pool_opts = pool_options_of(j.opts, j.pool);
	v->why = job_read_prompt(r, &j);
	v->model = j.space_model;
	v->lora = span_of(j.prompt->lora.s, j.prompt->lora.n);
	v->tenant = j.pool_opts->isolate_tenants ? j.tenant : (struct span){ 0 };
	v->salted = j.salted;
	v->headless = j.headless;
	v->cut = j.cut && j.prompt->found;
	v->mode = j.mode;
	v->page = j.page;
	v->units = j.mode == j.prompt->mode && !j.prompt->truncates ? j.prompt->n_units : j.tokens;
	v->space = j.space;
	if (v->why == WHY_COLD) {
		v->pages = j.n_pages;
		v->keys = s->pages.p;
	}
	pthread_rwlock_unlock(&r->opts_lock);
}

/* prefill.c - prompts that a server of another pool computes: pools.prefill.
 *
 *      request --> decode server, in the ledger under its uid: an answer, no work
 *              `-> prefill server, under prefill_uid(): work until the first token, then nothing
 *
 * HAProxy sees only the first. So prefill servers are candidates by stats rows, which also have
 * their addresses; what waits there is counted in the ledger. They are chosen by the cost rule,
 * whatever the rule of their pool, without the price of open requests: they decode nothing. The
 * match of the prompt is that of the prefill pool's space, which all pools share that name it
 * (struct request_pool), because its engines have one cache for them. Both servers hold the prompt
 * once its first token came.
 *
 * A request that ends with 429 or 5xx failed at one of the two, and a sidecar does not say where.
 * So both count a failure; a prefill server, which takes part in all of them, is out first. */
#include "agent/base/num.h"
#include "agent/route/job_in.h"

uint64_t prefill_uid(const struct route *r, uint64_t uid)
{
	return hash_mix(&r->key, 61, uid);
}

struct ledger_entry *prefill_entry(const struct route *r, uint64_t uid)
{
	return r->splits ? ledger_find(&r->ledger, prefill_uid(r, uid)) : NULL;
}

/* ---- the offer ----------------------------------------------------------------------------- */

/* Keep the candidates whose address is known. */
static void keep_named(const struct route *r, struct job *there)
{
	size_t kept = 0;

	for (size_t i = 0; i < there->n_candidates; i++) {
		server_id id = there->scratch->candidates[i].id;

		if (r->fleet.by_id[id]->address[0] != '\0')
			there->scratch->candidates[kept++].id = id;
		else
			server_set_del(&there->candidates, id);
	}
	there->n_candidates = kept;
}

static bool any_address(const struct pool *p)
{
	for (size_t i = 0; p != NULL && i < p->n_servers; i++)
		if (p->servers[i]->address[0] != '\0')
			return true;
	return false;
}

static void note_known(struct route *r, struct job *j, const struct pool *p)
{
	struct pool_route *pr = j->pool_seen->route;

	if (pr->problems == NULL)
		pr->problems = problems_pool(&r->problems, span_str(j->pool_seen->name));
	if (any_address(p))
		problems_good(pr->problems, PROBLEM_PREFILL_UNKNOWN);
	else
		problems_bad(
		    pr->problems, PROBLEM_PREFILL_UNKNOWN, span_str(j->pool_opts->prefill), SPAN(""), 0);
}

static void note_press(const struct job *there, struct job_prefill *out)
{
	const struct candidate *c = there->scratch->candidates;

	for (size_t i = 0; i < there->n_candidates; i++) {
		out->press.wait_s += c[i].backlog_s / (double)there->n_candidates;
		out->press.waiting += (c[i].backlog_s > 0) / (double)there->n_candidates;
	}
}

static void take_best(const struct route *r, const struct job *there,
    const struct policy_opts *po, const struct candidate *c, struct job_prefill *out)
{
	out->server = r->fleet.by_id[c->id];
	out->id = c->id;
	out->name = out->server->name_hash;
	out->wait_s = c->backlog_s;
	out->cached = c->cached;
	out->depth = c->depth;
	out->idle = out->server->n_unanswered == 0;
	out->slowness = c->slowness;
	out->nominal_s = policy_prefill_s(po, there->asks.tokens, c->cached);
	out->unseen_s = out->nominal_s - policy_prefill_s(po, there->rq.tokens, c->cached);
	out->cost_s = c->cost;
	out->offer.price_s = c->cost;
	out->offer.ready_s = c->backlog_s + c->slowness * out->nominal_s;
	note_press(there, out);
}

/* Choose among the servers of <p>. <there>: the job as that pool sees it. */
static void choose_there(
    struct route *r, struct job *there, struct pool *p, struct rng *rng, struct job_prefill *out)
{
	struct policy_opts po = p->opts->policy;
	struct policy_pressure pressure;
	struct policy_choice choice;

	there->pool_seen = p;
	there->pool_opts = p->opts;
	there->has_own = false;
	there->previous = out->previous;
	there->asks.prefill = NULL;
	job_take_rows(r, there);
	keep_named(r, there);
	if (there->n_candidates == 0)
		return;
	po.rule = RULE_COST;
	po.load_ms = 0;
	job_candidates(r, there);
	job_share(r, there);
	pressure = p->pressure;
	pressure.firsts = p->step == STEP_FIRST;
	policy_choose(&po, NULL, &there->asks, &pressure, rng, there->scratch->candidates,
	    there->n_candidates, &choice);
	if (choice.first >= 0)
		take_best(r, there, &po, &there->scratch->candidates[choice.first], out);
}

/* A sidecar sends requests of these APIs to both servers, and others to its own only. What an
 * engine has stored no other server can put before the input. */
static bool can_split(const struct prompt *p)
{
	switch (p->api) {
	case API_CHAT:
	case API_COMPLETIONS:
	case API_RESPONSES:
	case API_MESSAGES:
	case API_GENERATE:
		return !prompt_continues_stored(p);
	case API_NONE:
	case API_EMBEDDINGS:
	case API_CONTENTS:
		return false;
	}
	return false;
}

void prefill_offer(struct route *r, struct job *j, struct rng *rng)
{
	const char *name = j->pool_opts->prefill;
	const struct policy_opts *po = &j->pool_opts->policy;
	server_id own[SERVERS_MAX];
	struct job there;
	struct pool *p;

	j->asks.prefill = NULL;
	j->prefill.server = NULL;
	if (name[0] == '\0' || j->asks.tokens < po->prefill_least || !can_split(j->rq.prompt))
		return;
	p = fleet_find(&r->fleet, span_str(name));
	note_known(r, j, p);
	if (p == NULL || p == j->pool_seen || p->opts->mode == MODE_OFF)
		return;
	there = *j;
	for (size_t i = 0; i < j->n_candidates; i++)
		own[i] = j->scratch->candidates[i].id;
	choose_there(r, &there, p, rng, &j->prefill);
	for (size_t i = 0; i < j->n_candidates; i++)
		j->scratch->candidates[i].id = own[i];
	if (j->prefill.server == NULL)
		return;
	j->prefill.offer.transfer_factor =
	    po->learn_transfer ? transfer_factor(&j->pool_seen->transfer) : 1;
	j->asks.prefill = &j->prefill.offer;
}

double prefill_estimate_s(const struct job *j, const struct candidate *c, double waiting_s)
{
	double ready_s = j->prefill.offer.ready_s + c->transfer_s;

	return ready_s > waiting_s ? ready_s : waiting_s;
}

/* ---- the ledger ---------------------------------------------------------------------------- */

static uint64_t fresh_tokens(uint64_t tokens, uint64_t cached)
{
	return tokens > cached ? tokens - cached : 0;
}

static void fill_entry(struct route *r, struct job *j, struct open_request *o)
{
	const struct job_prefill *pf = &j->prefill;
	const struct policy_opts *po = &j->pool_opts->policy;
	const struct prefill_offer plain = { .transfer_factor = 1 };
	const struct candidate *c = &j->scratch->candidates[j->choice.first];

	if (j->rq.n_pages > 0)
		o->e.pending = &j->prefill.pending;
	o->decoded_in = j->pool_seen;
	o->turn_before = pf->server->last_pick;
	o->turn = pf->server->last_pick = ++pf->server->pool->picks;
	o->estimate_s = pf->idle && !o->e.work.uncertain ? (float)(pf->slowness * pf->nominal_s) : 0;
	o->expected_s = (float)prefill_transfer_s(po, &plain, fresh_tokens(j->asks.tokens, c->cached));
	if (r->sharing != NULL)
		o->part = share_part(r->sharing, j->rq.space.h[0]);
}

static void copy_names(struct job *j, const struct server *s)
{
	memcpy(j->scratch->prefill, s->name, strlen(s->name) + 1);
	memcpy(j->scratch->prefill_address, s->address, strlen(s->address) + 1);
}

bool prefill_enter(struct route *r, struct job *j, const struct candidate *c)
{
	struct job_prefill *pf = &j->prefill;
	struct server *s = pf->server;
	struct slot *sl = server_slot(s, PROCESS_OF_PREFILLS, j->rq.now);
	struct work work = {
		.s = pf->nominal_s * pf->slowness, .nominal_s = pf->nominal_s,
		.unseen_s = pf->unseen_s * pf->slowness, .uncertain = job_uncertain(j),
		.tokens = fresh_tokens(job_sure_tokens(j), pf->cached),
	};
	struct ledger_entry *e;

	if (sl == NULL || (e = ledger_open(&r->ledger, prefill_uid(r, j->rq.uid), s, sl, &work,
			       job_sure_tokens(j), j->common_tokens, j->rq.now)) == NULL)
		return false;
	pf->split = r->splits = true;
	pf->pool = s->pool;
	pf->tokens = job_sure_tokens(j);
	pf->work_tokens = work.tokens;
	pf->transfer_s = c->transfer_s;
	fill_entry(r, j, open_of(e));
	copy_names(j, s);
	if (pf->previous != s->id) {
		s->picked++;
		s->picked_why[pf->depth > 0 ? WHY_CACHED : WHY_COLD]++;
	}
	s->hit_tokens += (uint64_t)pf->depth * j->rq.page_tokens;
	j->pool_seen->route->splits += pf->previous == SERVER_NONE;
	pool_press(s->pool, pf->press.wait_s, pf->press.waiting, work.s);
	onway_sent(r, prefill_uid(r, j->rq.uid), &j->scratch->marks, s, work.tokens, j->rq.now);
	return true;
}

index_claim prefill_take_back(struct route *r, struct job *j)
{
	struct ledger_entry *e = prefill_entry(r, j->rq.uid);

	if (e == NULL)
		return 0;
	if (open_of(e)->owner == NULL) {
		j->prefill.previous = e->server->id;
		j->prefill.told = r->sharing != NULL;
		j->prefill.told_part = open_of(e)->part;
	}
	if (e->server->last_pick == open_of(e)->turn)
		e->server->last_pick = open_of(e)->turn_before;
	return entry_close(r, e, false, j->rq.now);
}

/* ---- index and siblings, without the lock --------------------------------------------------- */

static void tell_siblings(struct route *r, const struct job *j, struct index_place end)
{
	struct job there = *j;

	there.rq.uid = prefill_uid(r, j->rq.uid);
	there.pool_seen = j->prefill.pool;
	there.grown_pages = 0;
	there.turn = (struct session_turn){ .key = 0 };		/* the other server's entry is the turn */
	there.end = (struct grown_end){ .key = 0 };
	there.sent.branched = 0;
	there.sent.lesson = (struct lesson){ .agree = { .model = 0 } };
	there.sent.nominal_s = j->prefill.nominal_s;
	there.sent.unseen_s = j->prefill.unseen_s;
	there.sent.tokens = j->prefill.tokens;
	there.sent.work_tokens = j->prefill.work_tokens;
	there.sent.server = j->scratch->prefill;
	share_placed(r, &there, end);
}

void prefill_tell(struct route *r, struct job *j)
{
	struct job_prefill *pf = &j->prefill;
	struct index_place end = { 0, 0 };
	index_claim claim;

	if (!pf->split) {
		if (pf->told)
			share_taken_back(r, prefill_uid(r, j->rq.uid), pf->told_part, false);
		return;
	}
	if (j->rq.n_pages > 0) {
		claim = index_commit_at(r->index, &j->rq.space, j->scratch->rq.pages.p, j->rq.n_pages,
		    &j->scratch->match, pf->id, j->rq.now,
		    (unsigned)(j->rq.prompt->priority - PROMPT_PRIORITY_MIN), &end);
		attach_claim(
		    r, prefill_uid(r, j->rq.uid), &pf->pending, claim, pf->id, false, j->rq.now);
	}
	if (j->entered && r->sharing != NULL)
		tell_siblings(r, j, end);
}

/* ---- facts --------------------------------------------------------------------------------- */

static bool of_server(const struct fact *f)
{
	return f->server.n == 0 || f->server.p[0] != '<';
}

static bool computed(const struct fact *f)
{
	return f->status >= 200 && f->status < 300 && of_server(f) &&
	    (f->kind == FACT_FIRST || f->response_ms >= 0);
}

/* A sidecar passes on the status of either server, and answers 502 for one that it cannot use. What
 * HAProxy itself says of its connection is of the decode server, but a timeout may be of either. */
static bool may_have_failed(const struct fact *f)
{
	enum verdict v = of_server(f) ? fact_verdict(f) : VERDICT_NONE;

	return v == VERDICT_5XX || v == VERDICT_429 || (v == VERDICT_BROKEN && f->status == 504);
}

/* The first token came: the transfer is over, which began when the prompt was computed. */
static void first_came(struct open_request *o, bool moved, msec now)
{
	double took_s = (double)(now - o->e.since) / 1000;
	msec moving;

	if (!moved)
		transfer_came(&o->decoded_in->transfer, (double)o->estimate_s, (double)o->expected_s, took_s);
	moving = (msec)(transfer_factor(&o->decoded_in->transfer) * (double)o->expected_s * 1000);
	ledger_answered(&o->e, now - moving > o->e.since ? now - moving : o->e.since);
}

static void note_step(struct pool *p, bool first, msec now)
{
	if (first)
		p->first_seen = now;
	else
		p->done_seen = now;
}

void prefill_fact(struct route *r, uint64_t uid, const struct ledger_entry *e, const struct fact *f,
    struct outcome *out, msec now)
{
	struct ledger_entry *there = prefill_entry(r, uid);
	bool first = f->kind == FACT_FIRST && fact_streams(f), moved = e == NULL || e->from != SERVER_NONE;
	struct open_request *o;

	if (there == NULL)
		return;
	o = open_of(there);
	out->prefill_confirm = computed(f);
	note_step(there->server->pool, first, now);
	if (out->prefill_confirm && first && o->decoded_in != NULL)
		first_came(o, moved, now);
	if (out->prefill_confirm)
		onway_ended(r, there->uid, now);
	if (may_have_failed(f) && o->decoded_in != NULL)
		o->decoded_in->route->split_failures++;
	if (out->prefill_confirm || may_have_failed(f))
		judge_server(r, there->server->id, out->prefill_confirm ? VERDICT_WORKED : fact_verdict(f),
		    o->owner == NULL, there->since, now);
	if (r->sharing != NULL)
		seen_put(r->sharing, there->uid, out->theirs ? SEEN_OVER_THERE : SEEN_OVER);
	out->prefill_claim = entry_close(r, there, out->prefill_confirm, now);
}

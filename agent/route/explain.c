/* explain.c - the record of a decision. Of up to a thousand candidates it has the chosen one, the
 * second choice and the cheapest of the others. */
#include "agent/route/job_in.h"

static struct decision_server server_of(const struct candidate *c)
{
	return (struct decision_server){ .id = c->id, .tag = (uint32_t)c->name };
}

static uint32_t clamp32(uint64_t n)
{
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Order candidates: the two choices first, then by cost. */
static bool goes_before(const struct job *j, const struct candidate *a, const struct candidate *b)
{
	const struct candidate *c = j->scratch->candidates;
	const struct candidate *first = &c[j->choice.first];
	const struct candidate *second = j->choice.second >= 0 ? &c[j->choice.second] : NULL;

	if (a == first || b == first)
		return a == first;
	if (a == second || b == second)
		return a == second;
	return a->cost < b->cost;
}

static unsigned pick(const struct job *j, const struct candidate *best[DECISION_CANDIDATES])
{
	unsigned n = 0, at;

	for (size_t i = 0; i < j->n_candidates; i++) {
		const struct candidate *c = &j->scratch->candidates[i];

		if (n == DECISION_CANDIDATES && !goes_before(j, c, best[n - 1]))
			continue;
		for (at = n < DECISION_CANDIDATES ? n++ : n - 1; at > 0 && goes_before(j, c, best[at - 1]); at--)
			best[at] = best[at - 1];
		best[at] = c;
	}
	return n;
}

static void put_candidates(const struct job *j, struct decision *x)
{
	const struct candidate *best[DECISION_CANDIDATES];
	const struct policy_opts *po = &j->pool_opts->policy;

	x->n_candidates = (uint32_t)j->n_candidates;
	x->n_kept = pick(j, best);
	for (uint32_t i = 0; i < x->n_kept; i++) {
		const struct candidate *c = best[i];
		double compute_s = c->slowness * policy_prefill_s(po, j->asks.tokens, c->cached);

		x->candidate[i] = (struct decision_candidate){
			.server = server_of(c), .truth = c->truth, .cause = c->cause, .load = c->load,
			.penalty = c->penalty, .cached = clamp32(c->cached),
			.wait_s = (float)c->backlog_s, .cost_s = (float)c->cost,
			.by_session = clamp32(c->by_session), .promised_s = (float)c->promised_s,
			.adapter_s = (float)c->adapter_s, .kv_s = (float)c->kv_s, .load_s = (float)c->load_s,
			.compute_s = (float)compute_s, .shared_s = (float)(c->shared * compute_s),
		};
	}
}

/* Set what the session of the request was. <x>: its servers were set to none. */
static void put_session(const struct job *j, struct decision *x)
{
	x->session = (uint8_t)j->view.state;
	x->session_turns = j->view.turns;
	x->session_at = j->session_at;
}

static void put_offer(const struct job *j, const struct candidate *c, struct decision *x)
{
	const struct job_prefill *pf = &j->prefill;

	if (pf->server == NULL || c->there_s <= 0)
		return;
	x->offer.server = (struct decision_server){ .id = pf->id, .tag = (uint32_t)pf->name };
	if (pf->split)
		x->prefill = x->offer.server;
	x->offer.cached = clamp32(pf->cached);
	x->offer.wait_s = (float)pf->wait_s;
	x->offer.ready_s = (float)pf->offer.ready_s;
	x->offer.transfer_s = (float)c->transfer_s;
	x->offer.here_s = (float)c->here_s;
	x->offer.there_s = (float)c->there_s;
}

static void put_choice(const struct job *j, struct decision *x)
{
	const struct candidate *c = j->scratch->candidates;

	x->chosen = j->by_path;
	if (j->choice.first < 0)
		return;
	x->chosen = server_of(&c[j->choice.first]);
	if (j->choice.second >= 0)
		x->second = server_of(&c[j->choice.second]);
	put_offer(j, &c[j->choice.first], x);
	x->matched = clamp32(c[j->choice.first].cached);
	x->rank = c[j->choice.first].rank;
	x->expected_ms = j->expected_s >= 0 ? (int64_t)(j->expected_s * 1000 + 0.5) : -1;
	x->imbalanced = j->choice.imbalanced;
	x->min_load = j->choice.min_load;
	x->max_load = j->choice.max_load;
	x->pressure = (float)j->pressure.wait;
	x->sacrifice = (float)j->choice.sacrifice;
	x->cost_s = (float)c[j->choice.first].cost;
	x->regret_s = (float)j->regret_s;
	put_candidates(j, x);
	x->n_compared = j->scratch->compare.n;
	memcpy(x->compared, j->scratch->compare.out, x->n_compared * sizeof(x->compared[0]));
}

/* Set what is known of the prompt. <hit> and <pages> are as decided, also in shadow mode. */
static void put_prompt(
    struct route *r, const struct job *j, const struct route_answer *a, struct decision *x)
{
	const struct decision_pages p = {
		.start = chain_start(&r->key, j->rq.space.h), .groups = j->sent.chain,
		.pages = j->scratch->rq.pages.p, .n = marked_pages(r, j),
	};
	size_t n;
	uint32_t of = j->rq.page_tokens > 0 ? DECISION_BLOCK_TOKENS / j->rq.page_tokens : 0;

	if (of == 0)
		of = 1;
	x->tokens = j->asks.tokens;
	x->unseen = j->rq.unseen_tokens;
	x->prompt_pages = a->prompt_pages;
	x->pages = j->would.pages;
	x->hit = j->would.hit;
	x->cut = a->cut;
	x->bounded = j->rq.news.bounded;
	x->bound = (uint8_t)j->rq.bound;
	x->work = a->work;
	x->text = j->rq.mode == PROMPT_TEXT;
	n = j->rq.space_model.n < DECISION_MODEL_MAX ? j->rq.space_model.n : DECISION_MODEL_MAX;
	if (n > 0)
		memcpy(x->model, j->rq.space_model.p, n);
	if (j->rq.n_pages == 0)
		return;
	x->block_tokens = of * j->rq.page_tokens;
	x->n_blocks = decisions_blocks(r->decisions, &p, of, j->scratch->blocks);
}

void explain_fill(struct route *r, const struct job *j, struct span uid,
    const struct route_answer *a, struct decision *x)
{
	size_t n = uid.n < DECISION_UID_MAX ? uid.n : DECISION_UID_MAX;

	memset(x, 0, sizeof(*x));
	if (n > 0)
		memcpy(x->uid, uid.p, n);
	x->uid_hash = j->rq.uid;
	x->at = j->rq.now;
	x->pool = j->pool_seen != NULL ? j->pool_seen->name : NULL;
	x->rule = (uint8_t)j->pool_opts->policy.rule;
	x->mode = (uint8_t)j->pool_opts->mode;
	x->why = (uint8_t)j->would.why;
	x->step = (uint8_t)j->step;
	x->chosen.id = x->second.id = x->prefill.id = x->offer.server.id = x->went.id = SERVER_NONE;
	x->status = x->retries = x->rank = -1;
	x->first_ms = x->done_ms = x->expected_ms = x->engine_tokens = x->cached_tokens = -1;
	if (j->described)
		put_prompt(r, j, a, x);
	put_session(j, x);
	put_choice(j, x);
}

uint64_t explain(struct route *r, struct job *j, struct span uid, const struct route_answer *a)
{
	struct decision *x = &j->scratch->decision;

	if (r->decisions == NULL)
		return 0;
	explain_fill(r, j, uid, a, x);
	return decisions_put(r->decisions, x, j->scratch->blocks);
}

void route_took(struct route *r, const struct route_answer *a, usec us)
{
	decisions_took(r->decisions, a->decision, us < 0 ? 0 : clamp32((uint64_t)us));
}

/* traffic_put.c - what a decision, and a fact, put into the queue of traffic.h. Names go in as
 * hashes under the agent's key; the writer hashes them once more. */
#include "agent/route/job_in.h"

static uint64_t name_of(const struct route *r, uint64_t kind, struct span name)
{
	return name.n > 0 ? hash_mix_span(&r->key, kind, name) : 0;
}

static uint32_t clamp32(uint64_t n)
{
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void traffic_job(struct route *r, const struct job *j)
{
	struct traffic_asked a;

	if (!traffic_wants(r->traffic) || !j->described)
		return;
	a = (struct traffic_asked){
		.uid = j->rq.uid, .at = j->rq.now, .tokens = j->asks.tokens, .pool = name_of(r, 20, j->rq.pool),
		.model = name_of(r, 21, j->rq.space_model), .tenant = name_of(r, 22, j->rq.tenant),
		.session = name_of(r, 23, j->session),
	};
	if (j->choice.first >= 0) {
		const struct candidate *c = &j->scratch->candidates[j->choice.first];

		a.server = c->name;
		a.cached = clamp32(c->cached < a.tokens ? c->cached : a.tokens);
	}
	a.n_blocks = traffic_blocks(r->traffic, j->rq.space.h[0], j->scratch->rq.pages.p,
	    j->rq.n_pages, j->rq.page_tokens, j->scratch->recorded, &a.block_tokens);
	traffic_ask(r->traffic, &a, j->scratch->recorded);
}

void traffic_fact(
    struct route *r, uint64_t uid, const struct fact *f, uint32_t output_tokens, msec now)
{
	struct traffic_ended e = {
		.uid = uid, .at = now, .kind = TRAFFIC_DONE, .status = f->status, .output_tokens = output_tokens
	};

	if (!traffic_wants(r->traffic) || uid == 0)
		return;
	if (f->kind == FACT_FIRST) {
		e.kind = TRAFFIC_FIRST;
		e.stream = fact_streams(f);
	}
	traffic_end(r->traffic, &e);
}

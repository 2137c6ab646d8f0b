/* describe.c - the prompt as rules see it: lengths and keyed hashes, for struct policy_prompt. */
#include "agent/route/job_in.h"

#define OPENING_CHARS	128	/* KubeAI takes 100, which is no whole number of pages */

static uint64_t span_hash(const struct route *r, uint64_t kind, struct span s)
{
	return s.n ? hash_mix_span(&r->key, kind, s) : 0;
}

/* Hash a name that belongs to one tenant where tenants are isolated, so that no other tenant finds
 * what was remembered under it. */
static uint64_t own_hash(const struct route *r, const struct job *j, uint64_t kind, struct span s)
{
	uint64_t tenant = span_hash(r, 16, request_tenant(&j->rq)), h = span_hash(r, kind, s);

	return tenant != 0 && h != 0 ? hash_mix(&r->key, h, tenant) : h;
}

/* Hash the beginning of the first message that is not a system message. Its page keys do not depend
 * on that message. */
static uint64_t opening_of(const struct route *r, const struct job *j)
{
	const struct prompt *p = j->rq.prompt;
	uint32_t want = p->mode == PROMPT_TEXT ? OPENING_CHARS / j->opts->prompt.text_page : 1;
	uint32_t left = p->messages.n - p->n_leading;

	if (left == 0)
		return 0;
	if (want == 0)
		want = 1;
	return hash64(
	    &r->key, p->messages.p + p->n_leading, (want < left ? want : left) * sizeof(page_key));
}

/* Return the tokens before the last answer. Messages come last in the order of nearly all models.
 * Pages of a conversation's ids are taken to divide as the messages do. */
static uint64_t history_of(const struct request *rq)
{
	const struct prompt *p = rq->prompt;
	uint32_t after = p->messages.n - p->n_history;

	if (rq->mode != p->mode)
		return p->messages.n > 0 ?
			(uint64_t)rq->n_pages * p->n_history / p->messages.n * rq->page_tokens : 0;
	return p->n_history > 0 && rq->n_pages > after
	    ? (uint64_t)(rq->n_pages - after) * rq->page_tokens
	    : 0;
}

void job_describe(const struct route *r, struct job *j, bool with_body)
{
	const struct request *rq = &j->rq;
	const struct prompt_name *lora = &rq->prompt->lora, *user = &rq->prompt->user;
	const struct page_vec *pages = &rq->scratch->pages;

	j->asks = (struct policy_prompt){
		.tokens = rq->tokens + rq->unseen_tokens,
		.pages = pages->p, .n_pages = rq->n_pages, .page_tokens = rq->page_tokens,
		.space = rq->space.h[0],
		.model = span_hash(r, 7, rq->space_model), .adapter = span_hash(r, 8, span_of(lora->s, lora->n)),
		.patience = job_patience(j),
		.session = own_hash(r, j, 9, j->session.n > 0 ? j->session : j->user),
		.user = own_hash(r, j, 10, span_of(user->s, user->n)),
		.opening = opening_of(r, j), .history = history_of(rq),
	};
	if (with_body && rq->n_pages > 0)
		j->asks.body = hash64(&r->key, pages->p, rq->n_pages * sizeof(*pages->p));
}

/* job_prompt.c - what a body means: its pages in order, the space they live in, its length in tokens.
 *
 * The model of a space is, first found: the argument <model>, the pool's own, the body's, the head
 * that an earlier body with the same opening had. A body seen whole without one names none, which is
 * a model like any other; a cut body without one is headless. */
#include "agent/route/job.h"

#define OPENING_CHARS	128	/* KubeAI takes 100, which ends on no page */

static struct span name_span(const struct prompt_name *n)
{
	return span_of(n->s, n->n);
}

static struct span tenant_of(const struct job *j)
{
	return j->pool_opts->isolate_tenants ? j->tenant : (struct span){ 0 };
}

static uint64_t heads_scope(const struct route *r, const struct job *j, uint64_t *tenant)
{
	*tenant = hash_mix_span(&r->key, 3, j->tenant);
	return hash_mix_span(&r->key, hash_mix_span(&r->key, 4, tenant_of(j)), j->pool);
}

/* Learn from whole bodies, recall for cut ones. */
static void use_heads(struct route *r, struct job *j)
{
	uint64_t tenant, scope = heads_scope(r, j, &tenant);

	if (j->salted || j->aside)
		return;
	if (j->heads_scope != 0)
		scope = j->heads_scope;
	if (j->cut)
		j->head = heads_find(r->heads, tenant, scope, j->prompt);
	else if (j->prompt->json == JSON_DONE && j->heads_scope == 0)
		heads_add(r->heads, tenant, scope, j->prompt);
}

static void find_model(struct job *j)
{
	const struct prompt *p = j->prompt;

	if (j->model.n > 0)
		j->space_model = j->model;
	else if (j->pool_opts->model[0] != '\0')
		j->space_model = span_str(j->pool_opts->model);
	else if (p->model.seen)
		j->space_model = name_span(&p->model);
	else if (j->head != NULL)
		j->space_model = j->head->model;
	else
		j->headless = j->cut;
}

static void find_space(struct route *r, struct job *j)
{
	const struct prompt *p = j->prompt;
	struct space s = {
		.pool = j->pool, .tenant = tenant_of(j), .model = j->space_model,
		.lora = p->lora.seen || j->head == NULL ? name_span(&p->lora) : j->head->lora,
		.salt = name_span(&p->salt), .headless = j->headless, .mode = j->mode,
		.tenant_number = tenant_number(&r->tenants, &r->key, tenant_of(j)), .page = j->page,
		.tokenizer = j->model_opts->tok != NULL && j->mode == PROMPT_TOKENS ? tok_fingerprint(j->model_opts->tok) ^ j->front_unseen : 0,
	};

	space_key_of(&s, &r->key, &j->space);
	j->density_key = hash_mix_span(&r->key, 22, j->space_model);
	j->space.page_room = j->mode == PROMPT_TEXT ? density_room(&r->density, j->density_key, j->page) : j->page * ROOM_OF_TOKEN;
	j->space.part_room = j->space.page_room;
}

/* Pages as the scanner made them. */
static void scanned_pages(struct job *j)
{
	const struct prompt *p = j->prompt;

	prompt_pages(p, &j->model_opts->text_order, j->head, &j->scratch->pages);
	j->mode = p->mode;
	j->page = p->mode == PROMPT_TEXT ? j->opts->prompt.text_page : j->opts->prompt.token_page;
	j->tokens = p->mode == PROMPT_TEXT ? (uint64_t)j->scratch->pages.n * (j->page / TEXT_BYTES_PER_TOKEN) : p->n_units;
}

/* In token mode the engine always computes the last token again, so the block that holds it is
 * never a hit; of a prompt that is cut the last token was not seen. Text is counted in whole pages: its length
 * in tokens is an estimate anyway. */
static void measure(struct job *j)
{
	uint64_t whole = j->tokens > 0 ? (j->tokens - 1) / j->page : 0;
	int64_t seen = (int64_t)j->prompt->n_bytes;
	bool to_its_end = !j->cut || (j->mode == PROMPT_TOKENS && j->prompt->prompt_seen && !j->part);

	j->n_pages = j->scratch->pages.n;
	j->usable = j->n_pages;
	j->page_tokens = j->mode == PROMPT_TEXT ? j->page / TEXT_BYTES_PER_TOKEN : j->page;
	if (j->mode == PROMPT_TOKENS && to_its_end && j->usable > whole)
		j->usable = (uint32_t)whole;
	if (!to_its_end && j->whole > seen && seen > 0)
		j->unseen_tokens = (uint64_t)((double)j->tokens * (double)(j->whole - seen) /
					      (double)seen);
}

static void keep_model(struct job *j)
{
	size_t n = j->space_model.n < PROMPT_NAME_MAX ? j->space_model.n : PROMPT_NAME_MAX;

	if (n > 0)
		memcpy(j->scratch->model, j->space_model.p, n);
	j->space_model = span_of(j->scratch->model, n);
}

static uint64_t span_hash(const struct route *r, uint64_t kind, struct span s)
{
	return s.n ? hash_mix_span(&r->key, kind, s) : 0;
}

/* Where tenants are kept apart a name is a tenant's own: what another has remembered under it is not found. */
static uint64_t own_hash(const struct route *r, const struct job *j, uint64_t kind, struct span s)
{
	uint64_t tenant = span_hash(r, 16, tenant_of(j)), h = span_hash(r, kind, s);

	return tenant != 0 && h != 0 ? hash_mix(&r->key, h, tenant) : h;
}

/* The beginning of the first message that is not the system's; keys of pages that do not depend on it. */
static uint64_t opening_of(const struct route *r, const struct job *j)
{
	const struct prompt *p = j->prompt;
	uint32_t want = p->mode == PROMPT_TEXT ? OPENING_CHARS / j->opts->prompt.text_page : 1;
	uint32_t there = p->messages.n - p->n_leading;

	if (there == 0)
		return 0;
	if (want == 0)
		want = 1;
	return hash64(&r->key, p->messages.p + p->n_leading, (want < there ? want : there) * sizeof(page_key));
}

/* All that stands in front of the last answer: messages come last in the order of nearly all models. */
static uint64_t history_of(const struct job *j)
{
	const struct prompt *p = j->prompt;
	uint32_t behind = p->messages.n - p->n_history;

	if (j->mode != p->mode)		/* pages of a conversation's ids, in front of as large a part of the messages */
		return p->messages.n > 0 ? (uint64_t)j->n_pages * p->n_history / p->messages.n * j->page_tokens : 0;
	return p->n_history > 0 && j->n_pages > behind ? (uint64_t)(j->n_pages - behind) * j->page_tokens : 0;
}

void job_describe(struct route *r, struct job *j, bool with_body)
{
	const struct prompt *p = j->prompt;
	const struct page_vec *pages = &j->scratch->pages;

	j->asks = (struct policy_prompt){
		.tokens = j->tokens + j->unseen_tokens,
		.pages = pages->p, .n_pages = j->n_pages, .page_tokens = j->page_tokens,
		.space = j->space.h[0],
		.model = span_hash(r, 7, j->space_model), .adapter = span_hash(r, 8, name_span(&p->lora)),
		.session = own_hash(r, j, 9, j->session), .user = own_hash(r, j, 10, name_span(&p->user)),
		.opening = opening_of(r, j), .history = history_of(j),
	};
	if (with_body && j->n_pages > 0)
		j->asks.body = hash64(&r->key, pages->p, j->n_pages * sizeof(*pages->p));
}

enum why job_read_prompt(struct route *r, struct job *j)
{
	const struct prompt *p = j->prompt;

	j->salted = p->salt.seen;
	if (p->json == JSON_BAD)
		return WHY_BADBODY;
	if (!p->found)
		return WHY_NOPROMPT;
	use_heads(r, j);
	j->lent = j->head != NULL;
	find_model(j);
	if ((j->model_opts = adapter_base(r, j->pool, j->space_model)) == NULL) {
		j->model_opts = model_options_of(j->opts, j->space_model);
		j->space_model = model_name_of(j->model_opts, j->space_model);
	}
	if (!job_token_pages(r, j))
		scanned_pages(j);
	if (!j->refused) {
		find_space(r, j);
		measure(j);
	}
	keep_model(j);
	heads_release(j->head);
	j->head = NULL;
	return j->refused ? WHY_BADBODY : WHY_COLD;
}

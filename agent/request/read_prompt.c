/* read_prompt.c - the pages of a body in order, the space they live in, its length in tokens.
 *
 * The model of a space is the first of: the message's argument, the pool's own, the body's, that of
 * the head stored for an earlier body with the same opening. A body seen whole without a model has
 * the model "", like any other name. A truncated body without one is headless. */
#include "agent/request/request_in.h"

static struct span name_span(const struct prompt_name *n)
{
	return span_of(n->s, n->n);
}

struct span request_tenant(const struct request *rq)
{
	return rq->in.isolate_tenants ? rq->tenant : (struct span){ 0 };
}

static uint64_t heads_scope(const struct request *rq, uint64_t *tenant)
{
	const struct hash_key *key = rq->env->key;

	*tenant = hash_mix_span(key, 3, rq->tenant);
	return hash_mix_span(key, hash_mix_span(key, 4, request_tenant(rq)), rq->pool);
}

/* Look up the head of a truncated body. That of a whole one is stored when its bytes are not needed
 * any more, which is after its answer: request_keep_body(). */
static void use_heads(struct request *rq)
{
	uint64_t tenant, scope = heads_scope(rq, &tenant);

	if (rq->salted || rq->aside)
		return;
	if (rq->heads_scope != 0)
		scope = rq->heads_scope;
	if (rq->cut)
		rq->head = heads_find(rq->env->heads, tenant, scope, rq->prompt);
	else if (rq->prompt->json == JSON_DONE && rq->heads_scope == 0)
		rq->new_head = (struct request_head){ true, tenant, scope };
}

static void find_model(struct request *rq)
{
	const struct prompt *p = rq->prompt;

	if (rq->model.n > 0)
		rq->space_model = rq->model;
	else if (rq->in.model[0] != '\0')
		rq->space_model = span_str(rq->in.model);
	else if (p->model.seen)
		rq->space_model = name_span(&p->model);
	else if (rq->head != NULL)
		rq->space_model = rq->head->model;
	else
		rq->headless = rq->cut;
}

static void find_options(struct request *rq)
{
	const struct request_env *env = rq->env;

	rq->model_opts = env->adapter_base != NULL ?
		env->adapter_base(env->adapter_arg, rq->pool, rq->space_model) : NULL;
	rq->is_adapter = rq->model_opts != NULL;
	if (rq->model_opts != NULL)
		return;
	rq->model_opts = model_options_of(&env->opts.models, rq->space_model);
	rq->is_adapter = model_has_adapter(rq->model_opts, rq->space_model);
	rq->space_model = model_name_of(rq->model_opts, rq->space_model);
}

static uint64_t tokenizer_of(const struct request *rq)
{
	const struct tok *tok = rq->model_opts->tok;

	return tok != NULL && rq->mode == PROMPT_TOKENS ? tok_fingerprint(tok) ^ rq->front_unseen : 0;
}

/* The engines of a prefill pool have one cache for all pools that they compute for. */
static struct span space_pool(const struct request *rq)
{
	return rq->in.caches != NULL && rq->in.caches[0] != '\0' ? span_str(rq->in.caches) : rq->pool;
}

static void find_space(struct request *rq)
{
	const struct request_env *env = rq->env;
	const struct prompt *p = rq->prompt;
	struct span tenant = request_tenant(rq);
	struct space s = {
		.pool = space_pool(rq), .tenant = tenant, .model = rq->space_model,
		.lora = p->lora.seen || rq->head == NULL ? name_span(&p->lora) : rq->head->lora,
		.salt = name_span(&p->salt), .headless = rq->headless, .mode = rq->mode,
		.tenant_number = tenant_number(&env->tenants, env->key, tenant), .page = rq->page,
		.tokenizer = tokenizer_of(rq),
	};

	space_key_of(&s, env->key, &rq->space);
	rq->cache_of = space_cache_of(
	    env->key, s.lora.n == 0 && rq->is_adapter ? rq->space_model : s.lora, s.salt);
	rq->density_key = hash_mix_span(env->key, 22, rq->space_model);
	rq->density_tenant = hash_mix_span(env->key, 24, rq->tenant);
	rq->space.page_room = rq->mode == PROMPT_TEXT ?
		density_room(&env->density, rq->density_key, rq->density_tenant, rq->page) :
		rq->page * ROOM_OF_TOKEN;
	rq->space.part_room = rq->space.page_room;
}

/* Take the pages that the scanner made. */
static void scanned_pages(struct request *rq)
{
	const struct prompt_opts *o = &rq->env->opts.prompt;
	const struct prompt *p = rq->prompt;
	struct page_vec *pages = &rq->scratch->pages;

	prompt_pages(p, &rq->model_opts->text_order, rq->head, pages);
	rq->mode = p->mode;
	rq->page = p->mode == PROMPT_TEXT ? o->text_page : o->token_page;
	rq->tokens = p->mode == PROMPT_TEXT ?
		(uint64_t)pages->n * (rq->page / TEXT_BYTES_PER_TOKEN) : p->n_units;
}

/* Return the tokens of the bytes that were not seen, if they are like those that were. Returns 0 if
 * the cut is in an image or similar, because its bytes are no tokens. The length is the client's
 * word: it may be any, and its bytes may never come. */
static uint64_t unseen_tokens(const struct request *rq)
{
	int64_t seen = (int64_t)rq->prompt->n_bytes;
	double n;

	if (rq->prompt->in_media || seen <= 0 || rq->whole <= seen)
		return 0;
	n = (double)rq->tokens * (double)(rq->whole - seen) / (double)seen;
	return n < UNSEEN_TOKENS_MAX ? (uint64_t)n : UNSEEN_TOKENS_MAX;
}

/* Set counts of pages and tokens. In token mode the engine computes the last token again, so the
 * block that holds it is never a hit; of a truncated prompt the last token was not seen. Text is
 * counted in whole pages, because its length in tokens is an estimate anyway. */
static void measure(struct request *rq)
{
	uint64_t whole = rq->tokens > 0 ? (rq->tokens - 1) / rq->page : 0;
	bool to_its_end = !rq->cut || (rq->mode == PROMPT_TOKENS && rq->prompt->prompt_seen && !rq->part);

	rq->n_pages = rq->scratch->pages.n;
	rq->usable = rq->n_pages;
	rq->page_tokens = rq->mode == PROMPT_TEXT ? rq->page / TEXT_BYTES_PER_TOKEN : rq->page;
	if (rq->mode == PROMPT_TOKENS && to_its_end && rq->usable > whole)
		rq->usable = (uint32_t)whole;
	if (!to_its_end)
		rq->unseen_tokens = unseen_tokens(rq);
}

/* Copy the model's name, because the head that it may be in is released. */
static void keep_model(struct request *rq)
{
	size_t n = rq->space_model.n < PROMPT_NAME_MAX ? rq->space_model.n : PROMPT_NAME_MAX;

	if (n > 0)
		memcpy(rq->scratch->model, rq->space_model.p, n);
	rq->space_model = span_of(rq->scratch->model, n);
}

enum request_found request_read_prompt(struct request *rq)
{
	const struct prompt *p = rq->prompt;

	rq->salted = p->salt.seen;
	if (p->json == JSON_BAD)
		return REQUEST_BAD_BODY;
	if (!p->found)
		return REQUEST_NO_PROMPT;
	use_heads(rq);
	rq->lent = rq->head != NULL;
	find_model(rq);
	find_options(rq);
	if (!request_token_pages(rq))
		scanned_pages(rq);
	if (!rq->refused) {
		find_space(rq);
		measure(rq);
	}
	keep_model(rq);
	heads_release(rq->head);
	rq->head = NULL;
	return rq->refused ? REQUEST_BAD_BODY : REQUEST_PROMPT;
}

void request_preview(struct request_env *env, struct request_scratch *s,
    const struct request_message *m, const struct request_pool *in, struct request_preview *v)
{
	struct request rq;

	request_start(&rq, env, s, m, 0);
	rq.seq = -1;
	rq.work.left = REQUEST_WORK_FULL;
	rq.aside = true;
	rq.in = *in;
	request_take_body(&rq, m);
	*v = (struct request_preview){ .found = request_read_prompt(&rq) };
	v->model = rq.space_model;
	v->lora = name_span(&rq.prompt->lora);
	v->tenant = request_tenant(&rq);
	v->salted = rq.salted;
	v->headless = rq.headless;
	v->cut = rq.cut && rq.prompt->found;
	v->mode = rq.mode;
	v->page = rq.page;
	v->units = rq.mode == rq.prompt->mode && !rq.prompt->truncates ? rq.prompt->n_units : rq.tokens;
	v->space = rq.space;
	if (v->found == REQUEST_PROMPT) {
		v->pages = rq.n_pages;
		v->keys = s->pages.p;
	}
}

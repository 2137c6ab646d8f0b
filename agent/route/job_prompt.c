/* job_prompt.c - what a body means: its pages in order, the space they live in, its length in tokens.
 *
 * The model of a space is, first found: the argument <model>, the pool's own, the body's, the head
 * that an earlier body with the same opening had. A body seen whole without one names none, which is
 * a model like any other; a cut body without one is headless. */
#include "agent/route/job.h"

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
	if (j->cut)
		j->head = heads_find(r->heads, tenant, scope, j->prompt);
	else if (j->prompt->json == JSON_DONE)
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
		.salt = name_span(&p->salt), .headless = j->headless, .mode = p->mode,
		.tenant_number = tenant_number(&r->tenants, &r->key, tenant_of(j)),
		.page = p->mode == PROMPT_TEXT ? j->opts->prompt.text_page :
			j->opts->prompt.token_page,
	};

	space_key_of(&s, &r->key, &j->space);
}

/* In token mode the engine always computes the last token again, so the block that holds it is
 * never a hit; of a cut body the last token was not seen. Text is counted in whole pages: its length
 * in tokens is an estimate anyway. */
static void measure(struct job *j)
{
	const struct prompt *p = j->prompt;
	const struct prompt_opts *o = &j->opts->prompt;
	int64_t seen = (int64_t)p->n_bytes;

	j->n_pages = j->scratch->pages.n;
	j->usable = j->n_pages;
	if (p->mode == PROMPT_TOKENS) {
		uint64_t whole = p->n_units > 0 ? (p->n_units - 1) / o->token_page : 0;

		j->page_tokens = o->token_page;
		j->tokens = p->n_units;
		if (!j->cut && j->usable > whole)
			j->usable = (uint32_t)whole;
	} else {
		j->page_tokens = o->text_page / TEXT_BYTES_PER_TOKEN;
		j->tokens = (uint64_t)j->n_pages * j->page_tokens;
	}
	if (j->cut && j->whole > seen && seen > 0)
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

enum why job_read_prompt(struct route *r, struct job *j)
{
	const struct prompt *p = j->prompt;
	const struct model_opts *mo;

	j->salted = p->salt.seen;
	if (p->json == JSON_BAD)
		return WHY_BADBODY;
	if (!p->found)
		return WHY_NOPROMPT;
	use_heads(r, j);
	j->lent = j->head != NULL;
	find_model(j);
	find_space(r, j);
	mo = model_options_of(j->opts, j->space_model);
	prompt_pages(p, &mo->text_order, j->head, &j->scratch->pages);
	measure(j);
	keep_model(j);
	heads_release(j->head);
	j->head = NULL;
	return WHY_COLD;
}

/* route_opts.c - options of the router: defaults, copies, and how much memory they allow. */
#include "agent/base/mem.h"
#include "agent/route/job_in.h"

static void pool_defaults(struct pool_opts *o)
{
	memset(o, 0, sizeof(*o));
	strcpy(o->name, "*");
	o->isolate_tenants = true;
	o->eviction = INDEX_LRU;
	o->capacity_guess = 400000;
	policy_defaults(&o->policy);
}

void route_defaults(struct route_opts *o)
{
	memset(o, 0, sizeof(*o));
	prompt_defaults(&o->prompt);
	index_defaults(&o->index);
	heads_defaults(&o->heads);
	turns_defaults(&o->turns);
	o->segcache_max_bytes = 64u << 20;
	o->sessions_max_bytes = 8u << 20;
	o->slices_max_bytes = 64u << 20;
	o->slices_max_age_ms = 1000;
	o->ledger_max_entries = 65536;
	o->ledger_max_age_ms = 600000;
	o->ledger_max_silence_ms = 30000;
	o->server_max_age_ms = 600000;
	o->max_pools = 64;
	o->decisions_keep = 4096;
	pool_defaults(&o->pool_default);
	model_defaults(&o->model_default);
	strcpy(o->tenant_default.name, "*");
	problems_defaults(&o->problems);
}

/* An entry of the ledger, its place in a table that is at most half empty, and the part of
 * malloc(). */
#define OPEN_BYTES	448

_Static_assert(sizeof(struct open_request) + 2 * sizeof(void *) + 16 <= OPEN_BYTES,
    "route_budget() counts too little");

/* Return the memory of a pool's rule and of those compared with it, at most. */
static uint64_t rules_max(const struct pool_opts *p)
{
	struct policy_opts one = p->policy;
	uint64_t n = policy_memory_max(&one) + (p->mode == MODE_SHADOW ? shadow_bytes() : 0);

	for (unsigned i = 0; i < COMPARE_MAX && p->compare[i] != 0; i++) {
		one.rule = (enum policy_rule)(p->compare[i] - 1);
		n += policy_memory_max(&one);
	}
	return n;
}

/* Return the memory of the rules of all pools. Pools that no entry names take the default's. */
static uint64_t all_rules_max(const struct route_opts *o)
{
	uint64_t n = o->max_pools > o->n_pools
	    ? (o->max_pools - o->n_pools) * rules_max(&o->pool_default)
	    : 0;

	for (size_t i = 0; i < o->n_pools; i++)
		n += rules_max(&o->pools[i]);
	return n;
}

/* Return the options of model <i>, from 1; 0 is the default. */
static const struct model_opts *model_at(const struct route_opts *o, size_t i)
{
	return i == 0 ? &o->model_default : &o->models[i - 1];
}

/* Return the memory of tokenizers, each once though models share them, and of templates. */
static uint64_t tokenizers(const struct route_opts *o)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i <= o->n_models; i++) {
		const struct tok *t = model_at(o, i)->tok;
		size_t j = 0;

		while (t != NULL && j < i && model_at(o, j)->tok != t)
			j++;
		if (t != NULL && j == i)
			bytes += tok_bytes(t);
		if (model_at(o, i)->chat != NULL)
			bytes += chat_bytes(model_at(o, i)->chat);
	}
	return bytes;
}

uint64_t route_budget(const struct route_opts *o)
{
	return all_rules_max(o) + tokenizers(o) + (uint64_t)o->index.max_bytes +
	    sources_budget(o) + o->heads.max_bytes + o->turns.max_bytes + o->slices_max_bytes +
	    o->sessions_max_bytes +
	    o->segcache_max_bytes +
	    ((uint64_t)o->ledger_max_entries + LEDGER_SPARE_MOST) * OPEN_BYTES +
	    decisions_bytes(o->decisions_keep) +
	    marks_table_bytes() + shared_table_bytes() + grown_table_bytes() + problems_bytes() +
	    scanned_most_bytes() + sharing_budget(o);
}

/* Pages of a prompt are in three vectors: as its parts, joined, and as an engine reports them. A
 * vector grows by half. */
uint64_t route_thread_budget(const struct route_opts *o)
{
	return sizeof(struct route_scratch) + SERVERS_MAX * sizeof(*((struct index_match *)NULL)->bands) +
	    3ull * o->prompt.max_pages * sizeof(page_key) * 3 / 2 + route_chain_room(o) * sizeof(uint64_t);
}

struct model_table route_models(const struct route_opts *o)
{
	return (struct model_table){ .list = o->models, .n = o->n_models, .fallback = &o->model_default };
}

struct request_opts route_request_opts(const struct route_opts *o)
{
	return (struct request_opts){
		.prompt = o->prompt, .heads = o->heads, .turns = o->turns,
		.segcache_max_bytes = o->segcache_max_bytes,
		.slices_max_bytes = o->slices_max_bytes, .models = route_models(o),
	};
}

void route_opts_free(struct route_opts *o)
{
	tok_unref(o->model_default.tok);
	chat_unref(o->model_default.chat);
	o->model_default.tok = NULL;
	o->model_default.chat = NULL;
	for (size_t i = 0; i < o->n_models; i++) {
		tok_unref(o->models[i].tok);
		chat_unref(o->models[i].chat);
	}
	mem_free(o->pools);
	mem_free(o->models);
	mem_free(o->tenants);
	o->pools = NULL;
	o->models = NULL;
	o->tenants = NULL;
	o->n_pools = o->n_models = o->n_tenants = 0;
}

static void ref_model(const struct model_opts *m)
{
	if (m->tok != NULL)
		tok_ref(m->tok);
	chat_ref(m->chat);
}

static void ref_tokenizers(struct route_opts *o)
{
	for (size_t i = 0; i <= o->n_models; i++)
		ref_model(model_at(o, i));
}

int route_opts_copy(struct route_opts *to, const struct route_opts *from)
{
	*to = *from;
	to->pools = mem_copy(from->pools, from->n_pools * sizeof(*from->pools));
	to->models = mem_copy(from->models, from->n_models * sizeof(*from->models));
	to->tenants = mem_copy(from->tenants, from->n_tenants * sizeof(*from->tenants));
	if (to->pools != NULL && to->models != NULL && to->tenants != NULL) {
		ref_tokenizers(to);
		return 0;
	}
	to->model_default.tok = NULL;		/* no reference is held yet */
	to->n_models = 0;
	route_opts_free(to);
	return -1;
}

/* adapter.c - which model a LoRA adapter belongs to, where only its engine's metrics name it.
 *
 * Engines serve adapters as models of their own, with the tokenizer and template of the base model, and a cache of their own. Their
 * metrics name the adapters that run, wait or are loaded (feed/metrics.h), not the base model. The base is the one model with a
 * tokenizer that this pool was asked for; before it was, the only one in the options. Two of them: none, until "models.adapters" says it.
 *
 * What was named once stays known: an adapter without requests leaves the metrics, and its conversations must not change their
 * space for that. An engine can so make tokens of other names in its pool, which are pages of their own space, no more. */
#include "agent/route/job_in.h"

#define BASE_MANY	UINT16_MAX

static uint64_t adapter_key(const struct route *r, struct span pool, struct span name)
{
	return hash_mix_span(&r->key, hash_mix_span(&r->key, 24, pool), name) | 1;
}

void adapter_note(struct route *r, struct span pool, struct span name)
{
	uint64_t key = adapter_key(r, pool, name);

	__atomic_store_n(&r->adapters[key / 2 % ADAPTERS_NOTED], key, __ATOMIC_RELAXED);
}

static bool is_noted(const struct route *r, struct span pool, struct span name)
{
	uint64_t key = adapter_key(r, pool, name);

	return __atomic_load_n(&r->adapters[key / 2 % ADAPTERS_NOTED], __ATOMIC_RELAXED) == key;
}

/* 1 + its number in the options; 0: none; BASE_MANY. */
static uint16_t only_base(const struct route_opts *o)
{
	uint16_t base = 0;

	for (size_t i = 0; i < o->n_models && i + 1 < BASE_MANY; i++) {
		if (model_encodes(&o->models[i]))
			base = base == 0 ? (uint16_t)(i + 1) : BASE_MANY;
	}
	return base;
}

void adapter_model_met(const struct route *r, struct pool *p, const struct model_opts *m)
{
	size_t number;

	if (m == &r->opts.model_default || !model_encodes(m))
		return;
	number = (size_t)(m - r->opts.models) + 1;
	if (p->route->base_model != 0 && p->route->base_model != number)
		number = BASE_MANY;
	p->route->base_model = number < BASE_MANY ? (uint16_t)number : BASE_MANY;
}

const struct model_opts *adapter_base(void *route, struct span pool, struct span name)
{
	struct route *r = route;
	const struct route_opts *o = &r->opts;
	uint16_t base = 0;
	struct pool *p;

	if (name.n == 0 || o->n_models == 0 || model_options_of(&r->requests.opts.models, name) != &o->model_default || !is_noted(r, pool, name))
		return NULL;
	pthread_mutex_lock(&r->lock);
	if ((p = fleet_find(&r->fleet, pool)) != NULL)
		base = p->route->base_model;
	pthread_mutex_unlock(&r->lock);
	if (base == 0)
		base = only_base(o);
	return base > 0 && base <= o->n_models ? &o->models[base - 1] : NULL;
}

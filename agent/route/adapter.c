/* adapter.c - the model that a LoRA adapter belongs to, if only its engine's metrics name it.
 *
 * Engines serve adapters as models of their own, with the tokenizer and template of the base model
 * and a separate cache. Their metrics name adapters that run, wait or are loaded (feed/metrics.h),
 * but not the base model. The base is the one model with a tokenizer that requests to this pool
 * have named; before any has, the only one in the options. If there are two, the base is unknown
 * until the option "models.adapters" names it. Then the default options hold; prompts of ids still
 * match only blocks of the adapter.
 *
 * An adapter stays known once it was named. It leaves the metrics when it has no requests, and then
 * its conversations must not change their space. So an engine can turn other names in its pool into
 * pages of ids; these are in spaces of their own, which does no harm.
 *
 * Events name adapters as well, and there a name says which blocks are its own. That is believed of
 * the blocks of the engine that names it; what others of its pool hold of such a prompt is as
 * requests taught. */
#include "agent/route/job_in.h"

#define BASE_MANY	UINT16_MAX

enum { BY_METRICS = 24, BY_EVENTS };

static uint64_t adapter_key(
    const struct route *r, uint64_t by, struct span pool, struct span name)
{
	return hash_mix_span(&r->key, hash_mix_span(&r->key, by, pool), name) | 1;
}

static void note(struct route *r, uint64_t key)
{
	__atomic_store_n(&r->adapters[key / 2 % ADAPTERS_NOTED], key, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&r->any_adapter, __ATOMIC_RELAXED))
		__atomic_store_n(&r->any_adapter, true, __ATOMIC_RELAXED);
}

static bool is_noted(const struct route *r, uint64_t key)
{
	return __atomic_load_n(&r->adapters[key / 2 % ADAPTERS_NOTED], __ATOMIC_RELAXED) == key;
}

void adapter_note(struct route *r, struct span pool, struct span name)
{
	note(r, adapter_key(r, BY_METRICS, pool, name));
}

void adapter_note_event(struct route *r, struct source *s, struct span name)
{
	uint64_t key = adapter_key(r, BY_EVENTS, span_str(s->pool), name);

	note(r, key);
	s->named[key / 2 % SOURCE_ADAPTERS] = (uint32_t)(key >> 32) | 1;
	s->adapters = true;
}

bool adapter_is_reported(const struct route *r, struct span pool, struct span name)
{
	return is_noted(r, adapter_key(r, BY_EVENTS, pool, name));
}

bool adapter_is_reported_by(const struct route *r, const struct source *s, struct span name)
{
	uint64_t key = adapter_key(r, BY_EVENTS, span_str(s->pool), name);

	return s->named[key / 2 % SOURCE_ADAPTERS] == ((uint32_t)(key >> 32) | 1);
}

/* Return 1 + the index of the only model with a tokenizer; 0 if there is none; BASE_MANY. */
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

	if (name.n == 0 || !__atomic_load_n(&r->any_adapter, __ATOMIC_RELAXED) ||
	    model_options_of(&r->requests.opts.models, name) != &o->model_default ||
	    !is_noted(r, adapter_key(r, BY_METRICS, pool, name)))
		return NULL;
	pthread_mutex_lock(&r->lock);
	if ((p = fleet_find(&r->fleet, pool)) != NULL)
		base = p->route->base_model;
	pthread_mutex_unlock(&r->lock);
	if (base == 0)
		base = only_base(o);
	return base > 0 && base <= o->n_models ? &o->models[base - 1] : &o->model_default;
}

/* pool.c - pools as the router sees them: their options, the memory of their rule, and the rules
 * compared with it. */
#include "agent/base/mem.h"
#include "agent/route/route_in.h"

const struct pool_opts *pool_options_of(const struct route_opts *o, struct span name)
{
	for (size_t i = 0; i < o->n_pools; i++) {
		if (span_eq(name, span_str(o->pools[i].name)))
			return &o->pools[i];
	}
	return &o->pool_default;
}

/* A new rule gets a new memory; a rule that stays keeps what it learned. */
static void pool_take_options(struct pool *p, const struct pool_opts *o)
{
	struct pool_route *pr = p->route;
	bool same = pr->rule == o->policy.rule && pr->rule_max_bytes == o->policy.rule_max_bytes;

	p->opts = o;
	p->policy = &o->policy;
	compare_take(&pr->compare, o);
	if (same)
		return;
	policy_memory_free(pr->memory);
	pr->memory = policy_memory_new(&o->policy);
	pr->rule = o->policy.rule;
	pr->rule_max_bytes = o->policy.rule_max_bytes;
}

void pools_take_options(struct route *r)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		struct pool *p = r->fleet.pools[i];

		p->route->base_model = 0;
		pool_take_options(p, pool_options_of(&r->opts, span_str(p->name)));
	}
}

struct pool *pool_met(struct route *r, struct span name)
{
	struct pool *p = fleet_find(&r->fleet, name);

	if (p != NULL || (p = fleet_pool_add(&r->fleet, name, r->opts.max_pools)) == NULL)
		return p;
	if ((p->route = mem_alloc(sizeof(*p->route))) == NULL) {
		fleet_pool_undo(&r->fleet);
		return NULL;
	}
	pthread_mutex_init(&p->route->rule_lock, NULL);
	pool_take_options(p, pool_options_of(&r->opts, name));
	return p;
}

void pool_server_gone(struct pool *p, server_id id)
{
	struct pool_route *pr = p->route;

	pthread_mutex_lock(&pr->rule_lock);
	policy_gone(pr->memory, id);
	compare_gone(pr->compare, id);
	pthread_mutex_unlock(&pr->rule_lock);
}

void pools_free(struct route *r)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		struct pool_route *pr = r->fleet.pools[i]->route;

		policy_memory_free(pr->memory);
		compare_free(pr->compare);
		shadow_free(pr->shadow);
		pthread_mutex_destroy(&pr->rule_lock);
		mem_free(pr);
	}
}

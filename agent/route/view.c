/* view.c - what is known, for whoever shows it. */
#include "agent/route/internal.h"

void route_stats(struct route *r, struct route_stats *s)
{
	pthread_mutex_lock(&r->lock);
	*s = r->stats;
	s->open = r->ledger.n;
	s->pools_refused = r->fleet.pools_refused;
	s->servers_refused = r->fleet.servers_refused;
	pthread_mutex_unlock(&r->lock);

	pthread_mutex_lock(&r->slices.lock);
	s->slices_waiting = r->slices.n;
	s->slices_bytes = r->slices.bytes;
	s->slices_aged = r->slices.aged;
	s->slices_dropped = r->slices.dropped;
	s->slices_again = r->slices.again;
	s->slices_repeated = r->slices.repeated;
	pthread_mutex_unlock(&r->slices.lock);

	index_stats(r->index, &s->index);
	heads_stats(r->heads, &s->heads);
}

static void view_server(struct route *r, const struct server *s, uint64_t pages, msec now,
			struct route_server_view *v)
{
	msec half_life = s->pool->opts->policy.penalty_half_life_ms;

	*v = (struct route_server_view){
		.pool = s->pool->name, .name = s->name, .id = s->id, .up = s->up,
		.weight = s->weight, .conn = s->conn, .queue = s->queue, .open = s->n_open,
		.backlog_s = s->unanswered_s, .picked = s->picked, .hit_tokens = s->hit_tokens,
		.pages = pages, .penalty = penalty_now(&s->penalty, half_life, now),
		.failures = s->failures, .output = index_server_output(r->index, s->id),
		.capacity = index_server_capacity(r->index, s->id),
	};
}

void route_each_server(struct route *r, msec now,
		       void (*fn)(void *arg, const struct route_server_view *v), void *arg)
{
	uint64_t pages[SERVERS_MAX];
	struct route_server_view v;

	for (unsigned id = 0; id < SERVERS_MAX; id++)
		pages[id] = index_server_pages(r->index, (server_id)id);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	for (unsigned id = 0; id < SERVERS_MAX; id++) {
		if (r->fleet.by_id[id] == NULL)
			continue;
		view_server(r, r->fleet.by_id[id], pages[id], now, &v);
		fn(arg, &v);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

void route_each_shard(struct route *r, void (*fn)(void *arg, uint32_t i, const struct index_shard_stats *v),
		      void *arg)
{
	uint32_t n = index_shards(r->index);

	for (uint32_t i = 0; i < n; i++) {
		struct index_shard_stats v;

		index_shard_stats(r->index, i, &v);
		fn(arg, i, &v);
	}
}

void route_each_pool(struct route *r, void (*fn)(void *arg, const struct route_pool_view *v),
		     void *arg)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		const struct pool *p = r->fleet.pools[i];
		struct route_pool_view v = {
			.name = p->name, .imbalanced = p->imbalanced,
			.facts = fact_step_text(p->step),
			.imbalance_transitions = p->imbalance_transitions,
			.requests = p->requests, .pressure = p->pressure,
		};

		fn(arg, &v);
	}
	pthread_mutex_unlock(&r->lock);
}

/* report.c - figures and views of the router, for metrics, pages and logs. */
#include "agent/route/job_in.h"

bool route_disagrees(struct route *r, msec now, struct route_disagreement *d)
{
	struct agree_news news;
	bool any;

	any = agree_news(&r->requests.agree, now, &news);
	if (any) {
		memcpy(d->model, news.model, sizeof(d->model));
		agree_kind_text(news.kind, d->kind, sizeof(d->kind));
		d->for_ms = news.for_ms;
	}
	return any;
}

void route_stats(struct route *r, struct route_stats *s)
{
	struct agree_counts agree;

	pthread_mutex_lock(&r->lock);
	*s = r->stats;
	sessions_stats(r->sessions, &s->sessions);
	s->responses = responses_known(r->responses);
	s->open = r->ledger.n;
	s->pools_refused = r->fleet.pools_refused;
	s->servers_refused = r->fleet.servers_refused;
	pthread_mutex_unlock(&r->lock);

	agree_counts(&r->requests.agree, &agree);
	s->tokens_compared = agree.compared;
	s->tokens_differed = agree.differed;
	s->models_disagree = agree.models_off;

	pthread_mutex_lock(&r->requests.slices.lock);
	s->slices_waiting = r->requests.slices.n;
	s->slices_bytes = r->requests.slices.bytes;
	s->slices_aged = r->requests.slices.aged;
	s->slices_dropped = r->requests.slices.dropped;
	s->slices_again = r->requests.slices.again;
	s->slices_repeated = r->requests.slices.repeated;
	pthread_mutex_unlock(&r->requests.slices.lock);

	pthread_mutex_lock(&r->requests.scanned.lock);
	s->scans_shared = r->requests.scanned.taken;
	s->scans_lost = r->requests.scanned.lost;
	pthread_mutex_unlock(&r->requests.scanned.lock);

	index_stats(r->index, &s->index);
	heads_stats(r->requests.heads, &s->heads);
	if (r->requests.turns != NULL)
		turns_stats(r->requests.turns, &s->turns);
	pthread_rwlock_rdlock(&r->opts_lock);
	if (r->requests.segments != NULL)
		segcache_stats(r->requests.segments, &s->segments);
	pthread_rwlock_unlock(&r->opts_lock);
}

static enum speed_source speed_source(const struct server *s, msec now)
{
	const struct pool *p = s->pool;

	if (!p->policy->learn_rate)
		return SPEED_CONFIGURED;
	if (server_speed_known(s, p->step, now))
		return SPEED_LEARNED;
	for (size_t i = 0; i < p->n_servers; i++)
		if (server_speed_known(p->servers[i], p->step, now))
			return SPEED_POOL;
	return SPEED_GUESS;
}

static void view_server(struct route *r, const struct server *s, uint64_t room, msec now,
			struct route_server_view *v)
{
	msec half_life = s->pool->opts->policy.penalty_half_life_ms;
	struct watch_sum w = watch_sum(&s->watch, now);
	const struct engine_seen *e = &s->engine;
	struct engine_now n = engine_now(e, now);
	enum capacity_source by;
	uint64_t capacity = server_capacity(s, &by);

	*v = (struct route_server_view){
		.pool = s->pool->name,
		.name = s->name,
		.id = s->id,
		.up = s->up,
		.backup = s->backup != BACKUP_NO || w.backup,
		.weight = s->weight,
		.conn = s->conn,
		.queue = s->queue,
		.open = s->n_open,
		.tokens_per_s = s->pool->opts->policy.prefill_tokens_per_s /
		    server_slowness(s, s->pool->step, now),
		.speed = speed_source(s, now),
		.backlog_s = s->unanswered_s,
		.wait_s = wait_at(s, now),
		.picked = s->picked,
		.picked_why = s->picked_why,
		.told_hits = s->hits.told,
		.engine_hit_tokens = s->hits.hit_tokens,
		.engine_asked_tokens = s->hits.asked_tokens,
		.hit_tokens = s->hit_tokens,
		.held_tokens = room / ROOM_OF_TOKEN,
		.penalty = penalty_now(&s->penalty, half_life, now),
		.failures = s->failures,
		.output_tokens = index_server_output(r->index, s->id) / ROOM_OF_TOKEN,
		.room_tokens = index_server_capacity(r->index, s->id) / ROOM_OF_TOKEN,
		.capacity_tokens = capacity,
		.capacity_source = by,
		.watchers = w.n,
		.closed = w.closed,
		.engine = n.holds,
		.waiting = (double)n.waiting,
		.running = (double)n.running,
		.kv_used = n.kv_used,
		.foreign = n.foreign,
		.block_size = e->block_size,
		.engine_capacity = e->capacity,
		.adapters_running = e->n_running,
		.adapters_waiting = e->n_waiting,
		.adapters_loaded = e->n_loaded,
	};
}

void route_each_server(struct route *r, msec now,
		       void (*fn)(void *arg, const struct route_server_view *v), void *arg)
{
	uint64_t room[SERVERS_MAX];
	struct route_server_view v;

	for (unsigned id = 0; id < SERVERS_MAX; id++)
		room[id] = index_server_room(r->index, (server_id)id);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	for (unsigned id = 0; id < SERVERS_MAX; id++) {
		if (r->fleet.by_id[id] == NULL || r->fleet.by_id[id]->name[0] == '\0')
			continue;
		view_server(r, r->fleet.by_id[id], room[id], now, &v);
		fn(arg, &v);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

void route_each_shard(struct route *r,
    void (*fn)(void *arg, uint32_t i, const struct index_shard_stats *v), void *arg)
{
	uint32_t n = index_shards(r->index);

	for (uint32_t i = 0; i < n; i++) {
		struct index_shard_stats v;

		index_shard_stats(r->index, i, &v);
		fn(arg, i, &v);
	}
}

const char *pool_mode_text(enum pool_mode m)
{
	static const char *const text[] = { "on", "shadow", "off" };

	return text[m];
}

void route_each_pool(struct route *r, void (*fn)(void *arg, const struct route_pool_view *v),
		     void *arg)
{
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		const struct pool *p = r->fleet.pools[i];
		struct route_pool_view v = {
			.name = p->name, .imbalanced = p->route->imbalanced,
			.facts = fact_step_text(p->step),
			.imbalance_transitions = p->route->imbalance_transitions,
			.requests = p->requests, .pressure = p->pressure.wait, .wait = &p->wait,
			.mode = pool_mode_text(p->opts->mode), .choices = p->route->choices, .dearer = p->route->dearer,
			.regret_s = p->route->regret_s,
			.prefill = p->opts->prefill, .splits = p->route->splits,
			.split_failures = p->route->split_failures,
			.transfer_factor = transfer_factor(&p->transfer),
			.unseen = unseen_sum(&p->unseen, r->ticked),
			.first = &p->route->first, .request = &p->route->request,
			.shadow = shadow_sums(p->route->shadow),
		};

		fn(arg, &v);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

/* Conversations of a model without a template are text, so its mode is "mixed". */
static const char *mode_text(const struct model_opts *m, uint32_t kinds_off)
{
	if (!model_encodes(m))
		return "text";
	return m->chat == NULL || kinds_off > 0 ? "mixed" : "tokens";
}

static void view_model(struct route *r, const struct model_opts *m, struct route_model_view *v)
{
	uint32_t off = model_encodes(m)
	    ? agree_count_off(&r->requests.agree, request_agree_key(&r->key, m))
	    : 0;

	*v = (struct route_model_view){
		.name = m->name,
		.mode = mode_text(m, off),
		.page = model_block_of(&r->opts.prompt, m),
		.kinds_off = off,
	};
}

void route_each_model(
    struct route *r, void (*fn)(void *arg, const struct route_model_view *v), void *arg)
{
	struct route_model_view v;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i <= r->opts.n_models; i++) {
		view_model(r, i < r->opts.n_models ? &r->opts.models[i] : &r->opts.model_default, &v);
		fn(arg, &v);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

struct each_kind {
	void (*fn)(void *arg, const struct route_kind_view *v);
	void *arg;
};

static void view_kind(void *arg, const char *model, uint16_t kind, uint32_t tenants)
{
	const struct each_kind *e = arg;
	char text[ROUTE_KIND_TEXT];
	struct route_kind_view v = { .model = model, .kind = text, .tenants = tenants };

	agree_kind_text(kind, text, sizeof(text));
	e->fn(e->arg, &v);
}

void route_each_kind(
    struct route *r, void (*fn)(void *arg, const struct route_kind_view *v), void *arg)
{
	struct each_kind e = { .fn = fn, .arg = arg };

	agree_each_off(&r->requests.agree, view_kind, &e);
}

void route_each_compared(
    struct route *r, void (*fn)(void *arg, const struct route_compare_view *v), void *arg)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		struct route_compare_view v;

		for (unsigned k = 0; compare_view(r->fleet.pools[i]->route->compare, k, &v); k++) {
			v.pool = r->fleet.pools[i]->name;
			fn(arg, &v);
		}
	}
	pthread_mutex_unlock(&r->lock);
}

void route_traffic(struct route *r, struct traffic *to)
{
	r->traffic = to;
}

uint64_t route_decision_of(struct route *r, uint64_t uid_hash)
{
	return decisions_number(r->decisions, uid_hash);
}

bool route_decision_kept(struct route *r, uint64_t number)
{
	return decisions_has(r->decisions, number);
}

struct decisions *route_decisions(struct route *r)
{
	return r->decisions;
}

uint64_t route_uid_hash(const struct route *r, struct span uid)
{
	return route_uid(r, uid);
}

bool route_uid_counts(struct route *r, uint64_t uid_hash)
{
	bool counts;

	pthread_mutex_lock(&r->lock);
	counts = ledger_find(&r->ledger, uid_hash) != NULL ||
	    r->answered[uid_hash % ANSWERED_MAX].uid == uid_hash;
	pthread_mutex_unlock(&r->lock);
	return counts;
}

/* sources.c - the list of publishers of KV cache events, and how far each can be trusted. */
#include "agent/base/mem.h"
#include "agent/route/job_in.h"

#define WORK_RECORDS	64u	/* of the index that one step removes */
#define WORK_LINES	64u	/* of it that one step looks at for expired ones */

/* ---- the blocks ---- */

void sources_init(struct sources *t, uint32_t token_page, size_t max_bytes)
{
	t->max_bytes = max_bytes;
	pthread_mutex_init(&t->lock, NULL);
	t->token_page = token_page;
	t->sizes[0] = token_page;
	t->size_users[0] = 1;		/* requests */
}

void sources_fini(struct sources *t)
{
	for (unsigned i = 0; i < SOURCES_MAX; i++)
		mem_free(t->of[i].rank);
	events_free(t->events);
	mem_free(t->onway);
	pthread_mutex_destroy(&t->lock);
}

/* Allocate what all sources share, with the first of them. sources.lock is held. */
static bool make_events(struct route *r)
{
	struct sources *t = &r->sources;
	struct events_opts o;
	struct onway *onway;
	struct events *ev;

	if (t->events != NULL)
		return true;
	if (t->max_bytes == 0)
		return false;
	events_defaults(&o);
	o.max_bytes = t->max_bytes;
	o.max_holders = EVENTS_HOLDERS_MAX;
	o.key = &r->key;
	if ((ev = events_new(&o)) == NULL)
		return false;
	if ((onway = mem_calloc(ONWAY_PLACES, sizeof(*onway))) == NULL) {
		events_free(ev);
		return false;
	}
	pthread_mutex_lock(&r->lock);
	t->onway = onway;
	pthread_mutex_unlock(&r->lock);
	atomic_store_explicit(&t->events, ev, memory_order_release);
	return true;
}

uint64_t sources_budget(const struct route_opts *o)
{
	return o->events_max_bytes > 0 ? o->events_max_bytes + ONWAY_PLACES * sizeof(struct onway) : 0;
}

/* ---- the list ---- */

static source_id source_find(const struct sources *t, struct span pool, struct span server)
{
	for (source_id i = 0; i < t->n; i++)
		if (t->of[i].server[0] != '\0' && span_eq(server, span_str(t->of[i].server)) &&
		    span_eq(pool, span_str(t->of[i].pool)))
			return i;
	return SOURCE_NONE;
}

static source_id source_free_place(const struct sources *t)
{
	source_id i = 0;

	while (i < SOURCES_MAX && t->of[i].server[0] != '\0')
		i++;
	return i < SOURCES_MAX ? i : SOURCE_NONE;
}

struct server *source_server(const struct route *r, source_id id)
{
	const struct source *s = &r->sources.of[id];
	struct pool *p = fleet_find(&r->fleet, span_str(s->pool));

	return p != NULL ? pool_find(p, span_str(s->server), SIZE_MAX) : NULL;
}

static void link_server(struct route *r, source_id id, uint32_t to)
{
	struct server *sv = source_server(r, id);

	if (sv != NULL) {
		sv->source = to;
		sv->stores_due = 0;
	}
}

void source_met(struct route *r, struct server *s)
{
	source_id id;

	if (r->sources.n == 0)
		return;
	id = source_find(&r->sources, span_str(s->pool->name), span_str(s->name));
	s->source = id == SOURCE_NONE ? 0 : id + 1;
}

void source_rank_forget(struct sources *t, source_id id, unsigned rank)
{
	events_cleared(t->events, (server_id)id, (uint16_t)rank);
	events_cleared(t->events, (server_id)id, (uint16_t)(rank | EVENTS_APART));
	if (rank < t->of[id].n_ranks)
		t->of[id].rank[rank].apart_size = 0;
}

/* Set the number of ranks; what was known of the first ones stays. */
static bool set_ranks(struct source *s, unsigned ranks)
{
	struct source_rank *rank = mem_resize(s->rank, ranks, sizeof(*rank));

	if (rank == NULL)
		return false;
	s->rank = rank;
	if (ranks > s->n_ranks)
		memset(rank + s->n_ranks, 0, (ranks - s->n_ranks) * sizeof(*rank));
	s->n_ranks = ranks;
	return true;
}

static source_id open_source(
    struct route *r, struct span pool, struct span server, unsigned ranks)
{
	struct sources *t = &r->sources;
	source_id id = source_find(t, pool, server);
	unsigned had;
	struct source *s;

	if (!make_events(r))
		return SOURCE_NONE;
	if (id == SOURCE_NONE && (id = source_free_place(t)) == SOURCE_NONE)
		return SOURCE_NONE;
	s = &t->of[id];
	for (unsigned k = ranks; k < s->n_ranks; k++)
		source_rank_forget(t, id, k);
	had = s->n_ranks;
	if (!set_ranks(s, ranks))
		return SOURCE_NONE;
	for (unsigned k = had; k < ranks; k++)
		s->rank[k].lost = events_server_lost(t->events, (server_id)id);
	source_sum_ranks(s);
	if (s->server[0] != '\0')
		return id;
	pthread_mutex_lock(&r->lock);
	memcpy(s->pool, pool.p, pool.n);
	s->pool[pool.n] = '\0';
	memcpy(s->server, server.p, server.n);
	s->server[server.n] = '\0';
	if (id >= t->n)
		t->n = id + 1;
	link_server(r, id, id + 1);
	pthread_mutex_unlock(&r->lock);
	return id;
}

source_id route_source_open(
    struct route *r, struct span pool, struct span server, unsigned ranks, msec now)
{
	source_id id;

	if (ranks == 0 || ranks > SOURCE_RANKS_MAX || server.n == 0 || server.n > SERVER_NAME_MAX ||
	    pool.n == 0 || pool.n > POOL_NAME_MAX)
		return SOURCE_NONE;
	pthread_mutex_lock(&r->sources.lock);
	id = open_source(r, pool, server, ranks);
	if (id != SOURCE_NONE)
		r->sources.of[id].restored = 0;
	pthread_mutex_unlock(&r->sources.lock);
	return id;
}

void route_source_expire(struct route *r, source_id id, msec ttl_ms)
{
	pthread_mutex_lock(&r->sources.lock);
	r->sources.of[id].ttl_ms = ttl_ms;
	pthread_mutex_unlock(&r->sources.lock);
}

/* sources.lock is held. */
static void close_source(struct route *r, source_id id)
{
	struct source *s = &r->sources.of[id];

	events_drop_server(r->sources.events, (server_id)id);
	source_use_page(&r->sources, s, 0);
	atomic_fetch_and(&r->sources.cleared[id / 64], ~((uint64_t)1 << id % 64));
	pthread_mutex_lock(&r->lock);
	link_server(r, id, 0);
	mem_free(s->rank);
	memset(s, 0, sizeof(*s));
	pthread_mutex_unlock(&r->lock);
}

void route_source_close(struct route *r, source_id id)
{
	pthread_mutex_lock(&r->sources.lock);
	close_source(r, id);
	pthread_mutex_unlock(&r->sources.lock);
}

void sources_age(struct route *r, msec now)
{
	atomic_store_explicit(&r->sources.now, now, memory_order_relaxed);
	if (pthread_mutex_trylock(&r->sources.lock) != 0)
		return;
	for (source_id i = 0; i < r->sources.n; i++) {
		msec restored = r->sources.of[i].restored;

		if (restored != 0 && now - restored > SOURCE_RESTORED_MS)
			close_source(r, i);
	}
	pthread_mutex_unlock(&r->sources.lock);
}

/* ---- places ---- */

void route_source_place(
    struct route *r, source_id id, unsigned rank, const struct kvcursor_place *p)
{
	struct sources *t = &r->sources;
	struct source_rank *k;

	pthread_mutex_lock(&t->lock);
	if (rank < t->of[id].n_ranks) {
		k = &t->of[id].rank[rank];
		k->placed = p != NULL ? k->batches : 0;
		if (p != NULL)
			k->place = *p;
	}
	pthread_mutex_unlock(&t->lock);
}

bool route_source_resume(struct route *r, source_id id, unsigned rank, struct kvcursor_place *p)
{
	struct sources *t = &r->sources;
	bool restored = false;

	pthread_mutex_lock(&t->lock);
	if (rank < t->of[id].n_ranks) {
		restored = t->of[id].rank[rank].restored;
		*p = t->of[id].rank[rank].place;
		t->of[id].rank[rank].restored = false;
	}
	pthread_mutex_unlock(&t->lock);
	return restored;
}

/* ---- states ---- */

static bool has_gap(const struct source_rank *k)
{
	return k->state == KVCURSOR_GAP || k->state == KVCURSOR_REPLAYING;
}

static unsigned badness(enum kvcursor_state s)
{
	static const unsigned of[KVCURSOR_STATES] = { 5, 0, 1, 2, 3, 4 };

	return of[s];
}

void source_sum_ranks(struct source *s)
{
	enum kvcursor_state worst = KVCURSOR_SYNCED;
	bool from_start = s->n_ranks > 0, gap = false, odd_size = false;
	uint64_t lost = UINT64_MAX;
	uint32_t good = 0;

	for (unsigned i = 0; i < s->n_ranks; i++) {
		good += s->rank[i].good;
		worst = badness(s->rank[i].state) > badness(worst) ? s->rank[i].state : worst;
		gap |= s->rank[i].good && has_gap(&s->rank[i]);
		from_start &= s->rank[i].from_start;
		lost = s->rank[i].lost < lost ? s->rank[i].lost : lost;
		odd_size |= s->rank[i].odd_size;
	}
	if (good < s->n_ranks)
		s->stored = s->removed = 0;
	if (!gap)
		s->gap_since = 0;
	s->good = good;
	s->ranks = s->n_ranks;
	s->from_start = from_start;
	s->worst = (uint8_t)worst;
	s->lost = lost;
	s->odd_size = odd_size;
}

void route_source_state(struct route *r, source_id id, unsigned rank, enum kvcursor_state state,
    bool from_start, msec now)
{
	struct sources *t = &r->sources;
	struct source *s = &t->of[id];
	struct source_rank *k;

	pthread_mutex_lock(&t->lock);
	if (rank < s->n_ranks) {
		k = &s->rank[rank];
		k->state = state;
		k->from_start = from_start;
		if (!has_gap(k))
			k->good = state == KVCURSOR_SYNCED;
		else if (k->good && s->gap_since == 0)
			s->gap_since = now;
		source_sum_ranks(s);
	}
	pthread_mutex_unlock(&t->lock);
}

/* The cache of the engine is empty: what the tree has of its server is dropped in steps by
 * route_work(). No lock is taken here, because a publisher may say it as often as it likes. */
static void clear_tree(struct route *r, source_id id)
{
	atomic_fetch_or(&r->sources.cleared[id / 64], (uint64_t)1 << id % 64);
}

void sources_clear_trees(struct route *r)
{
	for (unsigned i = 0; i < SOURCES_MAX / 64; i++) {
		uint64_t bits = atomic_exchange(&r->sources.cleared[i], 0);

		for (; bits != 0; bits &= bits - 1) {
			struct server *s = source_server(r, i * 64 + (unsigned)__builtin_ctzll(bits));

			if (s == NULL)
				continue;
			server_cleared(r, s, r->ticked);
		}
	}
}

void route_source_clear(struct route *r, source_id id, unsigned rank, bool from_start,
    bool restarted, msec now)
{
	struct sources *t = &r->sources;
	struct source *s = &t->of[id];
	bool all;

	pthread_mutex_lock(&t->lock);
	all = s->n_ranks == 1;
	if (rank < s->n_ranks) {
		source_rank_forget(t, id, rank);
		s->rank[rank] = (struct source_rank){
			.state = s->rank[rank].state, .good = s->rank[rank].good, .from_start = from_start,
			.lost = events_server_lost(t->events, (server_id)id),
		};
		s->stored = s->removed = 0;
		if (all) {
			s->block_size = 0;
			source_use_page(t, s, 0);
		}
		source_sum_ranks(s);
		s->blocks = events_server_records(t->events, (server_id)id);
	}
	pthread_mutex_unlock(&t->lock);
	if ((from_start || restarted) && all)
		clear_tree(r, id);
}

int route_source_begin(struct source_slices *w, struct span payload)
{
	*w = (struct source_slices){ .part = SLICE_NEXT };
	return kvevent_open(&w->batch, payload);
}

bool route_source_slice(struct route *r, source_id id, unsigned rank, struct source_slices *w,
    int64_t *work, msec now, struct source_batch *out)
{
	struct sources *t = &r->sources;
	struct source *s = &t->of[id];
	bool alone, over;

	pthread_mutex_lock(&t->lock);
	alone = s->n_ranks == 1;
	over = rank >= s->n_ranks || source_apply(r, id, rank, w, work);
	*out = w->did;
	if (out->stored > 0 || out->cleared)
		s->last_batch = now;
	events_tick(t->events, WORK_RECORDS);
	events_expire(t->events, now, WORK_LINES);
	pthread_mutex_unlock(&t->lock);
	if (over && out->cleared && alone)
		clear_tree(r, id);
	return over;
}

int route_source_batch(struct route *r, source_id id, unsigned rank, struct span payload,
    msec now, struct source_batch *out)
{
	struct source_slices w;
	int64_t work = INT64_MAX;
	int rc = route_source_begin(&w, payload);

	*out = (struct source_batch){ 0 };
	if (rc == 0)
		route_source_slice(r, id, rank, &w, &work, now, out);
	return rc;
}

/* Lost removals would otherwise leave blocks for ever. The size of slower tiers is unknown, so with
 * them only the budget bounds. */
void source_bound(struct route *r, source_id id, uint64_t capacity)
{
	struct sources *t = &r->sources;
	struct source *s = &t->of[id];
	uint64_t tokens = (uint64_t)s->block_size * s->ranks;
	uint64_t blocks = tokens > 0 ? (capacity + capacity / 10) / tokens : 0;
	uint32_t bound = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;

	if (pthread_mutex_trylock(&t->lock) != 0)
		return;		/* the next tick comes */
	if (s->tiers)
		bound = 0;
	if (s->bound != bound) {
		s->bound = bound;
		events_set_capacity(t->events, (server_id)id, bound);
	}
	pthread_mutex_unlock(&t->lock);
}

/* If a batch is being applied, its thread does this part, so that the background does not wait. */
bool sources_work(struct sources *t)
{
	struct events *ev = atomic_load_explicit(&t->events, memory_order_acquire);
	bool more;

	if (ev == NULL)
		return false;
	if (pthread_mutex_trylock(&t->lock) != 0)
		return false;
	more = events_tick(ev, WORK_RECORDS);
	more |= events_expire(ev, atomic_load_explicit(&t->now, memory_order_relaxed), WORK_LINES);
	pthread_mutex_unlock(&t->lock);
	return more;
}

/* ---- views ---- */

void route_each_source(
    struct route *r, void (*fn)(void *arg, const struct source_view *v), void *arg)
{
	struct sources *t = &r->sources;

	pthread_mutex_lock(&t->lock);
	for (source_id i = 0; i < t->n; i++) {
		const struct source *s = &t->of[i];
		const struct source_view v = {
			.pool = s->pool, .server = s->server, .ranks = s->n_ranks, .good = s->good,
			.from_start = s->from_start && events_server_lost(t->events, (server_id)i) <= s->lost,
			.block_size = s->block_size, .blocks = s->blocks,
			.count = s->count,
		};

		if (s->server[0] != '\0')
			fn(arg, &v);
	}
	pthread_mutex_unlock(&t->lock);
}

bool route_events_stats(struct route *r, struct events_stats *s)
{
	struct events *ev = atomic_load_explicit(&r->sources.events, memory_order_acquire);

	if (ev == NULL)
		return false;
	events_stats(ev, s);
	return true;
}

#include "agent/route/attached.h"

static uint32_t sum(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* ---- what stats sockets say --------------------------------------------------------------------------- */

static struct watched *place_of(struct watch *w, uint64_t process, msec now)
{
	struct watched *old = NULL;

	for (unsigned i = 0; i < w->n; i++) {
		if (w->by[i].process == process)
			return &w->by[i];
		if (w->by[i].until <= now)
			old = &w->by[i];
	}
	if (old == NULL && w->n < WATCHERS_MAX)
		old = &w->by[w->n++];
	return old;
}

void watch_row(struct watch *w, uint64_t process, const struct hastats_row *row, msec now, msec until)
{
	struct watched *by = place_of(w, process, now);

	w->seen = now;
	if (by != NULL)
		*by = (struct watched){
			.process = process, .until = until, .load = sum(row->sessions, row->queue),
			.queue = row->queue, .weight = row->weight, .state = row->state, .backup = row->backup,
		};
}

struct watch_sum watch_sum(const struct watch *w, msec now)
{
	struct watch_sum s = { .n = 0 };

	for (unsigned i = 0; i < w->n; i++) {
		const struct watched *by = &w->by[i];

		if (by->until <= now)
			continue;
		s.n++;
		s.up |= by->state == HASTATS_UP;
		s.closed |= by->state == HASTATS_DRAIN || by->state == HASTATS_MAINT || by->weight == 0;
		s.backup |= by->backup;
		s.load = sum(s.load, by->load);
		s.queue = sum(s.queue, by->queue);
		if (by->weight > s.weight)
			s.weight = by->weight;
	}
	return s;
}

/* ---- what an engine says ------------------------------------------------------------------------------ */

static uint32_t beyond(int64_t there, uint32_t known)
{
	return there <= known ? 0 : there - known < UINT32_MAX ? (uint32_t)(there - known) : UINT32_MAX;
}

static void count_adapters(struct engine_seen *s, const struct engine_report *e)
{
	s->n_adapters = e->n_adapters;
	s->n_running = s->n_waiting = s->n_loaded = 0;
	for (uint32_t i = 0; i < e->n_adapters; i++) {
		s->n_running += e->adapter[i].running;
		s->n_waiting += e->adapter[i].waiting;
		s->n_loaded += e->adapter[i].running || !e->adapter[i].waiting;
	}
}

void engine_take(struct engine_seen *s, const struct engine_report *e, uint32_t open, msec now, msec until)
{
	int64_t there = (e->waiting > 0 ? e->waiting : 0) + (e->running > 0 ? e->running : 0);
	uint32_t excess = beyond(there, open);
	bool again = engine_holds(s, now);

	s->foreign = !again ? 0 : excess < s->excess ? excess : s->excess;
	s->excess = excess;
	s->until = until;
	s->waiting = e->waiting;
	s->running = e->running;
	s->kv_used = e->kv_used;
	if (e->capacity > 0)
		s->capacity = e->capacity;
	if (e->block_size > 0)
		s->block_size = e->block_size;
	count_adapters(s, e);
}

bool engine_has(const struct engine_seen *s, uint64_t adapter)
{
	for (uint32_t i = 0; i < s->n_adapters; i++)
		if (s->adapter[i] == adapter)
			return true;
	return false;
}

/* ---- into the core -------------------------------------------------------------------------------------- */

/* Every backend of HAProxy's is among the rows: only those that were asked for, or that the configuration names,
 * are pools of ours. */
static struct pool *pool_of(struct route *r, struct span name)
{
	struct pool *p = fleet_find(&r->fleet, name);

	if (p == NULL && pool_options_of(&r->opts, name) != &r->opts.pool_default)
		p = fleet_pool(&r->fleet, &r->opts, name);
	return p;
}

/* A server nobody has named yet and that is in maintenance may be an empty place of a server-template: there can be
 * hundreds, and none is worth an id. */
static struct server *server_of(struct route *r, struct pool *p, const struct hastats_row *row)
{
	if (row->state == HASTATS_MAINT)
		return pool_find(p, row->server, p->next_row);
	return server_met(r, p, row->server, p->next_row);
}

/* Requests of HAProxy processes that send no load string are all in one slot, and are closed against what all that
 * are asked have there. */
static void close_unnamed(struct route *r, struct server *s, struct settling *st, msec now)
{
	for (unsigned k = 0; k < s->n_slots; k++)
		if (s->slots[k]->process == 0)
			close_beyond(r, s->slots[k], watch_sum(&s->watch, now).load, st, now);
}

static void show(struct server *s, msec now)
{
	struct watch_sum w = watch_sum(&s->watch, now);

	s->up = w.up;
	s->weight = w.weight;
	s->queue = w.queue;
	s->conn = w.load - w.queue;
}

void route_observe_server(struct route *r, struct span process, const struct hastats_row *row, msec now, msec until)
{
	struct settling st = { .n = 0 };
	struct pool *p;
	struct server *s;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((p = pool_of(r, row->pool)) != NULL && (s = server_of(r, p, row)) != NULL) {
		p->watched = now;
		p->next_row = s == p->servers[p->next_row % p->n_servers] ? (p->next_row + 1) % p->n_servers : 0;
		watch_row(&s->watch, hash_mix_span(&r->key, 12, process), row, now, until);
		attached_row(r, p, s, row, now);
		if (p->loaded == 0)
			show(s, now);
		close_unnamed(r, s, &st, now);
	}
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, now);
	pthread_rwlock_unlock(&r->opts_lock);
}

uint64_t adapter_hash(const struct route *r, struct span name)
{
	return hash_mix_span(&r->key, 13, name);
}

void route_observe_engine(struct route *r, struct span pool, struct span server, const struct engine_report *e,
			  msec now, msec until)
{
	struct pool *p;
	struct server *s;
	uint64_t capacity;
	uint32_t theirs;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((p = fleet_find(&r->fleet, pool)) != NULL && (s = pool_find(p, server, SIZE_MAX)) != NULL) {
		theirs = sum(s->conn, s->queue);
		capacity = s->engine.capacity;
		engine_take(&s->engine, e, theirs > s->n_open ? theirs : s->n_open, now, until);
		for (uint32_t i = 0; i < e->n_adapters; i++) {
			s->engine.adapter[i] = adapter_hash(r, span_str(e->adapter[i].name));
			adapter_note(r, pool, span_str(e->adapter[i].name));
		}
		if (s->engine.capacity != capacity)
			keep_room(r, s);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

void route_forget_engine(struct route *r, struct span pool, struct span server)
{
	struct pool *p;
	struct server *s;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((p = fleet_find(&r->fleet, pool)) != NULL && (s = pool_find(p, server, SIZE_MAX)) != NULL) {
		s->engine = (struct engine_seen){ .until = 0 };
		keep_room(r, s);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

/* observe.c - stats rows and engine reports, into the servers that they are about. */
#include "agent/route/job_in.h"

/* Find the pool of a row. Rows come for every backend of HAProxy, but only those that requests or
 * the configuration have named are pools. */
static struct pool *pool_of(struct route *r, struct span name)
{
	struct pool *p = fleet_find(&r->fleet, name);

	if (p == NULL && pool_options_of(&r->opts, name) != &r->opts.pool_default)
		p = pool_met(r, name);
	return p;
}

/* Find or add the server of a row. An unknown one in maintenance is not added, because it may be an
 * unused slot of a server-template, and there can be hundreds. */
static struct server *server_of(struct route *r, struct pool *p, const struct hastats_row *row)
{
	if (row->state == HASTATS_MAINT)
		return pool_find(p, row->server, p->next_row);
	return server_met(r, p, row->server, p->next_row);
}

/* Close requests of HAProxy processes without load strings. They share one slot, which is compared
 * with the load of all processes with stats rows. */
static void close_unnamed(struct route *r, struct server *s, struct settling *st, msec now)
{
	for (unsigned k = 0; k < s->n_slots; k++)
		if (s->slots[k]->process == 0)
			close_beyond(r, s->slots[k], watch_sum(&s->watch, now).load, st, now);
}

/* Rows of a socket of level user have none, and say nothing about it. */
static void note_address(struct server *s, struct span address)
{
	if (!host_port_is(address))
		return;
	memcpy(s->address, address.p, address.n);
	s->address[address.n] = '\0';
}

static void show_rows(struct server *s, msec now)
{
	struct watch_sum w = watch_sum(&s->watch, now);

	s->up = w.up;
	s->weight = w.weight;
	s->queue = w.queue;
	s->conn = w.load - w.queue;
}

void route_observe_server(
    struct route *r, struct span process, const struct hastats_row *row, msec now, msec until)
{
	struct settling st;
	struct pool *p;
	struct server *s;

	settling_init(&st);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((p = pool_of(r, row->pool)) != NULL && (s = server_of(r, p, row)) != NULL) {
		p->watched = now;
		p->next_row = s == p->servers[p->next_row % p->n_servers] ? (p->next_row + 1) % p->n_servers : 0;
		watch_row(&s->watch, hash_mix_span(&r->key, 12, process), row, now, until);
		note_address(s, row->address);
		attached_row(r, p, s, row, now);
		if (p->loaded == 0)
			show_rows(s, now);
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

/* ---- engines ------------------------------------------------------------------------------ */

static struct engine_sent sent_to(const struct server *s)
{
	uint32_t theirs = load_add(s->conn, s->queue);

	return (struct engine_sent){
		.open = theirs > s->n_open ? theirs : s->n_open, .kv_tokens = s->kv_tokens,
	};
}

static void capacity_changed(struct route *r, struct server *s, uint64_t before)
{
	if (s->engine.capacity == before)
		return;
	if (before == 0)
		unseen_sized(&s->pool->unseen);
	room_server_changed(r, s);
}

bool server_take_load(struct route *r, struct server *s, const struct engine_load *l, msec at)
{
	uint64_t capacity = s->engine.capacity;
	struct engine_sent sent = sent_to(s);

	if (!engine_take_load(&s->engine, l, &sent, at, at + LOAD_HOLDS_MS))
		return false;
	capacity_changed(r, s, capacity);
	return true;
}

void route_observe_load(
    struct route *r, struct span pool, struct span server, const struct engine_load *l, msec now)
{
	struct pool *p;
	struct server *s;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((p = fleet_find(&r->fleet, pool)) != NULL && (s = pool_find(p, server, SIZE_MAX)) != NULL)
		server_take_load(r, s, l, now);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

void route_observe_engine(struct route *r, struct span pool, struct span server,
    const struct engine_report *e, msec now, msec until)
{
	struct pool *p;
	struct server *s;
	uint64_t capacity;
	struct engine_sent sent;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((p = fleet_find(&r->fleet, pool)) != NULL && (s = pool_find(p, server, SIZE_MAX)) == NULL) {
		attached_engine(r, p, server, now);
	} else if (p != NULL) {
		capacity = s->engine.capacity;
		sent = sent_to(s);
		engine_take(&s->engine, e, &sent, now, until);
		engine_count_hits(&s->hits, e);
		for (uint32_t i = 0; i < e->n_adapters; i++) {
			s->engine.adapter[i] = adapter_hash(r, span_str(e->adapter[i].name));
			adapter_note(r, pool, span_str(e->adapter[i].name));
		}
		capacity_changed(r, s, capacity);
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
		s->engine = (struct engine_seen){ .capacity = 0 };
		room_server_changed(r, s);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

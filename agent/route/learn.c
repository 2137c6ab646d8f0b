/* learn.c - what became of a request, into the ledger and the index.
 *
 *      first, 2xx, event stream   its first token: it waits no longer, its pages are held
 *      first, 2xx, anything else  the whole answer is ready: done
 *      first, not 2xx             it failed: done, and its pages were never computed
 *      done                       over; served when it answered 2xx with headers, else failed
 *
 * A request that HAProxy moved to another server is counted, and its pages are claimed, where it
 * really went. A fact for a uid that is not open changes nothing but a counter: log lines may come
 * twice, late, or for requests that were never ours. */
#include "agent/route/internal.h"

#define YOUNG_MS	1000	/* HAProxy may not count its connection yet */

static bool served(const struct fact *f)
{
	return f->status >= 200 && f->status < 300;
}

static bool is_stream(struct span type)
{
	static const char want[] = "text/event-stream";

	return type.n >= sizeof(want) - 1 && strncasecmp(type.p, want, sizeof(want) - 1) == 0;
}

static bool nobody(struct span server)
{
	return server.n == 0 || server.p[0] == '<';
}

static void note_time(struct pool *p, enum fact_kind kind, msec now)
{
	if (kind == FACT_FIRST)
		p->first_seen = now;
	else
		p->done_seen = now;
}

/* Where it really went, when that is another server of the pool; NULL: where we said. */
static struct server *elsewhere(const struct ledger_entry *e, const struct fact *f)
{
	struct server *s;

	if (nobody(f->server))
		return NULL;
	s = pool_find(e->server->pool, f->server, SIZE_MAX);
	return s != e->server ? s : NULL;
}

/* What one fact asks of the index, done after the lock is released. */
struct outcome {
	index_claim claim;
	bool confirm;
	server_id moved_to;	/* or SERVER_NONE */
};

static void move(struct ledger_entry *e, struct server *to, struct outcome *out, msec now)
{
	struct slot *sl = server_slot(to, e->slot->process);

	if (sl == NULL)
		return;
	ledger_move(e, to, sl, now);
	out->moved_to = to->id;
}

static void learn_first(struct route *r, struct ledger_entry *e, const struct fact *f,
			struct outcome *out, msec now)
{
	out->confirm = served(f);
	if (served(f) && is_stream(f->type)) {
		ledger_answered(e, now);
		out->claim = e->claim;
		e->claim = 0;
	} else {
		out->claim = ledger_close(&r->ledger, e, now);
	}
}

static void learn_locked(struct route *r, const struct fact *f, struct outcome *out, msec now)
{
	struct ledger_entry *e = f->uid.n ? ledger_find(&r->ledger, route_uid(r, f->uid)) : NULL;
	struct server *to;

	if (f->kind == FACT_FIRST)
		r->stats.firsts++;
	else
		r->stats.dones++;
	if (e == NULL) {
		r->stats.facts_unknown++;
		return;
	}
	note_time(e->server->pool, f->kind, now);
	if ((to = elsewhere(e, f)) != NULL)
		move(e, to, out, now);
	if (f->kind == FACT_FIRST) {
		learn_first(r, e, f, out, now);
		return;
	}
	out->confirm = e->answered || (served(f) && f->response_ms >= 0);
	out->claim = ledger_close(&r->ledger, e, now);
}

void route_learn(struct route *r, const struct fact *f, msec now)
{
	struct outcome out = { .moved_to = SERVER_NONE };

	if (f->uid.n > 0)	/* it has been sent on: no more slices will come */
		sliced_free(slices_take(&r->slices, route_uid(r, f->uid)));
	pthread_mutex_lock(&r->lock);
	learn_locked(r, f, &out, now);
	pthread_mutex_unlock(&r->lock);
	if (out.claim == 0)
		return;
	if (!out.confirm)
		index_cancel(r->index, out.claim);
	else if (out.moved_to != SERVER_NONE)
		index_confirm_at(r->index, out.claim, out.moved_to, now);
	else
		index_confirm(r->index, out.claim, now);
}

void close_beyond(struct route *r, struct slot *sl, uint32_t admitted, struct settling *st, msec now)
{
	while (sl->n_open > admitted && !settling_full(st)) {
		struct ledger_entry *e = list_entry(sl->open.next, struct ledger_entry, in_slot);

		if (now - e->since < YOUNG_MS)
			return;
		settling_add(st, ledger_close(&r->ledger, e, now), true);
		r->stats.closed_by_load++;
	}
}

static void close_aged(struct route *r, struct settling *st, msec now)
{
	while (!settling_full(st) && !list_empty(&r->ledger.by_age)) {
		struct ledger_entry *e = list_entry(r->ledger.by_age.next, struct ledger_entry, by_age);

		if (now - e->since < r->opts.ledger_max_age_ms)
			return;
		settling_add(st, ledger_close(&r->ledger, e, now), true);
		r->stats.closed_by_age++;
	}
}

/* A server that its pool's load strings have not named for long, while they kept coming, is gone from
 * HAProxy's configuration. */
static struct server *gone(struct route *r)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		struct pool *p = r->fleet.pools[i];

		for (size_t k = 0; k < p->n_servers; k++) {
			struct server *s = p->servers[k];

			if (p->loaded - s->seen >= r->opts.server_max_age_ms && s->n_open == 0)
				return s;
		}
	}
	return NULL;
}

/* The id is forgotten by the index before another server may get it: drop under the lock first would
 * let it be given away, so the index goes first. No request can name the server in between: it is in
 * no load string. */
static void sweep_servers(struct route *r)
{
	struct server *s;
	server_id id = SERVER_NONE;

	pthread_mutex_lock(&r->lock);
	if ((s = gone(r)) != NULL)
		id = s->id;
	pthread_mutex_unlock(&r->lock);
	if (id == SERVER_NONE)
		return;
	index_drop_server(r->index, id);
	pthread_mutex_lock(&r->lock);
	if (r->fleet.by_id[id] == s && s->n_open == 0)
		fleet_drop(&r->fleet, s);
	pthread_mutex_unlock(&r->lock);
}

#define SWEEP_EVERY_MS	1000

void route_tick(struct route *r, msec now)
{
	struct settling st = { .n = 0 };
	bool sweep;

	pthread_rwlock_rdlock(&r->opts_lock);
	slices_age(&r->slices, now - r->opts.slices_max_age_ms, SETTLE_MAX);
	pthread_mutex_lock(&r->lock);
	close_aged(r, &st, now);
	sweep = now - r->swept >= SWEEP_EVERY_MS;
	if (sweep)
		r->swept = now;
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, now);
	if (sweep)
		sweep_servers(r);
	pthread_rwlock_unlock(&r->opts_lock);
}

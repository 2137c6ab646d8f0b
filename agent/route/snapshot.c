/* snapshot.c - what the index is told of names when it is written down, and when it is read again.
 *
 * A server's name in a snapshot is its pool's, a zero, and its own. One that comes back from there is down and
 * without weight until a load string names it; if none does, it goes like any other that was not seen for long. */
#include "agent/base/mem.h"
#include "agent/route/internal.h"

static void snapshot_of(struct route *r, struct snapshot_of *of)
{
	pthread_rwlock_rdlock(&r->opts_lock);
	of->key_id = hash_key_id(&r->key);
	of->text_page = r->opts.prompt.text_page;
	of->token_page = r->opts.prompt.token_page;
	of->tenants = 1;
	for (size_t i = 0; i < r->opts.n_tenants; i++)
		of->tenants = hash_mix_span(&r->key, of->tenants, span_str(r->opts.tenants[i].name));
	pthread_rwlock_unlock(&r->opts_lock);
}

static void name_server(struct snapshot_writer *w, const struct server *s)
{
	char name[POOL_NAME_MAX + 1 + SERVER_NAME_MAX];
	size_t n = strlen(s->pool->name), k = strlen(s->name);

	memcpy(name, s->pool->name, n + 1);
	memcpy(name + n + 1, s->name, k);
	snapshot_writer_name(w, s->id, span_of(name, n + 1 + k));
}

struct snapshot_writer *route_snapshot(struct route *r, msec now, snapshot_put *put, void *arg)
{
	struct snapshot_of of;
	struct snapshot_writer *w;

	snapshot_of(r, &of);
	if ((w = snapshot_writer_new(r->index, &of, now, put, arg)) == NULL)
		return NULL;
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if (r->fleet.by_id[i] != NULL)
			name_server(w, r->fleet.by_id[i]);
	pthread_mutex_unlock(&r->lock);
	return w;
}

struct restoring {
	struct route *r;
	msec now;
};

static int server_of(struct route *r, struct span pool, struct span name, msec now)
{
	struct pool *p = fleet_pool(&r->fleet, &r->opts, pool);
	struct server *s = p != NULL ? pool_find(p, name, 0) : NULL;

	if (s == NULL && p != NULL && (s = fleet_server(&r->fleet, p, name)) != NULL) {
		keep_server(r, s);
		s->seen = now;
	}
	return s != NULL ? s->id : -1;
}

static int server_named(void *arg, struct span both)
{
	struct restoring *a = arg;
	const char *zero = memchr(both.p, '\0', both.n);
	size_t n = zero != NULL ? (size_t)(zero - both.p) : 0;
	int id;

	if (zero == NULL || n + 1 == both.n)
		return -1;
	pthread_rwlock_rdlock(&a->r->opts_lock);
	pthread_mutex_lock(&a->r->lock);
	id = server_of(a->r, span_of(both.p, n), span_of(both.p + n + 1, both.n - n - 1), a->now);
	pthread_mutex_unlock(&a->r->lock);
	pthread_rwlock_unlock(&a->r->opts_lock);
	return id;
}

int route_restore(struct route *r, const uint8_t *bytes, size_t n, msec now, struct snapshot_stats *s,
		  struct err *e)
{
	struct restoring arg = { r, now };
	struct snapshot_of of;

	snapshot_of(r, &of);
	return snapshot_load(r->index, &of, bytes, n, server_named, &arg, now, s, e);
}

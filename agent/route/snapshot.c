/* snapshot.c - what the index is told of names when it is written down, and when it is read again.
 *
 * A server's name in a snapshot is its pool's, a zero, its own, and where its rate was learned a zero and that in 8
 * bytes: by first tokens, by headers. One that comes back from there is down and
 * without weight until a load string names it; if none does, it goes like any other that was not seen for long. */
#include <endian.h>

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

#define RATE_BYTES	8

static size_t put_rate(char *to, const struct rate *rate, msec now)
{
	struct rate_kept kept = rate_keep(rate, now);
	uint32_t both[2] = { htole32(kept.first), htole32(kept.headers) };

	if (kept.first == 0 && kept.headers == 0)
		return 0;
	*to = '\0';
	memcpy(to + 1, both, RATE_BYTES);
	return 1 + RATE_BYTES;
}

static void take_rate(struct rate *rate, const char *p, msec now)
{
	uint32_t both[2];

	memcpy(both, p, RATE_BYTES);
	rate_recall(rate, (struct rate_kept){ le32toh(both[0]), le32toh(both[1]) }, now);
}

static void name_server(struct snapshot_writer *w, const struct server *s, msec now)
{
	char name[POOL_NAME_MAX + 1 + SERVER_NAME_MAX + 1 + RATE_BYTES];
	size_t n = strlen(s->pool->name), k = strlen(s->name);

	memcpy(name, s->pool->name, n + 1);
	memcpy(name + n + 1, s->name, k);
	k += put_rate(name + n + 1 + k, &s->rate, now);
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
		if (r->fleet.by_id[i] != NULL && r->fleet.by_id[i]->name[0] != '\0')
			name_server(w, r->fleet.by_id[i], now);
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

	if (s == NULL && p != NULL && (s = fleet_server(&r->fleet, p, name, name_hash(r, name))) != NULL) {
		keep_server(r, s);
		decisions_name(r->decisions, s->id, s->name_hash, p->name, s->name);
		s->seen = now;
	}
	return s != NULL ? s->id : -1;
}

static int server_named(void *arg, struct span both)
{
	struct restoring *a = arg;
	const char *zero = memchr(both.p, '\0', both.n);
	size_t n = zero != NULL ? (size_t)(zero - both.p) : 0, k = both.n - n - 1;
	const char *rate = NULL;
	int id;

	if (zero == NULL || k == 0)
		return -1;
	if (k > 1 + RATE_BYTES && zero[k - RATE_BYTES] == '\0') {
		rate = zero + 1 + k - RATE_BYTES;
		k -= 1 + RATE_BYTES;
	}
	pthread_rwlock_rdlock(&a->r->opts_lock);
	pthread_mutex_lock(&a->r->lock);
	id = server_of(a->r, span_of(both.p, n), span_of(both.p + n + 1, k), a->now);
	if (id >= 0 && rate != NULL)
		take_rate(&a->r->fleet.by_id[id]->rate, rate, a->now);
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

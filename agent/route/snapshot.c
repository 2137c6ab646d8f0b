/* snapshot.c - names of servers, for a snapshot of the index and back.
 *
 * A server's name in a snapshot is its pool's name, a NUL byte, and its own name. If anything was
 * learned about the server, another NUL and those values follow, in 4 bytes each: enum learned. A
 * server that comes back is down and without weight until a load string names it. If none does, it
 * is removed like any other that was not named for long. */
#include <endian.h>

#include "agent/base/mem.h"
#include "agent/route/route_in.h"

static void snapshot_of(struct route *r, struct snapshot_of *of)
{
	pthread_rwlock_rdlock(&r->opts_lock);
	of->key_id = hash_key_id(&r->key);
	of->text_page = r->opts.prompt.text_page;
	of->token_page = r->opts.prompt.token_page;
	of->tenants = 1;
	for (uint32_t i = 1; i <= r->requests.tenants.n; i++)
		of->tenants = hash_mix(&r->key, of->tenants, tenant_hash(&r->requests.tenants, i));
	pthread_rwlock_unlock(&r->opts_lock);
}

/* In this order, each in 4 bytes; 0: unknown. Later ones may be missing. */
enum learned { LEARNED_RATE_FIRST, LEARNED_RATE_HEADERS, LEARNED_CAPACITY, LEARNED };

#define LEARNED_BYTES	(4 * LEARNED)

static uint32_t clamp32(uint64_t v)
{
	return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

static size_t put_learned(char *to, const struct server *s, msec now)
{
	struct rate_kept rate = rate_keep(&s->rate, now);
	uint32_t v[LEARNED] = {
		[LEARNED_RATE_FIRST] = rate.first, [LEARNED_RATE_HEADERS] = rate.headers,
		[LEARNED_CAPACITY] = clamp32(s->inferred_here),
	};
	size_t n = LEARNED;

	while (n > 0 && v[n - 1] == 0)
		n--;
	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		v[i] = htole32(v[i]);
	*to = '\0';
	memcpy(to + 1, v, n * sizeof(v[0]));
	return 1 + n * sizeof(v[0]);
}

static void take_learned(struct route *r, struct server *s, struct span bytes, msec now)
{
	uint32_t v[LEARNED] = { 0 };

	memcpy(v, bytes.p, bytes.n < LEARNED_BYTES ? bytes.n : LEARNED_BYTES);
	for (size_t i = 0; i < LEARNED; i++)
		v[i] = le32toh(v[i]);
	rate_recall(&s->rate, (struct rate_kept){ v[LEARNED_RATE_FIRST], v[LEARNED_RATE_HEADERS] }, now);
	if (v[LEARNED_CAPACITY] == 0)
		return;
	s->inferred_here = capacity_recall(&s->capacity, v[LEARNED_CAPACITY]);
	room_inferred(r, s);
}

static void name_server(struct snapshot_writer *w, const struct server *s, msec now)
{
	char name[POOL_NAME_MAX + 1 + SERVER_NAME_MAX + 1 + LEARNED_BYTES];
	size_t n = strlen(s->pool->name), k = strlen(s->name);

	memcpy(name, s->pool->name, n + 1);
	memcpy(name + n + 1, s->name, k);
	k += put_learned(name + n + 1 + k, s, now);
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

struct route_restoring {
	struct route *r;
	msec now;
	struct snapshot_loader *loader;
};

static struct server *server_of(struct route *r, struct span pool, struct span name, msec now)
{
	struct pool *p = pool_met(r, pool);
	struct server *s = p != NULL ? server_met(r, p, name, 0) : NULL;

	if (s != NULL)
		s->seen = now;
	return s;
}

/* Split <s> at its first NUL byte: set <before> to the part before it, and leave the rest in <s>.
 * Returns false if there is none. */
static bool split_at_nul(struct span *s, struct span *before)
{
	const char *zero = s->n > 0 ? memchr(s->p, '\0', s->n) : NULL;

	if (zero == NULL)
		return false;
	*before = span_of(s->p, (size_t)(zero - s->p));
	*s = span_of(zero + 1, s->n - before->n - 1);
	return true;
}

static int server_named(void *arg, struct span rest)
{
	struct route_restoring *a = arg;
	struct span pool, name;
	struct server *s;

	if (!split_at_nul(&rest, &pool))
		return -1;
	if (!split_at_nul(&rest, &name)) {
		name = rest;
		rest = (struct span){ 0 };
	}
	if (name.n == 0 || rest.n % 4 != 0)
		return -1;
	pthread_rwlock_rdlock(&a->r->opts_lock);
	pthread_mutex_lock(&a->r->lock);
	if ((s = server_of(a->r, pool, name, a->now)) != NULL && rest.n > 0)
		take_learned(a->r, s, rest, a->now);
	pthread_mutex_unlock(&a->r->lock);
	pthread_rwlock_unlock(&a->r->opts_lock);
	return s != NULL ? s->id : -1;
}

struct route_restoring *route_restore_begin(
    struct route *r, const uint8_t *bytes, size_t n, msec now)
{
	struct route_restoring *a = mem_alloc(sizeof(*a));
	struct snapshot_of of;

	if (a == NULL)
		return NULL;
	snapshot_of(r, &of);
	*a = (struct route_restoring){ .r = r, .now = now };
	a->loader = snapshot_loader_new(r->index, &of, bytes, n, server_named, a, now);
	if (a->loader != NULL)
		return a;
	mem_free(a);
	return NULL;
}

int route_restore_step(struct route_restoring *a, struct snapshot_stats *s, struct err *e)
{
	return snapshot_load_step(a->loader, s, e);
}

void route_restore_end(struct route_restoring *a)
{
	if (a == NULL)
		return;
	snapshot_loader_free(a->loader);
	mem_free(a);
}

int route_restore(struct route *r, const uint8_t *bytes, size_t n, msec now,
    struct snapshot_stats *s, struct err *e)
{
	struct route_restoring *a = route_restore_begin(r, bytes, n, now);
	int rc = 0;

	if (a == NULL)
		return err_set(e, "not enough memory to load it");
	while (rc == 0)
		rc = route_restore_step(a, s, e);
	route_restore_end(a);
	return rc > 0 ? 0 : -1;
}

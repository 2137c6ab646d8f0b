/* snapshot.c - names of servers, for a snapshot of the index and back.
 *
 * A server's name in a snapshot is its pool's name, a NUL byte, and its own name. Another NUL and
 * what was learned about the server follow, in 4 bytes each: enum learned. A server that comes back
 * is down and without weight until a load string names it. If none does, it is removed like any
 * other that was not named for long.
 *
 * The clock of the router may begin again, so times are saved by the wall clock. When a cache was
 * cleared belongs to what the tree holds of it: a sibling that tells of that clear later must not
 * empty a tree that was filled since. */
#include <endian.h>

#include "agent/base/mem.h"
#include "agent/route/share_sync_in.h"

static void snapshot_of(struct route *r, int64_t wall_ms, struct snapshot_of *of)
{
	of->wall_ms = wall_ms;
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
enum learned {
	LEARNED_RATE_FIRST, LEARNED_RATE_HEADERS, LEARNED_CAPACITY,
	LEARNED_CLEARED, LEARNED_NAMED,		/* seconds since 1970 */
	LEARNED
};

#define LEARNED_BYTES	(4 * LEARNED)
#define NAMED_GRACE_MS	60000	/* a server may be named so late after all agents were down */

static uint32_t clamp32(uint64_t v)
{
	return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

/* Both clocks at the same moment. */
struct clocks {
	msec now;
	int64_t wall_ms;
};

/* Return <at> in seconds since 1970, rounded; at least 1. */
static uint32_t wall_of(msec at, const struct clocks *c)
{
	int64_t ms = c->wall_ms - (c->now - at);

	return ms > 500 ? clamp32((uint64_t)(ms + 500) / 1000) : 1;
}

/* Do the reverse. The wall clock may have been set back: the result is never after now. */
static msec time_of(uint32_t wall_s, const struct clocks *c)
{
	int64_t ago = c->wall_ms - (int64_t)wall_s * 1000;

	return ago > 0 ? c->now - ago : c->now;
}

static size_t put_learned(char *to, const struct server *s, const struct clocks *c)
{
	struct rate_kept rate = rate_keep(&s->rate, c->now);
	uint32_t v[LEARNED] = {
		[LEARNED_RATE_FIRST] = rate.first, [LEARNED_RATE_HEADERS] = rate.headers,
		[LEARNED_CAPACITY] = clamp32(s->inferred_here),
		[LEARNED_CLEARED] = s->cleared != CLEARED_NEVER ? wall_of(s->cleared, c) : 0,
		[LEARNED_NAMED] = server_named_at(s) > 0 ? wall_of(server_named_at(s), c) : 0,
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

static void read_learned(uint32_t v[LEARNED], struct span bytes)
{
	memset(v, 0, LEARNED_BYTES);
	if (bytes.n > 0)
		memcpy(v, bytes.p, bytes.n < LEARNED_BYTES ? bytes.n : LEARNED_BYTES);
	for (size_t i = 0; i < LEARNED; i++)
		v[i] = le32toh(v[i]);
}

static void take_learned(struct route *r, struct server *s, const uint32_t v[LEARNED], msec now)
{
	rate_recall(&s->rate, (struct rate_kept){ v[LEARNED_RATE_FIRST], v[LEARNED_RATE_HEADERS] }, now);
	if (v[LEARNED_CAPACITY] == 0)
		return;
	s->inferred_here = capacity_recall(&s->capacity, v[LEARNED_CAPACITY]);
	room_inferred(r, s);
}

/* What this agent infers itself is its own, and what a sibling repeats is the sibling's: without
 * siblings that repeat it, the values are used like those of an own snapshot. */
static void take_theirs(struct route *r, struct server *s, const uint32_t v[LEARNED], msec now)
{
	const struct share_learned l = { .slowness_first = v[LEARNED_RATE_FIRST],
		.slowness_headers = v[LEARNED_RATE_HEADERS], .capacity_tokens = v[LEARNED_CAPACITY] };

	if (r->sharing != NULL)
		share_recall_learned(r, s, &l, now);
	else
		take_learned(r, s, v, now);
}

static void name_server(
    struct snapshot_writer *w, const struct server *s, const struct clocks *c)
{
	char name[POOL_NAME_MAX + 1 + SERVER_NAME_MAX + 1 + LEARNED_BYTES];
	size_t n = strlen(s->pool->name), k = strlen(s->name);

	memcpy(name, s->pool->name, n + 1);
	memcpy(name + n + 1, s->name, k);
	k += put_learned(name + n + 1 + k, s, c);
	snapshot_writer_name(w, s->id, span_of(name, n + 1 + k));
}

struct snapshot_writer *route_snapshot(
    struct route *r, msec now, int64_t wall_ms, snapshot_put *put, void *arg)
{
	const struct clocks c = { now, wall_ms };
	struct snapshot_of of;
	struct snapshot_writer *w;

	snapshot_of(r, wall_ms, &of);
	if ((w = snapshot_writer_new(r->index, &of, now, put, arg)) == NULL)
		return NULL;
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if (r->fleet.by_id[i] != NULL && r->fleet.by_id[i]->name[0] != '\0')
			name_server(w, r->fleet.by_id[i], &c);
	pthread_mutex_unlock(&r->lock);
	return w;
}

struct route_restoring {
	struct route *r;
	bool theirs;
	struct clocks clocks;
	struct snapshot_loader *loader;
};

/* Return when HAProxy named a server, as saved; 0: unknown, taken as now. If the machine booted
 * since, the router takes it as named at the boot. */
static msec named_at(const struct route_restoring *a, uint32_t saved)
{
	msec max_age = a->r->opts.server_max_age_ms, now = a->clocks.now;
	msec least = now - max_age + (max_age < NAMED_GRACE_MS ? max_age : NAMED_GRACE_MS);
	msec at = saved != 0 ? time_of(saved, &a->clocks) : now;

	return at > least ? at : least;
}

/* Find or add the server. Returns NULL if there is no room, or if it is unknown and has left. */
static struct server *server_of(
    const struct route_restoring *a, struct span pool, struct span name, msec named)
{
	struct route *r = a->r;
	struct pool *p = pool_met(r, pool);
	struct server *s = p != NULL ? pool_find(p, name, 0) : NULL;

	if (p != NULL && s == NULL && !server_would_leave(r, p, named))
		s = server_met(r, p, name, 0);
	if (s == NULL)
		return NULL;
	if (a->theirs)
		server_told(s, named);
	else if (named > s->seen)
		s->seen = named;
	return s;
}

/* Compare the last clear in the snapshot with the one known here. Returns false if the snapshot has
 * pages from before the latter. If it is the other way round, what this agent holds is dropped
 * first, and the snapshot's pages come later or are taken from siblings. */
static bool take_cleared(struct route *r, struct server *s, uint32_t saved, const struct clocks *c)
{
	msec at = saved != 0 ? time_of(saved, c) : CLEARED_NEVER;
	bool good = true;

	if (saved == 0)
		return true;
	if (s->cleared > at + CLEARED_ALIKE_MS)
		return false;
	if (at > s->cleared + CLEARED_ALIKE_MS && s->restored) {
		r->clearing[s->id / 64] |= (uint64_t)1 << s->id % 64;
		good = false;
	}
	if (at > s->cleared)
		s->cleared = at;
	return good;
}

static int take_server(
    struct route_restoring *a, struct span pool, struct span name, const uint32_t v[LEARNED])
{
	struct server *s = server_of(a, pool, name, named_at(a, v[LEARNED_NAMED]));

	if (s == NULL)
		return -1;
	if (a->theirs)
		take_theirs(a->r, s, v, a->clocks.now);
	else
		take_learned(a->r, s, v, a->clocks.now);
	if (!take_cleared(a->r, s, v[LEARNED_CLEARED], &a->clocks))
		return -1;
	s->restored = true;
	return s->id;
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
	uint32_t v[LEARNED];
	int id;

	if (!split_at_nul(&rest, &pool))
		return -1;
	if (!split_at_nul(&rest, &name)) {
		name = rest;
		rest = (struct span){ 0 };
	}
	if (name.n == 0 || rest.n % 4 != 0)
		return -1;
	read_learned(v, rest);
	pthread_rwlock_rdlock(&a->r->opts_lock);
	pthread_mutex_lock(&a->r->lock);
	id = take_server(a, pool, name, v);
	pthread_mutex_unlock(&a->r->lock);
	pthread_rwlock_unlock(&a->r->opts_lock);
	return id;
}

struct route_restoring *route_restore_begin(struct route *r, const struct route_saved *from)
{
	struct route_restoring *a = mem_alloc(sizeof(*a));
	struct snapshot_of of;

	if (a == NULL)
		return NULL;
	snapshot_of(r, from->wall_ms, &of);
	*a = (struct route_restoring){
		.r = r, .theirs = from->theirs, .clocks = { from->now, from->wall_ms },
	};
	a->loader = snapshot_loader_new(
	    r->index, &of, from->bytes, from->n, server_named, a, from->now);
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

int route_restore(struct route *r, const struct route_saved *from, struct snapshot_stats *s,
    struct err *e)
{
	struct route_restoring *a = route_restore_begin(r, from);
	int rc = 0;

	if (a == NULL)
		return err_set(e, "not enough memory to load it");
	while (rc == 0)
		rc = route_restore_step(a, s, e);
	route_restore_end(a);
	return rc > 0 ? 0 : -1;
}

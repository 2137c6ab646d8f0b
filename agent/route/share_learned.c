/* share_learned.c - what is learned of a server: told with its sums, and taken from siblings.
 *
 * Rates are taken if there is no evidence here. Of the sizes of a cache that agents have inferred,
 * each agent tells its own and all use the largest, so that all evict at the same place. A sibling
 * may take its size back. That of one that is silent about it is forgotten, but not before an agent
 * that restarts has told it again: trees that shrink lose what they held. */
#include "agent/route/share_sync_in.h"

#define LOOK_MS		1000
#define REPEAT_MS	60000
#define SILENT_MS	140000		/* 2 repetitions did not come: the next largest size counts */
#define FORGET_MS	200000		/* 3 repetitions */
#define TOLD_A_LOOK	8u

/* ---- tell ---------------------------------------------------------------------------------- */

void share_put_learned(struct route *r, server_id id, msec every, msec now)
{
	struct share_entry e = { .kind = SHARE_SERVER };
	struct rate_kept rate = { 0, 0 };
	struct server_names n;
	struct server *s;

	if (!sync_names(r, id, &n) || n.left)
		return;
	pthread_mutex_lock(&r->lock);
	s = r->fleet.by_id[id];
	if (s != NULL && (now - s->learned_told >= every || s->inferred_told != s->inferred_here)) {
		rate = rate_keep(&s->rate, now);
		e.u.server.capacity_tokens = s->inferred_here;
		s->inferred_told = s->inferred_here;
		s->learned_told = now;
	}
	pthread_mutex_unlock(&r->lock);
	e.u.server.at = names_at(&n);
	e.u.server.slowness_first = rate.first;
	e.u.server.slowness_headers = rate.headers;
	e.u.server.named_ago_ms = names_ago(&n, now);
	if (rate.first != 0 || rate.headers != 0 || e.u.server.capacity_tokens != 0)
		sync_put(r, n.hash, &e, 32);
}

/* Return whether <s> is to be told of. Forgets what no sibling repeats. */
static bool look_at_learned(struct route *r, struct server *s, msec now)
{
	if (s->inferred_there != 0 && now - s->inferred_at > FORGET_MS) {
		s->inferred_there = 0;
		room_inferred(r, s);
	}
	if (server_would_leave(r, s->pool, server_named_at(s)))
		return false;
	return s->inferred_told != s->inferred_here ||
	    (s->inferred_here != 0 && now - s->learned_told >= REPEAT_MS);
}

void share_tell_learned(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;
	server_id ids[TOLD_A_LOOK];
	unsigned n = 0;

	if (now - y->learned_at < LOOK_MS)
		return;
	y->learned_at = now;
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	for (unsigned id = 0; id < SERVERS_MAX && n < TOLD_A_LOOK; id++)
		if (r->fleet.by_id[id] != NULL && look_at_learned(r, r->fleet.by_id[id], now))
			ids[n++] = (server_id)id;
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	for (unsigned i = 0; i < n; i++)
		share_put_learned(r, ids[i], REPEAT_MS, now);
}

/* ---- take ---------------------------------------------------------------------------------- */

static void take_rate(struct server *s, const struct share_learned *l, msec now)
{
	struct rate_kept own = rate_keep(&s->rate, now), take = {
		own.first == 0 ? l->slowness_first : 0, own.headers == 0 ? l->slowness_headers : 0,
	};

	if (take.first != 0 || take.headers != 0)
		rate_recall(&s->rate, take, now);
}

static void take_capacity(
    struct route *r, share_agent from, struct server *s, uint64_t tokens, msec now)
{
	uint64_t size = tokens > 0 ? capacity_bounded(tokens) : 0;

	if (size < s->inferred_there && from != s->inferred_by && now - s->inferred_at < SILENT_MS)
		return;
	s->inferred_there = size;
	s->inferred_by = from;
	s->inferred_at = now;
	if (s->inferred_here == 0 && size > 0)
		capacity_recall(&s->capacity, size);
	room_inferred(r, s);
}

/* The sibling repeats it under its own number, if it lives; then that counts. */
void share_recall_learned(
    struct route *r, struct server *s, const struct share_learned *l, msec now)
{
	take_rate(s, l, now);
	if (l->capacity_tokens > 0)
		take_capacity(r, 0, s, l->capacity_tokens, now);
}

void share_take_learned(struct route *r, share_agent from, const struct share_learned *l, msec now)
{
	server_id id = sync_server(r, &l->at, l->named_ago_ms, now);
	struct server *s;

	if (id == SERVER_NONE)
		return;
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if ((s = r->fleet.by_id[id]) != NULL) {
		take_rate(s, l, now);
		take_capacity(r, from, s, l->capacity_tokens, now);
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

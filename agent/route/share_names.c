/* share_names.c - servers by the names that siblings use, and entries about them. */
#include "agent/route/share_sync_in.h"

#define NAMED_PART	4	/* of servers.max_age */

/* Find the server; add it unless it has left. The lock is held. */
static struct server *server_told_of(struct route *r, const struct share_server *at, msec named)
{
	struct pool *p = pool_met(r, at->pool);
	struct server *s = p != NULL ? pool_find(p, at->server, SIZE_MAX) : NULL;

	if (p != NULL && s == NULL && !server_would_leave(r, p, named))
		s = server_met(r, p, at->server, SIZE_MAX);
	if (s != NULL)
		server_told(s, named);
	return s;
}

server_id sync_server(
    struct route *r, const struct share_server *at, msec named_ago, msec now)
{
	const struct server *s = NULL;
	server_id id;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if (at->server.n > 0 && pool_options_of(&r->opts, at->pool)->mode != MODE_OFF)
		s = server_told_of(r, at, named_ago > 0 ? now - named_ago : now);
	id = s != NULL ? s->id : SERVER_NONE;
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return id;
}

server_id sync_known(struct route *r, const struct share_server *at)
{
	const struct server *s = NULL;
	const struct pool *p;
	server_id id;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if (at->server.n > 0 && pool_options_of(&r->opts, at->pool)->mode != MODE_OFF &&
	    (p = fleet_find(&r->fleet, at->pool)) != NULL)
		s = pool_find(p, at->server, SIZE_MAX);
	id = s != NULL ? s->id : SERVER_NONE;
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return id;
}

static bool copy_names(const struct route *r, server_id id, struct server_names *to)
{
	const struct server *s = r->fleet.by_id[id];

	if (s == NULL || s->name[0] == '\0')
		return false;
	memcpy(to->pool, s->pool->name, sizeof(to->pool));
	memcpy(to->server, s->name, sizeof(to->server));
	to->hash = s->name_hash;
	to->named = server_named_at(s);
	to->late = r->opts.server_max_age_ms / NAMED_PART;
	to->left = server_would_leave(r, s->pool, to->named);
	return true;
}

bool sync_names(struct route *r, server_id id, struct server_names *to)
{
	bool is;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	is = copy_names(r, id, to);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return is;
}

msec names_ago(const struct server_names *n, msec now)
{
	return now > n->named ? now - n->named : 0;
}

struct share_server names_at(const struct server_names *n)
{
	return (struct share_server){ span_str(n->pool), span_str(n->server) };
}

void sync_put(struct route *r, uint64_t name_hash, const struct share_entry *e, size_t bytes)
{
	struct sharing *sh = r->sharing;

	sh->sync->bytes_left -= (int64_t)bytes;
	count_add_any(&sh->n.put[e->kind], 1);
	sh->to.put(sh->to.arg, share_part(sh, name_hash), e);
}

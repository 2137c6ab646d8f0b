/* share_names.c - servers by the names that siblings use, and entries about them. */
#include "agent/route/share_sync_in.h"

server_id sync_server(struct route *r, const struct share_server *at, msec now)
{
	const struct server *s = NULL;
	server_id id;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if (at->server.n > 0 && pool_options_of(&r->opts, at->pool)->mode != MODE_OFF)
		s = share_server(r, at, now);
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
	return true;
}

bool sync_names(struct route *r, server_id id, struct server_names *to)
{
	bool is;

	pthread_mutex_lock(&r->lock);
	is = copy_names(r, id, to);
	pthread_mutex_unlock(&r->lock);
	return is;
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

/* left.c - servers that have left HAProxy's configuration.
 *
 * HAProxy names its servers in load strings and stats rows, to this agent or to a sibling. Agents
 * tell each other when that was last (share_names.c), and pass the latest time on. So it does not
 * become later by being told, and a server is forgotten by all at about the same time. */
#include "agent/route/route_in.h"

static msec later(msec a, msec b)
{
	return a > b ? a : b;
}

msec server_named_at(const struct server *s)
{
	return later(later(s->seen, s->watch.seen), s->told);
}

bool server_would_leave(const struct route *r, const struct pool *p, msec named)
{
	return later(later(p->loaded, p->watched), p->told) - named >= r->opts.server_max_age_ms;
}

static struct server *find_gone(const struct route *r)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		const struct pool *p = r->fleet.pools[i];

		for (size_t k = 0; k < p->n_servers; k++) {
			struct server *s = p->servers[k];

			if (s->n_open == 0 && server_would_leave(r, p, server_named_at(s)))
				return s;
		}
	}
	return NULL;
}

void servers_sweep(struct route *r)
{
	struct server *s;

	if ((s = find_gone(r)) == NULL)
		return;
	pool_server_gone(s->pool, s->id);
	sessions_server_gone(r->sessions, s->id);
	responses_server_gone(r->responses, s->id);
	fleet_drop(&r->fleet, s);
}

/* cleared.c - what an operator lets the router forget. */
#include "agent/route/route_in.h"

bool route_clear_server(struct route *r, struct span pool, struct span server)
{
	const struct pool *p;
	struct server *s;

	pthread_mutex_lock(&r->lock);
	p = fleet_find(&r->fleet, pool);
	s = p != NULL ? pool_find(p, server, 0) : NULL;
	if (s != NULL) {
		server_cleared(r, s, r->ticked);
	}
	pthread_mutex_unlock(&r->lock);
	return s != NULL;
}

bool route_spaces(struct route *r, struct spaces_walk *w, uint32_t looks,
    void (*fn)(void *arg, const struct space_view *v), void *arg)
{
	return index_spaces(r->index, w, looks, fn, arg);
}

bool route_clear_space(struct route *r, struct spaces_walk *w, const uint64_t space[2],
    uint32_t looks, uint64_t *records)
{
	return index_clear_space(r->index, w, space, looks, records);
}

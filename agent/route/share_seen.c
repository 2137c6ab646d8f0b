/* share_seen.c - requests that must not be counted again, and facts that came before their request.
 *
 * Agents hear of the same request in different orders: the sibling's decision, its fact, the log
 * line that every agent gets. What comes second finds the entry closed, so it is remembered for a
 * while that this has happened. Both tables are fixed; if a place is needed again too early, a
 * request may count twice in figures of answers, and one more entry waits for its age. */
#include "agent/route/route_in.h"

#define EARLY_MS	60000	/* an entry of a sibling comes within milliseconds */

void seen_prefetch(const struct sharing *sh, uint64_t uid)
{
	__builtin_prefetch(&sh->seen[uid % (SEEN_PLACES / SEEN_WAYS) * SEEN_WAYS], 1);
	__builtin_prefetch(&sh->early[uid % EARLY_PLACES].uid);
}

static struct seen_place *group_of(struct sharing *sh, uint64_t uid)
{
	return &sh->seen[uid % (SEEN_PLACES / SEEN_WAYS) * SEEN_WAYS];
}

/* The newest is first in its group. */
void seen_put(struct sharing *sh, uint64_t uid, enum share_seen state)
{
	struct seen_place *g = group_of(sh, uid);
	unsigned i = 0;

	while (i < SEEN_WAYS - 1 && g[i].uid != uid)
		i++;
	memmove(&g[1], &g[0], i * sizeof(*g));
	g[0] = (struct seen_place){ uid, (uint32_t)state };
}

enum share_seen seen_find(const struct sharing *sh, uint64_t uid)
{
	const struct seen_place *g = &sh->seen[uid % (SEEN_PLACES / SEEN_WAYS) * SEEN_WAYS];

	for (unsigned i = 0; i < SEEN_WAYS; i++)
		if (g[i].uid == uid)
			return (enum share_seen)g[i].state;
	return SEEN_NOT;
}

/* An end says more than a first byte. */
void early_put(
    struct sharing *sh, uint64_t uid, const struct fact *f, uint64_t response, msec now)
{
	struct early *e = &sh->early[uid % EARLY_PLACES];
	size_t n = f->server.n <= SERVER_NAME_MAX ? f->server.n : 0;

	if (e->uid == uid && e->fact.kind == FACT_DONE && f->kind == FACT_FIRST)
		return;
	if (e->uid == uid && response == 0)
		response = e->response;
	*e = (struct early){ .uid = uid, .at = now, .response = response, .fact = *f };
	if (n > 0)
		memcpy(e->server, f->server.p, n);
	e->fact.type = fact_streams(f) ? SPAN("text/event-stream") : (struct span){ 0 };
	e->fact.uid = e->fact.pool = e->fact.wanted = e->fact.orca = e->fact.token = e->fact.why =
	    e->fact.response =
	    (struct span){ 0 };
	e->fact.server = span_of(e->server, n);
	e->fact.lacks = NULL;
	e->fact.line = false;
}

bool early_has(const struct sharing *sh, uint64_t uid)
{
	return sh->early[uid % EARLY_PLACES].uid == uid;
}

const struct early *early_take(struct sharing *sh, uint64_t uid, msec now)
{
	struct early *e = &sh->early[uid % EARLY_PLACES];

	if (e->uid != uid || now - e->at > EARLY_MS)
		return NULL;
	e->uid = 0;
	return e;
}

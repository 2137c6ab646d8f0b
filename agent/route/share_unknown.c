/* share_unknown.c - servers with pages here that a sibling does not tell of in its round.
 *
 * It may not know them, and learns of them by a round of an agent that does. Or it does not want
 * them: its servers.max_age is shorter, it has no room, or its pool is off. A round is asked for
 * once for each server and sibling, until the sibling has told of that server. Entries may be lost
 * and options of the sibling may change: after a loss or 10 minutes it is asked for again. */
#include "agent/route/share_sync_in.h"

#define ROUND_MOST_MS	10000		/* the sums of a round come within that time */
#define AGAIN_MS	600000

static bool has_pages(const struct sync *y, server_id id)
{
	for (unsigned k = 0; k < SPACE_PARTS; k++)
		if (y->sums[id][k] != 0)
			return true;
	return false;
}

static struct unknown_asked *asked_of(struct sync *y, share_agent from)
{
	for (unsigned i = 0; i < UNKNOWN_ASKED; i++)
		if (y->unknown[i].from == from)
			return &y->unknown[i];
	return NULL;
}

/* The place of a sibling that is told of no server now goes to another one, in turn. */
static struct unknown_asked *asked_add(struct sync *y, share_agent from)
{
	struct unknown_asked *a = &y->unknown[y->next_unknown++ % UNKNOWN_ASKED];

	*a = (struct unknown_asked){ .from = from };
	return a;
}

/* Note that a round is asked for because <from> lacks <id>. Returns false if it was before. */
static bool asked_first(struct sync *y, share_agent from, server_id id)
{
	struct unknown_asked *a = asked_of(y, from);

	if (a == NULL)
		a = asked_add(y, from);
	if (has_bit(a->servers, id))
		return false;
	a->servers[id / 64] |= (uint64_t)1 << id % 64;
	return true;
}

void unknown_told(struct sync *y, share_agent from, server_id id)
{
	struct unknown_asked *a = asked_of(y, from);

	if (a != NULL)
		a->servers[id / 64] &= ~((uint64_t)1 << id % 64);
}

/* Tell if <from> lacks a server that holds pages here and that siblings are told of, for the first
 * time. The first sums of its round may have been compared by an earlier walk. */
static bool lacks_any(struct route *r, share_agent from)
{
	struct sync *y = r->sharing->sync;
	struct server_names n;
	bool lacks = false;

	for (unsigned id = 0; id < SERVERS_MAX; id++)
		if ((y->heard_from[id] != from || y->now - y->heard_at[id] > ROUND_MOST_MS) &&
		    has_pages(y, (server_id)id) && sync_names(r, (server_id)id, &n) && !n.left)
			lacks |= asked_first(y, from, (server_id)id);
	return lacks;
}

static void forget_old(struct route *r)
{
	struct sync *y = r->sharing->sync;
	uint32_t losses = atomic_load_explicit(&r->sharing->losses, memory_order_relaxed);

	if (losses == y->unknown_losses && y->now - y->unknown_since < AGAIN_MS)
		return;
	y->unknown_losses = losses;
	y->unknown_since = y->now;
	memset(y->unknown, 0, sizeof(y->unknown));
}

void unknown_look(struct route *r)
{
	struct sync *y = r->sharing->sync;

	forget_old(r);
	for (uint32_t i = 0; i < y->n_theirs; i++)
		if (y->theirs[i].server == SERVER_NONE && sums_comparable(y, &y->theirs[i]) &&
		    lacks_any(r, y->theirs[i].from))
			sync_wanted(r->sharing, RESYNC_SOON);
}

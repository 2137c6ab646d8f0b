/* share_held.c - the pages of ends that siblings want: sent, and taken. */
#include "agent/route/share_sync_in.h"

/* Put the pages of sh->pages after <from> in as many entries as they need. */
static void put_held(struct route *r, const struct server_names *names, const struct sought *x,
    const struct space_key *space, uint32_t from)
{
	struct sharing *sh = r->sharing;

	do {
		uint32_t left = x->at.depth - from, n = left < SHARE_PAGES_MAX ? left : SHARE_PAGES_MAX;
		struct share_entry e = { .kind = SHARE_HELD, .u.held = {
			.at = names_at(names),
			.space = share_space_of(r, space),
			.anchor = { from > 0 ? sh->chain[from / ANCHOR_EVERY - 1] : 0, from },
			.pages = sh->pages + from, .n = n,
			.hits = x->use.hits, .priority = x->use.priority, .unused_ms = x->use.unused_ms,
		} };

		sh->sync->bytes_left -= (int64_t)n * 8 + 64;
		count_add_any(&sh->n.put[SHARE_HELD], 1);
		sh->to.put(sh->to.arg, share_part(sh, space->h[0]), &e);
		from += n;
	} while (from < x->at.depth);
	count_add_any(&sh->n.held_put, 1);
}

static void send_wanted(struct route *r, const struct sought *x)
{
	struct sharing *sh = r->sharing;
	struct server_names names;
	struct space_key space;
	uint32_t from = x->known.depth;

	if (!sync_names(r, x->server, &names) || ends_read(r, x->at, &space) != x->hash)
		return;
	if (from % ANCHOR_EVERY != 0 || from >= x->at.depth ||
	    (from > 0 && sh->chain[from / ANCHOR_EVERY - 1] != x->known.hash))
		from = 0;
	put_held(r, &names, x, &space, from);
}

/* y->at: the next one of y->want. One in a call. */
bool ends_put_held(struct route *r)
{
	struct sync *y = r->sharing->sync;

	while (y->at < y->want.n &&
	    (!y->want.of[y->at].found || y->want.of[y->at].since > y->pass))
		y->at++;
	if (y->at == y->want.n)
		return true;
	if (y->bytes_left <= 0)
		return false;
	send_wanted(r, &y->want.of[y->at++]);
	return false;
}

static msec cleared_at(struct route *r, server_id id)
{
	msec at;

	pthread_mutex_lock(&r->lock);
	at = r->fleet.by_id[id] != NULL ? r->fleet.by_id[id]->cleared : CLEARED_NEVER;
	pthread_mutex_unlock(&r->lock);
	return at;
}

/* The server is full of pages used later: let all agents give up what was used until then. The
 * clocks of agents differ a little. */
static void give_up(struct route *r, server_id id, const struct held_use *use, msec now)
{
	msec ago = use->unused_ms > CLOCKS_MS ? use->unused_ms - CLOCKS_MS : 0;

	index_evict_unused(r->index, id, ago, now, 1);
	sync_wanted(r->sharing, RESYNC_SOON);
}

void sync_apply_held(struct route *r, const struct share_held *h, msec now)
{
	struct sharing *sh = r->sharing;
	struct held_use use = { h->hits, h->priority, h->unused_ms > 0 ? h->unused_ms : 0 };
	server_id id = sync_known(r, &h->at);
	struct index_place end;
	enum index_held got;
	struct whole w;
	uint32_t had;

	if (id == SERVER_NONE || now - use.unused_ms < cleared_at(r, id))
		return;
	share_take_pages(r, &h->space, &h->anchor, h->pages, h->n, &w);
	if (w.n == 0)
		return;
	index_match(r->index, &w.space, sh->pages, w.n, &sh->sync->match);
	had = index_match_depth(&sh->sync->match, id);
	if (had >= w.n) {		/* some of it may only be claimed, by a request whose end was lost */
		count_add_any(&sh->n.repeated, 1);
		use.hits = 0;
		index_hold(r->index, &w.space, sh->pages, w.n, had, id, &use, now, &end);
		return;
	}
	got = index_hold(r->index, &w.space, sh->pages, w.n, had, id, &use, now, &end);
	if (got == HELD_DONE) {
		count_add_any(&sh->n.held_applied, 1);
		anchors_enter(sh->anchors, sh->chain, w.anchor, end);
		return;
	}
	count_add_any(&sh->n.held_refused, 1);
	if (got == HELD_TOO_OLD)
		give_up(r, id, &use, now);
}

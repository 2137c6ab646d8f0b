/* share_ends.c - ends of prefixes, those that are lacked, and their pages.
 *
 * In ENDS each end is followed by points before it, from the nearest to the first, and by an entry
 * of depth 0:
 *
 *      end 1000   992 984 ... 512 (multiples of 16, each twice as far)   0   end 70   64 48 32   0
 *
 * In WANT each end is followed by the nearest of its points whose pages are known there, or by an
 * entry of depth 0. */
#include "agent/route/share_sync_in.h"

#define PAGES_A_SLICE	2048u	/* read or looked up */
#define PAGES_OF_ONE	64u	/* the rest of the work for one end counts as so many */

/* ---- sets of ends -------------------------------------------------------------------------- */

static uint32_t slot_of(uint64_t hash, server_id server)
{
	return (uint32_t)((hash ^ server * 0x9e3779b97f4a7c15ull) >> 20) % (4 * SOUGHT_MAX);
}

static struct sought *seek_find(struct seek *s, uint64_t hash, server_id server)
{
	uint32_t i = slot_of(hash, server);

	for (; s->slot[i] != 0; i = (i + 1) % (4 * SOUGHT_MAX)) {
		struct sought *x = &s->of[s->slot[i] - 1];

		if (x->hash == hash && x->server == server)
			return x;
	}
	return NULL;
}

static void seek_link(struct seek *s, uint32_t number)
{
	uint32_t i = slot_of(s->of[number].hash, s->of[number].server);

	while (s->slot[i] != 0)
		i = (i + 1) % (4 * SOUGHT_MAX);
	s->slot[i] = (uint16_t)(number + 1);
}

/* What is in it already, or finds no room, is left out: it comes again with the next round. */
static void seek_add(struct seek *s, const struct sought *x)
{
	if (s->n == SOUGHT_MAX || seek_find(s, x->hash, x->server) != NULL)
		return;
	s->of[s->n] = *x;
	s->parts[x->server] |= (uint64_t)1 << x->hash % SPACE_PARTS;
	seek_link(s, s->n++);
}

void seek_drop(struct seek *s, uint64_t pass)
{
	uint32_t kept = 0;

	if (s->n == 0)
		return;
	memset(s->slot, 0, sizeof(s->slot));
	for (uint32_t i = 0; i < s->n; i++)
		if (s->of[i].since > pass)
			s->of[kept++] = s->of[i];
	s->n = kept;
	if (kept == 0)
		memset(s->parts, 0, sizeof(s->parts));
	for (uint32_t i = 0; i < kept; i++)
		seek_link(s, i);
}

/* ---- the walk ------------------------------------------------------------------------------ */

static void look_up(struct seek *s, const struct held_run *run, const struct holder *h)
{
	uint64_t parts = s->parts[h->server];

	for (uint32_t k = 0; k < h->pages && parts != 0; k++) {
		struct sought *x = parts >> run->hashes[k] % SPACE_PARTS & 1 ?
		    seek_find(s, run->hashes[k], h->server) : NULL;

		if (x == NULL)
			continue;
		x->found = true;
		x->at = (struct index_place){ run->end.node, run->start + k + 1, 0 };
		x->use = (struct held_use){ h->hits, h->priority, h->unused_ms };
	}
}

static bool tail_before(const struct tail *x, const struct tail *y)
{
	if (x->server != y->server)
		return x->server < y->server;
	return x->part != y->part ? x->part < y->part : x->end < y->end;
}

/* Add to the heap. */
static void tail_push(struct sync *y, const struct tail *t)
{
	uint32_t i = y->n_tails++, up;

	for (; i > 0 && tail_before(t, &y->tails[up = (i - 1) / 2]); i = up)
		y->tails[i] = y->tails[up];
	y->tails[i] = *t;
}

/* Take the first one of the heap, which is not empty. */
static struct tail tail_pop(struct sync *y)
{
	struct tail first = y->tails[0], last = y->tails[--y->n_tails];
	uint32_t i = 0, down;

	while ((down = 2 * i + 1) < y->n_tails) {
		if (down + 1 < y->n_tails && tail_before(&y->tails[down + 1], &y->tails[down]))
			down++;
		if (!tail_before(&y->tails[down], &last))
			break;
		y->tails[i] = y->tails[down];
		i = down;
	}
	y->tails[i] = last;
	return first;
}

void ends_see(struct sync *y, const struct held_run *run, const struct holder *h, bool compared)
{
	uint64_t end = run->hashes[h->pages - 1];
	uint32_t part = end % SPACE_PARTS;

	look_up(&y->lack, run, h);
	look_up(&y->want, run, h);
	if (!compared || !(y->cells[h->server] >> part & 1))
		return;
	y->crowded |= y->n_tails == TAILS_MAX;
	if (!y->crowded)
		tail_push(y, &(struct tail){ h->server, part, end,
			{ run->end.node, run->start + h->pages, 0 } });
}

/* ---- ENDS ---------------------------------------------------------------------------------- */

/* Collect all pages of <at> in sh->pages and their hashes in sh->chain. Returns the last hash; 0 if
 * the place is gone. */
static uint64_t read_place(struct route *r, struct index_place at, struct space_key *space)
{
	struct sharing *sh = r->sharing;

	if (at.depth > sh->max_pages || !index_place_space(r->index, at, space) ||
	    !index_place_pages(r->index, space, at, sh->pages, NULL))
		return 0;
	return chain_of(chain_start(&r->key, space->h), sh->pages, at.depth, sh->chain);
}

/* Write <t> and the points before it to <to>, which has room for them. Returns their number; 0 if
 * its pages have changed. */
static uint32_t write_end(struct route *r, const struct tail *t, struct share_anchor *to)
{
	struct space_key space;
	uint32_t n = 0, back = ANCHOR_EVERY, d;

	if (read_place(r, t->at, &space) != t->end)
		return 0;
	to[n++] = (struct share_anchor){ t->end, t->at.depth };
	for (unsigned k = 0; k < POINTS_MAX && back < t->at.depth; k++, back *= 2) {
		d = (t->at.depth - back) / ANCHOR_EVERY;
		if (d > 0)
			to[n++] = (struct share_anchor){ r->sharing->chain[d - 1], d * ANCHOR_EVERY };
	}
	to[n++] = (struct share_anchor){ 0, 0 };
	return n;
}

/* Put the ends collected for part <part> of <id>. */
static void put_ends(struct route *r, const struct server_names *names, uint32_t part, server_id id,
    msec now)
{
	struct sync *y = r->sharing->sync;
	struct share_entry e = { .kind = SHARE_ENDS, .u.ends = {
		.at = names_at(names), .part = part, .ends = y->ends, .n = y->n_ends, .to = y->ends_to[id],
		.evicted_ago_ms = sums_told_ago(r, id, now),
	} };

	sync_put(r, names->hash, &e, 32 + y->n_ends * 10);
	y->n_ends = 0;
}

static bool has_tail(const struct sync *y, server_id id, uint32_t part)
{
	return y->n_tails > 0 && y->tails[0].server == id && y->tails[0].part == part;
}

/* Put some ends of part <part> of <id>. Returns true at their end. */
static bool put_cell(struct route *r, server_id id, uint32_t part, msec now)
{
	struct sync *y = r->sharing->sync;
	struct server_names names;
	bool named = sync_names(r, id, &names);

	for (uint32_t pages = 0; pages < PAGES_A_SLICE && has_tail(y, id, part);) {
		struct tail t = tail_pop(y);

		if (named && y->n_ends + POINTS_MAX + 2 > ENDS_A_MESSAGE)
			put_ends(r, &names, part, id, now);
		if (named)
			y->n_ends += write_end(r, &t, y->ends + y->n_ends);
		pages += t.at.depth + PAGES_OF_ONE;
	}
	if (has_tail(y, id, part))
		return false;
	if (named)
		put_ends(r, &names, part, id, now);
	return true;
}

/* y->at: the next server. */
bool ends_put(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;
	uint32_t part;

	while (y->at < SERVERS_MAX && y->cells[y->at] == 0)
		y->at++;
	if (y->at == SERVERS_MAX)
		return true;
	part = (uint32_t)__builtin_ctzll(y->cells[y->at]);
	if (y->bytes_left > 0 && put_cell(r, (server_id)y->at, part, now))
		y->cells[y->at] &= y->cells[y->at] - 1;
	return false;
}

/* Return the nearest of the points from ends[*i] on that this agent may know, and set <*i> to after
 * them. */
static struct share_anchor known_point(struct route *r, const struct share_ends *e, uint32_t *i)
{
	struct share_anchor known = { 0, 0 };
	struct index_place at;

	for (; *i < e->n && e->ends[*i].depth > 0; ++*i)
		if (known.depth == 0 &&
		    anchors_get(r->sharing->anchors, e->ends[*i].hash, e->ends[*i].depth, &at))
			known = e->ends[*i];
	++*i;
	return known;
}

void sync_apply_ends(struct route *r, share_agent from, const struct share_ends *e, msec now)
{
	struct sharing *sh = r->sharing;
	struct sync *y = sh->sync;
	server_id id = sync_known(r, &e->at);
	uint32_t i = 0;

	if (id == SERVER_NONE || e->part >= SPACE_PARTS)
		return;
	sums_horizon(y, id, e->evicted_ago_ms, now);
	if (e->to == sh->to.self) {		/* its digest was this agent's: answer with the same */
		y->cells_next[id] |= (uint64_t)1 << e->part;
		y->ends_to[id] = 0;
		sync_wanted(sh, RESYNC_SOON);	/* look whether it was enough */
	}
	while (i < e->n) {
		struct sought x = {
			.hash = e->ends[i].hash, .depth = e->ends[i].depth, .server = id, .from = from,
			.since = y->pass + 1,
		};

		i++;
		x.known = known_point(r, e, &i);
		if (x.depth > 0 && x.depth <= sh->max_pages)
			seek_add(&y->lack, &x);
	}
}

/* ---- WANT ---------------------------------------------------------------------------------- */

/* Put the ends that were collected. */
static void put_want(struct route *r)
{
	struct sync *y = r->sharing->sync;
	struct server_names names;
	struct share_entry e = { .kind = SHARE_WANT, .u.want = {
		.ends = y->ends, .n = y->n_ends, .from = y->ends_from,
	} };

	if (y->n_ends > 0 && sync_names(r, y->ends_of, &names)) {
		e.u.want.at = names_at(&names);
		sync_put(r, names.hash, &e, 32 + y->n_ends * 10);
	}
	y->n_ends = 0;
}

/* Return <known> if its pages are known. */
static struct share_anchor still_known(struct route *r, struct share_anchor known)
{
	struct space_key space;
	struct index_place at;

	if (known.depth > 0 && anchors_get(r->sharing->anchors, known.hash, known.depth, &at) &&
	    read_place(r, at, &space) == known.hash)
		return known;
	return (struct share_anchor){ 0, 0 };
}

static void add_want(struct route *r, const struct sought *x, msec now)
{
	struct sync *y = r->sharing->sync;

	if (x->server != y->ends_of || x->from != y->ends_from || y->n_ends + 2 > ENDS_A_MESSAGE)
		put_want(r);
	y->ends_of = x->server;
	y->ends_from = x->from;
	y->ends[y->n_ends++] = (struct share_anchor){ x->hash, x->depth };
	y->ends[y->n_ends++] = still_known(r, x->known);
	asked_note(y, x->hash, x->server, true, now);
	count_add_any(&r->sharing->n.ends_lacked, 1);
}

/* y->at: the next one of y->lack. A message is of one server and one sibling. */
bool ends_put_want(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;

	if (y->bytes_left <= 0 && y->at < y->lack.n)
		return false;
	for (uint32_t pages = 0; y->at < y->lack.n; y->at++) {
		const struct sought *x = &y->lack.of[y->at];

		if (pages >= PAGES_A_SLICE)
			return false;
		pages += PAGES_OF_ONE / 4;
		if (x->found || x->since > y->pass || !asked_may(y, x->hash, x->server, now))
			continue;
		add_want(r, x, now);
		pages += x->known.depth;
	}
	put_want(r);
	return true;
}

/* What a sibling asks another one for comes here, too. */
void sync_apply_want(struct route *r, share_agent from, const struct share_want *w, msec now)
{
	struct sharing *sh = r->sharing;
	struct sync *y = sh->sync;
	server_id id = sync_known(r, &w->at);

	for (uint32_t i = 0; id != SERVER_NONE && i + 1 < w->n; i += 2) {
		struct sought x = {
			.hash = w->ends[i].hash, .depth = w->ends[i].depth, .server = id, .from = from,
			.known = w->ends[i + 1], .since = y->pass + 1,
		};

		if (w->from != sh->to.self)
			asked_note(y, x.hash, id, false, now);
		else if (x.depth > 0 && x.depth <= sh->max_pages)
			seek_add(&y->want, &x);
	}
}

/* ---- HELD ---------------------------------------------------------------------------------- */

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

	if (!sync_names(r, x->server, &names) || read_place(r, x->at, &space) != x->hash)
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

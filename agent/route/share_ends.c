/* share_ends.c - ends of prefixes, those that are lacked, and their pages.
 *
 * In ENDS each end is followed by points before it, from the nearest to the first, and by an entry
 * of depth 0:
 *
 *      end 1000   992 984 ... 512 (multiples of 16, each twice as far)   0   end 70   64 48 32   0
 *
 * In WANT each end is followed by the nearest of its points whose pages are known there, or by an
 * entry of depth 0. */
#include <stdlib.h>

#include "agent/base/mem.h"
#include "agent/route/share_sync_in.h"

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
static void seek_add(struct seek *s, const struct sought *x, uint64_t parts)
{
	if (s->n == SOUGHT_MAX || seek_find(s, x->hash, x->server) != NULL)
		return;
	s->of[s->n] = *x;
	s->parts[x->server] |= parts;
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

static void look_up(
    struct seek *s, const struct held_run *run, const struct holder *h, uint32_t part)
{
	if (!(s->parts[h->server] >> part & 1))
		return;
	for (uint32_t k = 0; k < h->pages; k++) {
		struct sought *x = seek_find(s, run->hashes[k], h->server);

		if (x == NULL)
			continue;
		x->found = true;
		x->at = (struct index_place){ run->end.node, run->start + k + 1, 0 };
		x->use = (struct held_use){ h->hits, h->priority, h->unused_ms };
	}
}

void ends_see(struct sync *y, const struct held_run *run, const struct holder *h, uint32_t part)
{
	look_up(&y->lack, run, h, part);
	look_up(&y->want, run, h, part);
	if (!(y->cells[h->server] >> part & 1))
		return;
	if (y->n_tails == TAILS_MAX) {
		y->crowded = true;
		return;
	}
	y->tails[y->n_tails++] = (struct tail){
		.server = h->server, .part = part, .before = run->before,
		.end = run->hashes[h->pages - 1],
		.at = { run->end.node, run->start + h->pages, 0 },
	};
}

/* ---- ENDS ---------------------------------------------------------------------------------- */

static int tail_order(const void *a, const void *b)
{
	const struct tail *x = a, *y = b;

	if (x->server != y->server)
		return (int)x->server - (int)y->server;
	if (x->part != y->part)
		return (int)x->part - (int)y->part;
	return (x->end > y->end) - (x->end < y->end);
}

void ends_sort(struct sync *y)
{
	qsort(y->tails, y->n_tails, sizeof(*y->tails), tail_order);
}

static int hash_order(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

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

static void put_ends(
    struct route *r, const struct server_names *names, uint32_t part, server_id id, uint32_t n)
{
	struct sync *y = r->sharing->sync;
	struct share_entry e = { .kind = SHARE_ENDS, .u.ends = {
		.at = names_at(names), .part = part, .ends = y->ends, .n = n, .to = y->ends_to[id],
	} };

	sync_put(r, names->hash, &e, 32 + n * 10);
}

/* Put the ends of part <part> of <id>: the tails [from, to). An end that another tail continues is
 * none. */
static void put_cell(
    struct route *r, server_id id, uint32_t part, uint32_t from, uint32_t to)
{
	struct sync *y = r->sharing->sync;
	struct server_names names;
	uint32_t n = 0;

	if (!sync_names(r, id, &names))
		return;
	for (uint32_t i = from; i < to; i++)
		y->befores[i - from] = y->tails[i].before;
	qsort(y->befores, to - from, sizeof(*y->befores), hash_order);
	for (uint32_t i = from; i < to; i++) {
		if (bsearch(&y->tails[i].end, y->befores, to - from, sizeof(*y->befores), hash_order))
			continue;
		if (n + POINTS_MAX + 2 > ENDS_A_MESSAGE) {
			put_ends(r, &names, part, id, n);
			n = 0;
		}
		n += write_end(r, &y->tails[i], y->ends + n);
	}
	put_ends(r, &names, part, id, n);
}

/* Return the first tail from <i> on that is of a later cell. */
static uint32_t cell_end(const struct sync *y, uint32_t i, server_id id, uint32_t part)
{
	while (i < y->n_tails && y->tails[i].server == id && y->tails[i].part == part)
		i++;
	return i;
}

/* y->at: the next tail. One cell in a call. */
bool ends_put(struct route *r)
{
	struct sync *y = r->sharing->sync;
	server_id id = 0;
	uint32_t part, end;

	while (id < SERVERS_MAX && y->cells[id] == 0)
		id++;
	if (id == SERVERS_MAX)
		return true;
	if (y->bytes_left <= 0)
		return false;
	part = (uint32_t)__builtin_ctzll(y->cells[id]);
	y->cells[id] &= y->cells[id] - 1;
	end = cell_end(y, y->at, id, part);
	put_cell(r, id, part, y->at, end);
	y->at = end;
	return false;
}

/* Return the nearest of the points from ends[*i] on whose pages are known, and set <*i> to after
 * them. */
static struct share_anchor known_point(struct route *r, const struct share_ends *e, uint32_t *i)
{
	struct share_anchor known = { 0, 0 };
	struct index_place at;
	struct space_key space;

	for (; *i < e->n && e->ends[*i].depth > 0; ++*i)
		if (known.depth == 0 && anchors_get(r->sharing->anchors, e->ends[*i].hash, e->ends[*i].depth,
					   &at) && read_place(r, at, &space) == e->ends[*i].hash)
			known = e->ends[*i];
	++*i;
	return known;
}

void sync_apply_ends(struct route *r, share_agent from, const struct share_ends *e, msec now)
{
	struct sharing *sh = r->sharing;
	struct sync *y = sh->sync;
	server_id id = sync_server(r, &e->at, now);
	uint32_t i = 0;

	if (id == SERVER_NONE || e->part >= SPACE_PARTS)
		return;
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
			seek_add(&y->lack, &x, (uint64_t)1 << e->part);
	}
}

/* ---- WANT ---------------------------------------------------------------------------------- */

static bool is_full(struct route *r, server_id id)
{
	uint64_t capacity = index_server_capacity(r->index, id);

	return capacity > 0 &&
	    index_server_room(r->index, id) + index_server_output(r->index, id) >= capacity;
}

/* y->at: the next one of y->lack. One message in a call: of one server and one sibling. */
bool ends_put_want(struct route *r)
{
	struct sharing *sh = r->sharing;
	struct sync *y = sh->sync;
	const struct sought *first = NULL;
	struct server_names names;
	uint32_t n = 0;

	if (y->bytes_left <= 0 && y->at < y->lack.n)
		return false;
	for (; y->at < y->lack.n && n + 2 <= ENDS_A_MESSAGE; y->at++) {
		const struct sought *x = &y->lack.of[y->at];

		if (x->found || x->since > y->pass)
			continue;
		if (first != NULL && (x->server != first->server || x->from != first->from))
			break;
		if (is_full(r, x->server)) {
			count_add_any(&sh->n.held_refused, 1);
			continue;
		}
		first = x;
		y->ends[n++] = (struct share_anchor){ x->hash, x->depth };
		y->ends[n++] = x->known;
		count_add_any(&sh->n.ends_lacked, 1);
	}
	if (n > 0 && sync_names(r, first->server, &names)) {
		struct share_entry e = { .kind = SHARE_WANT, .u.want = {
			.at = names_at(&names), .ends = y->ends, .n = n, .from = first->from,
		} };

		sync_put(r, names.hash, &e, 32 + n * 10);
	}
	return y->at >= y->lack.n;
}

void sync_apply_want(struct route *r, share_agent from, const struct share_want *w, msec now)
{
	struct sharing *sh = r->sharing;
	struct sync *y = sh->sync;
	server_id id;

	if (w->from != sh->to.self || (id = sync_server(r, &w->at, now)) == SERVER_NONE)
		return;
	for (uint32_t i = 0; i + 1 < w->n; i += 2) {
		struct sought x = {
			.hash = w->ends[i].hash, .depth = w->ends[i].depth, .server = id, .from = from,
			.known = w->ends[i + 1], .since = y->pass + 1,
		};

		if (x.depth > 0 && x.depth <= sh->max_pages)
			seek_add(&y->want, &x, UINT64_MAX);
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
			.space = { .h = { space->h[0], space->h[1] }, .tenant = space->tenant,
				.page_room = space->page_room },
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

/* Return whether the server has room for <n> pages of which it has <had>. */
static bool has_room(struct route *r, server_id id, const struct space_key *space, uint32_t n,
    uint32_t had)
{
	uint64_t capacity = index_server_capacity(r->index, id);
	uint64_t room = (uint64_t)(n - had) * (space->page_room > 0 ? space->page_room : 1);

	return capacity == 0 ||
	    index_server_room(r->index, id) + index_server_output(r->index, id) + room <= capacity;
}

static msec cleared_at(struct route *r, server_id id)
{
	msec at;

	pthread_mutex_lock(&r->lock);
	at = r->fleet.by_id[id] != NULL ? r->fleet.by_id[id]->cleared : 0;
	pthread_mutex_unlock(&r->lock);
	return at;
}

void sync_apply_held(struct route *r, const struct share_held *h, msec now)
{
	struct sharing *sh = r->sharing;
	struct held_use use = { h->hits, h->priority, h->unused_ms > 0 ? h->unused_ms : 0 };
	server_id id = sync_server(r, &h->at, now);
	struct index_place end;
	struct whole w;
	uint32_t had;

	if (id == SERVER_NONE || (cleared_at(r, id) > 0 && now - use.unused_ms < cleared_at(r, id)))
		return;
	share_take_pages(r, &h->space, &h->anchor, h->pages, h->n, &w);
	if (w.n == 0)
		return;
	index_match(r->index, &w.space, sh->pages, w.n, &sh->sync->match);
	had = index_match_depth(&sh->sync->match, id);
	if (had >= w.n) {
		count_add_any(&sh->n.repeated, 1);
	} else if (has_room(r, id, &w.space, w.n, had) &&
	    index_hold(r->index, &w.space, sh->pages, w.n, id, &use, now, &end)) {
		count_add_any(&sh->n.held_applied, 1);
		anchors_enter(sh->anchors, sh->chain, w.anchor, end);
	} else {
		count_add_any(&sh->n.held_refused, 1);
	}
}

/* share_ends.c - ends of prefixes, and those that are lacked.
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

/* ---- ENDS ---------------------------------------------------------------------------------- */

uint64_t ends_read(struct route *r, struct index_place at, struct space_key *space)
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

	if (ends_read(r, t->at, &space) != t->end)
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
	    ends_read(r, at, &space) == known.hash)
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

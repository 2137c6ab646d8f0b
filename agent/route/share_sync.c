/* share_sync.c - rounds: when they are due, the walk, and sums compared with those of siblings.
 *
 * The walk and what it leads to are done in slices, and a budget of bytes per second keeps a repair
 * from crowding out fresh entries. */
#include "agent/base/mem.h"
#include "agent/route/share_sync_in.h"

#define ROUND_EVERY_MS	60000
#define QUIET_MS	10000		/* pages used within that time are left out of periodic rounds */
#define CUTOFFS_ALIKE	200		/* ms: sums with such cutoffs are compared */
#define GAP_LEAST_MS	300		/* between rounds that were asked for */
#define GAP_MOST_MS	60000
#define HARD_EVERY_MS	5000		/* so often a lost connection may start with the least gap again */
#define BYTES_A_SECOND	(4 << 20)
#define NODES_A_SLICE	16u
#define CELLS_MOST	(SERVERS_MAX * SPACE_PARTS)

struct sync *sync_new(struct route *r, share_agent self)
{
	struct sync *y = mem_alloc(sizeof(*y));

	if (y == NULL)
		return NULL;
	rng_init(&y->rng, self);
	y->gap = GAP_LEAST_MS;
	y->cells_most = CELLS_MOST;
	y->walk = held_walk_new(r->index, &r->key);
	if (y->walk != NULL && index_match_init(&y->match) == 0)
		return y;
	held_walk_free(y->walk);
	mem_free(y);
	return NULL;
}

void sync_free(struct sync *y)
{
	if (y == NULL)
		return;
	held_walk_free(y->walk);
	index_match_fini(&y->match);
	mem_free(y);
}

uint64_t sync_budget(void)
{
	return sizeof(struct sync) + held_walk_bytes() + SERVERS_MAX * sizeof(struct index_band);
}

void sync_wanted(struct sharing *sh, int how)
{
	int was = atomic_load_explicit(&sh->sync->resync, memory_order_relaxed);

	while (was < how && !atomic_compare_exchange_weak(&sh->sync->resync, &was, how))
		;
}

void route_share_resync(struct route *r)
{
	if (r->sharing == NULL)
		return;
	atomic_fetch_add_explicit(&r->sharing->losses, 1, memory_order_relaxed);
	sync_wanted(r->sharing, RESYNC_NOW);
}

/* ---- servers ------------------------------------------------------------------------------- */

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

/* ---- the walk ------------------------------------------------------------------------------ */

static void see_run(void *arg, const struct held_run *run)
{
	struct sync *y = arg;
	uint32_t part = (uint32_t)(run->first % SPACE_PARTS);

	y->prefix[0] = 0;
	for (uint32_t i = 0; i < run->n_pages; i++)
		y->prefix[i + 1] = y->prefix[i] + run->hashes[i];
	for (uint32_t i = 0; i < run->n_holders; i++) {
		const struct holder *h = &run->holders[i];

		if (y->now - h->unused_ms <= y->cutoff)
			y->sums[h->server][part] += y->prefix[h->pages];
		ends_see(y, run, h, part);
	}
}

/* Take the cells whose ends are to be collected, no more than the walk had room for so far. */
static void take_cells(struct sync *y)
{
	uint32_t left = y->cells_most;

	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		y->cells[i] = 0;
		while (y->cells_next[i] != 0 && left > 0) {
			y->cells[i] |= y->cells_next[i] & -y->cells_next[i];
			y->cells_next[i] &= y->cells_next[i] - 1;
			left--;
		}
	}
}

static void start_walk(struct sync *y, bool round, msec now)
{
	y->pass++;
	y->phase = SYNC_WALK;
	y->started = now;
	y->own_round = round;
	y->quiet_ms = round && !y->wanted ? QUIET_MS : 0;
	if (round)
		y->cutoff = y->quiet_ms > 0 ? now - y->quiet_ms : ALL_PAGES;
	else
		y->cutoff = y->n_theirs > 0 ? y->theirs[0].cutoff : ALL_PAGES;
	memset(y->sums, 0, sizeof(y->sums));
	take_cells(y);
	y->n_tails = 0;
	y->crowded = false;
	if (round)
		y->wanted = false;
}

/* ---- when ---------------------------------------------------------------------------------- */

static msec next_time(struct sync *y, msec now)
{
	return now + ROUND_EVERY_MS * 3 / 4 + rng_below(&y->rng, ROUND_EVERY_MS / 2);
}

static void take_wishes(struct sync *y, msec now)
{
	int how = atomic_exchange_explicit(&y->resync, RESYNC_NO, memory_order_relaxed);

	y->wanted |= how != RESYNC_NO;
	if (how != RESYNC_NOW || now - y->last_hard < HARD_EVERY_MS)
		return;
	y->last_hard = now;
	y->gap = GAP_LEAST_MS;
}

static bool round_is_due(struct sync *y, msec now)
{
	bool soon = y->wanted && now - y->last_wanted >= y->gap;

	if (!soon && now < y->next_round)
		return false;
	y->next_round = next_time(y, now);
	if (!y->wanted)
		return true;
	y->gap = 2 * y->gap < GAP_MOST_MS ? 2 * y->gap : GAP_MOST_MS;
	y->last_wanted = now;
	return true;
}

static bool any_cells(const struct sync *y)
{
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		if (y->cells_next[i] != 0)
			return true;
	return false;
}

/* Returns true if a walk has begun. */
static bool begin(struct sync *y, msec now)
{
	bool round;

	if (!y->begun) {
		y->begun = true;
		y->next_round = next_time(y, now);
		y->last_wanted = now - GAP_MOST_MS;
		y->last_hard = now - HARD_EVERY_MS;
	}
	take_wishes(y, now);
	round = round_is_due(y, now);
	if (!round && y->n_theirs == 0 && y->lack.n == 0 && y->want.n == 0 && !any_cells(y))
		return false;
	start_walk(y, round, now);
	return true;
}

/* ---- sums ---------------------------------------------------------------------------------- */

/* What is learned of a server goes with its sums. */
static void put_learned(struct route *r, server_id id, const struct server_names *n, msec now)
{
	struct share_entry e = { .kind = SHARE_SERVER, .u.server = { .at = names_at(n) } };
	struct rate_kept rate = { 0, 0 };

	pthread_mutex_lock(&r->lock);
	if (r->fleet.by_id[id] != NULL) {
		rate = rate_keep(&r->fleet.by_id[id]->rate, now);
		e.u.server.capacity_tokens = r->fleet.by_id[id]->inferred;
	}
	pthread_mutex_unlock(&r->lock);
	e.u.server.slowness_first = rate.first;
	e.u.server.slowness_headers = rate.headers;
	if (rate.first != 0 || rate.headers != 0 || e.u.server.capacity_tokens != 0)
		sync_put(r, n->hash, &e, 32);
}

static msec cleared_ago(struct route *r, server_id id, msec now)
{
	const struct server *s;
	msec ago;

	pthread_mutex_lock(&r->lock);
	s = r->fleet.by_id[id];
	ago = s != NULL && s->cleared > 0 ? now - s->cleared : -1;
	pthread_mutex_unlock(&r->lock);
	return ago;
}

/* The cutoff is a time, so it is longer ago when the sums are put than it was at the start. */
static msec quiet_now(const struct sync *y, msec now)
{
	return y->quiet_ms > 0 ? now - y->cutoff : 0;
}

static void put_sums(struct route *r, server_id id, msec now)
{
	struct sync *y = r->sharing->sync;
	struct server_names n;
	struct share_entry e = { .kind = SHARE_DIGEST };

	if (!sync_names(r, id, &n))
		return;
	e.u.digest = (struct share_digest){
		.at = names_at(&n), .sums = y->sums[id], .n = SPACE_PARTS,
		.quiet_ms = quiet_now(y, now), .cleared_ago_ms = cleared_ago(r, id, now),
	};
	sync_put(r, n.hash, &e, SPACE_PARTS * 8 + 32);
	put_learned(r, id, &n, now);
}

/* The end of a round goes to all parts, because the sums do. */
static void put_round_end(struct route *r, msec now)
{
	struct sharing *sh = r->sharing;
	struct share_entry e = { .kind = SHARE_DIGEST,
		.u.digest = { .quiet_ms = quiet_now(sh->sync, now), .cleared_ago_ms = -1 } };

	sync_put(r, 0, &e, 32);
	count_add_any(&sh->n.rounds, 1);
}

static bool put_all_sums(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;

	for (; y->own_round && y->at < SERVERS_MAX; y->at++) {
		if (y->bytes_left <= 0)
			return false;
		put_sums(r, (server_id)y->at, now);
	}
	if (y->own_round)
		put_round_end(r, now);
	return true;
}

void sync_apply_digest(
    struct route *r, share_agent from, const struct share_digest *d, msec now)
{
	struct sync *y = r->sharing->sync;
	bool end = d->at.server.n == 0;
	server_id id = end ? SERVER_NONE : sync_server(r, &d->at, now);
	struct their_sums *t;

	y->next_round = next_time(y, now);
	if (y->n_theirs == SUMS_MAX || (!end && (id == SERVER_NONE || d->first_part != 0 ||
							d->n != SPACE_PARTS)))
		return;
	t = &y->theirs[y->n_theirs++];
	*t = (struct their_sums){
		.from = from, .server = id, .since = y->pass + 1,
		.cutoff = d->quiet_ms > 0 ? now - d->quiet_ms : ALL_PAGES,
	};
	if (!end)
		memcpy(t->sums, d->sums, sizeof(t->sums));
}

static bool is_comparable(const struct sync *y, const struct their_sums *t)
{
	msec apart = y->cutoff == t->cutoff ? 0 :
	    y->cutoff == ALL_PAGES || t->cutoff == ALL_PAGES ? CUTOFFS_ALIKE + 1 :
	    y->cutoff > t->cutoff ? y->cutoff - t->cutoff : t->cutoff - y->cutoff;

	return t->since <= y->pass && apart <= CUTOFFS_ALIKE;
}

static uint32_t compare_one(struct sync *y, const struct their_sums *t)
{
	uint32_t differing = 0;

	for (unsigned k = 0; k < SPACE_PARTS; k++) {
		if (y->sums[t->server][k] == t->sums[k])
			continue;
		if ((y->cells_next[t->server] >> k & 1) == 0)
			y->ends_to[t->server] = t->from;
		y->cells_next[t->server] |= (uint64_t)1 << k;
		differing++;
	}
	return differing;
}

static bool has_pages(const struct sync *y, server_id id)
{
	for (unsigned k = 0; k < SPACE_PARTS; k++)
		if (y->sums[id][k] != 0)
			return true;
	return false;
}

/* Tell if <from> has told sums of all servers that hold pages here. */
static bool told_all(const struct sync *y, share_agent from)
{
	uint64_t told[SERVERS_MAX / 64] = { 0 };

	for (uint32_t i = 0; i < y->n_theirs; i++)
		if (y->theirs[i].from == from && y->theirs[i].server != SERVER_NONE)
			told[y->theirs[i].server / 64] |= (uint64_t)1 << y->theirs[i].server % 64;
	for (unsigned id = 0; id < SERVERS_MAX; id++)
		if (!(told[id / 64] >> id % 64 & 1) && has_pages(y, (server_id)id))
			return false;
	return true;
}

/* A sibling that does not know a server learns of it by a round of an agent that does. */
static void compare(struct route *r)
{
	struct sync *y = r->sharing->sync;
	uint32_t kept = 0, differing = 0;
	bool compared = false;

	for (uint32_t i = 0; i < y->n_theirs; i++)
		if (y->theirs[i].server == SERVER_NONE && is_comparable(y, &y->theirs[i]) &&
		    !told_all(y, y->theirs[i].from))
			sync_wanted(r->sharing, RESYNC_SOON);
	for (uint32_t i = 0; i < y->n_theirs; i++) {
		const struct their_sums *t = &y->theirs[i];

		if (!is_comparable(y, t)) {
			y->theirs[kept] = *t;
			y->theirs[kept++].since = y->pass + 1;
			continue;
		}
		compared = true;
		if (t->server != SERVER_NONE)
			differing += compare_one(y, t);
	}
	y->n_theirs = kept;
	if (compared)
		atomic_store_explicit(&r->sharing->n.parts_differing, differing, memory_order_relaxed);
}

/* ---- slices -------------------------------------------------------------------------------- */

static void next_phase(struct sync *y, enum sync_phase p)
{
	y->phase = p;
	y->at = 0;
}

static void end_pass(struct sync *y)
{
	seek_drop(&y->lack, y->pass);
	seek_drop(&y->want, y->pass);
	y->cells_most = y->crowded ? y->cells_most / 2 + 1 : CELLS_MOST;
	y->phase = SYNC_IDLE;
}

/* Do a slice. Returns false if nothing can be done now. */
static bool work(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;

	switch (y->phase) {
	case SYNC_IDLE:
		return begin(y, now);
	case SYNC_WALK:
		if (!held_walk(y->walk, NODES_A_SLICE, now, see_run, y))
			next_phase(y, SYNC_SUMS);
		return true;
	case SYNC_SUMS:
		if (!put_all_sums(r, now))
			return false;
		next_phase(y, SYNC_COMPARE);
		return true;
	case SYNC_COMPARE:
		compare(r);
		ends_sort(y);
		next_phase(y, SYNC_ENDS);
		return true;
	case SYNC_ENDS:
		if (!ends_put(r))
			return y->bytes_left > 0;
		next_phase(y, SYNC_WANT);
		return true;
	case SYNC_WANT:
		if (!ends_put_want(r))
			return y->bytes_left > 0;
		next_phase(y, SYNC_HELD);
		return true;
	case SYNC_HELD:
		if (!ends_put_held(r))
			return y->bytes_left > 0;
		end_pass(y);
		return true;
	}
	return false;
}

static void fill_budget(struct sync *y, msec now)
{
	msec passed = now - y->filled < 1000 ? now - y->filled : 1000;

	y->filled = now;
	y->bytes_left += passed * BYTES_A_SECOND / 1000;
	if (y->bytes_left > BYTES_A_SECOND / 4)
		y->bytes_left = BYTES_A_SECOND / 4;
}

bool route_share_work(struct route *r, msec now)
{
	struct sync *y;

	if (r->sharing == NULL)
		return false;
	y = r->sharing->sync;
	y->now = now;
	fill_budget(y, now);
	return work(r, now);
}

/* share_sync.c - rounds: when they are due, the walk, and the phases after it.
 *
 * The walk and what it leads to are done in slices, and a budget of bytes per second keeps a repair
 * from crowding out fresh entries. */
#include "agent/base/mem.h"
#include "agent/route/share_sync_in.h"

#define ROUND_EVERY_MS	60000
#define QUIET_MS	10000		/* ends used within that time are left out of periodic rounds */
#define GAP_LEAST_MS	300		/* between rounds that were asked for */
#define GAP_AGAIN_MS	600		/* the same, if losses go on */
#define GAP_MOST_MS	60000
#define CALM_MS		30000
/* So often rounds may start with the least gap again: after losses, and for other reasons. */
#define HARD_EVERY_MS	5000
#define SOFT_EVERY_MS	15000
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
	for (unsigned i = 0; i < SERVERS_MAX; i++)
		y->told[i] = y->sampled[i] = y->before[i] = FROM_START;
	y->still = UINT32_MAX;
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

/* ---- the walk ------------------------------------------------------------------------------ */

static void see_run(void *arg, const struct held_run *run)
{
	struct route *r = arg;
	struct sync *y = r->sharing->sync;

	for (uint32_t i = 0; i < run->n_holders; i++) {
		const struct holder *h = &run->holders[i];
		uint64_t end = run->hashes[h->pages - 1];
		msec used = y->now - h->unused_ms;
		bool old = used >> 4 <= y->low[h->server] >> 4;		/* to the step of the index's clock */
		bool compared = h->end && !old && used <= y->cutoff;

		if (compared)
			y->sums[h->server][end % SPACE_PARTS] += end;
		if (h->end && old && has_bit(y->exact, h->server))
			index_evict_at(r->index, h->server, run->end);
		ends_see(y, run, h, compared);
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

static void start_walk(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;

	sums_range(r, now);
	memset(y->sums, 0, sizeof(y->sums));
	take_cells(y);
	y->n_tails = 0;
	y->crowded = false;
}

static void next_phase(struct sync *y, enum sync_phase p)
{
	y->phase = p;
	y->at = 0;
	y->n_ends = 0;
}

static void start_pass(struct sync *y, bool round, msec now)
{
	y->pass++;
	next_phase(y, SYNC_EVICT);
	y->own_round = round;
	y->quiet_ms = round && !y->wanted ? QUIET_MS : 0;
	if (round)
		y->cutoff = y->quiet_ms > 0 ? now - y->quiet_ms : ALL_PAGES;
	if (round)
		y->wanted = false;
}

/* ---- when ---------------------------------------------------------------------------------- */

msec sync_next_round(struct sync *y, msec now)
{
	return now + ROUND_EVERY_MS * 3 / 4 + rng_below(&y->rng, ROUND_EVERY_MS / 2);
}

void sync_wait_longer(struct sync *y, msec now)
{
	y->wait = y->gap / 2 + rng_below(&y->rng, (uint32_t)y->gap);
	if (now - y->longer_at < y->gap / 2)	/* several agents at once */
		return;
	y->longer_at = now;
	y->gap = 2 * y->gap < GAP_MOST_MS ? 2 * y->gap : GAP_MOST_MS;
}

static void take_wishes(struct sync *y, msec now)
{
	int how = atomic_exchange_explicit(&y->resync, RESYNC_NO, memory_order_relaxed);
	msec since;

	if (how == RESYNC_NO)
		return;
	since = now - y->last_least;
	y->wanted = true;
	if (since < (how == RESYNC_NOW ? HARD_EVERY_MS : SOFT_EVERY_MS))
		return;
	y->last_least = now;
	y->gap = since < CALM_MS ? GAP_AGAIN_MS : GAP_LEAST_MS;
	y->wait = rng_below(&y->rng, (uint32_t)y->gap);
}

static bool round_is_due(struct sync *y, msec now)
{
	bool soon = y->wanted && now - y->last_wanted >= y->wait;

	if (!soon && now < y->next_round)
		return false;
	y->next_round = sync_next_round(y, now);
	if (!y->wanted)
		return true;
	sync_wait_longer(y, now);
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
static bool begin(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;
	bool round;

	if (!y->begun) {
		y->begun = true;
		y->next_round = sync_next_round(y, now);
		y->last_wanted = now - GAP_MOST_MS;
		y->last_least = now - CALM_MS;
	}
	sums_sample(r, now);
	share_tell_learned(r, now);
	take_wishes(y, now);
	round = round_is_due(y, now);
	if (!round && y->n_theirs == 0 && y->lack.n == 0 && y->want.n == 0 && !any_cells(y))
		return false;
	start_pass(y, round, now);
	return true;
}

/* ---- slices -------------------------------------------------------------------------------- */

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
		return begin(r, now);
	case SYNC_EVICT:
		if (!sums_evict(r, now))
			return true;
		start_walk(r, now);
		next_phase(y, SYNC_WALK);
		return true;
	case SYNC_WALK:
		if (!held_walk(y->walk, NODES_A_SLICE, now, see_run, r))
			next_phase(y, SYNC_SUMS);
		return true;
	case SYNC_SUMS:
		if (!sums_put(r, now))
			return y->bytes_left > 0;
		next_phase(y, SYNC_COMPARE);
		return true;
	case SYNC_COMPARE:
		if (sums_compare(r))
			next_phase(y, SYNC_ENDS);
		return true;
	case SYNC_ENDS:
		if (!ends_put(r, now))
			return y->bytes_left > 0;
		next_phase(y, SYNC_WANT);
		return true;
	case SYNC_WANT:
		if (!ends_put_want(r, now))
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

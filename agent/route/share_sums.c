/* share_sums.c - horizons and sums: told to siblings, and compared with theirs. */
#include "agent/route/share_sync_in.h"

#define CUTOFFS_ALIKE	200		/* ms: sums with such limits are compared */
#define SAMPLE_MS	1000
#define STILL_SAMPLES	2u	/* without a move of any horizon */
#define ANSWER_MS	1000		/* so often sums of a server may answer those of siblings */
#define LEARNED_MS	10000		/* what is learned goes with the sums */
#define BOUNDARY_PART	4		/* of the time since the horizon, at most */
#define EVICT_A_SLICE	8u		/* records */
#define SERVERS_A_SLICE	64u
#define PUT_A_SLICE	4u
#define COMPARED_A_SLICE	64u

static void set_bit(uint64_t *set, server_id id)
{
	set[id / 64] |= (uint64_t)1 << id % 64;
}

/* ---- horizons ------------------------------------------------------------------------------ */

/* Return the horizon of <id> as a time: the beginning of its step of the index's clock, so that it
 * is the same whenever it is read. */
static msec horizon_of(struct route *r, server_id id, msec now)
{
	msec ago = index_evicted_ago(r->index, id, now);

	return ago < 0 ? FROM_START : (now - ago) & ~(msec)15;
}

void sums_horizon(struct sync *y, server_id id, msec ago, msec now)
{
	if (ago >= 0 && now - ago > y->told[id])
		y->told[id] = now - ago;
}

void sums_sample(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;
	bool moves = false;

	if (now - y->sampled_at < SAMPLE_MS)
		return;
	y->sampled_at = now;
	memcpy(y->before, y->sampled, sizeof(y->before));
	for (unsigned id = 0; id < SERVERS_MAX; id++) {
		y->sampled[id] = horizon_of(r, (server_id)id, now);
		moves |= y->sampled[id] != y->before[id];
	}
	y->still = moves ? 0 : y->still < UINT32_MAX ? y->still + 1 : y->still;
	if (y->still == STILL_SAMPLES)		/* what was left out next to it can be compared */
		sync_wanted(r->sharing, RESYNC_SOON);
}

/* Return <low> for the own sums of <id>. */
static msec own_low(struct route *r, server_id id, msec now)
{
	const struct sync *y = r->sharing->sync;
	msec horizon = horizon_of(r, id, now), most;

	if (horizon == FROM_START)
		return FROM_START;
	most = (now - horizon) / BOUNDARY_PART;
	return horizon + (y->before[id] == FROM_START || horizon - y->before[id] > most ? most :
		horizon > y->before[id] ? horizon - y->before[id] : 0);
}

/* Times of siblings are a little off. If each agent took over what is later by that only, horizons
 * would creep on with each message. */
static bool is_later(msec theirs, msec own)
{
	return theirs != FROM_START && (own == FROM_START || theirs > own + CLOCKS_MS / 2);
}

/* What was evicted last may be left in part. As long as the horizon moves on, it is left so. */
static bool is_still(const struct sync *y, server_id id, msec horizon)
{
	return horizon != FROM_START && horizon == y->before[id];
}

msec sums_told_ago(struct route *r, server_id id, msec now)
{
	msec ago = index_evicted_ago(r->index, id, now);

	return ago < 0 || has_bit(r->sharing->sync->exact, id) ? ago : ago + 16;
}

/* y->at: the next server. */
bool sums_evict(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;

	if (y->at == 0)
		memset(y->exact, 0, sizeof(y->exact));

	for (uint32_t n = 0; y->at < SERVERS_MAX; y->at++) {
		server_id id = (server_id)y->at;
		msec horizon = horizon_of(r, id, now);
		bool later = is_later(y->told[id], horizon);

		if (n++ == SERVERS_A_SLICE)
			return false;
		if (later || is_still(y, id, horizon))
			set_bit(y->exact, id);
		if (has_bit(y->exact, id) && index_evict_unused(r->index, id,
						 later ? now - y->told[id] : -1, now, EVICT_A_SLICE))
			return false;
		y->told[id] = FROM_START;
	}
	return true;
}

/* ---- what a walk compares ------------------------------------------------------------------ */

static bool are_alike(msec a, msec b)
{
	if (a == b || a == FROM_START || b == FROM_START || a == ALL_PAGES || b == ALL_PAGES)
		return a == b;
	return (a > b ? a - b : b - a) <= CUTOFFS_ALIKE;
}

/* The sums of a sibling begin where this agent has evicted since: its own sums are the answer. */
static void range_of(struct route *r, const struct their_sums *t, msec now)
{
	struct sync *y = r->sharing->sync;
	msec horizon = horizon_of(r, t->server, now);

	if (!is_later(horizon, t->low)) {
		y->low[t->server] = t->low;
		return;
	}
	set_bit(y->early, t->server);
	if (now - y->answered[t->server] >= ANSWER_MS)
		set_bit(y->answer, t->server);
}

void sums_range(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;
	uint64_t seen[SERVERS_MAX / 64] = { 0 };

	memset(y->early, 0, sizeof(y->early));
	memcpy(y->answer, y->named_late, sizeof(y->answer));
	memset(y->named_late, 0, sizeof(y->named_late));
	for (unsigned id = 0; id < SERVERS_MAX; id++)
		y->low[id] = own_low(r, (server_id)id, now);
	if (y->own_round)
		return;
	y->cutoff = y->n_theirs > 0 ? y->theirs[0].cutoff : ALL_PAGES;
	for (uint32_t i = 0; i < y->n_theirs; i++) {
		const struct their_sums *t = &y->theirs[i];

		if (t->server == SERVER_NONE || has_bit(seen, t->server) || !are_alike(t->cutoff, y->cutoff))
			continue;
		set_bit(seen, t->server);
		range_of(r, t, now);
	}
}

/* ---- put ----------------------------------------------------------------------------------- */

static msec cleared_ago(struct route *r, server_id id, msec now)
{
	const struct server *s;
	msec ago;

	pthread_mutex_lock(&r->lock);
	s = r->fleet.by_id[id];
	ago = s != NULL && s->cleared != CLEARED_NEVER ? now - s->cleared : -1;
	pthread_mutex_unlock(&r->lock);
	return ago;
}

/* The cutoff is a time, so it is longer ago when the sums are put than it was at the start. */
static msec quiet_now(const struct sync *y, msec now)
{
	return y->cutoff == ALL_PAGES ? 0 : now > y->cutoff ? now - y->cutoff : 1;
}

static void put_sums(struct route *r, server_id id, msec now)
{
	struct sync *y = r->sharing->sync;
	struct server_names n;
	struct share_entry e = { .kind = SHARE_DIGEST };

	if (!sync_names(r, id, &n) || n.left)
		return;
	e.u.digest = (struct share_digest){
		.at = names_at(&n), .sums = y->sums[id], .n = SPACE_PARTS,
		.quiet_ms = quiet_now(y, now), .cleared_ago_ms = cleared_ago(r, id, now),
		.oldest_ms = y->low[id] == FROM_START ? -1 : now - y->low[id],
		.evicted_ago_ms = sums_told_ago(r, id, now), .named_ago_ms = names_ago(&n, now),
	};
	y->answered[id] = now;
	sync_put(r, n.hash, &e, SPACE_PARTS * 8 + 40);
	share_put_learned(r, id, LEARNED_MS, now);
}

/* The end of a round goes to part 0 only. Sums in other parts may come after it, but within
 * milliseconds: siblings look for servers without sums after their next walk. */
static void put_round_end(struct route *r, msec now)
{
	struct sharing *sh = r->sharing;
	struct share_entry e = { .kind = SHARE_DIGEST, .u.digest = {
		.quiet_ms = quiet_now(sh->sync, now), .cleared_ago_ms = -1, .oldest_ms = -1,
		.evicted_ago_ms = -1, .named_ago_ms = -1 } };

	sync_put(r, 0, &e, 32);
	count_add_any(&sh->n.rounds, 1);
}

/* y->at: the next server. */
bool sums_put(struct route *r, msec now)
{
	struct sync *y = r->sharing->sync;

	for (uint32_t n = 0; y->at < SERVERS_MAX; y->at++) {
		if (!y->own_round && !has_bit(y->answer, (server_id)y->at))
			continue;
		if (n++ == PUT_A_SLICE || y->bytes_left <= 0)
			return false;
		put_sums(r, (server_id)y->at, now);
	}
	if (y->own_round)
		put_round_end(r, now);
	return true;
}

/* ---- compare ------------------------------------------------------------------------------- */

/* A round of a sibling serves this agent as its own does. */
static void note_round(struct sync *y, msec now)
{
	y->last_wanted = now;
	if (y->wanted)
		sync_wait_longer(y, now);
}

/* A sibling that does not get load strings which name a server would forget it. */
static void compare_named(struct route *r, server_id id, msec named_ago, msec now)
{
	struct sync *y = r->sharing->sync;
	struct server_names n;

	if (named_ago >= 0 && sync_names(r, id, &n) &&
	    named_ago - names_ago(&n, now) > n.late &&
	    now - y->answered[id] >= ANSWER_MS)
		set_bit(y->named_late, id);
}

static void hear_sums(struct route *r, share_agent from, server_id id,
    const struct share_digest *d, msec now)
{
	struct sync *y = r->sharing->sync;

	sums_horizon(y, id, d->evicted_ago_ms, now);
	compare_named(r, id, d->named_ago_ms, now);
	unknown_told(y, from, id);
	y->heard_from[id] = from;
	y->heard_at[id] = now;
}

void sync_apply_digest(
    struct route *r, share_agent from, const struct share_digest *d, msec now)
{
	struct sync *y = r->sharing->sync;
	bool end = d->at.server.n == 0;
	server_id id = end ? SERVER_NONE : sync_server(r, &d->at, d->named_ago_ms, now);
	struct their_sums *t;

	y->next_round = sync_next_round(y, now);
	if (end)
		note_round(y, now);
	else if (id != SERVER_NONE)
		hear_sums(r, from, id, d, now);
	if (!end && (id == SERVER_NONE || d->first_part != 0 || d->n != SPACE_PARTS))
		return;
	if (y->n_theirs == SUMS_MAX) {
		count_add_any(&r->sharing->n.sums_dropped, 1);
		return;
	}
	t = &y->theirs[y->n_theirs++];
	*t = (struct their_sums){
		.from = from, .server = id, .since = y->pass + 1,
		.cutoff = d->quiet_ms > 0 ? now - d->quiet_ms : ALL_PAGES,
		.low = d->oldest_ms >= 0 ? now - d->oldest_ms : FROM_START,
	};
	if (!end)
		memcpy(t->sums, d->sums, sizeof(t->sums));
}

void sync_apply_old(struct route *r, const struct share_digest *d, msec now)
{
	server_id id = d->at.server.n > 0 ? sync_server(r, &d->at, d->named_ago_ms, now) : SERVER_NONE;

	if (id != SERVER_NONE)
		sums_horizon(r->sharing->sync, id, d->evicted_ago_ms, now);
}

bool sums_comparable(const struct sync *y, const struct their_sums *t)
{
	return t->since <= y->pass && are_alike(y->cutoff, t->cutoff) &&
	    (t->server == SERVER_NONE || are_alike(y->low[t->server], t->low));
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

static void compare_next(struct sync *y)
{
	const struct their_sums *t = &y->theirs[y->at];

	if (t->server != SERVER_NONE && t->since <= y->pass && has_bit(y->early, t->server))
		return;
	if (!sums_comparable(y, t)) {
		y->theirs[y->n_kept] = *t;
		y->theirs[y->n_kept++].since = y->pass + 1;
		return;
	}
	y->compared = true;
	if (t->server != SERVER_NONE)
		y->differing += compare_one(y, t);
}

/* y->at: the next one of y->theirs. */
bool sums_compare(struct route *r)
{
	struct sync *y = r->sharing->sync;

	if (y->at == 0) {
		unknown_look(r);
		y->n_kept = y->differing = 0;
		y->compared = false;
	}
	for (uint32_t n = 0; y->at < y->n_theirs; y->at++) {
		if (n++ == COMPARED_A_SLICE)
			return false;
		compare_next(y);
	}
	y->n_theirs = y->n_kept;
	if (y->compared)
		atomic_store_explicit(&r->sharing->n.parts_differing, y->differing, memory_order_relaxed);
	return true;
}

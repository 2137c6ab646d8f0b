/* server_room.c - what the index is told of servers: in which order their pages are evicted, how
 * much room they have, what they generated, and that they are gone. Evicting the excess is done in
 * steps: route_work().
 *
 * A server's room is <capacity> tokens of its engine's cache: as configured, as the engine's
 * metrics say, or as inferred (fleet/capacity.h). The published <max_tree_size>, in characters of
 * text, is a second bound for every server. It is enforced as its authors do: every
 * <eviction_interval> a sweep takes each server down to it, and between sweeps it grows; without an
 * interval it is enforced at every commit. The budget of bytes holds all the time.
 *
 * A cache holds blocks of several sizes: of text, of ids, of models with other blocks. The index
 * counts each page with the room in its space: ROOM_OF_TOKEN for each of its tokens (page_room). */
#include "agent/prompt/pages.h"
#include "agent/route/job_in.h"

#define STEP_RECORDS	64u	/* of the index that one step drops */

_Static_assert(PROMPT_TOKEN_PAGE_MAX *ROOM_OF_TOKEN <= ROOM_MAX,
    "the index can count a page of the largest block");
_Static_assert(TEXT_PAGE_MAX *ROOM_OF_TOKEN <= ROOM_MAX,
    "and the largest page of text, if each byte is a token");

/* The configured size comes before the engine's own, because the operator may know what else is in
 * that cache. Both come before an inferred size, and that before a guess. */
uint64_t server_capacity(const struct server *s, enum capacity_source *by)
{
	const struct pool_opts *o = s->pool->opts;

	if (o->capacity > 0) {
		*by = CAPACITY_CONFIGURED;
		return o->capacity;
	}
	if (s->engine.capacity > 0) {
		*by = CAPACITY_REPORTED;
		return s->engine.capacity;
	}
	if (s->inferred > 0) {
		*by = CAPACITY_INFERRED;
		return s->inferred;
	}
	*by = o->capacity_guess > 0 ? CAPACITY_GUESS : CAPACITY_UNKNOWN;
	return o->capacity_guess;
}

/* Return the tokens to keep of a server: its size, even if only inferred. Of sizes that are off the
 * larger ones are the worse: agents whose sessions fill all caches (make bench-agentic, cell
 * 10000:4, 3 seeds, sizes configured) have a mean time to first token of 4.1 s with 0.9 of the real
 * size, 2.9 with 0.95, 3.1 with 1, 4.9 with 1.05, 8.8 with 1.125. Guesses of first tokens that may
 * yet show a size leave room for twice the guess and half as much again. With <max_tree_size> no
 * guess is needed. */
uint64_t server_room(const struct server *s)
{
	const struct pool *p = s->pool;
	enum capacity_source by;
	uint64_t capacity = server_capacity(s, &by);

	if (by == CAPACITY_GUESS && p->opts->max_tree_size > 0)
		return 0;
	return by == CAPACITY_GUESS && p->step == STEP_FIRST ? 3 * capacity : capacity;
}

/* Return the size for rules with a memory of their own, which have their authors' guess. */
static uint64_t known_capacity(const struct server *s)
{
	enum capacity_source by;
	uint64_t capacity = server_capacity(s, &by);

	return by > CAPACITY_GUESS ? capacity : 0;
}

/* An eighth more than the events report may be on its way. */
static uint64_t room_of(const struct route *r, const struct server *s, bool with_tree)
{
	uint64_t held = source_held_tokens(r, s) * 9 / 8, known = server_room(s);
	uint64_t room = (held == 0 || (known > 0 && known < held) ? known : held) * ROOM_OF_TOKEN;
	uint64_t tree =
	    with_tree ? s->pool->opts->max_tree_size * ROOM_OF_TOKEN / TEXT_BYTES_PER_TOKEN : 0;

	return room == 0 || (tree != 0 && tree < room) ? tree : room;
}

static void tell_server(struct route *r, const struct server *s)
{
	bool with_tree = s->pool->opts->eviction_interval_ms == 0 || s->pool->route->sweeping;

	pthread_mutex_lock(&s->pool->route->rule_lock);
	policy_room(s->pool->route->memory, s->id, known_capacity(s));
	compare_room(s->pool->route->compare, s->id, known_capacity(s));
	pthread_mutex_unlock(&s->pool->route->rule_lock);
	index_set_capacity(r->index, s->id, room_of(r, s, with_tree));
}

void room_pool_changed(struct route *r, const struct pool *p)
{
	for (size_t i = 0; i < p->n_servers; i++)
		tell_server(r, p->servers[i]);
}

void room_server_added(struct route *r, const struct server *s)
{
	index_set_order(r->index, s->id, s->pool->opts->eviction);
	tell_server(r, s);
}

void room_server_changed(struct route *r, const struct server *s)
{
	tell_server(r, s);
}

/* Of two agents' results the larger one is used (fleet/capacity.h). */
void room_inferred(struct route *r, struct server *s)
{
	uint64_t was = s->inferred;

	s->inferred = s->inferred_here > s->inferred_there ? s->inferred_here : s->inferred_there;
	if (s->inferred != was)
		tell_server(r, s);
}

static void infer_capacity(struct route *r, struct server *s)
{
	uint64_t now = capacity_estimate(&s->capacity, &s->pool->capacity, s->pool->opts->capacity_guess);
	uint64_t was = s->inferred_here;

	if (now == 0 || (now > was ? now - was : was - now) <= was / 16)
		return;
	s->inferred_here = now;
	room_inferred(r, s);
}

void room_infer(struct route *r, struct server *s)
{
	struct pool *p = s->pool;

	infer_capacity(r, s);
	infer_capacity(r, p->servers[p->next_inferred++ % p->n_servers]);
}

void room_options_changed(struct route *r)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++)
		room_pool_changed(r, r->fleet.pools[i]);
}

void room_sweep(struct route *r, msec now)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		struct pool *p = r->fleet.pools[i];

		if (p->opts->max_tree_size == 0 || p->route->sweeping ||
		    now - p->route->swept < p->opts->eviction_interval_ms)
			continue;
		p->route->swept = now;
		p->route->sweeping = p->opts->eviction_interval_ms > 0;
		if (p->route->sweeping)
			room_pool_changed(r, p);
	}
}

/* Tell the index of servers whose engines report another number of blocks than before. A configured
 * size bounds no events: it may be the part of a cache that is left to this agent's requests, and
 * events name all of it. */
void room_reported(struct route *r)
{
	for (unsigned id = 0; id < SERVERS_MAX && r->sources.n > 0; id++) {
		struct server *s = r->fleet.by_id[id];
		struct source *src;
		uint64_t now, was;

		if (s == NULL || s->source == 0)
			continue;
		src = &r->sources.of[s->source - 1];
		now = src->removed > 0 ? src->blocks : 0;
		was = src->told;
		source_bound(r, s->source - 1, s->engine.capacity);
		if ((now > was ? now - was : was - now) <= was / 32)
			continue;
		src->told = now;
		tell_server(r, s);
	}
}

/* End the sweeps, because no server is over its bound now. */
static void sweeps_end(struct route *r)
{
	for (size_t i = 0; i < r->fleet.n_pools; i++) {
		struct pool *p = r->fleet.pools[i];

		if (!p->route->sweeping)
			continue;
		p->route->sweeping = false;
		room_pool_changed(r, p);
	}
}

/* ---- steps --------------------------------------------------------------------------------- */

/* Drop a part of a server that is gone. Its id is free once the index has dropped all of it.
 * Returns false if there is no such server. */
static bool drop_leaving(struct route *r)
{
	server_id id;

	pthread_mutex_lock(&r->lock);
	id = fleet_leaving(&r->fleet);
	pthread_mutex_unlock(&r->lock);
	if (id == SERVER_NONE)
		return false;
	if (!index_drop_step(r->index, id, STEP_RECORDS))
		return true;
	pthread_mutex_lock(&r->lock);
	fleet_left(&r->fleet, id);
	pthread_mutex_unlock(&r->lock);
	return true;
}

/* Drop a part of what the tree has of a server whose engine cleared its cache. Returns false if
 * there is none. */
static bool drop_cleared(struct route *r)
{
	server_id id = SERVER_NONE;
	bool gone;

	pthread_mutex_lock(&r->lock);
	sources_clear_trees(r);
	for (unsigned i = 0; i < SERVERS_MAX / 64 && id == SERVER_NONE; i++)
		if (r->clearing[i] != 0)
			id = (server_id)(i * 64 + (unsigned)__builtin_ctzll(r->clearing[i]));
	gone = id != SERVER_NONE && r->fleet.by_id[id] == NULL;
	pthread_mutex_unlock(&r->lock);
	if (id == SERVER_NONE || (!gone && !index_drop_step(r->index, id, STEP_RECORDS)))
		return id != SERVER_NONE;
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	r->clearing[id / 64] &= ~((uint64_t)1 << id % 64);
	if (r->fleet.by_id[id] != NULL)
		room_server_added(r, r->fleet.by_id[id]);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return true;
}

bool route_work(struct route *r)
{
	if (drop_leaving(r) || drop_cleared(r) || index_tick(r->index) || sources_work(&r->sources))
		return true;
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	sweeps_end(r);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return false;
}

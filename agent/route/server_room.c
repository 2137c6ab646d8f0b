/* keep.c - what the index is told of servers: the order in which their pages go, how much room
 * there is for them, what they generated, and that they left. What that makes too much goes in
 * steps: route_work().
 *
 * A server's room is <capacity> tokens of its engine's cache (as configured, as the engine's
 * metrics say, or as was inferred: capacity.h), and that of every server the published
 * <max_tree_size>, in characters of text. The latter is kept as its authors do: every
 * <eviction_interval> a sweep takes each server down to it, and between sweeps it grows; without
 * an interval it is kept at every commit. The budget of bytes holds all the time.
 *
 * A cache holds blocks of several sizes side by side: of text, of ids, of models with other
 * blocks. The index counts each page with the room that its space says: ROOM_OF_TOKEN for each
 * of its tokens (page_room()). */
#include "agent/prompt/pages.h"
#include "agent/route/job_in.h"

#define STEP_RECORDS	64u

_Static_assert(PROMPT_TOKEN_PAGE_MAX * ROOM_OF_TOKEN <= ROOM_MAX, "the index can count a page of the largest block");
_Static_assert(TEXT_PAGE_MAX * ROOM_OF_TOKEN <= ROOM_MAX, "and the largest page of text, were each byte a token");

/* What a person wrote goes before what the engine says: they may know what else is in that cache. Both go before
 * what was inferred, and that before a guess. */
uint64_t server_capacity(const struct server *s, enum capacity_source *by)
{
	const uint64_t said[] = {
		[CAPACITY_CONFIGURED] = s->pool->opts->capacity, [CAPACITY_REPORTED] = s->engine.capacity,
		[CAPACITY_INFERRED] = s->inferred, [CAPACITY_GUESS] = s->pool->opts->capacity_guess,
	};

	for (*by = CAPACITY_CONFIGURED; *by > CAPACITY_UNKNOWN && said[*by] == 0; (*by)--)
		;
	return said[*by];
}

/* What is known is believed to the letter. What is inferred, half as much again: a page that was
 * forgotten here would never be seen to be held there. So what may yet be inferred, as first
 * tokens are reported, has room for twice the guess, and half as much again. Who bounds servers
 * by <max_tree_size> has no need of a guess.
 *
 * Simulated on the Mooncake trace, 8 engines at 0.5, 0.7, 0.8 and 16 at 0.85, with first tokens:
 * mean time to first token with the known size 0.658, 0.744, 1.040, 0.692 s; with half as much
 * again 0.673, 0.768, 1.052, 0.733; with three quarters 0.677, 0.780, 1.214, 0.732. */
static uint64_t believed(const struct server *s)
{
	const struct pool *p = s->pool;
	enum capacity_source by;
	uint64_t capacity = server_capacity(s, &by);

	if (by == CAPACITY_GUESS && p->opts->max_tree_size > 0)
		return 0;
	if (p->step != STEP_FIRST || by > CAPACITY_INFERRED)
		return capacity;
	return by == CAPACITY_GUESS ? 3 * capacity : capacity + capacity / 2;
}

/* Rules that have a memory of their own have their authors' guess, too. */
static uint64_t known_capacity(const struct server *s)
{
	enum capacity_source by;
	uint64_t capacity = server_capacity(s, &by);

	return by > CAPACITY_GUESS ? capacity : 0;
}

static uint64_t room_of(const struct server *s, bool with_tree)
{
	uint64_t room = believed(s) * ROOM_OF_TOKEN;
	uint64_t tree = with_tree ? s->pool->opts->max_tree_size * ROOM_OF_TOKEN / TEXT_BYTES_PER_TOKEN : 0;

	return room == 0 || (tree != 0 && tree < room) ? tree : room;
}

static void tell_server(struct route *r, const struct server *s)
{
	bool with_tree = s->pool->opts->eviction_interval_ms == 0 || s->pool->route->sweeping;

	pthread_mutex_lock(&s->pool->route->rule_lock);
	policy_room(s->pool->route->memory, s->id, known_capacity(s));
	compare_room(s->pool->route->compare, s->id, known_capacity(s));
	pthread_mutex_unlock(&s->pool->route->rule_lock);
	index_set_capacity(r->index, s->id, room_of(s, with_tree));
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

static void infer(struct route *r, struct server *s)
{
	uint64_t now = capacity_estimate(&s->capacity, &s->pool->capacity, s->pool->opts->capacity_guess);
	uint64_t was = s->inferred;

	if (now == 0 || (now > was ? now - was : was - now) <= was / 16)
		return;
	s->inferred = now;
	tell_server(r, s);
}

void room_infer(struct route *r, struct server *s)
{
	struct pool *p = s->pool;

	infer(r, s);
	infer(r, p->servers[p->next_inferred++ % p->n_servers]);
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

/* Nothing is over any budget now. */
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

/* ---- steps ---------------------------------------------------------------------------------------- */

/* Its id is free for another once the index has forgotten all of it. */
static bool leave(struct route *r)
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

bool route_work(struct route *r)
{
	if (leave(r) || index_tick(r->index))
		return true;
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	sweeps_end(r);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return false;
}

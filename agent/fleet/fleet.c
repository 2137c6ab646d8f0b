/* fleet.c - small tables that are searched in order.
 *
 * A load string names the servers of a pool in the same order every time, so the place of a server
 * in the last string is nearly always the right one again. */
#include <math.h>

#include "agent/base/mem.h"
#include "agent/fleet/fleet.h"

#define FACTS_FRESH_MS	60000	/* older facts say nothing about those to come */
#define WAITING_SMOOTH	0.005	/* weight of one request in the share of servers where work waits */
#define PRESS_SMOOTH	0.02	/* the same for pressure; from the simulation in routing notes */
#define WORK_SMOOTH	0.01
#define MEAN_WORK_S	0.1	/* start of the mean */

void fleet_init(struct fleet *f)
{
	memset(f, 0, sizeof(*f));
}

static void server_free(struct server *s)
{
	for (unsigned i = 0; i < s->n_slots; i++)
		mem_free(s->slots[i]);
	mem_free(s);
}

void fleet_fini(struct fleet *f)
{
	for (size_t i = 0; i < f->n_pools; i++) {
		struct pool *p = f->pools[i];

		for (size_t k = 0; k < p->n_servers; k++)
			server_free(p->servers[k]);
		if (p->nowhere != NULL)
			server_free(p->nowhere);
		mem_free(p->servers);
		mem_free(p);
	}
	mem_free(f->pools);
}

static struct pool *pool_new(struct span name)
{
	struct pool *p = mem_alloc(sizeof(*p));

	if (p == NULL)
		return NULL;
	if (name.n > 0)
		memcpy(p->name, name.p, name.n);
	p->mean_work_s = MEAN_WORK_S;
	p->slowness = 1;
	p->picks = FIRST_TURN;
	return p;
}

struct pool *fleet_find(const struct fleet *f, struct span name)
{
	for (size_t i = 0; i < f->n_pools; i++) {
		if (span_eq(name, span_str(f->pools[i]->name)))
			return f->pools[i];
	}
	return NULL;
}

struct pool *fleet_pool_add(struct fleet *f, struct span name, uint32_t max_pools)
{
	struct pool **pools, *p;

	if (f->n_pools >= max_pools || name.n > POOL_NAME_MAX ||
	    (name.n > 0 && memchr(name.p, '\0', name.n) != NULL))
		goto refuse;
	pools = mem_resize(f->pools, f->n_pools + 1, sizeof(*pools));
	if (pools == NULL)
		goto refuse;
	f->pools = pools;
	if ((p = pool_new(name)) == NULL)
		goto refuse;
	p->number = (uint32_t)f->n_pools;
	return f->pools[f->n_pools++] = p;
refuse:
	f->pools_refused++;
	return NULL;
}

void fleet_pool_undo(struct fleet *f)
{
	mem_free(f->pools[--f->n_pools]);
	f->pools_refused++;
}

struct server *pool_find(const struct pool *p, struct span name, size_t hint)
{
	if (hint < p->n_servers && span_eq(name, span_str(p->servers[hint]->name)))
		return p->servers[hint];
	for (size_t i = 0; i < p->n_servers; i++) {
		if (span_eq(name, span_str(p->servers[i]->name)))
			return p->servers[i];
	}
	return NULL;
}

bool fleet_is_leaving(const struct fleet *f, server_id id)
{
	return f->leaving[id / 64] >> (id % 64) & 1;
}

static server_id id_free(const struct fleet *f)
{
	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		unsigned id = (f->next_id + i) % SERVERS_MAX;

		if (f->by_id[id] == NULL && !fleet_is_leaving(f, (server_id)id))
			return (server_id)id;
	}
	return SERVER_NONE;
}

static bool pool_room(struct pool *p)
{
	size_t cap = p->cap_servers ? p->cap_servers * 2 : 8;
	struct server **servers;

	if (p->n_servers < p->cap_servers)
		return true;
	servers = mem_resize(p->servers, cap, sizeof(*servers));
	if (servers == NULL)
		return false;
	p->servers = servers;
	p->cap_servers = cap;
	return true;
}

struct server *fleet_server(struct fleet *f, struct pool *p, struct span name, uint64_t name_hash)
{
	server_id id = id_free(f);
	struct server *s;

	if (id == SERVER_NONE || name.n > SERVER_NAME_MAX || memchr(name.p, '\0', name.n) != NULL ||
	    !pool_room(p) || (s = mem_alloc(sizeof(*s))) == NULL) {
		f->servers_refused++;
		return NULL;
	}
	memcpy(s->name, name.p, name.n);
	s->name_hash = name_hash;
	s->pool = p;
	s->id = id;
	s->cleared = CLEARED_NEVER;
	rate_init(&s->rate, p->slowness > 0 ? p->slowness : 1);
	f->by_id[id] = s;
	f->next_id = (server_id)((id + 1) % SERVERS_MAX);
	return p->servers[p->n_servers++] = s;
}

struct server *fleet_nowhere(struct fleet *f, struct pool *p)
{
	server_id id = p->nowhere == NULL ? id_free(f) : SERVER_NONE;
	struct server *s = id != SERVER_NONE ? mem_alloc(sizeof(*s)) : NULL;

	if (s == NULL)
		return p->nowhere;
	s->pool = p;
	s->id = id;
	s->cleared = CLEARED_NEVER;
	f->by_id[id] = s;
	f->next_id = (server_id)((id + 1) % SERVERS_MAX);
	return p->nowhere = s;
}

void fleet_drop(struct fleet *f, struct server *s)
{
	struct pool *p = s->pool;
	size_t i = 0;

	while (p->servers[i] != s)
		i++;
	memmove(&p->servers[i], &p->servers[i + 1], (p->n_servers - i - 1) * sizeof(*p->servers));
	p->n_servers--;
	f->by_id[s->id] = NULL;
	f->leaving[s->id / 64] |= 1ull << (s->id % 64);
	server_free(s);
}

server_id fleet_leaving(const struct fleet *f)
{
	for (unsigned i = 0; i < SERVERS_MAX / 64; i++)
		if (f->leaving[i] != 0)
			return (server_id)(i * 64 + (unsigned)__builtin_ctzll(f->leaving[i]));
	return SERVER_NONE;
}

void fleet_left(struct fleet *f, server_id id)
{
	f->leaving[id / 64] &= ~(1ull << (id % 64));
}

static struct slot *slot_new(struct server *s, uint64_t process)
{
	struct slot *sl = mem_alloc(sizeof(*sl));

	if (sl == NULL)
		return NULL;
	sl->process = process;
	list_init(&sl->open);
	return s->slots[s->n_slots++] = sl;
}

static struct slot *slot_of(const struct server *s, uint64_t process)
{
	for (unsigned i = 0; i < s->n_slots; i++)
		if (s->slots[i]->process == process && !s->slots[i]->shared)
			return s->slots[i];
	return NULL;
}

/* The last one, so that an idle slot becomes its process's own again. */
static struct slot *slot_share(struct server *s)
{
	struct slot *sl = s->slots[SLOTS_MAX - 1];

	sl->shared = true;
	return sl;
}

static struct slot *slot_find(struct server *s, uint64_t process)
{
	struct slot *own = slot_of(s, process), *idle = NULL;

	if (own != NULL)
		return own;
	for (unsigned i = 0; i < s->n_slots; i++)
		if (s->slots[i]->n_open == 0)
			idle = s->slots[i];
	if (idle == NULL && s->n_slots == SLOTS_MAX)
		return slot_share(s);
	if (idle == NULL)
		return slot_new(s, process);
	idle->process = process;
	idle->shared = false;
	return idle;
}

struct slot *server_slot(struct server *s, uint64_t process, msec now)
{
	struct slot *sl = slot_find(s, process);

	if (sl != NULL)
		sl->heard = now;
	return sl;
}

/* The requests of a process without a slot of its own may be in the shared one. */
struct slot *server_heard(struct server *s, uint64_t process, msec now)
{
	struct slot *own = slot_of(s, process);

	if (own != NULL)
		own->heard = now;
	else if (s->n_slots == SLOTS_MAX && s->slots[SLOTS_MAX - 1]->shared)
		s->slots[SLOTS_MAX - 1]->heard = now;
	return own;
}

#define EMPTY_SMOOTH	0.25f	/* three in a row are more than half */

bool server_stream_ended(struct server *s, bool empty)
{
	const struct pool *p = s->pool;
	float others = 0;
	unsigned n = 0;

	s->seen_streams += EMPTY_SMOOTH * (1 - s->seen_streams);
	s->empty_streams += EMPTY_SMOOTH * ((float)empty - s->empty_streams);
	if (!empty || p->n_servers < 2)
		return false;
	for (size_t i = 0; i < p->n_servers; i++) {
		if (p->servers[i] == s || p->servers[i]->seen_streams <= 0)
			continue;
		/* the share of those seen: one short stream elsewhere excuses this one */
		others += p->servers[i]->empty_streams / p->servers[i]->seen_streams;
		n++;
	}
	return s->empty_streams > (1 + (n > 0 ? others / (float)n : 0)) / 2;
}

enum fact_step pool_step(const struct pool *p, msec now)
{
	if (p->first_seen && now - p->first_seen < FACTS_FRESH_MS)
		return STEP_FIRST;
	if (p->done_seen && now - p->done_seen < FACTS_FRESH_MS)
		return STEP_END;
	return p->loaded || p->watched ? STEP_LOAD : STEP_NONE;
}

const char *fact_step_text(enum fact_step s)
{
	static const char *const text[] = { "none", "load", "end", "first" };

	return text[s];
}

/* <now> may be a little in the past: threads read their clocks before they take the lock. */
static void fluid_drain(struct server *s, msec now)
{
	double gone = (double)(now - s->fluid_at) / 1000;

	if (now > s->fluid_at) {
		s->fluid_s = s->fluid_s > gone ? s->fluid_s - gone : 0;
		s->unseen_left_s = s->unseen_left_s > gone ? s->unseen_left_s - gone : 0;
		s->fluid_at = now;
	}
	if (s->fluid_s > s->unanswered_s)
		s->fluid_s = s->unanswered_s;
	if (s->unseen_left_s > s->unseen_s)
		s->unseen_left_s = s->unseen_s;
}

/* Returns NULL if it is unknown by the facts of <step>. */
static const struct slowness *own_slowness(const struct server *s, enum fact_step step, msec now)
{
	if (step == STEP_FIRST)
		return rate_first_known(&s->rate, now) ? &s->rate.by_first : NULL;
	return rate_headers_known(&s->rate, now) ? &s->rate.by_headers : NULL;
}

/* Return how slow the servers are by the first tokens of all together; 1 if these are too few or
 * not learned from. So a pool knows its speed long before each server has answered enough. */
static double slowness_of_all(const struct pool *p, msec now)
{
	struct rate_sum sum = { 0 };
	double all;

	for (size_t i = 0; i < p->n_servers && p->policy->learn_rate && p->step == STEP_FIRST; i++)
		rate_sum_add(&sum, &p->servers[i]->rate, now);
	all = rate_sum_slowness(&sum);
	return all > 0 ? all : 1;
}

/* The mean is of logarithms: half as fast and twice as fast are equally far from the same speed. */
void pool_slowness(struct pool *p, msec now)
{
	const struct slowness *one;
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < p->n_servers && p->policy->learn_rate; i++) {
		if ((one = own_slowness(p->servers[i], p->step, now)) == NULL)
			continue;
		sum += one->log_x;
		n++;
	}
	p->slowness = n > 0 ? exp(sum / (double)n) : slowness_of_all(p, now);
}

#define ALIKE	1.4

/* Servers within ALIKE of their pool count as equal. Such a difference is chance, and prompts would
 * follow it from server to server. */
double server_slowness(const struct server *s, enum fact_step step, msec now)
{
	const struct slowness *own = s->pool->policy->learn_rate ? own_slowness(s, step, now) : NULL;
	double all = s->pool->slowness;

	return own != NULL && (own->x > ALIKE * all || own->x * ALIKE < all) ? own->x : all;
}

bool server_speed_known(const struct server *s, enum fact_step step, msec now)
{
	return own_slowness(s, step, now) != NULL;
}

/* A learned rate needs a smaller floor than a guessed one: 0.017 if 0.3 is configured. Mean time to
 * first token over six Mooncake cells with ends alone: 1.066 of the oracle's; 1.090 with 0.05. */
#define FLOOR_OF_LEARNED	(1 / 18.0)

double server_backlog(struct server *s, enum fact_step step, double floor, msec now)
{
	double waits;

	fluid_drain(s, now);
	waits = s->unanswered_s - (s->unseen_s - s->unseen_left_s);
	if (waits < 0)
		waits = 0;
	if (step == STEP_FIRST)
		return waits;
	if (s->pool->policy->learn_rate && rate_headers_known(&s->rate, now))
		floor *= FLOOR_OF_LEARNED;
	return s->fluid_s > floor * waits ? s->fluid_s : floor * waits;
}

static void add_work(struct server *s, const struct work *w, msec now)
{
	fluid_drain(s, now);
	s->n_unanswered++;
	s->unanswered_s += w->s;
	s->unanswered_tokens += w->tokens;
	s->unseen_s += w->unseen_s;
	s->unseen_left_s += w->unseen_s;
	s->fluid_s += w->s;
}

void server_work_add(struct server *s, const struct work *w, msec now)
{
	if (s->n_unanswered == 0)
		rate_begin(&s->rate, now);
	add_work(s, w, now);
}

void server_work_late(struct server *s, const struct work *w, msec sent, msec now)
{
	if (s->n_unanswered == 0)
		rate_begin_late(&s->rate, sent);
	add_work(s, w, now);
}

/* Set an idle server to zero: sums of floats drift, and a small one is lost in a large one. */
void server_work_end(struct server *s, const struct work *w, msec now)
{
	s->unanswered_s -= w->s;
	s->unanswered_tokens -= w->tokens;
	s->unseen_s -= w->unseen_s;
	s->n_unanswered--;
	if (s->unanswered_s < 1e-9 || s->n_unanswered == 0)
		s->unanswered_s = 0;
	if (s->unseen_s < 1e-9 || s->n_unanswered == 0)
		s->unseen_s = 0;
	fluid_drain(s, now);
}

void pool_press(struct pool *p, double mean_wait_s, double waiting, double work_s)
{
	double ratio = mean_wait_s / (p->mean_work_s > 1e-6 ? p->mean_work_s : 1e-6);

	p->pressure.wait += PRESS_SMOOTH * (ratio - p->pressure.wait);
	p->pressure.waiting += WAITING_SMOOTH * (waiting - p->pressure.waiting);
	p->mean_work_s += WORK_SMOOTH * (work_s - p->mean_work_s);
}

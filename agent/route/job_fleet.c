/* job_fleet.c - who could take a request, from what HAProxy says and what we have counted. */
#include "agent/route/job.h"

static struct server *server_of(struct route *r, struct job *j, const struct load_entry *e, size_t hint)
{
	struct server *s = pool_find(j->pool_seen, e->name, hint);

	if (s == NULL) {
		s = fleet_server(&r->fleet, j->pool_seen, e->name);
		if (s == NULL)
			return NULL;
		keep_server(r, s);
		if (r->by_chance)
			s->last_pick = rng_below(&r->rng, FIRST_TURN);
	}
	s->up = e->up;
	s->conn = e->conn;
	s->queue = e->queue;
	s->weight = e->weight;
	s->seen = j->now;
	return s;
}

static bool fit_for_work(const struct server *s)
{
	return s->up && s->weight > 0;
}

/* Once, even if the load string names it twice. */
static void add_candidate(struct job *j, const struct server *s)
{
	if (!fit_for_work(s) || server_set_has(&j->candidates, s->id))
		return;
	server_set_add(&j->candidates, s->id);
	j->scratch->candidates[j->n_candidates++].id = s->id;
}

static uint32_t sum(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Only the process that sent the string is closed against it: others have their own counts. More
 * entries than there can be servers are not read: the lock is held here. */
static void take_entries(struct route *r, struct job *j, struct loadstr *l, struct settling *st)
{
	struct load_entry e;

	for (size_t i = 0; i < SERVERS_MAX && loadstr_next(l, &e); i++) {
		struct server *s = server_of(r, j, &e, i);

		if (s == NULL)
			continue;
		j->has_load = true;
		for (unsigned k = 0; k < s->n_slots; k++) {
			if (s->slots[k]->process != j->process)
				continue;
			s->slots[k]->heard = j->now;
			close_beyond(r, s->slots[k], sum(e.conn, e.queue), st, j->now);
		}
		add_candidate(j, s);
	}
}

/* A later slice brings no load string: what the pool's last one said still holds. A server that it
 * did not name is on its way out. */
static void take_known(struct job *j)
{
	const struct pool *p = j->pool_seen;

	for (size_t i = 0; i < p->n_servers; i++) {
		if (p->servers[i]->seen < p->loaded)
			continue;
		add_candidate(j, p->servers[i]);
		j->has_load = true;
	}
}

void job_take_load(struct route *r, struct job *j, struct settling *st)
{
	struct loadstr l;

	j->n_candidates = 0;
	j->pool_seen = fleet_pool(&r->fleet, j->opts, j->pool);
	if (j->pool_seen == NULL)
		return;
	if (j->seq > 0 && j->load.n == 0) {
		take_known(j);
		return;
	}
	if (j->load.n == 0)
		return;
	loadstr_start(&l, j->load);
	j->process = hash_mix_span(&r->key, 5, l.process);
	if (j->sliced != NULL)
		j->sliced->process = j->process;
	take_entries(r, j, &l, st);
	if (l.n_bad > 0)
		r->stats.bad_load++;
	if (j->has_load)
		j->pool_seen->loaded = j->now;
}

static uint32_t usable_depth(const struct job *j, server_id id, uint32_t penalty)
{
	uint32_t depth = index_match_depth(&j->scratch->match, id);

	if (penalty >= PENALTY_DOUBT)
		return 0;
	return depth < j->usable ? depth : j->usable;
}

/* When all that is visible matches, half of what is not is taken to be cached too: without that, a
 * long prompt behind a small buffer looks nearly new everywhere (mean time to first token 2.2 s
 * instead of 15 s in overload). Not when what is cut is an image: its bytes are no tokens. */
static uint64_t cached_tokens(const struct job *j, uint32_t depth)
{
	uint64_t cached = (uint64_t)depth * j->page_tokens;

	if (depth > 0 && depth == j->n_pages && !j->prompt->in_media)
		cached += j->unseen_tokens / 2;
	return cached;
}

/* The first failure is one more request open, and only those after it also wait: a single one must
 * not cost a server the prompts whose beginnings it holds. */
static double penalty_seconds(const struct pool *p, uint32_t penalty)
{
	return penalty > 1 ? (penalty - 1) * p->mean_work_s : 0;
}

static double busy(const struct pool *p, const struct candidate *c)
{
	double request_s = p->mean_work_s + p->opts->policy.load_ms / 1000;
	double waits = request_s > 1e-6 ? c->backlog_s / request_s : 0;

	return waits > c->load ? waits : c->load;
}

/* Between equals a later slice stays where the earlier ones were told to go. */
void job_candidates(struct route *r, struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct policy_opts *po = &p->opts->policy;

	p->step = pool_step(p, j->now);
	p->busiest = 0;
	for (size_t i = 0; i < j->n_candidates; i++) {
		struct candidate *c = &j->scratch->candidates[i];
		struct server *s = r->fleet.by_id[c->id];
		uint32_t theirs = sum(s->conn, s->queue);
		uint32_t penalty = penalty_weight(&s->penalty, po->penalty_half_life_ms, j->now);
		uint32_t depth = usable_depth(j, c->id, penalty);

		*c = (struct candidate){
			.id = s->id,
			.load = theirs > s->n_open ? theirs : s->n_open,
			.backlog_s = server_backlog(s, p->step, po->backlog_floor, j->now),
			.penalty = penalty,
			.penalty_s = penalty_seconds(p, penalty),
			.cached = cached_tokens(j, depth),
			.last_pick = s->id == j->previous ? 0 : s->last_pick,
		};
		j->scratch->depth[i] = depth;
		if (busy(p, c) > p->busiest)
			p->busiest = busy(p, c);
	}
}

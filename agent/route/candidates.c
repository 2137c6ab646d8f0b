/* candidates.c - servers that may get a request, by HAProxy's reports and our own counts. */
#include "agent/route/job_in.h"

struct server *server_met(struct route *r, struct pool *p, struct span name, size_t hint)
{
	struct server *s = pool_find(p, name, hint);

	if (s != NULL || (s = fleet_server(&r->fleet, p, name, name_hash(r, name))) == NULL)
		return s;
	capacity_init(&s->capacity, hash_mix(&r->key, 14, ++r->n_named));
	source_met(r, s);
	room_server_added(r, s);
	decisions_name(r->decisions, s->id, s->name_hash, p->name, s->name);
	if (r->by_chance)
		s->last_pick = rng_below(&r->rng, FIRST_TURN);
	return s;
}

static struct server *server_of(
    struct route *r, struct job *j, const struct load_entry *e, size_t hint)
{
	struct server *s = server_met(r, j->pool_seen, e->name, hint);

	if (s == NULL)
		return NULL;
	s->up = e->up;
	s->backup = e->backup;
	s->conn = e->conn;
	s->queue = e->queue;
	s->weight = e->weight;
	s->seen = j->rq.now;
	return s;
}

static bool fit_for_work(const struct job *j, const struct server *s)
{
	struct watch_sum w = watch_sum(&s->watch, j->rq.now);

	if (w.closed)
		return false;
	return j->by_stats ? w.up : s->up && s->weight > 0;
}

/* Add a server once, even if the load string names it twice. */
static void add_candidate(struct job *j, const struct server *s)
{
	if (!fit_for_work(j, s) || server_set_has(&j->candidates, s->id))
		return;
	server_set_add(&j->candidates, s->id);
	j->scratch->candidates[j->n_candidates++].id = s->id;
}

/* A load string may have no marks for a server that a stats row calls a backup. Rows do not show
 * "option allbackups", so then HAProxy's default holds. */
static enum load_backup backup_of(const struct job *j, const struct server *s)
{
	if (!j->by_stats && s->backup != BACKUP_NO)
		return s->backup;
	return watch_sum(&s->watch, j->rq.now).backup ? BACKUP_FIRST : BACKUP_NO;
}

/* Keep the candidates that HAProxy itself would balance to: no backup server while another server
 * is up; else the first backup server, or all with "option allbackups" (recount_servers() in its
 * code). */
static void hold_backups(const struct route *r, struct job *j)
{
	size_t n_active = 0, kept = 0;

	for (size_t i = 0; i < j->n_candidates; i++)
		n_active += backup_of(j, r->fleet.by_id[j->scratch->candidates[i].id]) == BACKUP_NO;
	if (n_active == j->n_candidates)
		return;
	for (size_t i = 0; i < j->n_candidates; i++) {
		server_id id = j->scratch->candidates[i].id;
		enum load_backup b = backup_of(j, r->fleet.by_id[id]);

		if (n_active > 0 ? b == BACKUP_NO : b == BACKUP_ALL || kept == 0)
			j->scratch->candidates[kept++].id = id;
		else
			server_set_del(&j->candidates, id);
	}
	j->n_candidates = kept;
}

/* Read the entries. Requests are closed only of the process that sent the string, because others
 * have counts of their own. At most as many entries as there can be servers are read, because the
 * lock is held. */
static void read_entries(struct route *r, struct job *j, struct loadstr *l, struct settling *st)
{
	struct load_entry e;
	struct slot *own;

	for (size_t i = 0; i < SERVERS_MAX && loadstr_next(l, &e); i++) {
		struct server *s = server_of(r, j, &e, i);

		if (s == NULL)
			continue;
		j->has_load = true;
		if ((own = server_heard(s, j->rq.process, j->rq.now)) != NULL)
			close_beyond(r, own, load_add(e.conn, e.queue), st, j->rq.now);
		add_candidate(j, s);
	}
}

/* Use the last load string of the pool for a later slice, which brings none. A server that it did
 * not name is no candidate. */
static void use_known(struct job *j)
{
	const struct pool *p = j->pool_seen;

	for (size_t i = 0; i < p->n_servers; i++) {
		if (p->servers[i]->seen < p->loaded)
			continue;
		add_candidate(j, p->servers[i]);
		j->has_load = true;
	}
}

/* Without load strings use stats rows, while they hold. */
static void use_watched(struct job *j)
{
	const struct pool *p = j->pool_seen;

	j->by_stats = true;
	for (size_t i = 0; i < p->n_servers; i++) {
		if (watch_sum(&p->servers[i]->watch, j->rq.now).n == 0)
			continue;
		add_candidate(j, p->servers[i]);
		j->has_load = true;
	}
}

void job_take_rows(const struct route *r, struct job *j)
{
	j->n_candidates = 0;
	memset(&j->candidates, 0, sizeof(j->candidates));
	use_watched(j);
	hold_backups(r, j);
}

static void take_load(struct route *r, struct job *j, struct settling *st)
{
	struct loadstr l;

	loadstr_start(&l, j->load);
	j->rq.process = hash_mix_span(&r->key, 5, l.process);
	if (j->rq.sliced != NULL)
		j->rq.sliced->process = j->rq.process;
	read_entries(r, j, &l, st);
	j->bad_load = l.n_bad > 0;
	r->stats.bad_load += j->bad_load;
	if (j->has_load)
		j->pool_seen->loaded = j->rq.now;
}

void job_take_known(const struct route *r, struct job *j)
{
	j->n_candidates = 0;
	if (j->pool_seen == NULL)
		return;
	if (j->pool_seen->loaded > 0)
		use_known(j);
	else
		use_watched(j);
	hold_backups(r, j);
}

void job_take_load(struct route *r, struct job *j, struct settling *st)
{
	j->n_candidates = 0;
	if (j->pool_seen == NULL)
		return;
	if (j->load.n > 0)
		take_load(r, j, st);
	else if (j->rq.seq > 0 && j->pool_seen->loaded > 0)
		use_known(j);
	else
		use_watched(j);
	hold_backups(r, j);
}

/* Return the pages that requests taught. <grown>: those of answers, whose keys are not compared. */
static uint32_t tree_depth(
    const struct route *r, const struct job *j, const struct server *s, uint32_t *grown)
{
	uint32_t in_index = index_match_depth(&j->scratch->match, s->id), most = j->rq.usable;
	uint32_t depth = job_let_go_depth(r, j, s, in_index);
	struct job_grown_at at;

	*grown = depth > 0 && depth == in_index ? job_grown_pages(r, j, s, depth, &at) : 0;
	if (depth > most)
		depth = most;
	if (*grown > most - depth)
		*grown = most - depth;
	return depth;
}

/* If all visible pages match, count half of the unseen tokens as cached, or what the session has
 * there. Otherwise a long prompt in a small buffer looks nearly new everywhere (mean time to first
 * token 15 s instead of 2.2 s in overload). */
static uint64_t cached_tokens(
    const struct route *r, const struct job *j, const struct server *s, uint32_t depth)
{
	uint64_t cached = (uint64_t)depth * j->rq.page_tokens;

	if (depth > 0 && depth == j->rq.n_pages)
		cached += job_unseen_held(r, j, s);
	return cached;
}

/* Round down to whole blocks of the engine. Text has no exact number of tokens. */
static uint64_t whole_blocks(
    const struct job *j, const struct server *s, uint32_t told, uint64_t tokens)
{
	uint32_t block = s->pool->opts->block_size > 0 ? s->pool->opts->block_size :
	    told > 0 ? told : s->engine.block_size;

	return j->rq.mode == PROMPT_TOKENS && block > 1 ? tokens - tokens % block : tokens;
}

/* Reduce <cached> to what the tokens in slower tiers are worth, and those not stored yet. */
static void take_credit(const struct job *j, const struct expected *x, struct candidate *c)
{
	uint64_t left = c->cached, in_tier[POLICY_TIERS], doubtful = x->tokens - expected_cached(x);

	for (unsigned t = POLICY_TIERS - 1; t > 0; t--) {
		in_tier[t] = x->in_tier[t] < left ? x->in_tier[t] : left;
		left -= in_tier[t];
	}
	in_tier[0] = left > doubtful ? left - doubtful : 0;
	policy_tier_credit(&j->pool_opts->policy, in_tier, &c->cached, &c->load_s);
}

/* Set <cached> and <depth>. With unseen tokens <depth> stays at all visible pages. */
static void set_depth(const struct route *r, const struct job *j, const struct server *s,
    const struct expected *x, struct candidate *c)
{
	uint64_t most = (uint64_t)j->rq.usable * j->rq.page_tokens;
	uint64_t seen = x->tokens < most ? x->tokens : most, cached;
	uint32_t depth = j->rq.page_tokens > 0 ? (uint32_t)(seen / j->rq.page_tokens) : 0;

	cached = cached_tokens(r, j, s, depth);
	c->cached = whole_blocks(j, s, x->block, cached);
	if (j->view.trusted && cached > seen)
		c->by_session = cached - seen;
	c->depth = cached > seen || j->rq.page_tokens == 0
	    ? depth
	    : (uint32_t)(c->cached / j->rq.page_tokens);
	c->truth = (uint8_t)x->truth;
	c->cause = (uint8_t)x->cause;
	c->rank = (int16_t)x->rank;
	take_credit(j, x, c);
}

/* A server that failed several times in a row counts as empty. */
static void expect(
    const struct route *r, const struct job *j, const struct server *s, struct candidate *c)
{
	struct expected x = { .truth = TRUTH_TREE, .rank = -1 };
	uint32_t depth, grown;

	if (c->penalty < PENALTY_DOUBT) {
		depth = tree_depth(r, j, s, &grown);
		job_expect(r, j, s, depth, grown, &x);
	}
	set_depth(r, j, s, &x, c);
	if (c->penalty >= PENALTY_DOUBT)
		return;
	c->perhaps = job_perhaps(r, j, s, c->cached, &c->chance);
	c->cached += j->history;
}

/* Only failures after the first count as waiting work, because a single failure must not cost a
 * server the prompts whose beginnings it holds. */
static double penalty_seconds(const struct pool *p, uint32_t penalty)
{
	return penalty > 1 ? (penalty - 1) * p->mean_work_s : 0;
}

static double busyness(const struct pool *p, const struct candidate *c)
{
	double request_s = p->mean_work_s + p->opts->policy.load_ms / 1000;
	double waits = request_s > 1e-6 ? c->backlog_s / request_s : 0;

	return waits > c->load ? waits : c->load;
}

/* Return the load of a server. A load string is newer than stats rows but of one process; with
 * several processes the rows of all count, if they are more. */
static uint32_t load_of(const struct job *j, const struct server *s, uint32_t *queue)
{
	struct watch_sum w = watch_sum(&s->watch, j->rq.now);
	uint32_t load = j->by_stats ? w.load : load_add(s->conn, s->queue);

	*queue = j->by_stats ? w.queue : s->queue;
	if (w.n > 1 && w.load > load) {
		load = w.load;
		*queue = w.queue;
	}
	return load > s->n_open ? load : s->n_open;
}

/* Hashes of the names that an engine may have for the adapter of the request; 0: none. Made for the
 * first engine that has adapters. */
struct adapter_names {
	bool made;
	uint64_t hash[3];
};

static void name_adapters(const struct route *r, const struct job *j, struct adapter_names *a)
{
	const struct prompt *p = j->rq.prompt;

	a->made = true;
	if (p->lora.n > 0)
		a->hash[0] = adapter_hash(r, span_of(p->lora.s, p->lora.n));
	if (p->model.n > 0)
		a->hash[1] = adapter_hash(r, span_of(p->model.s, p->model.n));
	if (j->rq.model.n > 0)
		a->hash[2] = adapter_hash(r, j->rq.model);
}

static void add_engine_report(const struct route *r, const struct job *j,
    const struct engine_seen *e, struct adapter_names *a, struct candidate *c)
{
	struct engine_now n = engine_now(e, j->rq.now);

	c->kv_used = n.kv_used;
	if (!n.holds)
		return;
	c->load = load_add(c->load, n.foreign);
	c->waiting = n.waiting > 0 ? (uint32_t)(n.waiting < UINT32_MAX ? n.waiting : UINT32_MAX) : 0;
	c->running = n.running > 0 ? (uint32_t)(n.running < UINT32_MAX ? n.running : UINT32_MAX) : 0;
	c->kv_tokens = engine_kv_tokens(&n, c->kv_tokens, c->kv_room);
	if (!n.polled)
		return;
	if (e->n_adapters > 0 && !a->made)
		name_adapters(r, j, a);
	for (int i = 0; e->n_adapters > 0 && i < 3; i++)
		c->has_adapter |= a->hash[i] != 0 && engine_has(e, a->hash[i]);
}

/* Count of the unseen tokens no more than the largest cache of the pool has room for, because an
 * engine rejects a prompt that is larger than its cache. */
static void bound_unseen(const struct route *r, struct job *j)
{
	enum capacity_source by;
	uint64_t most = 0, seen;

	for (size_t i = 0; i < j->n_candidates && j->rq.unseen_tokens > 0; i++) {
		const struct server *s = r->fleet.by_id[j->scratch->candidates[i].id];
		uint64_t room = server_capacity(s, &by);

		if (room == 0)
			return;
		if (room > most)
			most = room;
	}
	if (j->asks.tokens <= most || j->rq.unseen_tokens == 0)
		return;
	seen = j->history + j->rq.tokens;
	j->rq.unseen_tokens = most > seen ? most - seen : 0;
	j->asks.tokens = seen + j->rq.unseen_tokens;
}

/* last_pick of 0: of equal servers, a later slice stays at the one chosen before. */
void job_candidates(struct route *r, struct job *j)
{
	struct pool *p = j->pool_seen;
	const struct policy_opts *po = &p->opts->policy;
	struct adapter_names adapters = { .made = false };
	enum capacity_source by;
	enum fact_step before = p->step;

	p->step = pool_step(p, j->rq.now);
	if (p->step != before)
		room_pool_changed(r, p);
	p->busiest = 0;
	bound_unseen(r, j);
	pool_slowness(p, j->rq.now);
	for (size_t i = 0; i < j->n_candidates; i++) {
		struct candidate *c = &j->scratch->candidates[i];
		struct server *s = r->fleet.by_id[c->id];
		uint32_t queue, load = load_of(j, s, &queue);
		uint32_t penalty = penalty_weight(&s->penalty, po->penalty_half_life_ms, j->rq.now);

		*c = (struct candidate){
			.id = s->id, .name = s->name_hash,
			.load = load,
			.silent = p->step == STEP_FIRST ? s->n_unanswered + s->n_elsewhere : 0,
			.queue = queue,
			.extra = (double)s->extra / WEIGHT_ONE,
			.backlog_s = server_backlog(s, p->step, po->backlog_floor, j->rq.now),
			.backlog_tokens = s->unanswered_tokens,
			.open_tokens = s->open_tokens,
			.kv_tokens = s->kv_tokens, .kv_room = server_capacity(s, &by),
			.slowness = server_slowness(s, p->step, j->rq.now),
			.penalty = penalty,
			.penalty_s = penalty_seconds(p, penalty),
			.promised_s = job_promised_s(r, j, s),
			.doubt = penalty >= PENALTY_DOUBT,
			.own = j->has_own ? j->scratch->own[c->id] : 0,
			.last_pick = s->id == j->previous ? 0 : s->last_pick,
		};
		expect(r, j, s, c);
		add_engine_report(r, j, &s->engine, &adapters, c);
		if (busyness(p, c) > p->busiest)
			p->busiest = busyness(p, c);
	}
}

/* attached.c - observations, good or bad, from each request and each log line.
 *
 * What is neither good nor bad is not counted: a server that was down or full need not be chosen by
 * HAProxy, and a request that failed in HAProxy proves nothing about its configuration. Log lines
 * of the first window may be older than the agent, so they say nothing about messages that it did
 * not get. */
#include "agent/route/job_in.h"

/* A request with a smaller body that the agent got no message for does not count, because it may be
 * a GET of the list of models. */
#define ASKED_LEAST	2048

/* If a truncated body fills less than half of the buffer, its rest had not arrived. Buffer size to
 * assume if no frame size is known: HAProxy's default. */
#define BUFFER_DEFAULT	16384

static struct problem_pool *of_pool(struct route *r, struct pool *p)
{
	if (p != NULL && p->route->problems == NULL)
		p->route->problems = problems_pool(&r->problems, span_str(p->name));
	return p != NULL ? p->route->problems : NULL;
}

/* HAProxy writes "-" for what is not set. */
static bool is_unset(struct span s)
{
	return s.n == 0 || (s.n == 1 && s.p[0] == '-');
}

static bool is_server(struct span s)
{
	return !is_unset(s) && s.p[0] != '<';
}

/* ---- requests ------------------------------------------------------------------------------ */

/* A server that was missing from load is named now. */
static void note_named(struct problem_pool *pp, const struct pool *p)
{
	struct problem_state *e = pp != NULL ? &pp->e[PROBLEM_SERVER_UNNAMED] : NULL;
	const struct server *s;

	if (e == NULL || !e->raised || p == NULL)
		return;
	s = pool_find(p, span_str(e->example.text[0]), SIZE_MAX);
	if (s != NULL && s->seen != 0 && s->seen >= e->last)
		problems_end(pp, PROBLEM_SERVER_UNNAMED);
}

static void note_load(struct problem_pool *pp, const struct job *j, const struct route_request *q)
{
	if (j->has_load) {
		problems_good(pp, PROBLEM_LOAD_MISSING);
		problems_good(pp, PROBLEM_LOAD_UNSET);
	}
	if (q->load.n > 0)
		problems_count(pp, PROBLEM_LOAD_BAD, j->bad_load);
	else if (!j->has_load)
		problems_count(pp, q->load.p == NULL ? PROBLEM_LOAD_MISSING : PROBLEM_LOAD_UNSET,
			       true);
}

static void note_size(struct problem_pool *pp, enum problem what, bool bad, int64_t bytes)
{
	if (bad)
		problems_bad(pp, what, SPAN(""), SPAN(""), bytes);
	else
		problems_good(pp, what);
}

/* A bound may leave so much of the buffer for headers and the load string, as that which
 * "kvroutectl doctor --write" writes. */
#define BOUND_SLACK	8192

/* Without a prompt, a body that fills the buffer by half is of a client that left while it sent. A
 * body whose session the client named is routed by that name, so a small buffer may be wanted: it
 * proves nothing. */
static void note_body(struct problem_pool *pp, const struct job *j, const struct route_request *q,
		      bool prompt, uint64_t tenant)
{
	uint64_t buffer = q->frame_size > 0 ? (uint64_t)q->frame_size + 4 : BUFFER_DEFAULT;
	bool cut = q->visible < q->whole, full = (uint64_t)q->visible * 2 >= buffer;

	if (q->seq >= 0 || q->visible < 0 || q->whole <= 0 || (cut && full && !prompt))
		return;
	if (!cut || !full || !j->named)
		note_size(pp, PROBLEM_BODY_BUFFER, cut && full, q->visible);
	note_size(pp, PROBLEM_BODY_EARLY, cut && !full, q->visible);
	problems_from(pp, PROBLEM_BODY_EARLY, tenant, cut && !full);
	note_size(pp, PROBLEM_BODY_BOUND, !cut && (int64_t)q->body.n < q->visible &&
		  q->body.n + BOUND_SLACK < buffer, (int64_t)q->body.n);
}

/* Return the first configured model that no request has named; NULL if there is none. */
static const struct model_opts *unasked(const struct route *r)
{
	for (size_t i = 0; i < r->opts.n_models && i < MODELS_WATCHED; i++) {
		if (!(r->models_asked >> i & 1) && strcmp(r->opts.models[i].name, "*") != 0)
			return &r->opts.models[i];
	}
	return NULL;
}

static void note_model(struct route *r, const struct job *j, uint64_t tenant)
{
	const struct model_opts *m = j->rq.model_opts, *other;
	struct problem_pool *pp = r->problems.pool[0];

	if (m == NULL || j->rq.space_model.n == 0 || j->rq.headless || r->opts.n_models == 0)
		return;
	if (m >= r->opts.models && m < r->opts.models + r->opts.n_models &&
	    strcmp(m->name, "*") != 0) {
		if ((size_t)(m - r->opts.models) < MODELS_WATCHED)
			r->models_asked |= (uint64_t)1 << (m - r->opts.models);
		problems_good(pp, PROBLEM_MODEL_UNASKED);
		problems_from(pp, PROBLEM_MODEL_UNASKED, tenant, false);
	} else if ((other = unasked(r)) != NULL) {
		problems_bad(pp, PROBLEM_MODEL_UNASKED, span_str(other->name), SPAN(""), 0);
		problems_from(pp, PROBLEM_MODEL_UNASKED, tenant, true);
	} else {
		problems_good(pp, PROBLEM_MODEL_UNASKED);
		problems_from(pp, PROBLEM_MODEL_UNASKED, tenant, false);
	}
}

void attached_request(
    struct route *r, const struct job *j, const struct route_request *q, bool prompt)
{
	struct problem_pool *pp = of_pool(r, j->pool_seen);
	uint64_t tenant = hash_mix_span(&r->key, 22, j->rq.tenant);

	if (q->seq > 0)
		return;
	note_load(pp, j, q);
	note_named(pp, j->pool_seen);
	problems_count(pp, PROBLEM_POOL_UNSET, q->pool.n == 0);
	problems_count(pp, PROBLEM_UID_MISSING, is_unset(q->uid));
	note_body(pp, j, q, prompt, tenant);
	note_model(r, j, tenant);
}

/* ---- log lines ----------------------------------------------------------------------------- */

/* Return the pool of a request. It is known while the request is open, and for a while after its
 * answer has begun. */
static struct pool *asked_pool(const struct route *r, uint64_t uid, const struct ledger_entry *e)
{
	const struct answered *a = &r->answered[uid % ANSWERED_MAX];

	if (e != NULL)
		return e->server->pool;
	if (uid == 0 || a->uid != uid || a->at == SERVER_NONE || r->fleet.by_id[a->at] == NULL)
		return NULL;
	return r->fleet.by_id[a->at]->pool;
}

static void note_unnamed(struct problem_pool *pp, const struct pool *p, const struct fact *f)
{
	const struct server *s;

	if (!is_server(f->server) || p->loaded == 0)
		return;
	s = pool_find(p, f->server, SIZE_MAX);
	if (s == NULL || (s->seen == 0 && s->told == 0))
		problems_bad(pp, PROBLEM_SERVER_UNNAMED, f->server, SPAN(""), 0);
}

static bool is_open(const struct server *s, msec now)
{
	struct watch_sum w = watch_sum(&s->watch, now);

	return s->up && s->weight > 0 && !w.closed;
}

/* Note whether HAProxy used the chosen server. A request that went elsewhere by a retry, or because
 * that server was full or down, does not count. */
static void note_followed(struct problem_pool *pp, const struct pool *p, const struct fact *f,
			  msec now)
{
	const struct server *s;

	if (is_unset(f->wanted) || !is_server(f->server) || f->redispatched || f->retries > 0)
		return;
	if (span_eq(f->wanted, f->server))
		problems_good(pp, PROBLEM_NOT_FOLLOWED);
	else if ((s = pool_find(p, f->wanted, SIZE_MAX)) != NULL && is_open(s, now))
		problems_bad(pp, PROBLEM_NOT_FOLLOWED, f->wanted, f->server, 0);
}

static void note_fields(struct problem_pool *pp, const struct fact *f)
{
	if (!f->line)
		return;
	problems_count(pp, PROBLEM_UID_MISSING, is_unset(f->uid));
	if (f->lacks != NULL)
		problems_bad(pp, PROBLEM_FEED_FIELDS, span_str(f->lacks), SPAN(""), 0);
	else
		problems_good(pp, PROBLEM_FEED_FIELDS);
}

static void note_error(struct route *r, struct problem_pool *pp, int code)
{
	static const enum problem kinds[] = { PROBLEM_SPOE_TIMEOUT, PROBLEM_SPOE_TOO_BIG,
					      PROBLEM_SPOE_FAILED };
	unsigned i = haproxy_error_index(code);
	enum problem what = i < HAPROXY_ERRORS ? haproxy_errors[i].what : PROBLEM_SPOE_FAILED;
	const char *cause = i < HAPROXY_ERRORS ? haproxy_errors[i].cause : "a code without a name";

	if (code != 0) {
		r->stats.haproxy_errors[i]++;
		problems_bad(pp, what, span_str(cause), SPAN(""), code);
	}
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (code == 0 || kinds[k] != what)
			problems_good(pp, kinds[k]);
	}
}

/* Return the evidence of the backend that a line names, or NULL if it is no pool. If no request has
 * come at all, no pool is known: then any name gets evidence. */
static struct problem_pool *place_of_line(struct route *r, const struct fact *f)
{
	struct pool *p = fleet_find(&r->fleet, f->pool);

	if (p != NULL)
		return of_pool(r, p);
	if (r->stats.requests == 0)
		return problems_backend(&r->problems, f->pool);
	return problems_find(&r->problems, f->pool);
}

static void note_asked(struct route *r, const struct pool *asked, struct problem_pool *pp,
		       const struct fact *f)
{
	struct problem_pool *named = is_unset(f->pool) ? pp : place_of_line(r, f);

	if (!f->has_why || !is_server(f->server))
		return;
	if (f->error > 0 || !is_unset(f->why))
		note_error(r, named, f->error > 0 ? f->error : 0);
	if (!is_unset(f->why)) {
		problems_good(named, PROBLEM_NOT_ASKED);
		problems_good(pp, PROBLEM_ANSWER_LOST);
	} else if (f->error <= 0 && asked != NULL) {
		problems_count(pp, PROBLEM_ANSWER_LOST, true);
	} else if (f->error <= 0 && f->bytes_in >= ASKED_LEAST) {
		problems_count(named, PROBLEM_NOT_ASKED, true);
	}
}

static void note_pool(struct problem_pool *pp, const struct pool *asked, const struct fact *f)
{
	if (asked->name[0] == '\0' || is_unset(f->pool))
		return;
	if (span_eq(f->pool, span_str(asked->name)))
		problems_good(pp, PROBLEM_POOL_DIFFERS);
	else
		problems_bad(pp, PROBLEM_POOL_DIFFERS, f->pool, SPAN(""), 0);
}

void attached_fact(struct route *r, uint64_t uid, const struct ledger_entry *e,
		   const struct fact *f, msec now)
{
	struct pool *asked = asked_pool(r, uid, e);
	struct pool *p = asked != NULL ? asked : fleet_find(&r->fleet, f->pool);
	struct problem_pool *pp = of_pool(r, p);
	bool settled = problems_settled(&r->problems, &r->opts.problems, now);

	if (f->kind != FACT_DONE)
		return;
	problems_line(pp);
	note_fields(pp, f);
	if (asked != NULL) {
		note_pool(pp, asked, f);
		note_followed(pp, asked, f, now);
	}
	if (p != NULL && (asked != NULL || settled))
		note_unnamed(pp, p, f);
	if (settled)
		note_asked(r, asked, pp, f);
}

/* ---- the rest ------------------------------------------------------------------------------ */

void attached_unheard(struct route *r, struct pool *p)
{
	if (!r->feedless)
		problems_unheard(of_pool(r, p));
}

void attached_answered(struct route *r, struct pool *p)
{
	if (!r->feedless)
		problems_owed(of_pool(r, p));
}

/* A server's first row may come before the first load string with its name, but not by a window. */
void attached_row(struct route *r, struct pool *p, struct server *s, const struct hastats_row *row,
		  msec now)
{
	if (s->rowed == 0)
		s->rowed = now;
	if (row->state == HASTATS_UP && s->seen == 0 &&
	    p->loaded - s->rowed >= r->opts.problems.window_ms)
		problems_bad(of_pool(r, p), PROBLEM_SERVER_UNNAMED, span_str(s->name), SPAN(""), 0);
}

/* Count a report of an engine that is no server of <p>. Only load strings show that: stats rows in
 * maintenance add no server. Another HAProxy may name it within the first window. */
void attached_engine(struct route *r, struct pool *p, struct span server, msec now)
{
	if (p->loaded != 0 && problems_settled(&r->problems, &r->opts.problems, now))
		problems_bad(of_pool(r, p), PROBLEM_ENGINE_UNNAMED, server, SPAN(""), 0);
}

/* ---- calls from outside of the core -------------------------------------------------------- */

void route_without_feed(struct route *r)
{
	pthread_mutex_lock(&r->lock);
	r->feedless = true;
	pthread_mutex_unlock(&r->lock);
}

void route_line_plain(struct route *r)
{
	__atomic_fetch_add(&r->problems.plain, 1, __ATOMIC_RELAXED);
}

void route_line_nameless(struct route *r, const struct fact *f)
{
	struct problem_pool *pp;

	pthread_mutex_lock(&r->lock);
	pp = of_pool(r, fleet_find(&r->fleet, f->pool));
	problems_line(pp);
	problems_count(pp, PROBLEM_UID_MISSING, true);
	pthread_mutex_unlock(&r->lock);
}

void route_stray(struct route *r, enum problem what, struct span peer)
{
	pthread_mutex_lock(&r->lock);
	problems_bad(r->problems.pool[0], what, peer, SPAN(""), 0);
	pthread_mutex_unlock(&r->lock);
}

bool route_problem_next(struct route *r, msec now, struct problem_event *e)
{
	bool more;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	more = problems_next(&r->problems, &r->opts.problems, now, e);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	return more;
}

void route_clear_problems(struct route *r)
{
	pthread_mutex_lock(&r->lock);
	problems_clear(&r->problems);
	pthread_mutex_unlock(&r->lock);
}

void route_each_problem(
    struct route *r, msec now, void (*fn)(void *arg, const struct problem_view *v), void *arg)
{
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	for (unsigned k = 0; k < PROBLEM_COUNT; k++) {
		for (unsigned i = 0; i < r->problems.n; i++) {
			const struct problem_pool *pp = r->problems.pool[i];
			struct problem_view v;

			if (i > 0 && !pp->e[k].raised && pp->e[k].warned == 0)
				continue;
			v = problem_view(pp, (enum problem)k, &r->opts.problems, now);
			fn(arg, &v);
		}
	}
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
}

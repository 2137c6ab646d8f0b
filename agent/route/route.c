/* route.c - one request, one direction:
 *
 *   body -> pages -> match -> [ load -> candidates -> choose -> ledger ] -> answer -> commit
 *
 *      take_back.c     undo what an earlier slice, or request of this uid, has entered
 *      job_match.c     ask the index, events of engines, and memories of rules
 *      candidates.c, choose.c, chosen.c, ledger_enter.c    the part in brackets
 *      job_answer.c    the end of route_begin()
 *      commit.c, explain.c, traffic_put.c    route_finish()
 *
 * The part in brackets runs under the route's lock. Matching and committing do not, so that only
 * microseconds are serial. The caller sends the answer before the rest is done. What comes of the
 * request to another thread meanwhile waits for that: finished_entry(). */
#include <assert.h>

#include "agent/route/job_in.h"

uint64_t route_uid(const struct route *r, struct span uid)
{
	return hash64(&r->key, uid.p, uid.n);
}

void job_start(struct route *r, struct route_scratch *s, const struct route_request *q, msec now,
	       struct job *j, struct request_message *m)
{
	*m = (struct request_message){
		.uid = route_uid(r, q->uid), .has_uid = q->uid.n > 0, .pool = q->pool, .path = q->path,
		.tenant = q->tenant, .model = q->model, .body = q->body, .seq = q->seq,
		.visible = q->visible, .whole = q->whole, .wall_s = q->wall_s,
	};
	*j = (struct job){
		.opts = &r->opts, .scratch = s, .session = q->session, .user = q->user, .load = q->load,
		.path = q->path,
		.no_compare = q->no_compare, .previous = SERVER_NONE, .to = SERVER_NONE,
		.session_at.id = SERVER_NONE, .by_path.id = SERVER_NONE,
		.prefill.previous = SERVER_NONE,
	};
	request_start(&j->rq, &r->requests, &s->rq, m, now);
}

static void count_tokens(struct route *r, const struct job *j)
{
	r->stats.tokenized += j->rq.news.made;
	r->stats.tokens += j->rq.news.ids;
	r->stats.tokenize_failed += j->rq.news.failed;
	r->stats.tokenize_bounded += j->rq.news.bounded;
	r->stats.tokenize_bounded_by[j->rq.bound] += j->rq.news.bounded;
	r->stats.chat_refused += j->rq.refused && j->rq.seq <= 0;
	r->stats.chat_unknown += j->rq.unknown && j->rq.seq <= 0;
}

static void count_request(struct route *r, struct job *j, const struct route_answer *a)
{
	if (j->rq.seq > 0)
		return;
	r->stats.requests++;
	r->stats.why[a->why]++;
	r->stats.cut += a->cut;
	r->stats.headless_saved += j->rq.lent;
	if (j->pool_seen != NULL)
		j->pool_seen->requests++;
}

/* Decide and enter the request in the ledger. The lock is held. */
static void decide_locked(
    struct route *r, struct job *j, struct route_answer *a, struct settling *st)
{
	ledger_prefetch(&r->ledger);
	job_take_load(r, j, st);
	if (a->why == WHY_COLD) {
		if (j->pool_seen == NULL || !j->has_load)
			a->why = WHY_NOLOAD;
		else
			job_choose_server(r, j, st);
	}
	if (a->why == WHY_COLD) {
		a->why = why_of_choice(j);
		if (j->choice.first >= 0)
			job_answer(r, j, a);
	} else if (a->why == WHY_NOPROMPT || a->why == WHY_BADBODY) {
		job_stored_by_path(r, j, a);
	}
	job_hide_choice(j, a);
	count_request(r, j, a);
	count_tokens(r, j);
}

/* Return a number in place of a missing uid. No fact can name it, so load strings and age close the
 * entry. */
static uint64_t number_nameless(struct route *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = ++r->nameless;
	pthread_mutex_unlock(&r->lock);
	return hash_mix(&r->key, 6, n);
}

/* Only read the load string: servers stay known, and requests that were open get closed. */
static void decide_off(
    struct route *r, struct job *j, const struct route_request *q, struct route_answer *a)
{
	struct settling st;

	settling_init(&st);
	a->why = WHY_SHADOW;
	pthread_mutex_lock(&r->lock);
	j->pool_seen = pool_met(r, j->rq.pool);
	job_take_load(r, j, &st);
	j->named = r->sessions != NULL && (q->session.n > 0 || q->user.n > 0);
	attached_request(r, j, q, true);
	count_request(r, j, a);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, j->rq.now);
}

static void decide_request(
    struct route *r, struct job *j, const struct route_request *q, struct route_answer *a)
{
	struct settling *st = &j->scratch->settling;
	uint64_t work;
	bool prompt;

	settling_init(st);
	job_enter_pool(j);
	job_take_back(r, j);
	work = request_take_work(&j->rq, q->work);
	a->why = why_of_found(request_read_prompt(&j->rq));
	prompt = a->why == WHY_COLD;
	a->work = request_pay_work(&j->rq, work);
	a->cut = j->rq.cut && j->rq.prompt->found;
	a->more = j->rq.more && a->why != WHY_BADBODY;
	if (a->why == WHY_COLD) {
		a->prompt_pages = j->rq.n_pages;
		job_match(r, j);
		a->tokens = job_as_counted(j, j->asks.tokens);
		a->priority = j->rq.prompt->priority_hinted ? j->rq.prompt->priority : 0;
		if (model_is_fit(j->rq.space_model))
			a->model = j->rq.space_model;
	}
	j->rq.more = a->more;
	pthread_mutex_lock(&r->lock);
	decide_locked(r, j, a, st);
	attached_request(r, j, q, prompt);
	pthread_mutex_unlock(&r->lock);
}

/* Return true if a decision was made, so that route_finish() is due. */
static bool decide_body(struct route *r, struct job *j, const struct request_message *m,
    const struct route_request *q, struct route_answer *a)
{
	if (q->seq <= 0 && pool_options_of(j->opts, j->rq.pool)->mode == MODE_OFF) {
		decide_off(r, j, q, a);
		return false;
	}
	a->stands = !request_take_body(&j->rq, m) || !request_is_due(&j->rq);
	if (a->stands) {
		a->more = j->rq.more;
		return false;
	}
	decide_request(r, j, q, a);
	return true;
}

static void count_slice(struct route *r)
{
	pthread_mutex_lock(&r->lock);
	r->stats.slices++;
	pthread_mutex_unlock(&r->lock);
}

/* The options stay locked if a decision is left to be finished. They must be those of the choice:
 * a rule's memory that was asked for a match is told of it, and a mode that named no server names
 * none now. New options, and requests that come after them, wait until then, as they wait for the
 * decision itself: the caller does no more than one write to a socket meanwhile, which does not
 * block, and takes this lock no second time (opts_lock_init()). */
void route_begin(struct route *r, struct route_scratch *s, const struct route_request *q,
		 msec now, struct route_answer *a)
{
	struct request_message m;
	struct job *j = &s->job;

	assert(!s->unfinished);
	*a = (struct route_answer){
		.why = WHY_NOPROMPT, .rank = -1, .wait_ms = -1, .pool = ROUTE_NO_POOL,
	};
	s->record = 0;
	pthread_rwlock_rdlock(&r->opts_lock);
	job_start(r, s, q, now, j, &m);
	if (q->uid.n == 0)
		j->rq.uid = number_nameless(r);
	s->unfinished = decide_body(r, j, &m, q, a);
	if (j->pool_seen != NULL && !a->stands)
		a->pool = j->pool_seen->number;
	if (q->seq > 0)
		count_slice(r);
	s->uid = q->uid;
	s->answer = *a;
	if (!s->unfinished) {
		request_keep_body(&j->rq);
		pthread_rwlock_unlock(&r->opts_lock);
	} else if (j->rq.more) {	/* its next slice may come to another thread */
		route_finish(r, s);
	}
}

uint64_t route_finish(struct route *r, struct route_scratch *s)
{
	struct job *j = &s->job;

	if (!s->unfinished)
		return s->record;
	decisions_prefetch_put(r->decisions, j->rq.uid);
	settle_given(r, &s->settling);
	job_tell_choice(r, j);
	settle(r, &s->settling, j->rq.now);
	s->record = explain(r, j, s->uid, &s->answer);
	traffic_job(r, j);
	request_keep_body(&j->rq);
	job_finished(r, j);
	s->unfinished = false;
	pthread_rwlock_unlock(&r->opts_lock);
	return s->record;
}

void route_decide(struct route *r, struct route_scratch *s, const struct route_request *q,
		  msec now, struct route_answer *a)
{
	route_begin(r, s, q, now, a);
	a->decision = route_finish(r, s);
}

void route_decline(struct route *r, const struct route_request *q, struct route_answer *a)
{
	*a = (struct route_answer){
		.why = WHY_OVERLOAD, .rank = -1, .wait_ms = -1, .pool = ROUTE_NO_POOL,
		.stands = q->seq > 0,
	};
	pthread_mutex_lock(&r->lock);
	if (q->seq > 0) {
		r->stats.slices++;
	} else {
		r->stats.requests++;
		r->stats.why[WHY_OVERLOAD]++;
	}
	pthread_mutex_unlock(&r->lock);
}

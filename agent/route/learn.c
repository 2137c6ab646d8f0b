/* learn.c - what became of a request, into the ledger and the index.
 *
 *      first, 2xx, event stream   its first token: it waits no longer; its pages stay claimed
 *      first, 2xx, anything else  the whole answer is ready: done
 *      first, not 2xx             it failed: done, and its pages were never computed
 *      done                       over; served if it answered 2xx with headers, else failed
 *
 * Only the first of these is a first-token report; other facts "first" say no more than an end
 * does. An answer of HAProxy itself ("<CACHE>" and the like) served nothing.
 *
 * A request that HAProxy moved to another server is counted, and its pages are claimed, where it
 * really went. Its end, fact_verdict(), raises or lowers the penalty of the server that had it
 * last. A retry elsewhere is a failure of the server that we chose. Each request counts once,
 * whichever fact comes first. A fact for a uid that is not open only changes a counter, because log
 * lines may come twice, late, or for requests that the agent never saw. */
#include "agent/feed/orca.h"
#include "agent/route/learn_in.h"

static void note_time(struct pool *p, const struct fact *f, msec now)
{
	if (is_first_token(f))
		p->first_seen = now;
	else
		p->done_seen = now;
}

/* Return the server that got the request: as the fact says, else the one that we chose. Returns
 * NULL if no load string has named that server; then no known server holds the pages. For a request
 * of a sibling it is added, because load strings that name it may only come to that sibling. */
static struct server *went_to(
    struct route *r, struct ledger_entry *e, const struct fact *f, msec now)
{
	struct server *s;

	if (f->server.n == 0 || is_of_haproxy(f->server))
		return e->server != e->server->pool->nowhere ? e->server : NULL;
	if (open_of(e)->owner == NULL)
		return pool_find(e->server->pool, f->server, SIZE_MAX);
	if ((s = server_met(r, e->server->pool, f->server, SIZE_MAX)) != NULL)
		server_told(s, now);
	return s;
}

/* Tell if an engine failed inside a stream, which begins with status 200 whatever comes. <to>: the
 * server of <e>, or NULL. */
static bool failed_in_stream(struct ledger_entry *e, const struct fact *f, struct server *to)
{
	if (f->kind != FACT_DONE || to == NULL || to == to->pool->nowhere || is_of_haproxy(f->server) ||
	    fact_verdict(f) != VERDICT_WORKED || !(e->answered || open_of(e)->lesson.streams))
		return false;
	return server_stream_ended(to, answer_empty(f));
}

/* In shadow mode HAProxy sends a request to a server that nothing names until its first fact. Set
 * <w>: its work at <to>, if that had it from the beginning. Returns false if it did not, or if the
 * work there is unknown. */
static bool placed_at_once(
    struct ledger_entry *e, const struct server *to, const struct fact *f, struct work *w, msec now)
{
	const struct pool *p = to->pool;
	struct shadow_work told;

	if (e->server != p->nowhere || f->redispatched || f->retries > 0 ||
	    !shadow_work_at(p->route->shadow, e->uid, to->id, &told))
		return false;
	*w = (struct work){
		.nominal_s = policy_prefill_s(&p->opts->policy, told.tokens, told.cached),
		.tokens = told.tokens > told.cached ? told.tokens - told.cached : 0,
		.uncertain = told.untimed,
	};
	w->s = w->nominal_s * server_slowness(to, p->step, now);
	w->unseen_s = e->work.unseen_s < w->s ? e->work.unseen_s : w->s;
	return true;
}

/* Move the entry to <to>, where it waited from the beginning if <w> is its work there; NULL: it was
 * moved. */
static bool move_entry(struct ledger_entry *e, struct server *to, const struct work *w,
    struct outcome *out, msec now)
{
	struct slot *sl = server_slot(to, e->slot->process, now);

	if (sl == NULL)
		return false;
	run_ended(e);
	open_of(e)->doubt = (struct doubt){ 0 };	/* as of the chosen server */
	if (w != NULL) {
		open_of(e)->expected_s = -1;	/* it was for the chosen server */
		ledger_place(e, to, sl, w, now);
	} else {
		ledger_move(e, to, sl, now);
	}
	out->moved_to = to->id;
	return true;
}

/* Remember that the entry of <uid> is closed. */
static void note_closed(
    struct route *r, uint64_t uid, const struct fact *f, const struct outcome *out)
{
	if (r->sharing != NULL)
		seen_put(r->sharing, uid, f->kind == FACT_FIRST ? SEEN_CLOSED :
			out->theirs ? SEEN_OVER_THERE : SEEN_OVER);
}

static void learn_first(struct route *r, struct ledger_entry *e, const struct fact *f,
			struct outcome *out, msec now)
{
	if (is_first_token(f)) {
		open_of(e)->lesson.whole = false;
		if (out->confirm)		/* else its server is unknown */
			learn_first_token(r, e, now);
		ledger_answered(e, now);
		/* the claim stays, because the engine keeps all its blocks until it ends,
		 * and they were used last then */
		if (!out->confirm || out->moved_to != SERVER_NONE)
			out->claim = ledger_settle(e, out->confirm);
	} else {
		if (!out->theirs)
			attached_answered(r, e->server->pool);
		note_closed(r, e->uid, f, out);
		out->claim = entry_close(r, e, out->confirm, now);
	}
}

/* Tell if a sibling has told the end of this request before the log line came here. */
static bool told_by_sibling(const struct route *r, uint64_t uid)
{
	return r->sharing != NULL && uid != 0 && seen_find(r->sharing, uid) == SEEN_OVER_THERE;
}

static bool is_set(struct span s)
{
	return s.n > 0 && !(s.n == 1 && s.p[0] == '-');
}

/* Count by whether HAProxy asked, if the line tells and a server had the request. */
static void count_asked(struct route *r, const struct fact *f)
{
	if (!f->line || !f->has_why || !is_set(f->server) || is_of_haproxy(f->server))
		return;
	r->stats.asked[f->error > 0 ? ASKED_FAILED : is_set(f->why) ? ASKED_YES : ASKED_NO]++;
}

/* Count a fact that came to this agent. */
static void count_fact(
    struct route *r, uint64_t uid, const struct ledger_entry *e, const struct fact *f, msec now)
{
	if (f->kind == FACT_FIRST)
		r->stats.firsts++;
	else
		r->stats.dones++;
	count_asked(r, f);
	r->stats.facts_unknown += e == NULL && !told_by_sibling(r, uid);
	attached_fact(r, uid, e, f, now);
}

/* Decide whether siblings must be told, before the entry is closed. */
static void note_owner(
    struct route *r, const struct ledger_entry *e, const struct fact *f, struct outcome *out)
{
	const struct open_request *o = (const struct open_request *)e;

	out->ours = o->owner == NULL;
	if (r->sharing == NULL)
		return;
	out->part = o->part;
	out->tell = !out->theirs && (out->ours || !f->line);
}

/* Move the entry to the server that got the request, and return that; NULL if it is unknown. */
static struct server *follow_request(struct route *r, struct ledger_entry *e, const struct fact *f,
    struct outcome *out, msec now)
{
	struct server *to = went_to(r, e, f, now);
	struct work work;
	bool placed = to != NULL && to != e->server && placed_at_once(e, to, f, &work, now);

	if (to != e->server && !placed)
		e->from = e->server->id;
	if (to != NULL)
		shadow_went(to->pool->route->shadow, e->uid, to->id);
	if (to != e->server || !is_first_token(f))
		capacity_forget(&e->server->capacity, e->uid);
	if (to != NULL && to != e->server && !move_entry(e, to, placed ? &work : NULL, out, now))
		to = NULL;
	out->answered_by = is_of_haproxy(f->server) ? NULL : to;
	return to;
}

/* Learn a fact of a request that is open, and close it unless its answer goes on. */
static void learn_open(
    struct route *r, struct ledger_entry *e, const struct fact *f, struct outcome *out, msec now)
{
	const uint64_t uid = e->uid;
	struct server *to;
	bool failed;

	note_owner(r, e, f, out);
	if (out->ours && f->kind == FACT_DONE) {
		learn_cached(r, f, e->prompt_tokens, open_of(e)->hit_tokens);
		times_end(e->server->pool, uid, now - e->since);
	}
	note_time(e->server->pool, f, now);
	learn_tokens(r, &open_of(e)->lesson, f, out, now);
	open_of(e)->answer = out->output_tokens;
	to = follow_request(r, e, f, out, now);
	learn_response(r, &open_of(e)->lesson, to, f, out);
	e->unsent = f->kind == FACT_DONE && is_of_haproxy(f->server) && f->connect_ms < 0 &&
	    f->retries <= 0;
	failed = failed_in_stream(e, f, to);
	learn_verdict(r, e, f, failed ? VERDICT_BROKEN : fact_verdict(f), to, now);
	if (failed && e->from == SERVER_NONE)
		rate_take_back(&to->rate, e->added);
	out->confirm = to != NULL && is_served(f) && !failed &&
	    (f->kind == FACT_FIRST || f->response_ms >= 0);
	if (out->confirm)
		onway_ended(r, uid, now);
	if (f->kind == FACT_FIRST) {
		learn_first(r, e, f, out, now);
		return;
	}
	if (out->confirm)
		learn_served(r, e, to, f, out, now);
	else if (e->server->stores_due == e->since)	/* its blocks may never be stored */
		e->server->stores_due = 0;
	out->confirm |= e->answered && !failed;
	out->claim = entry_close(r, e, out->confirm, now);
	note_closed(r, uid, f, out);
}

void learn_locked(
    struct route *r, uint64_t uid, const struct fact *f, struct outcome *out, msec now)
{
	struct ledger_entry *e = uid != 0 ? finished_entry(r, uid) : NULL;

	if (!out->theirs)
		count_fact(r, uid, e, f, now);
	if (r->splits && uid != 0)
		prefill_fact(r, uid, e, f, out, now);
	if (e != NULL)
		learn_open(r, e, f, out, now);
	else if (r->sharing == NULL || share_unopened(r, uid, f, out, now))
		learn_answered(r, uid, f, out, now);
}

/* Return the time since the server sent its headers, or -1 if the line does not tell. */
static msec headers_age(const struct fact *f)
{
	msec before = f->response_ms;

	if (f->total_ms < 0 || f->response_ms < 0)
		return -1;
	before += f->queue_ms > 0 ? f->queue_ms : 0;
	before += f->connect_ms > 0 ? f->connect_ms : 0;
	return f->total_ms > before ? f->total_ms - before : 0;
}

/* Learn from the load header that the answer had. It was made when the headers were, and it is
 * applied to the server that made it, whatever it says. To be called after the request was closed,
 * because its engine has freed its blocks by then. */
static enum orca_result learn_load(struct route *r, const struct fact *f,
    const struct engine_load *l, struct server *s, msec now)
{
	msec age = headers_age(f);

	if (!engine_load_told(l))
		return ORCA_BAD;
	if (s == NULL)
		return ORCA_UNKNOWN;
	if (age < 0 || age >= LOAD_HOLDS_MS || !server_take_load(r, s, l, now - age))
		return ORCA_LATE;
	return ORCA_TAKEN;
}

void learn_settle(struct route *r, struct outcome *out, msec now)
{
	if (out->prefill_claim != 0 && out->prefill_confirm)
		index_confirm(r->index, out->prefill_claim, now);
	else if (out->prefill_claim != 0)
		index_cancel(r->index, out->prefill_claim);
	if (out->claim != 0 && !out->confirm)
		index_cancel(r->index, out->claim);
	else if (out->claim != 0 && out->moved_to != SERVER_NONE)
		index_confirm_at(r->index, out->claim, out->moved_to, now);
	else if (out->claim != 0)
		index_confirm(r->index, out->claim, now);
	if (out->kept_tokens > 0 || out->hidden_tokens > 0)
		index_add_output(r->index, out->at,
		    room_of_tokens((uint64_t)out->kept_tokens + out->hidden_tokens), now);
}

void route_learn(struct route *r, const struct fact *f, msec now)
{
	struct outcome out = { .moved_to = SERVER_NONE };
	uint64_t uid = f->uid.n > 0 ? route_uid(r, f->uid) : 0;
	struct engine_load load;

	if (f->orca.n > 0 && orca_parse(f->orca, &load) < 0)
		load = ENGINE_LOAD_NONE;
	decisions_prefetch(r->decisions, uid);
	if (uid != 0)		/* HAProxy has sent it on: no more slices will come */
		slices_forget(&r->requests.slices, uid);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	learn_locked(r, uid, f, &out, now);
	if (f->orca.n > 0)
		r->stats.orca[learn_load(r, f, &load, out.answered_by, now)]++;
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	if (uid != 0)
		decisions_learn(r->decisions, uid, f, out.output_tokens, now);
	traffic_fact(r, uid, f, out.output_tokens, now);
	learn_settle(r, &out, now);
	if (out.tell)
		share_fact(r, uid, out.part, f, out.stored);
}

/* share_apply.c - what siblings tell, into the ledger and the index.
 *
 *   PLACED   pages up to the anchor from the own tree + pages sent -> claim, entry in the ledger
 *   FACT     learn_locked(), as if it had come here
 *
 * One entry and one claim for each request, whatever comes first:
 *
 *   entry of this agent is open      a PLACED for it is ignored: HAProxy asked both
 *   entry of a sibling is open       the same PLACED is ignored; another of it replaces the first
 *   closed a moment ago              a PLACED is ignored; a fact if its end was learned (seen)
 *   unknown                          a fact waits for its PLACED (early) */
#include "agent/base/num.h"
#include "agent/feed/response_id.h"
#include "agent/base/mem.h"
#include "agent/route/share_sync_in.h"

#define WORK_MOST_S	3600.0		/* of one request; more is no estimate */
#define TOKENS_MOST	((uint64_t)1 << 32)

/* ---- PLACED --------------------------------------------------------------------------------- */

static double bounded(double v, double most)
{
	return v > 0 ? v < most ? v : most : 0;		/* not a number: 0 */
}

/* Find or add the server that a sibling has chosen; the nowhere of its pool if <at> names none.
 * Returns NULL if there is no room. */
static struct server *server_chosen(struct route *r, const struct share_server *at, msec now)
{
	struct pool *p = pool_met(r, at->pool);
	struct server *s = p == NULL ? NULL :
	    at->server.n == 0 ? fleet_nowhere(&r->fleet, p) : server_met(r, p, at->server, SIZE_MAX);

	if (s != NULL)
		server_told(s, now);
	return s;
}

/* Identify what a PLACED says, to tell a repeated one from one that replaces it. */
static uint64_t placed_as(const struct route *r, const struct share_placed *p)
{
	uint64_t h = hash_mix_span(&r->key, 42, p->at.server);

	h = hash_mix(&r->key, h, p->anchor.hash);
	h = hash_mix(&r->key, h, (uint64_t)p->anchor.depth << 32 | p->n);
	h = hash_mix(&r->key, h, p->session.key);
	h = hash_mix(&r->key, h, p->session.hidden);
	return hash_mix(&r->key, h, p->prompt_tokens);
}

static void undo_turn(const struct ledger_entry *e)
{
	const struct open_request *o = (const struct open_request *)e;

	if (e->server->last_pick == o->turn)
		e->server->last_pick = o->turn_before;
}

/* Tell if <p> is news. Closes the entry that it replaces. */
static bool is_news(struct route *r, const struct sibling *by, const struct share_placed *p,
    struct settling *st, msec now)
{
	struct ledger_entry *e = ledger_find(&r->ledger, p->uid);

	if (p->uid == 0 || seen_find(r->sharing, p->uid) != SEEN_NOT)
		return false;
	if (e == NULL)
		return true;
	if (open_of(e)->owner != by || open_of(e)->placed_as == placed_as(r, p))
		return false;
	undo_turn(e);
	session_give_back(r, open_of(e), st);
	settling_add(st, entry_close(r, e, false, now), false);
	return true;
}

static void make_room(struct route *r, struct settling *st, msec now)
{
	if (r->ledger.n == 0 || r->ledger.n < r->opts.ledger_max_entries)
		return;
	close_unheard(r, list_entry(r->ledger.by_age.next, struct ledger_entry, by_age), st, now);
	r->stats.closed_by_room++;
}

/* Tell if a server of another pool computes the prompt: every other one has a token to compute. */
static bool is_elsewhere(const struct share_placed *p)
{
	return bounded(p->nominal_s, WORK_MOST_S) <= 0 && p->work_tokens == 0;
}

static struct work work_of(const struct share_placed *p, const struct server *s, msec now)
{
	double slowness = server_slowness(s, s->pool->step, now);
	double nominal_s = bounded(p->nominal_s, WORK_MOST_S);

	return (struct work){
		.s = nominal_s * slowness,
		.nominal_s = nominal_s,
		.unseen_s = bounded(p->unseen_s, nominal_s) * slowness,
		.tokens = at_most(p->work_tokens, TOKENS_MOST),
		.uncertain = p->uncertain,
		.elsewhere = is_elsewhere(p),
	};
}

static void note_lesson(struct lesson *l, const struct share_placed *p, uint32_t page_tokens)
{
	l->seen = (uint32_t)at_most(((uint64_t)p->anchor.depth + p->n) * page_tokens, UINT32_MAX);
	l->block = p->block;
	l->streams = p->streams;
	l->whole = p->whole;
	l->generates = p->generates;
	l->hidden = p->session.hidden;
	l->stores = p->stores;
	l->end = (struct grown_end){
		.key = p->end.key, .tokens = p->end.tokens, .tail = p->end.tail, .n_tail = p->end.n_tail,
	};
}

/* Note what the request means for the caches, as note_pick() does for one of this agent. <w>: its
 * pages, whose marks are in sh->marks. */
static void note_prompt(struct route *r, struct server *s, const struct share_placed *p,
    const struct whole *w, msec now)
{
	const struct marks *m = &r->sharing->marks;
	uint64_t tokens = at_most(p->prompt_tokens, TOKENS_MOST), fresh = at_most(p->work_tokens, tokens);
	uint32_t page_tokens = w->space.page_room / ROOM_OF_TOKEN;
	const struct capacity_sent sent = {
		.marks = m, .room = server_room(s), .uid = p->uid, .tokens = tokens,
		.unseen = p->uncertain ? tokens - at_most((uint64_t)w->n * page_tokens, tokens) : 0,
		.matched = page_tokens > 0 ? (uint32_t)at_most((tokens - fresh) / page_tokens, w->n) : 0,
		.page_tokens = page_tokens, .waiting = s->unanswered_tokens,
	};

	if (w->n == 0 || page_tokens == 0)
		return;
	/* the first token of a prompt that another server computes tells nothing of this cache */
	if (r->marks != NULL && s != s->pool->nowhere && !is_elsewhere(p))
		capacity_sent(&s->capacity, r->marks, &sent, now);
	if (r->shared != NULL && p->branched > 0)
		shared_branch(r->shared, m, (uint32_t)at_most(p->branched, w->n), now);
	onway_sent(r, p->uid, m, s, fresh, now);
}

/* Make <u> the turn that the request is. Its marks, in sh->marks, are borrowed. */
static void turn_of(struct route *r, const struct share_placed *p, struct session_turn *u)
{
	const struct marks *m = &r->sharing->marks;

	*u = (struct session_turn){
		.key = p->session.key, .tenant = p->session.tenant, .kind = p->session.kind,
		.tokens = at_most(p->session.tokens, TOKENS_MOST), .cut = p->session.cut,
		.ago = r->sharing->age_ms, .rough = p->session.rough,
		.n = m->n, .depth = m->depth, .mark = m->key,
	};
}

/* Return the turn before, if hidden tokens of it are counted at <to>. They are taken back, and
 * count with those that the PLACED has beyond them when this turn ends; NULL: there are none. */
static const struct session_tail *counted_tail(const struct session_view *v, server_id to)
{
	for (unsigned k = 0; v->trusted && k < SESSION_TAILS; k++)
		if (v->tail[k].server == to && v->held[k] > 0 && v->tail[k].hidden > 0)
			return &v->tail[k];
	return NULL;
}

static void take_hidden_back(
    struct route *r, uint64_t session, server_id at, const struct session_tail *l)
{
	index_take_output(r->index, at, room_of_tokens(l->hidden), l->at);
	pthread_mutex_lock(&r->lock);
	sessions_uncounted(r->sessions, session, l->at);
	pthread_mutex_unlock(&r->lock);
}

#define OLD_MS	1000	/* an entry may have been read before; also how much clocks may differ */

/* Note the turn of its session, as ledger_enter() does for one of this agent. An old entry may be
 * of a turn that is known from a snapshot. */
static void note_session(struct route *r, struct open_request *o, const struct share_placed *p,
    struct session_view *v, msec now)
{
	const struct server *s = o->e.server;
	double work_s = o->e.work.s;
	const struct session_tail *l;
	struct session_turn u;
	bool again;

	if (p->session.key == 0 || r->sessions == NULL)
		return;
	turn_of(r, p, &u);
	o->session = u.key;
	sessions_look(r->sessions, &u, v);
	if ((l = counted_tail(v, s->id)) != NULL) {
		o->taken_up = l->hidden;
		o->taken_up_since = l->at;
	}
	o->lesson.hidden += at_most(o->taken_up, UINT32_MAX - o->lesson.hidden);
	again = p->session.again || (v->known && u.ago > OLD_MS && v->seen > now - u.ago - OLD_MS);
	sessions_sent(
	    r->sessions, &u, s->id, again, (uint32_t)(work_s < 1000 ? work_s * 1e6 : 1e9), now);
}

/* Open an entry at <s>. Returns NULL if there is no memory. */
static struct ledger_entry *open_entry(struct route *r, struct sibling *by, struct server *s,
    const struct share_placed *p, const struct whole *w, msec now)
{
	struct slot *sl = server_slot(s, PROCESS_OF_SIBLINGS, now);
	struct work work = work_of(p, s, now);
	uint64_t tokens = at_most(p->prompt_tokens, TOKENS_MOST);
	struct ledger_entry *e;
	struct open_request *o;

	if (sl == NULL || (e = ledger_open(&r->ledger, p->uid, s, sl, &work, tokens,
			       at_most(p->common_tokens, tokens), now)) == NULL)
		return NULL;
	o = open_of(e);
	o->part = share_part(r->sharing, p->space.h[0]);
	o->placed_as = placed_as(r, p);
	r->splits |= work.elsewhere;
	o->run = is_elsewhere(p) || s == s->pool->nowhere ? 0 : capacity_opened(&s->capacity);
	o->turn_before = s->last_pick;
	o->turn = s->last_pick = ++s->pool->picks;
	note_lesson(&o->lesson, p, w->space.page_room / ROOM_OF_TOKEN);
	sibling_opened(r->sharing, by, o);
	return e;
}

/* Enter the request, and set <v> if it has a session. Returns its server, or SERVER_NONE if it is
 * not entered. The lock is held. */
static server_id enter_placed(struct route *r, share_agent from, const struct share_placed *p,
    const struct whole *w, struct ledger_pending *pending, struct session_view *v,
    struct settling *st, msec now)
{
	struct sharing *sh = r->sharing;
	struct sibling *by = sibling_met(sh, from);
	struct ledger_entry *e;
	struct server *s;

	if (by != NULL && !is_news(r, by, p, st, now)) {
		count_add_any(&sh->n.repeated, 1);
		return SERVER_NONE;
	}
	if (by == NULL || (s = server_chosen(r, &p->at, now)) == NULL) {
		count_add_any(&sh->n.refused, 1);
		return SERVER_NONE;
	}
	make_room(r, st, now);
	note_prompt(r, s, p, w, now);
	if ((e = open_entry(r, by, s, p, w, now)) == NULL) {
		count_add_any(&sh->n.refused, 1);
		return SERVER_NONE;
	}
	note_session(r, open_of(e), p, v, now);
	if (w->n > 0)
		e->pending = pending;
	return s->id;
}

static void commit_placed(struct route *r, const struct share_placed *p, const struct whole *w,
    server_id to, const struct ledger_pending *pending, const struct session_view *v, msec now)
{
	uint32_t grown = (uint32_t)at_most(p->grown, w->n);
	const struct session_tail *l;
	struct index_place end;
	index_claim claim;

	if (grown > 0)
		index_take_output(r->index, to, grown * w->space.page_room,
		    now - (msec)at_most((uint64_t)(p->grown_ago_ms > 0 ? p->grown_ago_ms : 0), TOKENS_MOST));
	claim = share_commit(r, w, &p->anchor, to, p->priority, now, &end);
	attach_claim(r, p->uid, pending, claim, to, p->at.server.n == 0, now);
	if (p->session.key != 0 && (l = counted_tail(v, to)) != NULL)
		take_hidden_back(r, p->session.key, to, l);
	if (p->session.key != 0)	/* the marks say how much both prompts have in common, at least */
		session_placed(r, p->session.key, to, end, v, v->proven[0], now);
	share_enter_pages(r, w, end);
}

/* Learn a fact of a sibling, or one that came too early. */
static void learn_theirs(struct route *r, uint64_t uid, const struct fact *f, msec now)
{
	struct outcome out = { .theirs = true, .moved_to = SERVER_NONE };
	const struct ledger_entry *e;

	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	e = finished_entry(r, uid);
	if (f->kind == FACT_FIRST && e != NULL && e->answered)
		count_add_any(&r->sharing->n.repeated, 1);
	else
		learn_locked(r, uid, f, &out, now);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	if (out.ours) {
		slices_forget(&r->requests.slices, uid);
		decisions_learn(r->decisions, uid, f, out.output_tokens, now);
		traffic_fact(r, uid, f, out.output_tokens, now);
	}
	learn_settle(r, &out, now);
}

/* Learn the fact that came before its request <p>. Nothing was learned of its answer then. */
static void learn_early(struct route *r, const struct share_placed *p, msec now)
{
	const struct early *early;
	struct early copy;

	pthread_mutex_lock(&r->lock);
	if ((early = early_take(r->sharing, p->uid, now)) != NULL) {
		copy = *early;
		copy.fact.server.p = copy.server;
		if (copy.fact.stored == 0 && p->stores != 0)
			copy.fact.stored = response_key(r, p->stores, copy.response);
	}
	pthread_mutex_unlock(&r->lock);
	if (early != NULL)
		learn_theirs(r, p->uid, &copy.fact, now);
}

static void apply_placed(
    struct route *r, share_agent from, const struct share_placed *p, msec now)
{
	struct ledger_pending pending = { .settled = false };
	struct session_view v = { .shrank = false };
	struct settling st;
	struct whole w;
	server_id to = SERVER_NONE;
	bool early;

	seen_prefetch(r->sharing, p->uid);
	share_prefetch_pages(r->sharing, p);
	settling_init(&st);
	pthread_rwlock_rdlock(&r->opts_lock);
	if (pool_options_of(&r->opts, p->at.pool)->mode == MODE_OFF) {
		pthread_rwlock_unlock(&r->opts_lock);
		return;
	}
	share_take_placed(r, p, &w);
	pthread_mutex_lock(&r->lock);
	to = enter_placed(r, from, p, &w, &pending, &v, &st, now);
	early = to != SERVER_NONE && early_has(r->sharing, p->uid);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, now);
	if (to != SERVER_NONE && w.n > 0)
		commit_placed(r, p, &w, to, &pending, &v, now);
	pthread_rwlock_unlock(&r->opts_lock);
	if (early)
		learn_early(r, p, now);
}

/* ---- facts ---------------------------------------------------------------------------------- */

bool share_unopened(
    struct route *r, uint64_t uid, const struct fact *f, struct outcome *out, msec now)
{
	struct sharing *sh = r->sharing;
	const struct answered *a = &r->answered[uid % ANSWERED_MAX];
	enum share_seen was = uid != 0 ? seen_find(sh, uid) : SEEN_OVER;

	if (was == SEEN_OVER_THERE || (out->theirs && was == SEEN_OVER)) {
		count_add_any(&sh->n.repeated, out->theirs);
		return false;
	}
	if (uid != 0 && a->uid == uid && f->kind == FACT_DONE) {
		out->ours = a->ours;
		out->part = a->part;
		out->tell = !out->theirs && (a->ours || !f->line);
		seen_put(sh, uid, out->theirs ? SEEN_OVER_THERE : SEEN_OVER);
		return true;
	}
	if (was == SEEN_NOT) {
		early_put(
		    sh, uid, f, prompt_response_hash(&r->key, response_id_checked(f->response)), now);
		count_add_any(&sh->n.early, 1);
		if (out->theirs)		/* its PLACED may be lost */
			sync_wanted(sh, RESYNC_SOON);
		out->part = share_part(sh, uid);
		out->tell = !out->theirs && !f->line;
	}
	count_add_any(&sh->n.ignored, out->theirs && was != SEEN_NOT);
	return !out->theirs;
}

static void apply_fact(struct route *r, const struct share_fact *e, msec now)
{
	struct fact f = e->fact;

	f.uid = f.wanted = f.orca = f.token = f.why = f.response = (struct span){ 0 };
	f.line = f.has_why = false;
	f.error = -1;
	if (e->uid != 0)
		learn_theirs(r, e->uid, &f, now);
}

static void apply_taken_back(
    struct route *r, share_agent from, const struct share_taken_back *t, msec now)
{
	struct settling st;
	struct ledger_entry *e;

	settling_init(&st);
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	e = ledger_find(&r->ledger, t->uid);
	if (e != NULL && open_of(e)->owner != NULL && open_of(e)->owner->agent == from) {
		if (!t->served) {
			undo_turn(e);
			session_give_back(r, open_of(e), &st);
		}
		settling_add(&st, entry_close(r, e, t->served, now), t->served);
	}
	if (t->served && t->uid != 0 && seen_find(r->sharing, t->uid) == SEEN_NOT)
		seen_put(r->sharing, t->uid, SEEN_CLOSED);
	pthread_mutex_unlock(&r->lock);
	settle(r, &st, now);
	pthread_rwlock_unlock(&r->opts_lock);
}

/* ---- servers -------------------------------------------------------------------------------- */

/* A sibling knows that the engine's cache was empty then. */
static void note_cleared(struct route *r, const struct share_server *at, msec ago, msec now)
{
	server_id id = ago >= 0 ? sync_known(r, at) : SERVER_NONE;
	struct server *s;

	if (id == SERVER_NONE)
		return;
	pthread_mutex_lock(&r->lock);
	if ((s = r->fleet.by_id[id]) != NULL && now - ago > s->cleared + CLEARED_ALIKE_MS)
		server_cleared(r, s, now - ago);
	pthread_mutex_unlock(&r->lock);
}

void route_share_apply(struct route *r, share_agent from, const struct share_entry *e, msec now)
{
	struct sharing *sh = r->sharing;

	if (sh == NULL || from == sh->to.self || e->kind >= SHARE_KINDS)
		return;
	count_add_any(&sh->n.applied[e->kind], 1);
	sh->age_ms = e->age_ms;
	switch (e->kind) {
	case SHARE_PLACED:
		apply_placed(r, from, &e->u.placed, now);
		break;
	case SHARE_FACT:
		apply_fact(r, &e->u.fact, now);
		break;
	case SHARE_TAKEN_BACK:
		apply_taken_back(r, from, &e->u.taken_back, now);
		break;
	case SHARE_HELD:
		sync_apply_held(r, &e->u.held, now);
		break;
	case SHARE_CLEARED:
		if (!e->u.cleared.gone)
			note_cleared(r, &e->u.cleared.at, e->u.cleared.ago_ms, now);
		break;
	case SHARE_SERVER:
		share_take_learned(r, from, &e->u.server, now);
		break;
	case SHARE_DIGEST:
		if (e->age_ms > SHARE_COMPARED_MS)
			sync_apply_old(r, &e->u.digest, now);
		else
			sync_apply_digest(r, from, &e->u.digest, now);
		note_cleared(r, &e->u.digest.at, e->u.digest.cleared_ago_ms, now);
		break;
	case SHARE_ENDS:
		if (e->age_ms <= SHARE_COMPARED_MS)
			sync_apply_ends(r, from, &e->u.ends, now);
		break;
	case SHARE_WANT:
		sync_apply_want(r, from, &e->u.want, now);
		break;
	case SHARE_HEAD:
		count_add_any(&sh->n.refused, !heads_take(r->requests.heads, e->u.head.bytes));
		break;
	case SHARE_ALIVE:
		share_apply_alive(r, from, &e->u.alive, now);
		break;
	case SHARE_KINDS:
		break;
	}
}

/* session.c - what the session of a request tells: fleet/sessions.h; and which server has the
 * response that it continues, or that its path names: fleet/responses.h.
 *
 * Its key is a hash of the session's name, the tenant, and the first mark of the prompt, which
 * stands for the space and the first pages. So requests of one session with another system prompt,
 * such as one for a title, are another session. A prompt without a mark has none. */
#include "agent/feed/response_id.h"
#include "agent/route/job_in.h"

/* Return the hash of an argument, <kind> of which names a session. Later slices bring none: <kept>
 * is that of the first; NULL: the body comes whole. */
static uint64_t argument_of(
    const struct route *r, struct span name, uint64_t kind, uint64_t *kept)
{
	uint64_t h = name.n > 0 ? hash_mix_span(&r->key, kind, name) : 0;

	if (kept == NULL)
		return h;
	if (h != 0)
		*kept = h;
	return *kept;
}

/* Return the hash of the session's name: of the argument, else as the body names it, else of the
 * argument <user>, which names all sessions of a user. */
static uint64_t name_of(const struct route *r, struct job *j)
{
	uint64_t named = prompt_session(j->rq.prompt);
	struct sliced *sliced = j->rq.sliced;
	uint64_t session = argument_of(r, j->session, 9, sliced != NULL ? &sliced->session : NULL);
	uint64_t user = argument_of(r, j->user, 26, sliced != NULL ? &sliced->user : NULL);

	if (session != 0)
		return session;
	return named != 0 ? hash_mix(&r->key, 10, named) : user;
}

/* Return a hash of all whole groups of visible pages: the name of a cut prompt that has none. A
 * slice before the last shows fewer of them than its body. */
static uint64_t name_by_opening(const struct route *r, const struct job *j)
{
	const struct marks *m = &j->scratch->marks;
	uint64_t h = m->key[m->n - 1];

	for (uint32_t i = m->depth[m->n - 1]; i + CHAIN_GROUP <= j->rq.n_pages; i += CHAIN_GROUP)
		h = chain_group(h, &j->scratch->rq.pages.p[i]);
	return hash_mix(&r->key, 23, h);
}

/* ---- responses that engines store ----------------------------------------------------------- */

static uint64_t tenant_of(const struct route *r, const struct job *j)
{
	return hash_mix_span(&r->key, 16, j->rq.tenant) | 1;
}

uint64_t response_key(const struct route *r, uint64_t tenant, uint64_t id)
{
	return id != 0 ? hash_mix(&r->key, hash_mix(&r->key, 17, tenant), id) | 1 : 0;
}

uint64_t job_stores(const struct route *r, const struct job *j)
{
	return j->rq.prompt->api == API_RESPONSES ? tenant_of(r, j) : 0;
}

/* Tell if HAProxy sends a request to <s> whose name it is told. It does so while <s> is up: also if
 * it is drained or has weight 0, as then only new work goes elsewhere; or if it is a backup. */
static bool is_reached(const struct job *j, const struct server *s)
{
	struct watch_sum w = watch_sum(&s->watch, j->rq.now);

	if (s->pool != j->pool_seen)
		return false;
	if (j->by_stats)
		return w.reached;
	return s->up && s->seen >= s->pool->loaded && !w.maintained;
}

/* Return the server that has stored the response <id> of the tenant, or SERVER_NONE if HAProxy does
 * not reach it. */
static server_id stored_at(
    const struct route *r, const struct job *j, uint64_t id, uint32_t *tokens)
{
	server_id at = responses_find(r->responses, response_key(r, tenant_of(r, j), id), tokens);

	return at != SERVER_NONE && is_reached(j, r->fleet.by_id[at]) ? at : SERVER_NONE;
}

void job_stored(struct route *r, struct job *j)
{
	uint64_t id = j->rq.prompt->previous;
	uint32_t tokens = 0;
	server_id at;

	if (id == 0 || (at = stored_at(r, j, id, &tokens)) == SERVER_NONE)
		return;
	j->stored = true;
	j->history = job_as_taken(j, tokens);
	j->asks.tokens += j->history;
	j->scratch->candidates[0].id = at;
	j->n_candidates = 1;
	memset(&j->candidates, 0, sizeof(j->candidates));
	server_set_add(&j->candidates, at);
}

void job_stored_by_path(struct route *r, struct job *j, struct route_answer *a)
{
	struct span id = response_id_checked(prompt_response_of_path(j->path));
	const struct server *s;
	uint32_t tokens;
	server_id at;

	if (id.n == 0 || j->pool_seen == NULL || !j->has_load || j->pool_opts->mode != MODE_ON)
		return;
	at = stored_at(r, j, prompt_response_hash(&r->key, id), &tokens);
	r->stats.responses_followed += at != SERVER_NONE;
	r->stats.responses_unknown += at == SERVER_NONE;
	if (at == SERVER_NONE)
		return;
	s = r->fleet.by_id[at];
	j->by_path = (struct decision_server){ .id = at, .tag = (uint32_t)s->name_hash };
	a->server = span_str(memcpy(j->scratch->server, s->name, strlen(s->name) + 1));
	a->why = WHY_STICKY;
}

/* ---- sessions -------------------------------------------------------------------------------- */

void job_session(const struct route *r, struct job *j)
{
	const struct marks *m = &j->scratch->marks;
	uint64_t given = r->sessions != NULL ? name_of(r, j) : 0, name = m->n > 0 ? given : 0;
	bool part = j->rq.part || j->rq.news.bounded;
	uint64_t kind = j->asks.model;

	j->named = given != 0;
	if (r->sessions != NULL && m->n > 0 && name == 0 && j->rq.unseen_tokens > 0 && !part &&
	    !j->rq.more) {
		name = name_by_opening(r, j);
		kind = hash_mix(&r->key, 24, kind);
	}
	if (j->rq.unseen_tokens > 0)
		j->turn.tenant = tenant_of(r, j);	/* also without a session */
	if (name == 0)
		return;
	j->turn = (struct session_turn){
		.tenant = tenant_of(r, j), .kind = kind,
		.tokens = j->rq.tokens + j->rq.unseen_tokens,
		.cut = j->rq.cut || part || j->rq.unseen_tokens > 0,
		.rough = part || (j->rq.cut && j->rq.unseen_tokens == 0),
		.n = m->n, .depth = m->depth, .mark = m->key,
	};
	j->turn.key = hash_mix(&r->key, hash_mix(&r->key, name, j->turn.tenant), m->key[0]) | 1;
}

void job_session_look(const struct route *r, struct job *j)
{
	const struct server *s;

	if (j->turn.key == 0)
		return;
	sessions_look(r->sessions, &j->turn, &j->view);
	if (j->previous_turn == j->turn.key && j->view.turns <= 1)	/* all that is known is itself */
		j->view = (struct session_view){ .state = SESSION_NEW };
	if (!j->view.known || j->view.tail[0].server >= SERVERS_MAX ||
	    (s = r->fleet.by_id[j->view.tail[0].server]) == NULL)
		return;
	j->session_at = (struct decision_server){ .id = s->id, .tag = (uint32_t)s->name_hash };
}

/* Tell if what <l> left at <s> was surely evicted since. Where much of the prompts is not seen, no
 * size of a cache is inferred, and a small one does not grow. Then only a size that was told
 * counts; else kept_chance() does: a turn that stays for nothing costs no more than one that
 * leaves, and one that leaves for nothing costs its whole prompt. */
static bool is_gone(const struct route *r, const struct server *s, const struct session_tail *l)
{
	enum capacity_source by;
	bool sure;

	server_capacity(s, &by);
	sure = by > CAPACITY_INFERRED || (by == CAPACITY_INFERRED && !capacity_is_blind(&s->capacity));
	return l->at <= s->cleared || (sure && index_output_gone(r->index, s->id, l->at));
}

unsigned job_held_tail(const struct route *r, const struct job *j, const struct server *s)
{
	const struct session_view *v = &j->view;
	unsigned best = SESSION_TAILS;
	uint64_t most = j->rq.tokens;

	for (unsigned k = 0; v->trusted && k < SESSION_TAILS; k++) {
		if (v->tail[k].server == s->id && v->held[k] > most && !is_gone(r, s, &v->tail[k])) {
			best = k;
			most = v->held[k];
		}
	}
	return best;
}

/* Return the chance that the cache of <s> still has what tail <k> left there. */
static double kept_chance(const struct job *j, const struct server *s, unsigned k)
{
	const struct unseen_tenant *t = unseen_of(&s->pool->unseen, (uint32_t)j->turn.tenant);

	return keep_chance(&t->keep, j->rq.now - j->view.tail[k].at, j->rq.now);
}

uint64_t job_unseen_held(const struct route *r, const struct job *j, const struct server *s)
{
	uint64_t most = j->rq.unseen_tokens, held;
	unsigned k;

	if (j->turn.key != 0 && !j->view.known)
		return 0;
	if (!j->view.trusted)
		return most / 2;
	if ((k = job_held_tail(r, j, s)) == SESSION_TAILS)
		return 0;
	held = j->view.held[k] - j->rq.tokens;
	held = held < most ? held : most > 0 ? most - 1 : 0;	/* the last token is computed */
	return (uint64_t)((double)held * kept_chance(j, s, k));
}

/* Return the chance that the cache of <s> is so large that it still has the first <depth> pages. */
static double chance_of(
    const struct route *r, const struct job *j, const struct server *s, uint32_t depth)
{
	const struct marks *m = &j->scratch->marks;
	uint64_t far;
	uint32_t i = 0;

	while (i < m->n && m->depth[i] != depth)
		i++;
	if (i == m->n || r->marks == NULL || !capacity_far(&s->capacity, r->marks, m->key[i], &far))
		return 0;
	return capacity_chance(&s->capacity, &s->pool->capacity, s->pool->opts->capacity_guess, far);
}

uint64_t job_perhaps(const struct route *r, const struct job *j, const struct server *s,
    uint64_t cached, double *chance)
{
	const struct session_view *v = &j->view;
	enum capacity_source by;
	uint32_t depth = 0;
	uint64_t had;

	server_capacity(s, &by);
	if (by > CAPACITY_INFERRED || capacity_is_blind(&s->capacity))
		return 0;
	for (unsigned k = 0; k < SESSION_TAILS; k++) {
		const struct session_tail *l = &v->tail[k];

		if (l->server == s->id && l->let_go == 0 && l->at > s->cleared && v->proven[k] > depth)
			depth = v->proven[k];
	}
	had = (uint64_t)(depth < j->rq.usable ? depth : j->rq.usable) * j->rq.page_tokens;
	if (had <= cached)
		return 0;
	*chance = chance_of(r, j, s, depth);
	return had - cached;
}

/* Return the tail of the session whose pages <s> was let go of and has, more than <depth> of them;
 * SESSION_TAILS: none. */
static unsigned let_go_tail(
    const struct route *r, const struct job *j, const struct server *s, uint32_t depth)
{
	const struct session_view *v = &j->view;
	unsigned best = SESSION_TAILS;

	for (unsigned k = 0; k < SESSION_TAILS; k++) {
		const struct session_tail *l = &v->tail[k];

		if (l->server == s->id && l->let_go > s->cleared && l->let_go > 0 && v->proven[k] > depth &&
		    !index_output_gone(r->index, s->id, l->let_go)) {
			depth = v->proven[k];
			best = k;
		}
	}
	return best;
}

uint32_t job_let_go_depth(
    const struct route *r, const struct job *j, const struct server *s, uint32_t depth)
{
	unsigned k = let_go_tail(r, j, s, depth), held = job_held_tail(r, j, s);

	if (held < SESSION_TAILS && kept_chance(j, s, held) >= 0.5)	/* more than all that is seen */
		return j->rq.n_pages;
	return k < SESSION_TAILS ? j->view.proven[k] : depth;
}

void job_session_sent(struct route *r, struct job *j, const struct server *s)
{
	uint32_t depth = index_match_depth(&j->scratch->match, s->id);
	unsigned k = let_go_tail(r, j, s, depth), hidden = job_held_tail(r, j, s);

	/* a later slice may be sent elsewhere; of a turn that was seen whole nothing is hidden */
	if (hidden < SESSION_TAILS && j->view.tail[hidden].cut && !j->rq.more) {
		j->taken_up.all_hidden = true;
		j->taken_up.hidden = j->view.tail[hidden].hidden;
		j->taken_up.hidden_since = j->view.tail[hidden].at;
	}
	if (k == SESSION_TAILS)
		return;
	j->taken_up.pages = j->view.proven[k] - depth;
	j->taken_up.since = j->view.tail[k].let_go;
}

void session_placed(struct route *r, uint64_t key, server_id to, struct index_place end,
    const struct session_view *v, uint32_t keep, msec now)
{
	const struct session_place here = { end.node, end.depth, end.era };
	const struct session_tail *l = &v->tail[0];
	const struct session_place old = l->place;
	uint32_t room = 0;

	if (v->shrank) {
		room = index_let_go(
		    r->index, (struct index_place){ old.node, old.depth, old.era }, l->server, keep);
		index_add_output(r->index, l->server, room, now);
	}
	pthread_mutex_lock(&r->lock);
	sessions_placed(r->sessions, key, to, &here);
	if (room > 0)
		sessions_let_go(r->sessions, key, &old, now);
	pthread_mutex_unlock(&r->lock);
}

void session_give_back(struct route *r, const struct open_request *o, struct settling *st)
{
	const struct server *s = o->e.server;

	if (o->taken_up == 0 || o->taken_up_since <= s->cleared ||
	    index_output_is_past(r->index, s->id, o->taken_up_since) ||
	    !sessions_recounted(r->sessions, o->session, s->id, o->taken_up_since, o->taken_up))
		return;
	st->given.room = room_of_tokens(o->taken_up);
	st->given.at = s->id;
	st->given.since = o->taken_up_since;
}

void job_session_placed(struct route *r, struct job *j, struct index_place end)
{
	server_id before = j->view.tail[0].server;

	if (j->taken_up.pages > 0)
		index_take_output(r->index, j->to, j->taken_up.pages * j->rq.space.page_room,
		    j->taken_up.since);
	if (j->taken_up.hidden > 0) {
		index_take_output(r->index, j->to, room_of_tokens(j->taken_up.hidden),
		    j->taken_up.hidden_since);
		pthread_mutex_lock(&r->lock);
		sessions_uncounted(r->sessions, j->turn.key, j->taken_up.hidden_since);
		pthread_mutex_unlock(&r->lock);
	}
	session_placed(r, j->turn.key, j->to, end, &j->view,
	    j->view.shrank ? index_match_depth(&j->scratch->match, before) : 0, j->rq.now);
}

#define TURNS_MOST	20	/* that count */
#define BUSY_MOST	1.0	/* so that one client with many sessions moves others by a bound */

double job_promised_s(const struct route *r, const struct job *j, const struct server *s)
{
	double turns, busy;

	if (j->turn.key == 0 || j->view.known)
		return 0;
	turns = sessions_turns_left(r->sessions, j->turn.kind);
	busy = sessions_promise(r->sessions, s->id);
	return (turns < TURNS_MOST ? turns : TURNS_MOST) * s->pool->mean_work_s *
	    (busy < BUSY_MOST ? busy : BUSY_MOST);
}

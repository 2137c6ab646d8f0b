/* sessions_turn.c - turns of a session: what they show of it, and what they make known. */
#include "agent/fleet/sessions_in.h"

#define TRUST_SURE	140u	/* from here on its old path may be let go */
#define TRUST_TAILS	2u	/* with more, a chance request is too often taken for a turn */
#define GAP_LEARNED_MS	600000	/* a longer gap counts as this */

/* ---- trust --------------------------------------------------------------------------------- */

static uint32_t check_of(uint64_t mark)
{
	return (uint32_t)(mark >> 32);
}

/* Return the number of the mark of <u> at <depth>, or u->n. */
static uint32_t mark_at(const struct session_turn *u, uint32_t depth)
{
	uint32_t i = 0;

	while (i < u->n && u->depth[i] != depth)
		i++;
	return i;
}

enum agreement { AGREES, DIFFERS, SHORTER };

/* Compare the visible part of <u> with that of the turn <l>, and set <*depth> to the pages that are
 * known to be the same. */
static enum agreement compare(
    const struct session_tail *l, const struct session_turn *u, uint32_t *depth)
{
	enum agreement a = SHORTER;

	*depth = 0;
	for (unsigned k = 0; k < 2; k++) {
		uint32_t i = l->depth[k] > 0 ? mark_at(u, l->depth[k]) : u->n;

		if (i == u->n)
			continue;
		if (check_of(u->mark[i]) == l->check[k]) {
			*depth = l->depth[k];
			return a == DIFFERS ? DIFFERS : AGREES;
		}
		a = DIFFERS;
	}
	return a;
}

/* An estimate of the unseen part may be a little lower than the last one. */
static bool is_shorter(const struct session_tail *l, const struct session_turn *u)
{
	return u->tokens + u->tokens / 16 + 256 < l->tokens;
}

/* Tell if <u> may be the turn after <l>, edited in the part that is not seen: clients shorten what
 * tools said, or remove reasoning. A summary leaves less. */
static bool is_edited(const struct session_tail *l, const struct session_turn *u)
{
	return u->cut && l->cut && is_shorter(l, u) && u->tokens / 3 * 4 >= l->tokens &&
	    compare(l, u, &(uint32_t){ 0 }) == AGREES;
}

/* Tell if <u> may be the turn after <l>. If both are cut, the visible part is not enough. */
static bool continues(const struct session_tail *l, const struct session_turn *u)
{
	uint32_t depth;

	return compare(l, u, &depth) == AGREES && !is_shorter(l, u);
}

static bool continues_any(
    const struct session_tail *tail, unsigned n, const struct session_turn *u)
{
	for (unsigned k = 0; k < n; k++)
		if (tail[k].server != SERVER_NONE && continues(&tail[k], u))
			return true;
	return false;
}

static bool tail_counts(const struct sessions *t, const struct session_tail *l)
{
	return l->server != SERVER_NONE && l->done && l->life == t->life[l->server];
}

/* Return the tokens of <u> that the server of <l> holds: of a prompt that is seen whole no more
 * than the marks prove. */
static uint32_t held_of(const struct session_tail *l, const struct session_turn *u)
{
	uint64_t with_answer = (uint64_t)l->tokens + l->answer;

	if (is_edited(l, u))	/* what follows the place of the edit is as long as what was removed */
		return (uint32_t)(2 * u->tokens - l->tokens);
	if (compare(l, u, &(uint32_t){ 0 }) != AGREES || !u->cut || is_shorter(l, u))
		return 0;
	if (with_answer <= u->tokens)
		return (uint32_t)with_answer;
	return l->tokens < u->tokens ? l->tokens : (uint32_t)u->tokens;
}

/* Tell if <u> has replaced most of what <l> had: the middle of it, or more than a quarter of its
 * length. An edit near the end has not. */
static bool is_compacted(const struct session_tail *l, const struct session_turn *u)
{
	uint32_t depth;

	if (l->depth[0] == 0 || l->cut || u->cut)
		return false;
	return (compare(l, u, &depth) != AGREES && depth == 0) || u->tokens < l->tokens / 4 * 3;
}

const char *session_state_text(enum session_state s)
{
#define TEXT(name, text)	[SESSION_##name] = text,
	static const char *const texts[SESSION_STATES] = { SESSION_STATE_LIST(TEXT) };
#undef TEXT

	return texts[s];
}

void sessions_look(const struct sessions *t, const struct session_turn *u, struct session_view *v)
{
	uint32_t i = t != NULL ? session_find(t, u->key) : 0;
	const struct session *s;
	bool goes_on;

	memset(v, 0, sizeof(*v));
	v->state = u->key != 0 && t != NULL ? SESSION_NEW : SESSION_NONE;
	if (i == 0)
		return;
	s = &t->e[i];
	v->known = true;
	v->open = s->n_open > 0;
	v->turns = s->turns;
	v->seen = s->seen;
	memcpy(v->tail, s->tail, sizeof(v->tail));
	if (!s->tail[0].done && s->served.server != SERVER_NONE)
		v->tail[0] = s->served;
	for (unsigned k = 0; k < SESSION_TAILS; k++) {
		if (tail_counts(t, &v->tail[k]))
			compare(&v->tail[k], u, &v->proven[k]);
	}
	v->state = v->open ? SESSION_OPEN : SESSION_OTHER;
	if (v->open || s->trust < TRUST_LEAST)
		return;
	goes_on = continues_any(v->tail, SESSION_TAILS, u);
	for (unsigned k = 0; k < SESSION_TAILS; k++) {
		if (tail_counts(t, &v->tail[k]))
			v->held[k] = held_of(&v->tail[k], u);
		v->trusted |= v->held[k] > 0;
	}
	v->shrank = s->trust >= TRUST_SURE && v->tail[0].let_go == 0 && v->tail[0].place.node != 0 &&
	    tail_counts(t, &v->tail[0]) && is_compacted(&v->tail[0], u) && !goes_on;
	if (v->shrank)
		v->state = SESSION_COMPACTED;
	else if (goes_on)
		v->state = SESSION_TURN;
}

/* ---- turns --------------------------------------------------------------------------------- */

/* An edited turn proves nothing. */
static void learn_trust(struct sessions *t, struct session *s, const struct session_turn *u)
{
	if (s->n_open == 0 && continues_any(s->tail, TRUST_TAILS, u)) {
		s->trust = (uint8_t)(s->trust + (255 - s->trust) / 16);
		return;
	}
	if (s->n_open == 0 && is_edited(&s->tail[0], u))
		return;
	s->trust /= 2;
	t->st.mistrusted++;
}

/* Return what the turns of <s> teach about its model; NULL: nothing, because it is no session by
 * its turns, or began when the place was another model's. */
static struct session_kind *kind_to_teach(struct sessions *t, const struct session *s)
{
	struct session_kind *k = &t->kind[s->kind];

	return s->kind_life == k->life && s->trust >= TRUST_LEAST ? k : NULL;
}

/* Learn from the time since the last turn: <since> is its start. */
static void learn_gap(struct sessions *t, struct session *s, msec gap)
{
	struct session_kind *k = kind_to_teach(t, s);
	uint32_t ms = gap < 0 ? 0 : gap < GAP_LEARNED_MS ? (uint32_t)gap : GAP_LEARNED_MS;

	s->gap_ms = s->gap_ms == 0 ? ms : (uint32_t)(((uint64_t)s->gap_ms * 3 + ms) / 4);
	if (k != NULL)
		k->gap_ms = k->gap_ms == 0 ? ms : (uint32_t)(((uint64_t)k->gap_ms * 31 + ms) / 32);
}

static void count_turn(struct sessions *t, struct session *s)
{
	struct session_kind *k = kind_to_teach(t, s);

	s->turns++;
	if (k == NULL)
		return;
	k->turns++;
	k->sessions += s->turns == 1;
	if (k->turns < SESSION_TURNS_KEPT)
		return;
	k->turns /= 2;
	k->sessions = (k->sessions + 1) / 2;
}

static void set_marks(struct session_tail *l, const struct session_turn *u)
{
	uint32_t last = u->n - 1, middle = last;

	l->depth[0] = l->depth[1] = 0;
	if (u->n == 0)
		return;
	while (middle > 0 && u->depth[middle] * 2 > u->depth[last])
		middle--;
	l->depth[0] = u->depth[last];
	l->check[0] = check_of(u->mark[last]);
	l->depth[1] = u->depth[middle];
	l->check[1] = check_of(u->mark[middle]);
}

/* Tell if <u> is the second short turn after a longer one: then the conversation was summarized,
 * and nothing of <longer> is sent again. One alone can be a subagent's: its parent comes back. */
static bool is_summarized(const struct session_tail *last, const struct session_tail *longer,
    const struct session_turn *u)
{
	const struct session_turn before = { .tokens = last->tokens };

	return u->cut && !u->rough && last->cut && last->server != SERVER_NONE &&
	    continues(last, u) && is_shorter(longer, &before) && is_shorter(longer, u);
}

/* Tell if the tail <l>, behind <last>, says nothing more once <u> is sent to <to>. */
static bool is_over(const struct session_tail *l, const struct session_tail *last,
    const struct session_turn *u, server_id to)
{
	return l->server == SERVER_NONE || (l->server == to && (continues(l, u) || is_edited(l, u))) ||
	    is_summarized(last, l, u);
}

/* Make tail[0] that of <u> at <to>. Those before stay behind it, unless they are continued there.
 * Of a conversation that was summarized the longer ones go: they would look like the beginning of a
 * cut prompt as soon as it is as long as they were. */
static void set_tail(struct sessions *t, struct session *s, const struct session_turn *u,
    server_id to, msec now)
{
	struct session_tail old[SESSION_TAILS], *l = &s->tail[0];
	unsigned n = 1;
	bool back = !l->done && s->served.server != SERVER_NONE;	/* an earlier slice, or it failed */

	if (l->done)
		s->served = *l;
	else if (back)
		*l = s->served;
	memcpy(old, s->tail, sizeof(old));
	if (back && old[1].server == l->server && old[1].at == l->at)	/* it had moved there */
		old[1].server = SERVER_NONE;
	for (unsigned k = 0; k < SESSION_TAILS && n < SESSION_TAILS; k++)
		if (!is_over(&old[k], &old[0], u, to))
			s->tail[n++] = old[k];
	while (n < SESSION_TAILS)
		s->tail[n++].server = SERVER_NONE;
	*l = (struct session_tail){
		.server = to, .life = t->life[to], .cut = u->cut, .at = now,
		.tokens = u->tokens < UINT32_MAX ? (uint32_t)u->tokens : UINT32_MAX,
	};
	set_marks(l, u);
}

void sessions_sent(struct sessions *t, const struct session_turn *u, server_id to, bool again,
    uint32_t work_us, msec now)
{
	msec sent = now - u->ago;
	uint32_t i;
	struct session *s;

	if (t == NULL || u->key == 0 || to >= SERVERS_MAX)
		return;
	if ((i = session_find(t, u->key)) == 0)
		i = session_take(t, u);
	s = &t->e[i];
	if (!again || s->turns == 0) {
		t->st.turns++;
		if (s->turns > 0) {
			learn_trust(t, s, u);
			learn_gap(t, s, sent - s->seen);
			t->st.stayed += s->tail[0].server == to;
			t->st.moved += s->tail[0].server != to;
		}
		count_turn(t, s);
		session_used(t, i);
		s->seen = s->turns > 1 && s->seen > sent ? s->seen : sent;
	}
	s->n_open += s->n_open < UINT8_MAX;
	s->work_us = work_us;
	set_tail(t, s, u, to, now);
	session_promise(t, s, now);
}

void sessions_placed(
    struct sessions *t, uint64_t key, server_id to, const struct session_place *place)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;

	if (i != 0 && t->e[i].tail[0].server == to)
		t->e[i].tail[0].place = *place;
}

static void let_go(struct session_tail *l, const struct session_place *place, msec now)
{
	if (l->place.node == place->node && l->place.depth == place->depth &&
	    l->place.era == place->era)
		l->let_go = now;
}

void sessions_let_go(
    struct sessions *t, uint64_t key, const struct session_place *place, msec now)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;

	if (i == 0 || place->node == 0)
		return;
	t->st.compacted++;
	for (unsigned k = 0; k < SESSION_TAILS; k++)
		let_go(&t->e[i].tail[k], place, now);
	let_go(&t->e[i].served, place, now);
}

void sessions_ended(struct sessions *t, uint64_t key, const struct session_end *e, msec now)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;
	struct session *s;
	struct session_tail *l;
	bool alone;		/* else the tail may be that of another request */

	if (i == 0)
		return;
	s = &t->e[i];
	alone = s->n_open == 1;
	s->n_open -= s->n_open > 0;
	if (e->at >= SERVERS_MAX || !alone)
		return;
	l = &s->tail[0];
	if (l->server != e->at) {		/* HAProxy sent it elsewhere */
		l->server = e->at;
		l->life = t->life[e->at];
	}
	l->done = true;
	l->at = now;
	l->answer = e->answer;
	l->hidden = e->hidden;
	session_promise(t, s, now);
}

bool sessions_alone(const struct sessions *t, uint64_t key)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;

	return i != 0 && t->e[i].n_open == 1;
}

static bool count_hidden(
    struct session_tail *l, server_id at, msec end, uint32_t hidden, msec now)
{
	if (l->server != at || !l->done || l->at != end)
		return false;
	l->hidden = hidden;
	l->at = now;
	return true;
}

bool sessions_counted(struct sessions *t, uint64_t key, server_id at, msec end, uint32_t hidden,
    msec now)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;
	bool counted = false;

	if (i == 0)
		return false;
	for (unsigned k = 0; k < SESSION_TAILS && !counted; k++)
		counted = count_hidden(&t->e[i].tail[k], at, end, hidden, now);
	if (counted)		/* a copy, if a turn is open */
		count_hidden(&t->e[i].served, at, end, hidden, now);
	return counted;
}

static bool recount_hidden(
    const struct sessions *t, struct session_tail *l, server_id at, msec end, uint32_t hidden)
{
	return l->server == at && l->life == t->life[at] && count_hidden(l, at, end, hidden, end);
}

bool sessions_recounted(
    struct sessions *t, uint64_t key, server_id at, msec end, uint32_t hidden)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;
	bool counted;

	if (i == 0)
		return false;
	counted = recount_hidden(t, &t->e[i].served, at, end, hidden);
	for (unsigned k = 0; k < SESSION_TAILS; k++)
		counted |= recount_hidden(t, &t->e[i].tail[k], at, end, hidden);
	return counted;
}

static void uncount(struct session_tail *l, msec end)
{
	if (l->at == end)
		l->hidden = 0;
}

void sessions_uncounted(struct sessions *t, uint64_t key, msec end)
{
	uint32_t i = t != NULL && key != 0 ? session_find(t, key) : 0;

	if (i == 0)
		return;
	for (unsigned k = 0; k < SESSION_TAILS; k++)
		uncount(&t->e[i].tail[k], end);
	uncount(&t->e[i].served, end);
}

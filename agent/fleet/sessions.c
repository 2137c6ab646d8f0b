/* sessions.c - a table of fixed size: chains by hash, and a list by age. */
#include "agent/base/mem.h"
#include "agent/fleet/sessions.h"

#define TRUST_START	128u	/* of 255 */
#define TRUST_LEAST	96u	/* below it the session counts for nothing */
#define TRUST_SURE	140u	/* from here on its old path may be dropped */
#define FLOOR_PARTS	64u	/* a tenant keeps the last 1 / 64 of the table */
#define PASSED_MOST	16u	/* sessions that an eviction passes over */
#define TENANTS		256u	/* counters; tenants may share one */
#define KINDS		64u
#define KIND_HALVE	4096u	/* turns after which older ones count half */
#define GAP_LEAST_MS	1000
#define GAP_MOST_MS	600000
#define GAP_START_MS	20000
#define LATE_GAPS	2	/* gaps after which a session counts half */
#define LATE_STEPS	4u	/* a session later than 2^4 gaps is over */

/* Links are numbers of entries; 0: none, and in the list both of its ends. */
struct session {
	uint64_t key;
	uint32_t next;			/* next with the same hash */
	uint32_t older, newer;
	uint32_t turns;
	uint8_t trust;
	uint8_t n_open;			/* requests that are not over */
	uint8_t tenant, kind;		/* numbers */
	uint32_t gap_ms;		/* mean time from turn to turn; 0: unknown */
	msec seen;			/* last turn */
	struct session_tail tail[SESSION_TAILS];
	struct session_tail served;	/* tail[0] before a turn that is not over, or that failed */
	uint8_t kind_life;		/* of its kind, when it began */
	/* in the sums of <promised> */
	server_id promised;		/* SERVER_NONE: nothing */
	uint32_t work_us, busy_ppm, tokens;
};

/* What sessions of one model have in common. */
struct kind {
	uint64_t key;
	uint32_t turns, sessions;	/* recent ones */
	uint32_t gap_ms;
	uint8_t life;			/* another kind had the place before */
};

struct sum {
	uint64_t busy_ppm, tokens;
};

struct sessions {
	uint32_t cap, n;		/* entries allowed; used so far; entry 0 is the ends of the list */
	uint32_t mask, hand;
	uint32_t *head;
	struct session *e;
	uint32_t of_tenant[TENANTS];
	struct kind kind[KINDS];
	struct sum sum[SERVERS_MAX];
	uint32_t life[SERVERS_MAX];
	struct sessions_stats st;
};

struct sessions *sessions_new(size_t max_bytes)
{
	struct sessions *t;
	size_t cap, heads = 1;

	if (max_bytes < SESSIONS_LEAST || (t = mem_alloc(sizeof(*t))) == NULL)
		return NULL;
	cap = (max_bytes - sizeof(*t)) / (sizeof(*t->e) + sizeof(*t->head));
	while (heads * 2 <= cap)
		heads *= 2;
	t->cap = cap < UINT32_MAX / 2 ? (uint32_t)cap - 1 : UINT32_MAX / 2;
	t->mask = (uint32_t)heads - 1;
	t->head = mem_calloc(heads, sizeof(*t->head));
	t->e = mem_calloc((size_t)t->cap + 1, sizeof(*t->e));
	t->st.max_bytes = max_bytes;
	t->st.max_sessions = t->cap;
	if (t->head != NULL && t->e != NULL)
		return t;
	sessions_free(t);
	return NULL;
}

void sessions_free(struct sessions *t)
{
	if (t == NULL)
		return;
	mem_free(t->head);
	mem_free(t->e);
	mem_free(t);
}

/* ---- entries ------------------------------------------------------------------------------- */

static uint32_t *chain_of(const struct sessions *t, uint64_t key)
{
	return &t->head[(key ^ key >> 32) & t->mask];
}

static uint32_t find(const struct sessions *t, uint64_t key)
{
	uint32_t i = *chain_of(t, key);

	while (i != 0 && t->e[i].key != key)
		i = t->e[i].next;
	return i;
}

static void list_out(struct sessions *t, uint32_t i)
{
	t->e[t->e[i].older].newer = t->e[i].newer;
	t->e[t->e[i].newer].older = t->e[i].older;
}

static void list_in(struct sessions *t, uint32_t i)
{
	t->e[i].newer = 0;
	t->e[i].older = t->e[0].older;
	t->e[t->e[0].older].newer = i;
	t->e[0].older = i;
}

static void withdraw(struct sessions *t, struct session *s)
{
	if (s->promised == SERVER_NONE)
		return;
	t->sum[s->promised].busy_ppm -= s->busy_ppm;
	t->sum[s->promised].tokens -= s->tokens;
	s->promised = SERVER_NONE;
}

static void unchain(struct sessions *t, uint32_t i)
{
	uint32_t *at = chain_of(t, t->e[i].key);

	while (*at != i)
		at = &t->e[*at].next;
	*at = t->e[i].next;
	list_out(t, i);
	withdraw(t, &t->e[i]);
	t->of_tenant[t->e[i].tenant]--;
}

/* Return the session to evict for one of <tenant>. */
static uint32_t victim(const struct sessions *t, uint8_t tenant)
{
	uint32_t floor = t->cap / FLOOR_PARTS, i = t->e[0].newer;

	for (unsigned k = 0; k < PASSED_MOST && i != 0; k++, i = t->e[i].newer)
		if (t->e[i].tenant == tenant || t->of_tenant[t->e[i].tenant] > floor)
			return i;
	return t->e[0].newer;
}

static uint8_t kind_number(struct sessions *t, uint64_t kind)
{
	struct kind *k = &t->kind[kind % KINDS];

	if (k->key != kind)
		*k = (struct kind){ .key = kind, .life = (uint8_t)(k->life + 1) };
	return (uint8_t)(kind % KINDS);
}

static uint32_t take(struct sessions *t, const struct session_turn *u)
{
	uint8_t tenant = (uint8_t)(u->tenant % TENANTS);
	uint32_t i;

	if (t->n < t->cap) {
		i = ++t->n;
	} else {
		i = victim(t, tenant);
		unchain(t, i);
		t->st.evicted++;
	}
	t->e[i] = (struct session){
		.key = u->key, .next = *chain_of(t, u->key), .trust = TRUST_START, .tenant = tenant,
		.kind = kind_number(t, u->kind), .promised = SERVER_NONE,
	};
	for (unsigned k = 0; k < SESSION_TAILS; k++)
		t->e[i].tail[k].server = SERVER_NONE;
	t->e[i].served.server = SERVER_NONE;
	t->e[i].kind_life = t->kind[t->e[i].kind].life;
	*chain_of(t, u->key) = i;
	list_in(t, i);
	t->of_tenant[tenant]++;
	return i;
}

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

/* Tell if <u> may be the turn after <l>. If both are cut, the visible part is not enough. */
static bool continues(const struct session_tail *l, const struct session_turn *u)
{
	uint32_t depth;

	return compare(l, u, &depth) == AGREES && !is_shorter(l, u);
}

static msec over_after(const struct sessions *t, const struct session *s)
{
	uint32_t gap = s->gap_ms > 0 ? s->gap_ms : t->kind[s->kind].gap_ms;

	gap = gap == 0 ? GAP_START_MS : gap < GAP_LEAST_MS ? GAP_LEAST_MS : gap;
	return (msec)(gap < GAP_MOST_MS ? gap : GAP_MOST_MS) << LATE_STEPS;
}

static bool tail_counts(const struct sessions *t, const struct session_tail *l)
{
	return l->server != SERVER_NONE && l->done && l->life == t->life[l->server];
}

/* Return the tokens of <u> that the server of <l> holds: of a prompt that is seen whole no more
 * than the marks prove. */
static uint32_t held_of(const struct session_tail *l, const struct session_turn *u)
{
	if (compare(l, u, &(uint32_t){ 0 }) != AGREES || !u->cut || is_shorter(l, u))
		return 0;
	return l->tokens < u->tokens ? l->tokens : (uint32_t)u->tokens;
}

void sessions_look(
    const struct sessions *t, const struct session_turn *u, msec now, struct session_view *v)
{
	uint32_t i = t != NULL ? find(t, u->key) : 0;
	const struct session *s;

	memset(v, 0, sizeof(*v));
	if (i == 0)
		return;
	s = &t->e[i];
	v->known = true;
	v->open = s->n_open > 0;
	v->turns = s->turns;
	memcpy(v->tail, s->tail, sizeof(v->tail));
	if (!s->tail[0].done && s->served.server != SERVER_NONE)
		v->tail[0] = s->served;
	if (v->open || s->trust < TRUST_LEAST || now - s->seen > over_after(t, s))
		return;
	for (unsigned k = 0; k < SESSION_TAILS; k++) {
		if (tail_counts(t, &v->tail[k]))
			v->held[k] = held_of(&v->tail[k], u);
		v->trusted |= v->held[k] > 0;
	}
	v->shrank = !u->cut && !s->tail[0].cut && s->trust >= TRUST_SURE &&
	    tail_counts(t, &s->tail[0]) && !continues(&s->tail[0], u);
}

/* ---- turns --------------------------------------------------------------------------------- */

static void learn_trust(struct sessions *t, struct session *s, const struct session_turn *u)
{
	bool may = s->n_open == 0;

	for (unsigned k = 0; may && k < SESSION_TAILS && s->tail[k].server != SERVER_NONE; k++) {
		if (continues(&s->tail[k], u)) {
			s->trust = (uint8_t)(s->trust + (255 - s->trust) / 16);
			return;
		}
	}
	s->trust /= 2;
	t->st.mistrusted++;
}

/* Return what the turns of <s> teach about its model; NULL: nothing, because it is no session by
 * its turns, or began when the place was another model's. */
static struct kind *kind_to_teach(struct sessions *t, const struct session *s)
{
	struct kind *k = &t->kind[s->kind];

	return s->kind_life == k->life && s->trust >= TRUST_LEAST ? k : NULL;
}

/* Learn from the time since the last turn: <since> is its start. */
static void learn_gap(struct sessions *t, struct session *s, msec gap)
{
	struct kind *k = kind_to_teach(t, s);
	uint32_t ms = gap < 0 ? 0 : gap < GAP_MOST_MS ? (uint32_t)gap : GAP_MOST_MS;

	s->gap_ms = s->gap_ms == 0 ? ms : (uint32_t)(((uint64_t)s->gap_ms * 3 + ms) / 4);
	if (k != NULL)
		k->gap_ms = k->gap_ms == 0 ? ms : (uint32_t)(((uint64_t)k->gap_ms * 31 + ms) / 32);
}

static void count_turn(struct sessions *t, struct session *s)
{
	struct kind *k = kind_to_teach(t, s);

	s->turns++;
	if (k == NULL)
		return;
	k->turns++;
	k->sessions += s->turns == 1;
	if (k->turns < KIND_HALVE)
		return;
	k->turns /= 2;
	k->sessions = (k->sessions + 1) / 2;
}

static double mean_turns(const struct kind *k)
{
	return k->sessions > 0 ? (double)k->turns / k->sessions : 1;
}

/* Enter in the sums what the session will bring back, as far as it is late. */
static void promise(struct sessions *t, struct session *s, msec now)
{
	server_id at = s->tail[0].server;
	double turns = mean_turns(&t->kind[s->kind]), more = 1 - 1 / turns;
	msec late = now - s->seen, gap = over_after(t, s) >> LATE_STEPS;
	unsigned half = 0;

	withdraw(t, s);
	while (half < LATE_STEPS && late > gap * LATE_GAPS << half)
		half++;
	if (at == SERVER_NONE || half == LATE_STEPS || s->trust < TRUST_LEAST ||
	    s->tail[0].life != t->life[at])
		return;
	more /= 1u << half;
	s->promised = at;
	s->busy_ppm = (uint32_t)(more * 1000.0 * s->work_us / (double)gap);
	s->tokens = (uint32_t)(more * s->tail[0].tokens);
	t->sum[at].busy_ppm += s->busy_ppm;
	t->sum[at].tokens += s->tokens;
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

/* Make tail[0] that of <u> at <to>. The one before stays as tail[1], unless it is continued
 * there. */
static void set_tail(struct sessions *t, struct session *s, const struct session_turn *u,
    server_id to, msec now)
{
	struct session_tail *l = &s->tail[0];

	if (l->done)
		s->served = *l;
	else if (s->served.server != SERVER_NONE)	/* an earlier slice, or a turn that failed */
		*l = s->served;
	if (l->server != SERVER_NONE && (l->server != to || !continues(l, u)))
		s->tail[1] = *l;
	*l = (struct session_tail){
		.server = to, .life = t->life[to], .cut = u->cut, .at = now,
		.tokens = u->tokens < UINT32_MAX ? (uint32_t)u->tokens : UINT32_MAX,
	};
	set_marks(l, u);
}

void sessions_sent(struct sessions *t, const struct session_turn *u, server_id to, bool again,
    uint32_t work_us, msec now)
{
	uint32_t i;
	struct session *s;

	if (t == NULL || u->key == 0 || to >= SERVERS_MAX)
		return;
	if ((i = find(t, u->key)) == 0)
		i = take(t, u);
	s = &t->e[i];
	if (!again || s->turns == 0) {
		t->st.turns++;
		if (s->turns > 0) {
			learn_trust(t, s, u);
			learn_gap(t, s, now - s->seen);
			t->st.stayed += s->tail[0].server == to;
			t->st.moved += s->tail[0].server != to;
		}
		count_turn(t, s);
		list_out(t, i);
		list_in(t, i);
		s->seen = now;
	}
	s->n_open += s->n_open < UINT8_MAX;
	s->work_us = work_us;
	set_tail(t, s, u, to, now);
	promise(t, s, now);
}

void sessions_ended(struct sessions *t, uint64_t key, const struct session_end *e, msec now)
{
	uint32_t i = t != NULL && key != 0 ? find(t, key) : 0;
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
	l->tokens = e->answer < UINT32_MAX - l->tokens ? l->tokens + e->answer : UINT32_MAX;
	promise(t, s, now);
}

void sessions_server_gone(struct sessions *t, server_id id)
{
	if (t == NULL || id >= SERVERS_MAX)
		return;
	t->life[id]++;
}

struct session_promise sessions_promise(const struct sessions *t, server_id id)
{
	if (t == NULL || id >= SERVERS_MAX)
		return (struct session_promise){ 0 };
	return (struct session_promise){ .busy = (double)t->sum[id].busy_ppm / 1e6,
		.tokens = (double)t->sum[id].tokens };
}

double sessions_turns_left(const struct sessions *t, uint64_t kind)
{
	const struct kind *k = t != NULL ? &t->kind[kind % KINDS] : NULL;

	return k != NULL && k->key == kind ? mean_turns(k) - 1 : 0;
}

void sessions_age(struct sessions *t, uint32_t n, msec now)
{
	if (t == NULL)
		return;
	for (n = n < t->n ? n : t->n; n > 0; n--) {
		t->hand = t->hand < t->n ? t->hand + 1 : 1;
		if (t->e[t->hand].promised != SERVER_NONE)
			promise(t, &t->e[t->hand], now);
	}
}

void sessions_stats(const struct sessions *t, struct sessions_stats *s)
{
	*s = t != NULL ? t->st : (struct sessions_stats){ 0 };
	s->sessions = t != NULL ? t->n : 0;
}

/* sessions.c - a table of fixed size: chains by hash, and a list by age. */
#include "agent/base/mem.h"
#include "agent/fleet/sessions_in.h"

#define FLOOR_PARTS	64u	/* a tenant keeps the last 1 / 64 of the table */
#define PASSED_MOST	16u	/* sessions that an eviction passes over */
#define GAP_LEAST_MS	1000
#define GAP_MOST_MS	600000
#define GAP_START_MS	20000
#define LATE_GAPS	2	/* gaps after which a session counts half */
#define LATE_STEPS	4u	/* a session later than 2^4 gaps promises nothing */

_Static_assert(sizeof(struct sessions) < SESSIONS_LEAST / 2, "the least table has entries");

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

uint32_t session_find(const struct sessions *t, uint64_t key)
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
	t->promised_ppm[s->promised] -= s->busy_ppm;
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
	struct session_kind *k = &t->kind[kind % KINDS];

	if (k->key != kind)
		*k = (struct session_kind){ .key = kind, .life = (uint8_t)(k->life + 1) };
	return (uint8_t)(kind % KINDS);
}

uint32_t session_take(struct sessions *t, const struct session_turn *u)
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

void session_used(struct sessions *t, uint32_t i)
{
	list_out(t, i);
	list_in(t, i);
}

/* ---- promises ------------------------------------------------------------------------------ */

/* Return the usual time between two turns of <s>. */
static msec gap_of(const struct sessions *t, const struct session *s)
{
	uint32_t gap = s->gap_ms > 0 ? s->gap_ms : t->kind[s->kind].gap_ms;

	gap = gap == 0 ? GAP_START_MS : gap < GAP_LEAST_MS ? GAP_LEAST_MS : gap;
	return gap < GAP_MOST_MS ? gap : GAP_MOST_MS;
}

static double mean_turns(const struct session_kind *k)
{
	return k->sessions > 0 ? (double)k->turns / k->sessions : 1;
}

void session_promise(struct sessions *t, struct session *s, msec now)
{
	server_id at = s->tail[0].server;
	double turns = mean_turns(&t->kind[s->kind]), more = 1 - 1 / turns;
	msec late = now - s->seen, gap = gap_of(t, s);
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
	t->promised_ppm[at] += s->busy_ppm;
}

void sessions_server_gone(struct sessions *t, server_id id)
{
	if (t == NULL || id >= SERVERS_MAX)
		return;
	t->life[id]++;
}

double sessions_promise(const struct sessions *t, server_id id)
{
	return t != NULL && id < SERVERS_MAX ? (double)t->promised_ppm[id] / 1e6 : 0;
}

double sessions_turns_left(const struct sessions *t, uint64_t kind)
{
	const struct session_kind *k = t != NULL ? &t->kind[kind % KINDS] : NULL;

	return k != NULL && k->key == kind ? mean_turns(k) - 1 : 0;
}

void sessions_age(struct sessions *t, uint32_t n, msec now)
{
	if (t == NULL)
		return;
	for (n = n < t->n ? n : t->n; n > 0; n--) {
		t->hand = t->hand < t->n ? t->hand + 1 : 1;
		if (t->e[t->hand].promised != SERVER_NONE)
			session_promise(t, &t->e[t->hand], now);
	}
}

void sessions_stats(const struct sessions *t, struct sessions_stats *s)
{
	*s = t != NULL ? t->st : (struct sessions_stats){ 0 };
	s->sessions = t != NULL ? t->n : 0;
}

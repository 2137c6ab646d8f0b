/* sticky_least_loaded.c - a session stays where it began, and begins on the server with the fewest
 * sessions. vLLM's router: policies/sticky_least_loaded.rs.
 *
 *   session known, its server a candidate    that server
 *   else                                     the candidate with the fewest sessions, of equals the
 *                                            one with the highest hash of session and name; it is
 *                                            remembered from now on
 *   no session                               the same by the hash of the whole body; nothing is
 *                                            remembered
 *
 * The session is the argument, else the user in the body. It is over after session_ttl without a
 * request; the original also has a call to end it, for which HAProxy has no place.
 *
 * The memory is a hash table of sessions, which are also listed from the least to the most recently
 * used; a full table drops the first. Each session has the life number of its server. A server that
 * is gone gets a new number, which invalidates its sessions without a search. match() passes to
 * choose(), in candidate.own, the number of sessions of a server and whether this one is among
 * them. */
#include "agent/base/mem.h"
#include "agent/policy/rules_in.h"

#define HOME		(1u << 31)	/* in tokens[]: the server of this session */
#define EXPIRE_MAX	64		/* sessions that one request may expire */

/* Links are numbers of entries; 0: none, and in the list both of its ends. */
struct session {
	uint64_t key;
	uint32_t next;			/* next with the same hash */
	uint32_t older, newer;
	uint32_t seen;			/* seconds */
	uint32_t life;			/* life number of the server when the session came there */
	server_id server;
};

struct sessions {
	uint32_t cap, n;		/* entries allowed; entries used so far */
	uint32_t free;			/* freed entries, linked by <next> */
	uint32_t mask;
	uint32_t *head;
	struct session *e;
	uint32_t count[SERVERS_MAX], life[SERVERS_MAX];
};

static uint32_t *chain_of(struct sessions *s, uint64_t key)
{
	return &s->head[key & s->mask];
}

static void list_out(struct sessions *s, uint32_t i)
{
	s->e[s->e[i].older].newer = s->e[i].newer;
	s->e[s->e[i].newer].older = s->e[i].older;
}

static void list_in(struct sessions *s, uint32_t i)
{
	s->e[i].newer = 0;
	s->e[i].older = s->e[0].older;
	s->e[s->e[0].older].newer = i;
	s->e[0].older = i;
}

static bool alive(const struct sessions *s, uint32_t i)
{
	return s->e[i].life == s->life[s->e[i].server];
}

static uint32_t find(struct sessions *s, uint64_t key)
{
	uint32_t i = *chain_of(s, key);

	while (i != 0 && s->e[i].key != key)
		i = s->e[i].next;
	return i;
}

static void drop(struct sessions *s, uint32_t i)
{
	uint32_t *at = chain_of(s, s->e[i].key);

	while (*at != i)
		at = &s->e[*at].next;
	*at = s->e[i].next;
	list_out(s, i);
	if (alive(s, i))
		s->count[s->e[i].server]--;
	s->e[i].next = s->free;
	s->free = i;
}

static uint32_t take(struct sessions *s)
{
	uint32_t i;

	if (s->free == 0 && s->n == s->cap)
		drop(s, s->e[0].newer);
	if ((i = s->free) != 0)
		s->free = s->e[i].next;
	else
		i = ++s->n;
	return i;
}

/* Threads read their clocks before they wait for the lock, so <now> may be a little before
 * <seen>. */
static bool session_over(
    const struct sessions *s, const struct policy_opts *o, uint32_t i, uint32_t now)
{
	return (int32_t)(now - s->e[i].seen) >= (int32_t)(o->session_ttl_ms / 1000);
}

static uint32_t seconds(msec now)
{
	return (uint32_t)(now / 1000);
}

static uint64_t session_of(const struct policy_prompt *p)
{
	return p->session ? p->session : p->user;
}

/* ---- the rule's side ---- */

static void *memory_new(const struct policy_opts *o)
{
	struct sessions *s = mem_alloc(sizeof(*s));
	size_t cap = (o->rule_max_bytes - sizeof(*s)) / (sizeof(*s->e) + sizeof(*s->head));

	if (s == NULL)
		return NULL;
	if (cap > 1u << 30)
		cap = 1u << 30;
	s->cap = (uint32_t)cap - 1;			/* entry 0 is the ends of the list */
	for (s->mask = 1; s->mask <= cap / 2; s->mask *= 2)
		;
	s->head = mem_calloc(s->mask, sizeof(*s->head));
	s->e = mem_calloc(cap, sizeof(*s->e));
	s->mask--;
	if (s->head == NULL || s->e == NULL) {
		mem_free(s->head);
		mem_free(s->e);
		mem_free(s);
		return NULL;
	}
	return s;
}

static void memory_free(void *m)
{
	struct sessions *s = m;

	mem_free(s->head);
	mem_free(s->e);
	mem_free(s);
}

static void match(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, msec now, uint32_t *tokens)
{
	struct sessions *s = m;
	uint64_t key = session_of(p);
	uint32_t i;

	for (int k = 0;
	     k < EXPIRE_MAX && (i = s->e[0].newer) != 0 && session_over(s, o, i, seconds(now)); k++)
		drop(s, i);
	memcpy(tokens, s->count, sizeof(s->count));
	i = key != 0 ? find(s, key) : 0;
	if (i != 0 && alive(s, i) && !session_over(s, o, i, seconds(now)))
		tokens[s->e[i].server] |= HOME;
}

static void sent(
    void *m, const struct policy_opts *o, const struct policy_prompt *p, server_id to, msec now)
{
	struct sessions *s = m;
	uint64_t key = session_of(p);
	uint32_t i;

	if (key == 0)
		return;
	i = find(s, key);
	if (i != 0 && (s->e[i].server != to || !alive(s, i))) {
		drop(s, i);
		i = 0;
	}
	if (i == 0) {
		i = take(s);
		s->e[i] = (struct session){ .key = key, .server = to, .life = s->life[to],
					    .next = *chain_of(s, key) };
		*chain_of(s, key) = i;
		s->count[to]++;
	} else {
		list_out(s, i);
	}
	s->e[i].seen = seconds(now);
	list_in(s, i);
}

static void gone(void *m, server_id id)
{
	struct sessions *s = m;

	s->life[id]++;
	s->count[id] = 0;
}

/* ---- the choice ---- */

/* Ordered by number of sessions, then by hash; <home> goes first. */
struct seat {
	uint64_t sessions, far;
};

static bool nearer(struct seat a, struct seat b)
{
	return a.sessions != b.sessions ? a.sessions < b.sessions : a.far < b.far;
}

static void choose(void *m, struct rule_job *j)
{
	struct policy_choice *out = j->out;
	uint64_t key = session_of(j->p) ? session_of(j->p) : j->p->body ? j->p->body : rng_next(j->rng);
	struct seat of_first = { 0 }, of_second = { 0 };

	for (size_t i = 0; i < j->n; i++) {
		bool home = j->c[i].own & HOME;
		struct seat x = { home ? 0 : (j->c[i].own & (HOME - 1)) + 1, rendezvous_far(key, &j->c[i]) };

		if (home)
			out->why = WHY_STICKY;
		if (out->first < 0 || nearer(x, of_first)) {
			out->second = out->first;
			of_second = of_first;
			out->first = (int)i;
			of_first = x;
		} else if (out->second < 0 || nearer(x, of_second)) {
			out->second = (int)i;
			of_second = x;
		}
	}
}

const struct rule rule_sticky_least_loaded = {
	.wants_body = true, .choose = choose, .memory_new = memory_new, .memory_free = memory_free,
	.match = match, .sent = sent, .gone = gone,
};

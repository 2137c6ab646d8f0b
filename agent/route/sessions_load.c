/* sessions_load.c - sessions and stored responses out of the bytes of sessions_save.c.
 *
 * They may be a sibling's, and come while requests do: so they are added a few at a time under the
 * lock, and what is known here and is as new stays. The time between the save and now, by the wall
 * clock, is added to all ages. All counts are checked against the length first: a list that is
 * damaged is refused whole. */
#include "agent/base/mem.h"
#include "agent/base/sections.h"
#include "agent/route/sessions_save_in.h"

struct sessions_restoring {
	struct route *r;
	const uint8_t *kinds, *sessions, *responses;
	uint32_t n_kinds, n_sessions, n_responses;
	uint32_t next_session, next_response;
	uint32_t *order;		/* of sessions, the oldest first */
	uint32_t n_names;
	struct { server_id id; uint64_t name_hash; } server[SERVERS_MAX];
	msec now, then;			/* the time of the save, by this clock */
};

/* ---- names ---- */

/* Return the server in "pool NUL server". One of a sibling that the index's part did not name has
 * left; another one is added. Returns NULL if there is none. */
static struct server *server_of(struct route *r, struct span name, bool theirs, msec now)
{
	const char *zero = name.n > 0 ? memchr(name.p, '\0', name.n) : NULL;
	struct server *s;
	struct pool *p;

	if (zero == NULL || zero + 1 == name.p + name.n ||
	    (p = pool_met(r, span_of(name.p, (size_t)(zero - name.p)))) == NULL)
		return NULL;
	name = span_of(zero + 1, name.n - (size_t)(zero - name.p) - 1);
	s = theirs ? pool_find(p, name, SIZE_MAX) : server_met(r, p, name, SIZE_MAX);
	if (s != NULL && s->seen == 0)
		s->seen = now;
	return s;
}

/* Pass one name, of which at most <left> bytes are there. Returns its bytes with their number; 0:
 * it is cut short. */
static size_t name_bytes(const uint8_t *p, size_t left)
{
	size_t n = left >= 2 ? get16(p) : 0;

	return n > 0 && n <= left - 2 ? 2 + n : 0;
}

static void find_servers(struct sessions_restoring *v, const uint8_t *p, bool theirs)
{
	pthread_rwlock_rdlock(&v->r->opts_lock);
	pthread_mutex_lock(&v->r->lock);
	for (uint32_t i = 0; i < v->n_names; i++, p += 2 + get16(p)) {
		const struct server *s = server_of(
		    v->r, span_of((const char *)p + 2, get16(p)), theirs, v->now);

		v->server[i].id = s != NULL ? s->id : SERVER_NONE;
		v->server[i].name_hash = s != NULL ? s->name_hash : 0;
	}
	pthread_mutex_unlock(&v->r->lock);
	pthread_rwlock_unlock(&v->r->opts_lock);
}

/* Return the server of a name. Between two slices it may have left, and its number another one. */
static server_id number(const struct sessions_restoring *v, uint16_t name)
{
	server_id id = name < v->n_names ? v->server[name].id : SERVER_NONE;
	const struct server *s = id != SERVER_NONE ? v->r->fleet.by_id[id] : NULL;

	return s != NULL && s->name_hash == v->server[name].name_hash ? id : SERVER_NONE;
}

/* ---- sessions ---- */

static struct session_tail tail_of(const struct sessions_restoring *v, const uint8_t *p)
{
	struct session_tail l = {
		.server = number(v, get16(p)), .done = get16(p + 2) & FLAG_DONE,
		.cut = get16(p + 2) & FLAG_CUT, .tokens = get32(p + 4), .answer = get32(p + 8),
		.at = v->then - get32(p + 12),
	};

	for (unsigned i = 0; i < 2; i++) {
		l.depth[i] = get32(p + 16 + 8 * i);
		l.check[i] = get32(p + 20 + 8 * i);
	}
	return l;
}

static void restore_session(struct sessions_restoring *v, const uint8_t *p)
{
	struct session_saved s = {
		.key = get64(p), .turns = get32(p + 8), .gap_ms = get32(p + 12), .work_us = get32(p + 16),
		.seen = v->then - get32(p + 20), .trust = p[24], .tenant = p[25], .kind = p[26],
	};

	for (unsigned k = 0; k < SESSION_TAILS; k++)
		s.tail[k] = tail_of(v, p + 28 + k * TAIL_BYTES);
	sessions_restore(v->r->sessions, &s, v->now);
}

static int older_first(const void *a, const void *b, void *list)
{
	const uint8_t *p = list;
	uint32_t x = get32(p + *(const uint32_t *)a * (size_t)SESSION_BYTES + 20);
	uint32_t y = get32(p + *(const uint32_t *)b * (size_t)SESSION_BYTES + 20);

	return x > y ? -1 : x < y;
}

/* The oldest come first, so that they are evicted first. Returns false if there is no memory. */
static bool sort_sessions(struct sessions_restoring *v)
{
	v->order = mem_calloc(v->n_sessions + (size_t)1, sizeof(*v->order));
	if (v->order == NULL)
		return false;
	for (uint32_t i = 0; i < v->n_sessions; i++)
		v->order[i] = i;
	qsort_r(v->order, v->n_sessions, sizeof(*v->order), older_first,
	    (void *)(uintptr_t)v->sessions);
	return true;
}

static void restore_kinds(struct sessions_restoring *v)
{
	const uint8_t *p = v->kinds;

	for (; v->n_kinds > 0; v->n_kinds--, p += KIND_BYTES) {
		const struct session_learned k = { get64(p), get32(p + 8), get32(p + 12), get32(p + 16) };

		sessions_learned_before(v->r->sessions, &k);
	}
}

bool route_sessions_step(struct sessions_restoring *v)
{
	pthread_mutex_lock(&v->r->lock);
	restore_kinds(v);
	for (unsigned i = 0; i < SLICE && v->next_session < v->n_sessions; i++)
		restore_session(v, v->sessions + v->order[v->next_session++] * (size_t)SESSION_BYTES);
	for (unsigned i = 0; i < SLICE && v->next_response < v->n_responses; i++) {
		const uint8_t *p = v->responses + v->next_response++ * (size_t)RESPONSE_BYTES;

		responses_put(v->r->responses, get64(p), number(v, get16(p + 8)), 0);
	}
	pthread_mutex_unlock(&v->r->lock);
	return v->next_session < v->n_sessions || v->next_response < v->n_responses;
}

/* ---- the beginning and the end ---- */

uint64_t route_sessions_length(const uint8_t *p, size_t n)
{
	return n >= SESSIONS_HEAD_BYTES && memcmp(p, SESSIONS_MAGIC, 8) == 0 ?
		SESSIONS_HEAD_BYTES + (uint64_t)get32(p + 12) : 0;
}

/* Return the time since the wall clock was <saved>; 0: it was set back. */
static msec time_since(int64_t saved, int64_t wall_ms)
{
	if (saved < 0 || wall_ms <= saved)
		return 0;
	return wall_ms - saved < AGO_MOST_MS ? wall_ms - saved : AGO_MOST_MS;
}

static int check_head(const struct route *r, const uint8_t *p, size_t n, struct err *e)
{
	uint64_t length = route_sessions_length(p, n);

	if (length == 0 || length > n)
		return err_set(e, "they are cut short");
	if (get32(p + 8) != SESSIONS_VERSION)
		return err_set(e, "their format is %u, this version reads format %u", get32(p + 8),
		    SESSIONS_VERSION);
	if (get64(p + 16) != hash_key_id(&r->key))
		return err_set(e, "they were written under another key");
	if (get64(p + 40) != checksum(p + SESSIONS_HEAD_BYTES, (size_t)length - SESSIONS_HEAD_BYTES))
		return err_set(e, "their checksum is wrong");
	return 0;
}

/* Note where each list begins. Returns -1 if the bytes are not as many as the counts say. */
static int find_lists(struct sessions_restoring *v, const uint8_t *p, struct err *e)
{
	const uint8_t *at = p + SESSIONS_HEAD_BYTES;
	size_t left = get32(p + 12), n = 1;

	v->n_names = get32(p + 24);
	v->n_kinds = get32(p + 28);
	v->n_sessions = get32(p + 32);
	v->n_responses = get32(p + 36);
	for (uint32_t i = 0; i < v->n_names && n > 0; i++, at += n, left -= n)
		n = name_bytes(at, left);
	if (n == 0 || v->n_names > SERVERS_MAX ||
	    left != (uint64_t)v->n_kinds * KIND_BYTES + (uint64_t)v->n_sessions * SESSION_BYTES +
		(uint64_t)v->n_responses * RESPONSE_BYTES)
		return err_set(e, "they are damaged");
	v->kinds = at;
	v->sessions = v->kinds + (size_t)v->n_kinds * KIND_BYTES;
	v->responses = v->sessions + (size_t)v->n_sessions * SESSION_BYTES;
	return 0;
}

struct sessions_restoring *route_sessions_begin(
    struct route *r, const struct route_saved *from, struct err *e)
{
	const uint8_t *p = from->bytes;
	struct sessions_restoring *v;

	if (check_head(r, p, from->n, e) != 0)
		return NULL;
	if ((v = mem_alloc(sizeof(*v))) == NULL) {
		err_set(e, "not enough memory to load them");
		return NULL;
	}
	v->r = r;
	v->now = from->now;
	v->then = from->now - time_since((int64_t)get64(p + 48), from->wall_ms);
	if (find_lists(v, p, e) == 0) {
		if (sort_sessions(v)) {
			find_servers(v, p + SESSIONS_HEAD_BYTES, from->theirs);
			return v;
		}
		err_set(e, "not enough memory to load them");
	}
	route_sessions_end(v);
	return NULL;
}

void route_sessions_end(struct sessions_restoring *v)
{
	if (v == NULL)
		return;
	mem_free(v->order);
	mem_free(v);
}

size_t route_restore_sessions(struct route *r, const struct route_saved *from, struct err *e)
{
	uint64_t length = route_sessions_length(from->bytes, from->n);
	struct sessions_restoring *v;

	if (length == 0 || length > from->n)
		return 0;
	if (r->sessions == NULL || (v = route_sessions_begin(r, from, e)) == NULL)
		return (size_t)length;
	while (route_sessions_step(v))
		;
	route_sessions_end(v);
	return (size_t)length;
}

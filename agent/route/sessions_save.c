/* sessions_save.c - sessions and stored responses as bytes, after the tree in a snapshot, and back.
 *
 *   head       magic[8]  u32 version, bytes of the list  u64 key id  u32 names, kinds, sessions,
 *              responses  u64 checksum of the list, wall clock in ms
 *   list       names      u16 bytes  pool NUL server
 *              kinds      u64 key  u32 turns, sessions, gap in ms
 *              sessions   u64 key  u32 turns, gap in ms, work in us, ms since its last turn
 *                         u8 trust, tenant, kind, tails; of each tail, with room for all:
 *                         u16 number of its server's name, flags  u32 tokens, answer, ms since
 *                         u32 depth, check of both marks
 *              responses  u64 key  u16 number of a name                 numbers: little endian
 *
 * Names of sessions, tenants and responses are keyed hashes. Places in the index are not kept, so
 * the path of a turn before the restart is not let go. Sessions are read a few at a time under the
 * lock. Ages are before the save; the time between it and the restart, by the wall clock, is added.
 * All counts are checked against the length first: a list that is damaged is refused whole. */
#include "agent/base/buf.h"
#include "agent/base/mem.h"
#include "agent/base/sections.h"
#include "agent/route/job_in.h"

#define MAGIC		"kvrsess\n"
#define VERSION		1u
#define HEAD_BYTES	56u
#define KIND_BYTES	20u
#define TAIL_BYTES	32u
#define SESSION_BYTES	(28u + SESSION_TAILS * TAIL_BYTES)
#define RESPONSE_BYTES	10u
#define SLICE		64u		/* sessions or responses read at once */
#define NO_NAME		0xffffu
#define AGO_MOST_MS	((msec)7 * 24 * 3600 * 1000)

enum { FLAG_DONE = 1, FLAG_CUT = 2 };

static uint32_t ago_of(msec at, msec now)
{
	msec ago = now - at;

	return ago < 0 ? 0 : (uint32_t)(ago < AGO_MOST_MS ? ago : AGO_MOST_MS);
}

/* ---- writing ---- */

struct saving {
	struct buf list;
	uint32_t names, kinds, sessions, responses;
	uint16_t name[SERVERS_MAX];	/* number of a server's name */
	msec now;
	int64_t wall_ms;
};

static void add_names(struct route *r, struct saving *v)
{
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; i < SERVERS_MAX; i++) {
		const struct server *s = r->fleet.by_id[i];

		v->name[i] = NO_NAME;
		if (s == NULL || s->name[0] == '\0')
			continue;
		v->name[i] = (uint16_t)v->names++;
		add16(&v->list, (uint16_t)(strlen(s->pool->name) + 1 + strlen(s->name)));
		buf_add(&v->list, s->pool->name, strlen(s->pool->name) + 1);
		buf_str(&v->list, s->name);
	}
	pthread_mutex_unlock(&r->lock);
}

static void add_kinds(struct route *r, struct saving *v)
{
	struct session_learned k;

	pthread_mutex_lock(&r->lock);
	for (uint32_t i = 0; sessions_learned(r->sessions, i, &k); i++) {
		if (k.key == 0)
			continue;
		add64(&v->list, k.key);
		add32(&v->list, k.turns);
		add32(&v->list, k.sessions);
		add32(&v->list, k.gap_ms);
		v->kinds++;
	}
	pthread_mutex_unlock(&r->lock);
}

static void add_session(struct saving *v, const struct session_saved *s)
{
	const uint8_t bytes[4] = { s->trust, s->tenant, s->kind, SESSION_TAILS };

	add64(&v->list, s->key);
	add32(&v->list, s->turns);
	add32(&v->list, s->gap_ms);
	add32(&v->list, s->work_us);
	add32(&v->list, ago_of(s->seen, v->now));
	buf_add(&v->list, bytes, sizeof(bytes));
	for (unsigned k = 0; k < SESSION_TAILS; k++) {
		const struct session_tail *l = &s->tail[k];

		add16(&v->list, l->server < SERVERS_MAX ? v->name[l->server] : NO_NAME);
		add16(&v->list, (uint16_t)((l->done ? FLAG_DONE : 0) | (l->cut ? FLAG_CUT : 0)));
		add32(&v->list, l->tokens);
		add32(&v->list, l->answer);
		add32(&v->list, ago_of(l->at, v->now));
		for (unsigned i = 0; i < 2; i++) {
			add32(&v->list, l->depth[i]);
			add32(&v->list, l->check[i]);
		}
	}
	v->sessions++;
}

static void add_sessions(struct route *r, struct saving *v)
{
	struct session_saved slice[SLICE];
	uint32_t from = 0, n;

	do {
		pthread_mutex_lock(&r->lock);
		n = sessions_read(r->sessions, &from, slice, SLICE);
		pthread_mutex_unlock(&r->lock);
		for (uint32_t i = 0; i < n; i++)
			add_session(v, &slice[i]);
	} while (n > 0);
}

static void add_responses(struct route *r, struct saving *v)
{
	struct response_saved slice[SLICE];
	uint32_t from = 0, n;

	do {
		pthread_mutex_lock(&r->lock);
		n = responses_read(r->responses, &from, slice, SLICE);
		pthread_mutex_unlock(&r->lock);
		for (uint32_t i = 0; i < n; i++) {
			if (v->name[slice[i].at] == NO_NAME)
				continue;
			add64(&v->list, slice[i].key);
			add16(&v->list, v->name[slice[i].at]);
			v->responses++;
		}
	} while (n > 0);
}

static int put_all(const struct route *r, const struct saving *v, snapshot_put *put, void *arg)
{
	uint8_t head[HEAD_BYTES];

	memcpy(head, MAGIC, 8);
	put32(head + 8, VERSION);
	put32(head + 12, (uint32_t)v->list.n);
	put64(head + 16, hash_key_id(&r->key));
	put32(head + 24, v->names);
	put32(head + 28, v->kinds);
	put32(head + 32, v->sessions);
	put32(head + 36, v->responses);
	put64(head + 40, checksum(v->list.p, v->list.n));
	put64(head + 48, (uint64_t)v->wall_ms);
	return put(arg, head, sizeof(head)) != 0 || put(arg, v->list.p, v->list.n) != 0 ? -1 : 0;
}

int route_save_sessions(
    struct route *r, msec now, int64_t wall_ms, snapshot_put *put, void *arg)
{
	struct saving *v;
	int rc = 0;

	if (r->sessions == NULL || (v = mem_alloc(sizeof(*v))) == NULL)
		return 0;
	v->now = now;
	v->wall_ms = wall_ms;
	add_names(r, v);
	add_kinds(r, v);
	add_sessions(r, v);
	add_responses(r, v);
	/* without memory for it, or with nothing to keep, the snapshot has none */
	if (!v->list.failed && v->list.n <= UINT32_MAX && v->sessions + v->responses > 0)
		rc = put_all(r, v, put, arg);
	buf_free(&v->list);
	mem_free(v);
	return rc;
}

/* A session takes fewer bytes in a file than in memory, and so does a response. */
uint64_t route_sessions_bytes_most(const struct route_opts *o)
{
	return o->sessions_max_bytes + HEAD_BYTES + 64u * KIND_BYTES +
	    SERVERS_MAX * (2u + POOL_NAME_MAX + 1 + SERVER_NAME_MAX);
}

/* ---- reading ---- */

struct restoring {
	struct route *r;
	const uint8_t *p;
	size_t left;
	uint32_t names, kinds, sessions, responses;
	server_id server[SERVERS_MAX];
	msec now, then;		/* the time of the save, by this clock */
};

static const uint8_t *take_bytes(struct restoring *v, size_t n)
{
	const uint8_t *p = v->p;

	if (n > v->left)
		return NULL;
	v->p += n;
	v->left -= n;
	return p;
}

/* Return the number here of the server in "pool NUL server"; SERVER_NONE: there is no room. */
static server_id server_of(struct route *r, struct span name, msec now)
{
	const char *zero = name.n > 0 ? memchr(name.p, '\0', name.n) : NULL;
	struct server *s = NULL;
	struct pool *p;

	if (zero == NULL || zero + 1 == name.p + name.n)
		return SERVER_NONE;
	if ((p = pool_met(r, span_of(name.p, (size_t)(zero - name.p)))) != NULL)
		s = server_met(r, p, span_of(zero + 1, name.n - (size_t)(zero - name.p) - 1), SIZE_MAX);
	if (s != NULL && s->seen == 0)
		s->seen = now;
	return s != NULL ? s->id : SERVER_NONE;
}

static bool read_names(struct restoring *v)
{
	for (uint32_t i = 0; i < v->names; i++) {
		const uint8_t *head = take_bytes(v, 2), *p;
		uint16_t n = head != NULL ? get16(head) : 0;

		if (head == NULL || n == 0 || (p = take_bytes(v, n)) == NULL)
			return false;
		v->server[i] = server_of(v->r, span_of(p, n), v->now);
	}
	return true;
}

static server_id number(const struct restoring *v, uint16_t name)
{
	return name < v->names ? v->server[name] : SERVER_NONE;
}

static struct session_tail tail_of(const struct restoring *v, const uint8_t *p)
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

static void restore_session(struct restoring *v, const uint8_t *p)
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

/* The oldest come first, so that they are evicted first. */
static bool read_sessions(struct restoring *v)
{
	uint8_t *p = (uint8_t *)(uintptr_t)take_bytes(v, (size_t)v->sessions * SESSION_BYTES);
	uint32_t *order;

	if (p == NULL || (order = mem_calloc(v->sessions + (size_t)1, sizeof(*order))) == NULL)
		return false;
	for (uint32_t i = 0; i < v->sessions; i++)
		order[i] = i;
	qsort_r(order, v->sessions, sizeof(*order), older_first, p);
	for (uint32_t i = 0; i < v->sessions; i++)
		restore_session(v, p + order[i] * (size_t)SESSION_BYTES);
	mem_free(order);
	return true;
}

/* Tell if the list is as long as its counts say. */
static bool is_whole(const struct restoring *v)
{
	struct restoring rest = *v;

	for (uint32_t i = 0; i < v->names; i++) {
		const uint8_t *head = take_bytes(&rest, 2);

		if (head == NULL || get16(head) == 0 || take_bytes(&rest, get16(head)) == NULL)
			return false;
	}
	return rest.left == (uint64_t)v->kinds * KIND_BYTES + (uint64_t)v->sessions * SESSION_BYTES +
	    (uint64_t)v->responses * RESPONSE_BYTES;
}

static bool read_list(struct restoring *v)
{
	const uint8_t *p;

	if (!read_names(v) || (p = take_bytes(v, (size_t)v->kinds * KIND_BYTES)) == NULL)
		return false;
	for (uint32_t i = 0; i < v->kinds; i++, p += KIND_BYTES) {
		const struct session_learned k = { get64(p), get32(p + 8), get32(p + 12), get32(p + 16) };

		sessions_learned_before(v->r->sessions, &k);
	}
	if (!read_sessions(v) || (p = take_bytes(v, (size_t)v->responses * RESPONSE_BYTES)) == NULL)
		return false;
	for (uint32_t i = 0; i < v->responses; i++, p += RESPONSE_BYTES)
		responses_put(v->r->responses, get64(p), number(v, get16(p + 8)));
	return true;
}

/* Return the time since the wall clock was <saved>; 0: it was set back. */
static msec time_since(int64_t saved, int64_t wall_ms)
{
	if (saved < 0 || wall_ms <= saved)
		return 0;
	return wall_ms - saved < AGO_MOST_MS ? wall_ms - saved : AGO_MOST_MS;
}

size_t route_restore_sessions(
    struct route *r, const uint8_t *p, size_t n, msec now, int64_t wall_ms)
{
	struct restoring *v;
	size_t list;

	if (n < HEAD_BYTES || memcmp(p, MAGIC, 8) != 0 || (list = get32(p + 12)) > n - HEAD_BYTES)
		return 0;
	if (get32(p + 8) != VERSION || get64(p + 16) != hash_key_id(&r->key) ||
	    get64(p + 40) != checksum(p + HEAD_BYTES, list) || get32(p + 24) > SERVERS_MAX ||
	    r->sessions == NULL || (v = mem_alloc(sizeof(*v))) == NULL)
		return HEAD_BYTES + list;
	*v = (struct restoring){
		.r = r, .p = p + HEAD_BYTES, .left = list, .names = get32(p + 24), .kinds = get32(p + 28),
		.sessions = get32(p + 32), .responses = get32(p + 36), .now = now,
		.then = now - time_since((int64_t)get64(p + 48), wall_ms),
	};
	pthread_rwlock_rdlock(&r->opts_lock);
	pthread_mutex_lock(&r->lock);
	if (is_whole(v))
		read_list(v);
	pthread_mutex_unlock(&r->lock);
	pthread_rwlock_unlock(&r->opts_lock);
	mem_free(v);
	return HEAD_BYTES + list;
}

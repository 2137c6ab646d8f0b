/* sessions_save.c - sessions and stored responses as bytes, beside the tree of a snapshot.
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
 * the path of a turn before the restart is not let go. Ages are before the save. Sessions are read
 * a few at a time under the lock. */
#include "agent/base/buf.h"
#include "agent/base/mem.h"
#include "agent/base/sections.h"
#include "agent/route/sessions_save_in.h"

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
	uint8_t head[SESSIONS_HEAD_BYTES];

	memcpy(head, SESSIONS_MAGIC, 8);
	put32(head + 8, SESSIONS_VERSION);
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
	return o->sessions_max_bytes + SESSIONS_HEAD_BYTES + 64u * KIND_BYTES +
	    SERVERS_MAX * (2u + POOL_NAME_MAX + 1 + SERVER_NAME_MAX);
}

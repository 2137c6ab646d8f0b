/* Snapshots in the store: one of the warm agents leaves what it knows for those that start.
 *
 *   snapshot           which one is the last, and the positions of the streams from which on it
 *                      must be completed
 *   snapshot:NUMBER    a hash of its chunks: fields 0, 1, ... have the index, and s0, s1, ...
 *                      sessions, which older agents neither write nor ask for; it expires if the
 *                      writer ends before it is whole
 *   snapshot-writer    the lease of the agent that writes (share_lease.c)
 *   snapshot-fresh     expires when the last one is old
 *   snapshot-wanted    set by an agent that starts and finds none that fits
 *
 * All have the hash tag of part 0, so they are on one server of a cluster. The index is written in
 * slices while others use it (agent/index/snapshot.h), chunk by chunk, on a connection of its own,
 * so that batches do not wait. Each chunk ends with its hash under the fleet's key. Chunks are not
 * compressed: most of them is hashes of pages. One of 3000 chats with 16 KB each became smaller by
 * 1.055 with zlib -1 (32 MB/s), 1.054 with zstd -1 (190 MB/s), 1.053 with lz4 (650 MB/s); nodes of
 * ten pages with one owner by 1.2.
 *
 * A snapshot has what servers hold, and a request that was open when it began has not brought that
 * yet. So the positions lie SAFETY_MS before its beginning: what is read twice changes nothing. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <endian.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/index/snapshot.h"
#include "agent/loop/share_snapshot_in.h"
#include "agent/os/clock.h"

#define SLICE_NODES	64u
#define CHUNK_MAX	((size_t)8 << 20)	/* a step may write more than SNAPSHOT_CHUNK */
#define LOOK_MS		1000
#define KEEP_MS		3600000		/* of a whole one, at least */
#define OLD_KEEP_MS	60000		/* of the one before, for those that are reading it */

/* ---- the bulk connection ---- */

static void on_bulk_opened(struct conn *c)
{
	if (c->sh->writer.w == NULL)
		warm_bulk_opened(c->sh);
}

static void on_bulk_lost(struct conn *c)
{
	if (c->sh->writer.w != NULL)
		c->sh->writer.failed = true;
	else
		warm_bulk_lost(c->sh);
}

static const struct conn_use bulk_use = { on_bulk_opened, on_bulk_lost };

void snapshot_init(struct share *sh)
{
	conn_init(&sh->bulk, sh, &bulk_use, NULL, CHUNK_MAX + (1u << 20));
}

/* ---- the end of writing ---- */

static bool on_ignored(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	return false;
}

static void expire(struct conn *c, const char *key, uint64_t ms)
{
	char text[24];
	const struct span words[] = { SPAN("PEXPIRE"), span_str(key), number_text(text, ms) };

	conn_send(c, on_ignored, NULL, 0, BULK_WAIT_MS(c->sh), 3, words);
}

void snapshot_stop(struct share *sh)
{
	struct snapshot_job *s = &sh->writer;

	if (s->w == NULL)
		return;
	snapshot_writer_free(s->w);
	mem_free(s->chunk);
	buf_free(&s->sessions);
	*s = (struct snapshot_job){
		.looked_at = s->looked_at, .looking = s->looking, .before = s->before,
	};
	conn_aim(&sh->bulk, NULL);
	lease_end(sh);
}

static void log_written(struct share *sh)
{
	const struct snapshot_job *s = &sh->writer;
	struct log_line ln;

	if (!log_begin(&ln, &sh->agent->log, LOG_INFO, LOG_SHARE, "snapshot written to the store"))
		return;
	log_int(&ln, "bytes", (int64_t)s->meta.bytes);
	log_int(&ln, "chunks", s->meta.chunks);
	log_text(&ln, "why", s->meta.wanted != 0 ? "an agent has started" : "the last one is old");
	log_int(&ln, "ms", clock_msec() - s->since);
	log_end(&ln);
}

static void writing_failed(struct share *sh, struct span why)
{
	struct log_line ln;

	count_add(&sh->figures.snapshot_failures, 1);
	if (log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_SHARE,
		"cannot write a snapshot to the store; it is tried again")) {
		log_span(&ln, "error", why);
		log_end(&ln);
	}
	snapshot_stop(sh);
}

/* The description says the new one from now on. */
static bool on_described(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct share *sh = arg;
	struct snapshot_job *s = &sh->writer;
	char key[STORE_KEY_MAX];

	if (s->w == NULL)
		return false;
	if (reply_is_any_error(r)) {
		writing_failed(sh, reply_text(r));
		return false;
	}
	if (s->before != 0) {
		chunks_key(sh, s->before, key);
		expire(c, key, OLD_KEEP_MS);
	}
	s->before = s->meta.gen;
	count_add(&sh->figures.snapshots_written, 1);
	__atomic_store_n(&sh->figures.snapshot_bytes, s->meta.bytes, __ATOMIC_RELAXED);
	log_written(sh);
	snapshot_stop(sh);
	return false;
}

static void set_for(
    struct share *sh, conn_reply_fn *fn, const char *word, struct span value, msec ms)
{
	char key[STORE_KEY_MAX], text[24];
	const struct span words[] = { SPAN("SET"), (snapshot_key(sh, word, key), span_str(key)), value,
		SPAN("PX"), number_text(text, (uint64_t)ms) };

	conn_send(&sh->bulk, fn, sh, 0, BULK_WAIT_MS(sh), 5, words);
}

static void describe(struct share *sh)
{
	struct snapshot_job *s = &sh->writer;
	char key[STORE_KEY_MAX], text[128 + STORE_PARTS_MAX * STORE_ID_MAX];
	msec every = sh->opts.snapshot_every_ms, keep = every * 3 > KEEP_MS ? every * 3 : KEEP_MS;
	size_t n = snapshot_write_meta(sh, &s->meta, text, sizeof(text));

	chunks_key(sh, s->meta.gen, key);
	expire(&sh->bulk, key, (uint64_t)keep + OLD_KEEP_MS);
	if (every > 0)
		set_for(sh, on_ignored, "snapshot-fresh", SPAN("1"), every);
	set_for(sh, on_described, "snapshot", span_of(text, n), keep);
	s->under_way = true;
}

/* ---- chunks ---- */

static int put_bytes(void *arg, const void *bytes, size_t n)
{
	struct snapshot_job *s = arg;
	size_t cap = s->cap > 0 ? s->cap : SNAPSHOT_CHUNK * 2;
	uint8_t *more;

	if (n > CHUNK_MAX - s->n)
		return -1;
	while (cap < s->n + n + 8)
		cap *= 2;
	if (cap > s->cap) {
		if ((more = mem_resize(s->chunk, cap, 1)) == NULL)
			return -1;
		s->chunk = more;
		s->cap = cap;
	}
	memcpy(s->chunk + s->n, bytes, n);
	s->n += n;
	return 0;
}

static bool on_chunk(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct share *sh = arg;
	struct snapshot_job *s = &sh->writer;

	if (s->w == NULL)
		return false;
	s->under_way = false;
	if (reply_is_any_error(r))
		writing_failed(sh, reply_text(r));
	else
		ev_idle_start(sh->loop, &sh->idle);
	return false;
}

/* If the lease is gone, chunks may be gone too: the store was emptied, or this agent paused. */
static bool on_extended(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct share *sh = arg;

	if (reply_is_any_error(r))
		lease_refused(sh, reply_text(r));
	if (sh->writer.w != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 0)
		writing_failed(sh, SPAN("the lease to write it has ended, or another agent has it"));
	return false;
}

/* Send what is in s->chunk as chunk <i>. */
static bool send_chunk(struct share *sh, uint32_t i)
{
	struct snapshot_job *s = &sh->writer;
	uint64_t hash = htole64(snapshot_chunk_hash(sh, s->meta.gen, i, s->chunk, s->n));
	char key[STORE_KEY_MAX], field[24];
	struct span words[] = { SPAN("HSET"), (chunks_key(sh, s->meta.gen, key), span_str(key)),
		chunk_field(field, i), span_of(s->chunk, s->n + 8) };

	memcpy(s->chunk + s->n, &hash, 8);
	s->under_way = conn_send(&sh->bulk, on_chunk, sh, 0, BULK_WAIT_MS(sh), 4, words);
	if (!s->under_way)
		return false;
	expire(&sh->bulk, key, LEASE_MS);
	lease_extend(sh, on_extended);
	return true;
}

static void send_tree(struct share *sh)
{
	struct snapshot_job *s = &sh->writer;

	if (!send_chunk(sh, s->meta.chunks))
		return;
	s->meta.bytes += s->n;
	s->meta.chunks++;
	s->n = 0;
}

static int put_sessions(void *arg, const void *bytes, size_t n)
{
	buf_add(arg, bytes, n);
	return 0;
}

/* Send the next part of the sessions. Returns false if all of them are sent. Without memory for
 * them the snapshot has none. */
static bool send_sessions(struct share *sh)
{
	struct snapshot_job *s = &sh->writer;
	size_t n;

	if (!s->sessions_taken)
		route_save_sessions(sh->agent->route, agent_msec(sh->agent), clock_wall_ms(), put_sessions,
		    &s->sessions);
	s->sessions_taken = true;
	n = s->sessions.failed ? 0 : s->sessions.n - s->sessions_sent;
	n = n < SNAPSHOT_CHUNK ? n : SNAPSHOT_CHUNK;
	if (n == 0 || put_bytes(s, s->sessions.p + s->sessions_sent, n) != 0)
		return false;
	if (send_chunk(sh, CHUNK_OF_SESSIONS | (uint32_t)(s->sessions_sent / SNAPSHOT_CHUNK)))
		s->sessions_sent += n;
	s->n = 0;
	return true;
}

bool snapshot_step(struct share *sh)
{
	struct snapshot_job *s = &sh->writer;
	int rc = 0;

	if (s->w == NULL)
		return false;
	/* a chunk that was under way gets no answer any more */
	if (s->failed) {
		writing_failed(sh, span_str(sh->bulk.error));
		return false;
	}
	if (s->under_way || sh->bulk.ctx == NULL)
		return false;
	if (!s->whole && s->n < SNAPSHOT_CHUNK) {
		if ((rc = snapshot_write(s->w, SLICE_NODES)) < 0) {
			writing_failed(sh, SPAN("not enough memory"));
			return false;
		}
		s->whole = rc > 0;
	}
	if (s->n >= SNAPSHOT_CHUNK || (s->whole && s->n > 0))
		send_tree(sh);
	else if (s->whole && !send_sessions(sh))
		describe(sh);
	return s->w != NULL && !s->under_way;
}

/* ---- the beginning ---- */

static void begin_writing(struct share *sh, uint64_t wanted)
{
	struct snapshot_job *s = &sh->writer;

	s->meta = (struct snapshot_meta){ .gen = rng_next(&sh->rng), .wanted = wanted };
	for (uint32_t i = 0; i < sh->n_parts; i++)
		position_before(sh->part[i].at, SAFETY_MS, s->meta.at[i]);
	s->since = clock_msec();
	s->n = 0;
	s->w = route_snapshot(
	    sh->agent->route, agent_msec(sh->agent), clock_wall_ms(), put_bytes, s);
	if (s->w == NULL) {
		lease_end(sh);
		return;
	}
	conn_aim(&sh->bulk, sh->part[0].owner);
	ev_idle_start(sh->loop, &sh->idle);
}

static bool on_lease(struct conn *c, void *arg, uint64_t wanted, struct redisReply *r)
{
	struct share *sh = arg;

	if (!span_eq(reply_text(r), SPAN("OK")))
		return false;
	if (sh->ending)
		lease_end(sh);
	else if (sh->writer.w == NULL && sh->part[0].owner != NULL)
		begin_writing(sh, wanted);
	return false;
}

/* Wanted, fresh, description. */
static bool on_look(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct share *sh = arg;
	struct snapshot_meta last = { .gen = 0 };
	struct span word;
	uint64_t wanted = 0;
	bool old;

	sh->writer.looking = false;
	if (reply_is_any_error(r)) {
		store_note(sh, sh->part[0].owner, reply_text(r));
		return false;
	}
	if (r->type != REDIS_REPLY_ARRAY || r->elements != 3)
		return false;
	word = reply_text(r->element[0]);
	meta_take_value(&word, 16, UINT64_MAX, &wanted);
	if (snapshot_read_meta(sh, reply_text(r->element[2]), &last))
		sh->writer.before = last.gen;
	old = r->element[1]->type == REDIS_REPLY_NIL && sh->opts.snapshot_every_ms > 0;
	if (((wanted != 0 && wanted != last.wanted) || old) && !sh->ending)
		lease_ask(sh, c, on_lease, wanted);
	return false;
}

void snapshot_command_lost(struct share *sh)
{
	sh->writer.looking = false;
}

void snapshot_tick(struct share *sh, msec now)
{
	struct snapshot_job *s = &sh->writer;
	char wanted[STORE_KEY_MAX], fresh[STORE_KEY_MAX], last[STORE_KEY_MAX];
	struct store_server *to = sh->part[0].owner;

	if (s->w != NULL) {
		ev_idle_start(sh->loop, &sh->idle);
		if (to == NULL)
			s->failed = true;
		return;
	}
	if (sh->warm.state != WARM_YES || to == NULL || s->looking || now - s->looked_at < LOOK_MS)
		return;
	s->looked_at = now + rng_below(&sh->rng, LOOK_MS / 4);
	snapshot_key(sh, "snapshot-wanted", wanted);
	snapshot_key(sh, "snapshot-fresh", fresh);
	snapshot_key(sh, "snapshot", last);

	const struct span words[] = { SPAN("MGET"), span_str(wanted), span_str(fresh), span_str(last) };

	s->looking = conn_send(&to->cmd, on_look, sh, 0, sh->opts.timeout_ms, 4, words);
}

#endif

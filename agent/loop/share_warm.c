/* How an agent that starts becomes warm.
 *
 *   ASK    is there a snapshot in the store? Skipped if the own snapshot file has positions.
 *   LOAD   yes: read its chunks, then load them in slices into the index, which is in use already,
 *          and into the sessions
 *   READ   read the streams, from the snapshot's positions on or from their beginning; back to ASK
 *          if they do not reach back to the positions of the own file
 *   YES    all that was in the streams is applied, and a snapshot was loaded or no sibling has one
 *
 * If the streams no longer reach back to the snapshot, or siblings live and there is none, a new
 * one is wanted, and one of them writes it. If none does, the agent counts as warm after a while:
 * what it lacks comes by comparing digests. */
#include "agent/loop/share_in.h"

#ifdef HAVE_HIREDIS
#include <endian.h>
#include <stdio.h>

#include "agent/base/mem.h"
#include "agent/index/snapshot.h"
#include "agent/loop/share_snapshot_in.h"
#include "agent/os/clock.h"

#define ALONE_MS	1500	/* a sibling that lives is heard within this time */
#define POLL_MS		200
#define WANT_MS		20000	/* longest wait for a sibling's snapshot */
#define TRIES		3

/* ---- the end ---- */

static void log_warm(struct share *sh, msec now)
{
	struct log_line ln;

	if (!log_begin(&ln, &sh->agent->log, LOG_INFO, LOG_LIFE, "warm: this agent has the fleet's state"))
		return;
	log_text(&ln, "from", sh->warm.resuming ? "its own snapshot file, and the streams" :
		sh->warm.loaded ? "a snapshot in the store, and the streams" :
		sh->warm.alone ? "the streams; no sibling is running" : "the streams");
	log_int(&ln, "siblings", (int64_t)sh->siblings.n);
	log_int(&ln, "ms", now - sh->started);
	log_end(&ln);
}

static void become_warm(struct share *sh, msec now)
{
	sh->warm.state = WARM_YES;
	__atomic_store_n(&sh->is_warm, 1, __ATOMIC_RELEASE);
	if (sh->writer.w == NULL)
		conn_aim(&sh->bulk, NULL);
	log_warm(sh, now);
}

static void start_reading(struct share *sh)
{
	for (uint32_t i = 0; i < sh->n_parts; i++) {
		snprintf(sh->part[i].at, sizeof(sh->part[i].at), "%s",
		    sh->warm.loaded ? sh->warm.meta.at[i] : "0-0");
		sh->part[i].at_is_early = true;
	}
	sh->warm.state = WARM_READ;
	sh->warm.since = clock_msec();
	read_aim(sh);
}

static void resume_reading(struct share *sh)
{
	for (uint32_t i = 0; i < sh->n_parts; i++) {
		position_before(sh->part[i].resumed, SAFETY_MS, sh->part[i].at);
		sh->part[i].at_is_early = true;
	}
	sh->warm.loaded = true;
	sh->warm.state = WARM_READ;
	sh->warm.since = clock_msec();
	read_aim(sh);
}

/* Begin as an agent without a file does. What it has loaded stays. */
static void stop_resuming(struct share *sh)
{
	sh->warm.resuming = sh->warm.resumed_lost = sh->warm.loaded = false;
	sh->warm.state = WARM_ASK;
	for (uint32_t i = 0; i < sh->n_parts; i++) {
		sh->part[i].resumed[0] = sh->part[i].at[0] = '\0';
		sh->part[i].caught_up = false;
	}
	read_aim(sh);
}

static void drop_bytes(struct share_warm *w)
{
	sessions_drop(w);
	route_restore_end(w->restoring);
	w->restoring = NULL;
	mem_free(w->bytes);
	w->bytes = NULL;
	w->n = 0;
	w->loading = w->tree_is_in = false;
}

void warm_free(struct share *sh)
{
	drop_bytes(&sh->warm);
}

/* ---- loading ---- */

static void loading_ended(struct share *sh)
{
	drop_bytes(&sh->warm);
	conn_aim(&sh->bulk, NULL);
	if (sh->warm.state == WARM_LOAD)
		start_reading(sh);
}

static void refuse_snapshot(struct share *sh, const char *why)
{
	struct log_line ln;

	count_add(&sh->figures.snapshots_refused, 1);
	if (log_begin(&ln, &sh->agent->log, LOG_WARN, LOG_SHARE, "snapshot in the store refused")) {
		log_text(&ln, "error", why);
		log_text(&ln, "effect", "the agent asks its siblings for another one");
		log_end(&ln);
	}
	loading_ended(sh);
}

static void log_loaded(struct share *sh, const struct snapshot_stats *st, msec ms)
{
	struct log_line ln;

	if (!log_begin(&ln, &sh->agent->log, LOG_INFO, LOG_LIFE, "snapshot of the store loaded"))
		return;
	log_int(&ln, "bytes", (int64_t)st->bytes);
	log_int(&ln, "pages", (int64_t)st->pages);
	log_int(&ln, "servers", (int64_t)st->servers);
	log_int(&ln, "prefixes", (int64_t)st->held);
	log_int(&ln, "ms", ms);
	log_end(&ln);
}

/* All chunks have come. */
static void start_restoring(struct share *sh)
{
	struct share_warm *w = &sh->warm;

	if (w->n != w->meta.bytes) {
		refuse_snapshot(sh, "it has another size than described");
		return;
	}
	w->restoring = route_restore_begin(sh->agent->route, &(struct route_saved){
		.bytes = w->bytes, .n = w->n, .theirs = true, .now = agent_msec(sh->agent),
		.wall_ms = clock_wall_ms() });
	if (w->restoring == NULL) {
		refuse_snapshot(sh, "not enough memory to load it");
		return;
	}
	w->began = clock_msec();
	conn_aim(&sh->bulk, NULL);
	ev_idle_start(sh->loop, &sh->idle);
}

bool warm_step(struct share *sh)
{
	struct share_warm *w = &sh->warm;
	struct snapshot_stats st = { 0 };
	struct err e = { 0 };
	usec until = clock_usec() + SLICE_US;
	int rc = 0;

	if (w->restoring == NULL)
		return false;
	while (!w->tree_is_in && rc == 0 && clock_usec() < until)
		rc = route_restore_step(w->restoring, &st, &e);
	if (rc < 0) {
		refuse_snapshot(sh, e.text);
		return false;
	}
	if (rc > 0) {
		w->tree_is_in = true;
		log_loaded(sh, &st, clock_msec() - w->began);
	}
	if (!w->tree_is_in)
		return true;
	while (sessions_step(sh))
		if (clock_usec() >= until)
			return true;
	w->loaded = true;
	count_add(&sh->figures.snapshots_loaded, 1);
	__atomic_store_n(&sh->figures.snapshot_bytes, w->n, __ATOMIC_RELAXED);
	loading_ended(sh);
	return false;
}

static void ask_for_chunk(struct share *sh);

/* A chunk, then its hash. */
static const char *take_chunk(struct share *sh, uint32_t i, struct span chunk)
{
	struct share_warm *w = &sh->warm;
	size_t n = chunk.n - 8;
	uint64_t hash;

	if (chunk.n < 8)
		return "a chunk is missing";
	memcpy(&hash, chunk.p + n, 8);
	if (le64toh(hash) != snapshot_chunk_hash(sh, w->meta.gen, i, chunk.p, n))
		return "a chunk is damaged, or was written under another key";
	if (n > w->meta.bytes - w->n)
		return "it has another size than described";
	memcpy(w->bytes + w->n, chunk.p, n);
	w->n += n;
	w->lost = 0;
	return NULL;
}

/* An error means that there are none. */
static bool on_sessions(struct conn *c, void *arg, uint64_t i, struct redisReply *r)
{
	struct share *sh = arg;
	struct share_warm *w = &sh->warm;
	struct span chunk = reply_is_any_error(r) ? SPAN("") : reply_text(r);

	if (!w->loading)
		return false;
	w->lost = 0;
	if (sessions_take_chunk(sh, chunk))
		ask_for_chunk(sh);
	else
		start_restoring(sh);
	return false;
}

static bool on_chunk(struct conn *c, void *arg, uint64_t i, struct redisReply *r)
{
	struct share *sh = arg;
	struct share_warm *w = &sh->warm;
	const char *why;

	if (!w->loading)
		return false;
	if (reply_is_any_error(r)) {
		store_note(sh, c->to, reply_text(r));
		refuse_snapshot(sh, "the store gave an error");
	} else if ((why = take_chunk(sh, (uint32_t)i, reply_text(r))) != NULL) {
		refuse_snapshot(sh, why);
	} else if (++w->chunk == w->meta.chunks && w->sessions.most == 0) {
		start_restoring(sh);
	} else {
		ask_for_chunk(sh);
	}
	return false;
}

static void ask_for_chunk(struct share *sh)
{
	const struct share_warm *w = &sh->warm;

	if (w->chunk < w->meta.chunks)
		snapshot_get_chunk(sh, on_chunk, w->meta.gen, w->chunk);
	else
		snapshot_get_chunk(
		    sh, on_sessions, w->meta.gen, CHUNK_OF_SESSIONS | w->sessions.chunk);
}

void warm_bulk_opened(struct share *sh)
{
	if (sh->warm.loading && sh->warm.restoring == NULL)
		ask_for_chunk(sh);
}

/* It goes on when the connection is back, with the chunk that is missing. */
void warm_bulk_lost(struct share *sh)
{
	if (sh->warm.loading && sh->warm.restoring == NULL && ++sh->warm.lost >= TRIES)
		refuse_snapshot(sh, "the connection was lost each time that a chunk was asked for");
}

/* All of it is allocated at once, because a block that grows is copied. The size is not trusted
 * further than this: memory that is not written takes none. */
static void start_loading(struct share *sh, const struct snapshot_meta *m)
{
	struct share_warm *w = &sh->warm;

	drop_bytes(w);
	w->tries++;
	w->meta = *m;
	w->chunk = 0;
	w->lost = 0;
	w->loading = true;
	if (m->bytes > w->most)
		refuse_snapshot(sh, "it is larger than this index could write; is index.max_bytes the same?");
	else if ((w->bytes = mem_alloc(m->bytes)) == NULL)
		refuse_snapshot(sh, "not enough memory");
	else
		conn_aim(&sh->bulk, sh->part[0].owner);
}

/* ---- asking ---- */

void warm_command_lost(struct share *sh)
{
	sh->warm.asking = false;
}

static bool on_meta(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	struct share *sh = arg;
	struct share_warm *w = &sh->warm;
	struct snapshot_meta m = { .gen = 0 };
	bool valid;

	w->asking = false;
	if (reply_is_any_error(r)) {
		store_note(sh, c->to, reply_text(r));
		return false;
	}
	valid = snapshot_read_meta(sh, reply_text(r), &m) && m.chunks > 0;
	if (w->loading || w->state == WARM_YES)
		return false;
	if (w->state == WARM_ASK) {
		w->known = valid ? m.gen : 0;
		if (valid)
			w->state = WARM_LOAD;
		else
			start_reading(sh);
	} else {
		valid = valid && m.gen != w->known;
	}
	if (valid)
		start_loading(sh, &m);
	return false;
}

static void ask_for_meta(struct share *sh, msec now)
{
	char key[STORE_KEY_MAX];
	const struct span words[] = { SPAN("GET"), (snapshot_key(sh, "snapshot", key), span_str(key)) };

	if (sh->warm.asking || now - sh->warm.asked_at < POLL_MS)
		return;
	sh->warm.asked_at = now;
	sh->warm.asking =
	    conn_send(&sh->part[0].owner->cmd, on_meta, sh, 0, sh->opts.timeout_ms, 2, words);
}

static bool on_wanted(struct conn *c, void *arg, uint64_t tag, struct redisReply *r)
{
	return false;
}

/* Each takes the next snapshot, so one is enough for all agents that start together. */
static void want_snapshot(struct share *sh, msec now)
{
	char key[STORE_KEY_MAX], token[24], ms[24];
	uint64_t wanted = rng_next(&sh->rng) | 1;
	const struct span words[] = { SPAN("SET"),
		(snapshot_key(sh, "snapshot-wanted", key), span_str(key)),
		hex_text(token, wanted), SPAN("PX"), number_text(ms, WANT_MS) };

	if (conn_send(&sh->part[0].owner->cmd, on_wanted, NULL, 0, sh->opts.timeout_ms, 5, words))
		sh->warm.wanted_at = now;
}

/* ---- reading ---- */

void warm_lost(struct share *sh)
{
	if (sh->warm.state != WARM_READ)
		return;
	sh->warm.loaded = false;
	sh->warm.resumed_lost = sh->warm.resuming;
}

static bool sibling_is_warm(const struct share *sh)
{
	for (size_t i = 0; i < sh->siblings.n; i++)
		if (sh->siblings.s[i].told && sh->siblings.s[i].alive.warm)
			return true;
	return false;
}

static void look_at_reading(struct share *sh, msec now)
{
	struct share_warm *w = &sh->warm;

	if (w->loading || !read_caught_up(sh))
		return;
	if (w->loaded || w->tries >= TRIES || (w->wanted_at != 0 && now - w->wanted_at > WANT_MS)) {
		become_warm(sh, now);
	} else if (sibling_is_warm(sh)) {
		if (w->wanted_at == 0)
			want_snapshot(sh, now);
		ask_for_meta(sh, now);
	} else if (now - w->since > ALONE_MS) {
		w->alone = sh->siblings.n == 0;
		become_warm(sh, now);
	}
}

void warm_tick(struct share *sh, msec now)
{
	if (sh->warm.state == WARM_YES || sh->part[0].owner == NULL)
		return;
	if (sh->warm.resumed_lost)
		stop_resuming(sh);
	if (sh->warm.restoring != NULL)
		ev_idle_start(sh->loop, &sh->idle);
	else if (sh->warm.loading)
		conn_aim(&sh->bulk, sh->part[0].owner);
	else if (sh->warm.state == WARM_ASK && sh->warm.resuming)
		resume_reading(sh);
	else if (sh->warm.state == WARM_ASK)
		ask_for_meta(sh, now);
	if (sh->warm.state == WARM_READ)
		look_at_reading(sh, now);
}

#endif

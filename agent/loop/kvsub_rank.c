/* One rank of a publisher: its frames go to the cursor; what the cursor decides goes to the core,
 * the log and the replay socket. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include <errno.h>
#include <zmq.h>

#include "agent/base/count.h"
#include "agent/loop/engine_url.h"
#include "agent/os/clock.h"

#define REPLAY_IDLE_MS	10000	/* then its socket is closed */

static struct agent *agent_of(const struct kvsub_rank *r)
{
	return r->source->k->agent;
}

/* ---- the log ---------------------------------------------------------------------------- */

static bool line_begin(
    struct log_line *ln, struct kvsub_rank *r, enum log_level level, const char *msg)
{
	if (!log_begin(ln, &agent_of(r)->log, level, LOG_EVENTS, msg))
		return false;
	log_text(ln, "pool", r->source->who.pool);
	log_text(ln, "server", r->source->who.server);
	if (r->source->n_ranks > 1)
		log_int(ln, "rank", r->n);
	log_text(ln, "endpoint", r->source->who.events.endpoint);
	if (r->n > 0)
		log_int(ln, "port", engine_endpoint_port(r->source->who.events.endpoint) + r->n);
	return true;
}

static void log_synced(struct kvsub_rank *r)
{
	bool replay = r->source->who.events.replay[0] != '\0';
	struct log_line ln;

	if (r->told == KVSUB_TOLD_SYNCED || !line_begin(&ln, r, LOG_INFO, "KV cache events are complete"))
		return;
	log_text(&ln, "from", r->cursor.from_start ? "the engine's start or last clear" : "a later batch");
	if (!r->cursor.from_start) {
		log_text(&ln, "effect",
			"until older blocks must have been evicted, what requests taught counts as well");
		log_text(&ln, "remedy", replay ?
			"check engines.events.replay against the engine's replay_endpoint, and raise its "
			"buffer_steps" :
			"give the engine a replay_endpoint, and set engines.events.replay");
	}
	log_end(&ln);
}

static void log_degraded(struct kvsub_rank *r)
{
	bool replay = r->source->who.events.replay[0] != '\0';
	struct log_line ln;

	if (r->told == KVSUB_TOLD_DEGRADED || !line_begin(&ln, r, LOG_WARN, "KV cache events are lost"))
		return;
	log_int(&ln, "batches", (int64_t)(r->cursor.count.lost - r->told_lost));
	log_text(&ln, "effect",
		"until its blocks of that time are removed, this server is judged by what requests taught");
	log_text(&ln, "remedy", replay ?
		"check engines.events.replay against the engine's replay_endpoint, and raise its "
		"buffer_steps and hwm" :
		"give the engine a replay_endpoint, and set engines.events.replay");
	log_end(&ln);
}

static void log_restart(struct kvsub_rank *r)
{
	struct log_line ln;

	if (r->cursor.count.restarts == r->told_restarts)
		return;
	r->told_restarts = r->cursor.count.restarts;
	if (!line_begin(&ln, r, LOG_INFO, "an engine was restarted"))
		return;
	log_text(&ln, "effect", "its blocks are forgotten");
	log_end(&ln);
}

/* A state between two others is not logged. */
static void log_state(struct kvsub_rank *r)
{
	log_restart(r);
	if (r->state == KVCURSOR_SYNCED) {
		log_synced(r);
		r->told = KVSUB_TOLD_SYNCED;
		r->told_lost = r->cursor.count.lost;
	} else if (r->state == KVCURSOR_DEGRADED) {
		log_degraded(r);
		r->told = KVSUB_TOLD_DEGRADED;
	}
}

void kvsub_log_unread(
    struct kvsub *k, const struct event_source *who, const char *why, const char *remedy)
{
	struct log_line ln;

	if (!log_begin(&ln, &k->agent->log, LOG_WARN, LOG_EVENTS, "KV cache events are not read"))
		return;
	log_text(&ln, "pool", who->pool);
	log_text(&ln, "server", who->server);
	log_text(&ln, "endpoint", who->events.endpoint);
	log_text(&ln, "error", why);
	log_text(&ln, "effect", "this server is judged by what requests taught");
	log_text(&ln, "remedy", remedy);
	log_end(&ln);
}

/* ---- the cursor's calls ----------------------------------------------------------------- */

static bool apply(void *arg, struct span payload, struct kvcursor_effect *did)
{
	return kvsub_work_apply(arg, payload, did);
}

static void clear(void *arg, bool from_start, bool restarted)
{
	struct kvsub_rank *r = arg;

	kvsub_work_drop(r);
	route_source_clear(agent_of(r)->route, r->source->id, r->n, from_start, restarted,
	    agent_msec(agent_of(r)));
}

static const struct kvcursor_calls calls = { .apply = apply, .clear = clear };

/* ---- the replay socket ------------------------------------------------------------------ */

static void close_replay(struct kvsub_rank *r)
{
	if (r->replay != NULL)
		kvsub_socket_close(r->replay);
	r->replay = NULL;
}

/* Frames of a replay that did not come to its end may still come, so its socket is closed. */
static void end_replay(struct kvsub_rank *r)
{
	if (!r->replaying)
		return;
	r->replaying = false;
	r->source->k->replays--;
	if (!r->cursor.clean)
		close_replay(r);
}

void kvsub_rank_ask(struct kvsub_rank *r)
{
	if (!r->replaying || r->sent || r->replay == NULL || !kvsub_send_request(r->replay, r->from))
		return;
	r->sent = true;
	kvcursor_replay_sent(&r->cursor, clock_msec());
}

static void begin_replay(struct kvsub_rank *r, msec now)
{
	struct kvsub *k = r->source->k;

	r->from = kvcursor_replay_begin(&r->cursor, now);
	r->replay_at = now;
	r->replaying = true;
	r->sent = false;
	k->replays++;
	if (r->replay == NULL)
		r->replay = kvsub_socket_open(k, KVSUB_REPLAY, r, r->source->who.events.replay);
	if (r->replay == NULL)
		kvcursor_replay_broken(&r->cursor, now);
	kvsub_rank_ask(r);
}

/* ---- what follows ----------------------------------------------------------------------- */

static void tell_core(struct kvsub_rank *r)
{
	enum kvcursor_state state = kvcursor_state(&r->cursor);

	if (state == r->state && r->cursor.from_start == r->from_start)
		return;
	r->state = state;
	r->from_start = r->cursor.from_start;
	route_source_state(agent_of(r)->route, r->source->id, r->n, state, r->from_start,
	    agent_msec(agent_of(r)));
}

/* A snapshot has the place after the last batch. */
static void tell_place(struct kvsub_rank *r)
{
	struct kvcursor_place p;
	bool known;

	if (r->cursor.count.applied == r->placed || r->work != NULL)
		return;
	r->placed = r->cursor.count.applied;
	known = kvcursor_place(&r->cursor, &p);
	route_source_place(agent_of(r)->route, r->source->id, r->n, known ? &p : NULL);
}

void kvsub_rank_look(struct kvsub_rank *r, msec now)
{
	if (!kvcursor_replaying(&r->cursor))
		end_replay(r);
	if (!r->replaying && r->source->k->replays < KVSUB_REPLAYS_MAX &&
	    kvcursor_replay_due(&r->cursor, now))
		begin_replay(r, now);
	if (!kvcursor_replaying(&r->cursor))
		end_replay(r);
	tell_core(r);
	tell_place(r);
	log_state(r);
}

void kvsub_rank_connected(struct kvsub_rank *r)
{
	msec now = clock_msec();

	r->connected++;
	kvcursor_connected(&r->cursor, now);
	kvsub_rank_look(r, now);
}

void kvsub_rank_disconnected(struct kvsub_rank *r)
{
	msec now = clock_msec();

	if (!r->cursor.connected)
		return;
	if (r->cursor.begun)	/* otherwise it was no publisher, or a silent one */
		r->off_since = now;
	kvcursor_disconnected(&r->cursor, now);
	kvsub_rank_look(r, now);
}

void kvsub_rank_live(struct kvsub_rank *r, const struct kvframe *f)
{
	msec now = clock_msec();

	kvcursor_live(&r->cursor, f, now);
	kvsub_rank_look(r, now);
}

void kvsub_rank_replayed(struct kvsub_rank *r, const struct kvframe *f)
{
	msec now = clock_msec();

	r->replay_at = now;
	kvcursor_replay_frame(&r->cursor, f, now);
	kvsub_rank_look(r, now);
}

void kvsub_rank_bad(struct kvsub_rank *r, bool replay)
{
	r->bad_frames++;
	r->bad_replays += replay;
}

/* ---- the live socket --------------------------------------------------------------------- */

static void join_bound(struct kvsub_rank *r)
{
	const struct event_source *who = &r->source->who;

	r->live = kvsub_bound_at(
	    r->source->k, (uint16_t)(engine_endpoint_port(who->events.endpoint) + r->n));
	if (r->live == NULL) {
		kvsub_log_unread(r->source->k, who, "this address was not bound at the start",
		    "restart the agent");
		return;
	}
	list_append(&r->live->ranks, &r->at_bound);
	kvsub_subscribe(r->live, who->events.topic, true);
}

void kvsub_rank_open(struct kvsub_rank *r)
{
	const struct event_source *who = &r->source->who;

	r->opened_at = clock_msec();
	if (engine_endpoint_is_bound(who->events.endpoint)) {
		join_bound(r);
		return;
	}
	r->live = kvsub_socket_open(r->source->k, KVSUB_LIVE, r, who->events.endpoint);
	if (r->live == NULL)
		kvsub_log_unread(r->source->k, who, zmq_strerror(zmq_errno()),
		    "check the address, and raise the limit of open files");
}

static void reopen(struct kvsub_rank *r, msec now)
{
	if (engine_endpoint_is_bound(r->source->who.events.endpoint) ||
	    !kvsub_socket_is_gone(r->live, r->opened_at, now))
		return;
	if (r->live != NULL)
		kvsub_socket_close(r->live);
	kvsub_rank_disconnected(r);
	kvsub_rank_open(r);
}

void kvsub_rank_tick(struct kvsub_rank *r, msec now)
{
	reopen(r, now);
	if (r->work == NULL)
		kvcursor_tick(&r->cursor, now);
	kvsub_rank_look(r, now);
	if (r->replay != NULL && !r->replaying && now - r->replay_at >= REPLAY_IDLE_MS)
		close_replay(r);
	kvsub_load_tick(r, now);
}

void kvsub_rank_init(struct kvsub_rank *r, struct kvsub_source *s, unsigned n)
{
	struct kvsub *k = s->k;
	const struct kvcursor_opts *o = s->who.events.replay[0] != '\0' ? &k->with_replay : &k->without;
	struct kvcursor_place p;

	r->source = s;
	r->n = n;
	r->fd = -1;
	r->off_since = clock_msec();
	list_init(&r->at_bound);
	list_init(&r->working);
	kvcursor_init(&r->cursor, o, &calls, r, &k->key, &k->store, &k->rng);
	if (route_source_resume(k->agent->route, s->id, n, &p))
		kvcursor_resume(&r->cursor, &p);
}

void kvsub_rank_fini(struct kvsub_rank *r)
{
	kvsub_work_drop(r);
	kvcursor_disconnected(&r->cursor, clock_msec());
	end_replay(r);
	close_replay(r);
	kvsub_load_close(r);
	kvcursor_fini(&r->cursor);
}

#endif

/* Faults of publishers that last: a line in the log when one begins, every hour, and when it is
 * over. kvroute(8), KV CACHE EVENTS, has the same remedies. */
#include "agent/loop/kvsub_in.h"

#ifdef HAVE_ZMQ
#include "agent/loop/engine_url.h"

#define OFF_MS		3000	/* without a connection */
#define UNANSWERED	3	/* replays in a row without an answer */

/* Begin the line that is due, if one is. <bad>, <over>: messages. */
static bool fault_line(struct log_line *ln, const struct kvsub_source *s, int rank,
    struct told *t, bool is_bad, msec now, const char *bad, const char *over)
{
	enum tell tell = told_next(t, is_bad, now);

	if (tell == TELL_NOTHING || !log_begin(ln, &s->k->agent->log, is_bad ? LOG_WARN : LOG_INFO,
				       LOG_EVENTS, is_bad ? bad : over))
		return false;
	log_text(ln, "pool", s->who.pool);
	log_text(ln, "server", s->who.server);
	if (rank >= 0 && s->n_ranks > 1)
		log_int(ln, "rank", rank);
	return true;
}

static void add_endpoint(struct log_line *ln, const char *endpoint, unsigned rank)
{
	log_text(ln, "endpoint", endpoint);
	if (rank > 0)
		log_int(ln, "port", engine_endpoint_port(endpoint) + rank);
}

static void look_at_connection(struct kvsub_rank *r, msec now)
{
	bool off = !r->cursor.connected && now - r->off_since >= OFF_MS;
	struct log_line ln;

	r->told = off ? KVSUB_TOLD_OFF : r->told;
	if (!off && !r->cursor.connected)
		return;
	if (!fault_line(&ln, r->source, (int)r->n, &r->off, off, now,
		"no connection to an engine's KV cache events", "connected to an engine's KV cache events"))
		return;
	add_endpoint(&ln, r->source->who.events.endpoint, r->n);
	if (off) {
		log_text(&ln, "effect", "this server is judged by what requests taught");
		log_text(&ln, "remedy",
			"start the engine with KV cache events (vLLM: --kv-events-config), and check that "
			"engines.events.endpoint has its address and port; kvroutectl events ADDRESS shows what "
			"comes");
	}
	log_end(&ln);
}

/* A replay address may be wrong, or that of something else: the port of live events answers
 * nothing, and other programs answer what is no replay. */
static void look_at_replays(struct kvsub_rank *r, msec now)
{
	bool bad = r->cursor.unanswered >= UNANSWERED ||
	    (r->cursor.unanswered > 0 && r->bad_replays > 0);
	struct log_line ln;

	if (r->cursor.unanswered == 0 && !r->replaying)
		r->bad_replays = 0;
	if (!fault_line(&ln, r->source, (int)r->n, &r->no_replay, bad, now,
		"an engine does not replay its KV cache events", "an engine replays its KV cache events"))
		return;
	add_endpoint(&ln, r->source->who.events.replay, r->n);
	if (bad) {
		log_text(&ln, "received",
			r->bad_replays > 0 ? "messages that are no replay" : "nothing");
		log_text(&ln, "effect", "events that are lost once stay lost");
		log_text(&ln, "remedy",
			"check engines.events.replay against the engine's replay_endpoint, which has another port "
			"than its endpoint; or remove it if the engine has none");
	}
	log_end(&ln);
}

static void look_for_silence(struct kvsub_source *s, const struct source_signs *signs, msec now)
{
	bool connected = s->rank[0].cursor.connected;
	struct log_line ln;

	for (unsigned i = 1; i < s->n_ranks; i++)
		connected |= s->rank[i].cursor.connected;
	if (!fault_line(&ln, s, -1, &s->silent, connected && signs->silent, now,
		"an engine gets requests, and no KV cache events come",
		"KV cache events of an engine come again"))
		return;
	log_text(&ln, "endpoint", s->who.events.endpoint);
	if (s->silent.bad) {
		log_text(&ln, "effect", "this server is judged by what requests taught");
		log_text(&ln, "remedy",
			"check that the engine has enable_kv_cache_events and prefix caching, that engines.name "
			"and engines.pool are those of this engine, and that engines.events.topic is a beginning "
			"of its topic; kvroutectl events ADDRESS shows what comes");
	}
	log_end(&ln);
}

static void look_at_sizes(struct kvsub_source *s, const struct source_signs *signs, msec now)
{
	struct log_line ln;

	if (!fault_line(&ln, s, -1, &s->sizes, signs->misfit || signs->differs, now,
		"the block size of an engine's events is not that of its requests",
		"the block size of an engine's events is that of its requests"))
		return;
	log_int(&ln, "events_tokens", signs->block_size);
	log_int(&ln, "request_tokens", signs->page);
	if (s->sizes.bad) {
		log_text(&ln, "effect", signs->misfit ?
			"prompts cannot be compared with its blocks: it is judged by what requests taught" :
			"what requests taught is counted in blocks of another size than the engine's");
		log_text(&ln, "remedy",
			"set models.block_size, or prompt.page_size if it is 0, to the engine's block size");
	}
	log_end(&ln);
}

void kvsub_faults_look(struct kvsub_source *s, msec now)
{
	struct source_signs signs;

	route_source_signs(s->k->agent->route, s->id, agent_msec(s->k->agent), &signs);
	look_for_silence(s, &signs, now);
	look_at_sizes(s, &signs, now);
	for (unsigned i = 0; i < s->n_ranks; i++) {
		look_at_connection(&s->rank[i], now);
		look_at_replays(&s->rank[i], now);
	}
}

#endif
